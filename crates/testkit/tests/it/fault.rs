//! Every way to break a call, against the real server.

use std::pin::pin;
use std::time::{Duration, Instant};

use berth_testkit::fault::{Call, Verb};
use berth_testkit::{ApiServer, Fault, FaultPlan, yaml};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};

struct Setup {
    plan: FaultPlan,
    /// Through the plan.
    api: Api<ConfigMap>,
    /// Around it.
    real: Api<ConfigMap>,
    server: &'static ApiServer,
    ns: String,
}

async fn setup() -> Setup {
    let server = ApiServer::shared().await;
    let ns = server.namespace("fault").await;
    let plan = FaultPlan::new();
    let api = Api::namespaced(plan.client(server.config()), &ns);
    Setup { api, real: Api::namespaced(server.client(), &ns), plan, server, ns }
}

fn config_map(name: &str) -> ConfigMap {
    yaml!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: b}}}}")
}

impl Setup {
    async fn create(&self, name: &str) -> kube::Result<ConfigMap> {
        self.api.create(&PostParams::default(), &config_map(name)).await
    }

    async fn exists(&self, name: &str) -> bool {
        self.real.get_opt(name).await.expect("get").is_some()
    }
}

async fn hangs<T>(future: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(300), future).await.is_err()
}

#[tokio::test]
async fn calls_are_numbered_and_recorded() {
    let s = setup().await;
    s.api.create(&PostParams { dry_run: true, ..PostParams::default() }, &config_map("x")).await.expect("dry run");
    let made = s.create("x").await.expect("create");
    s.api.list(&ListParams::default()).await.expect("list");
    s.api.patch("x", &PatchParams::apply("t"), &Patch::Apply(config_map("x"))).await.expect("apply");
    s.create("x").await.expect_err("exists");
    let uid = made.metadata.uid.expect("uid");
    let params =
        DeleteParams::default().preconditions(Preconditions { uid: Some(uid.clone()), resource_version: None });
    s.api.delete("x", &params).await.expect("delete");

    let seen: Vec<_> = s.plan.calls().iter().map(|c| (c.verb, c.mutation, c.code.unwrap_or(0))).collect();
    let expected = [
        (Verb::Create, None, 201),
        (Verb::Create, Some(1), 201),
        (Verb::List, None, 200),
        (Verb::Apply, Some(2), 200),
        (Verb::Create, Some(3), 409),
        (Verb::Delete, Some(4), 200),
    ];
    assert_eq!(seen, expected);
    let last = s.plan.calls().pop().expect("a call");
    assert_eq!(last.uid, Some(uid), "the precondition of a delete is recorded");
    assert_eq!(last.to_string(), format!("#4 Delete {}/configmaps/x -> 200", s.ns));
    assert_eq!(s.plan.mutations(), 4);
}

#[tokio::test]
async fn fail_before_sends_nothing_and_lose_reply_commits() {
    let s = setup().await;
    s.plan.at(1, Fault::FailBefore);
    s.plan.at(2, Fault::LoseReply);
    assert!(matches!(s.create("x").await, Err(kube::Error::Service(_))));
    assert!(!s.exists("x").await);
    assert!(matches!(s.create("x").await, Err(kube::Error::Service(_))));
    assert!(s.exists("x").await, "the reply was lost, not the object");
    assert_eq!(s.plan.calls()[1].code, Some(201), "the log knows what the client does not");
    assert!(s.plan.calls()[1].committed());
    s.create("y").await.expect("a fault happens once");
}

#[tokio::test]
async fn stop_before_and_after_hang_until_the_next_life() {
    for (fault, committed) in [(Fault::StopBefore, false), (Fault::StopAfter, true)] {
        let s = setup().await;
        s.plan.at(2, fault);
        s.create("x").await.expect("the first call is untouched");
        let mut create = pin!(s.create("y"));
        tokio::select! {
            answer = &mut create => panic!("{answer:?}"),
            () = s.plan.stopped() => {}
            () = tokio::time::sleep(Duration::from_secs(30)) => panic!("stopped is not told"),
        }
        assert!(hangs(create).await && s.plan.is_stopped());
        assert_eq!(s.exists("y").await, committed);
        assert!(hangs(s.api.get("x")).await, "reads hang as well");
        let before = s.plan.calls().len();
        assert!(hangs(s.create("z")).await && !s.exists("z").await);
        assert_eq!(s.plan.calls().len(), before, "what a dead client asks is no call");

        s.plan.restart();
        assert!(!s.plan.is_stopped());
        assert!(hangs(s.api.get("x")).await, "the old client stays dead");
        let next = Api::<ConfigMap>::namespaced(s.plan.client(s.server.config()), &s.ns);
        next.create(&PostParams::default(), &config_map("z")).await.expect("the next life works");
        assert_eq!(s.plan.calls().last().map(|c| (c.life, c.mutation)), Some((2, Some(3))));
    }
}

#[tokio::test]
async fn conflict_and_server_errors_reach_the_caller() {
    for (code, reason) in [(409, "Conflict"), (500, "InternalError"), (403, "Forbidden")] {
        let s = setup().await;
        s.plan.when_times(1, |c| c.verb == Verb::Create && c.resource == "configmaps", Fault::status(code));
        let refused = s.create("x").await.expect_err("refused");
        assert!(matches!(&refused, kube::Error::Api(e) if e.code == code && e.reason == reason), "{refused:?}");
        assert!(!s.exists("x").await);
        s.create("x").await.expect("once only");
    }
}

#[tokio::test]
async fn kube_retries_429_above_the_fault_layer() {
    let s = setup().await;
    s.plan.at(1, Fault::Status { code: 429, retry_after: Some(1) });
    let began = Instant::now();
    s.create("x").await.expect("kube tried again");
    assert!(began.elapsed() >= Duration::from_secs(1), "and honoured Retry-After");
    assert_eq!(s.plan.mutations(), 2, "each attempt is a call");

    let mut config = s.server.config();
    config.default_retry = false;
    let api = Api::<ConfigMap>::namespaced(s.plan.client(config), &s.ns);
    s.plan.at(3, Fault::Status { code: 503, retry_after: None });
    let refused = api.create(&PostParams::default(), &config_map("y")).await.expect_err("nobody retries");
    assert!(matches!(&refused, kube::Error::Api(e) if e.code == 503), "{refused:?}");
}

#[tokio::test]
async fn delay_and_hang_take_only_what_matches() {
    let s = setup().await;
    let other = s.server.namespace("other").await;
    let slow = format!("/{}/", s.ns);
    let elsewhere = Api::<ConfigMap>::namespaced(s.plan.client(s.server.config()), &other);
    s.plan.when(move |c: &Call| c.path.contains(&slow), Fault::Delay(Duration::from_millis(400)));
    let (began, mut late) = (Instant::now(), pin!(s.create("x")));
    let soon = tokio::time::timeout(Duration::from_millis(100), &mut late).await;
    assert!(soon.is_err() && s.plan.at_rest().is_none(), "under way");
    late.await.expect("late, but made");
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert_eq!(s.plan.at_rest(), Some(s.plan.calls().len()));
    s.plan.clear();
    s.plan.when(|c| c.name == "y", Fault::Hang);
    assert!(hangs(s.create("y")).await);
    assert!(!s.plan.is_stopped(), "one call hangs, the client lives");
    elsewhere.create(&PostParams::default(), &config_map("x")).await.expect("another call goes through");
}

#[tokio::test]
async fn a_late_call_is_done_after_its_error() {
    let s = setup().await;
    s.plan.at(1, Fault::Late(Duration::from_millis(300)));
    s.create("x").await.expect_err("no answer");
    assert!(!s.exists("x").await && s.plan.at_rest().is_none(), "under way");
    let made = async || s.exists("x").await && s.plan.at_rest().is_some();
    berth_testkit::fixtures::until(Duration::from_secs(20), "the late call", made).await;
    assert!(s.plan.calls()[0].committed());
}

#[tokio::test]
async fn a_layer_stack_of_ones_own_can_stand_above_the_service() {
    let s = setup().await;
    let service = s.plan.service(s.server.config());
    let stack = tower::ServiceBuilder::new().concurrency_limit(2).service(service);
    let client = Client::new(stack, "default");
    Api::<ConfigMap>::namespaced(client, &s.ns).list(&ListParams::default()).await.expect("list");
    assert_eq!(s.plan.calls().len(), 1);
}
