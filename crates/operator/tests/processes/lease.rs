//! Operator processes and one lease: who was stopped past it writes nothing when it goes on, and who is asked to end hands over.

use crate::common::{SOON, Team, alone, full, server};
use crate::{Operator, holder, quiet, system, taken_up};
use berth_api::{EtcdCluster, names};
use berth_testkit::fixtures::{from_json, until};
use berth_testkit::{ApiServer, yaml};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Another may have the lease only after it ran out: 15 s and a look a second.
const FAILOVER: Duration = Duration::from_mins(2);

/// How soon another leads: with a quiet machine (`BERTH_SWEEP=full`), and with any.
struct Limit {
    quiet: Duration,
    any: Duration,
}

/// After one that was stopped. In any case nobody waits for two leases.
const FAILOVER_LIMIT: Limit = Limit { quiet: Duration::from_secs(20), any: Duration::from_secs(30) };

/// After one that was asked to end. In any case sooner than its lease would run out: it gave it back.
const HANDOVER_LIMIT: Limit = Limit { quiet: Duration::from_secs(2), any: Duration::from_secs(12) };

/// Says how long it took, which must be within the limit.
fn took(what: &str, time: Duration, limit: &Limit) {
    println!("{what}: {:.1} s", time.as_secs_f32());
    let limit = if full() { limit.quiet } else { limit.any };
    assert!(time <= limit, "{what}: {time:.1?}, not {limit:.0?}");
}

/// How long after `since` it leads.
async fn leads(server: &ApiServer, operator: &Operator, since: Instant) -> Duration {
    until(FAILOVER, &format!("{} leads", operator.name), async || holder(server).await == operator.name).await;
    since.elapsed()
}

/// It has looked at the lease, which is another's.
async fn stands_by(server: &ApiServer, operator: &Operator) {
    until(SOON, &format!("{} to look at the lease", operator.name), async || {
        server.audit().iter().any(|e| e.user == operator.name && e.resource == "leases")
    })
    .await;
}

async fn ends(operator: &mut Operator) {
    until(SOON, &format!("{} to end", operator.name), async || operator.has_ended()).await;
}

#[tokio::test]
async fn one_leads_and_the_other_writes_nothing() {
    let server = server().await;
    system(server).await;
    let team = Team::with_cluster(server).await;
    let mut first = Operator::start(server, "first");
    leads(server, &first, Instant::now()).await;
    taken_up(&team).await;
    let mut second = Operator::start(server, "second");
    stands_by(server, &second).await;

    // Stopped in the middle of its work, with more of it to come.
    let more = [Team::with_cluster(server).await, Team::with_cluster(server).await];
    let stopped = Instant::now();
    first.signal(Signal::STOP);
    let late = Team::with_cluster(server).await;
    let failover = leads(server, &second, stopped).await;
    for team in more.iter().chain([&late]) {
        taken_up(team).await;
    }
    let mark = server.audit_mark();
    first.signal(Signal::CONT);
    ends(&mut first).await;
    // A call that had passed the fence when the process was stopped still gets out; one reconcile over these tenants makes dozens.
    let late = first.writes(server, mark);
    assert!(late.len() <= 2, "{late:?}");
    assert_eq!(holder(server).await, "second");

    // Asked to end: the next one need not wait for the lease to run out.
    let third = Operator::start(server, "third");
    stands_by(server, &third).await;
    let asked = Instant::now();
    second.signal(Signal::TERM);
    let handover = leads(server, &third, asked).await;
    ends(&mut second).await;
    let mark = server.audit_mark();
    taken_up(&Team::with_cluster(server).await).await;
    assert!(!third.writes(server, mark).is_empty());
    took("failover", failover, &FAILOVER_LIMIT);
    took("hand-over", handover, &HANDOVER_LIMIT);
}

/// Waits until it has made no call, renewals aside, for a while that is long for one.
async fn at_rest(server: &ApiServer, operator: &Operator) {
    let mut last = None;
    until(FAILOVER, &format!("{} at rest", operator.name), async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let calls = server.audit().iter().filter(|e| e.user == operator.name && e.resource != "leases").count();
        last.replace(calls) == Some(calls)
    })
    .await;
}

/// Every right, and not by the group of administrators, whom the API server never lets wait.
async fn everything(server: &ApiServer, user: &str) {
    let binding: ClusterRoleBinding = yaml!(
        "{{metadata: {{name: {user}}}, subjects: [{{kind: User, apiGroup: rbac.authorization.k8s.io, name: {user}}}],
           roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}}}"
    );
    Api::all(server.client()).create(&PostParams::default(), &binding).await.expect("binding");
}

/// Its requests wait, since none is let through.
const NOBODY: &str = "nobody";

/// From now on what this user asks for by these rules gets no answer, and everything else does. Gets of leases in that namespace are
/// among them.
async fn hang(server: &ApiServer, user: &str, namespace: &str, rules: Value) {
    let level: PriorityLevelConfiguration = yaml!(
        "{{metadata: {{name: {NOBODY}}}, spec: {{type: Limited, limited: {{nominalConcurrencyShares: 0, lendablePercent: 0,
           borrowingLimitPercent: 0, limitResponse: {{type: Queue, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 200}}}}}}}}}}"
    );
    let schema: FlowSchema = from_json(json!({
        "metadata": {"name": format!("{user}-hangs")},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": NOBODY},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": rules}],
        },
    }));
    let params = PatchParams::apply("test").force();
    Api::<PriorityLevelConfiguration>::all(server.client())
        .patch(NOBODY, &params, &Patch::Apply(level))
        .await
        .expect("level");
    Api::<FlowSchema>::all(server.client())
        .patch(&format!("{user}-hangs"), &params, &Patch::Apply(schema))
        .await
        .expect("schema");
    let leases = Api::<Lease>::namespaced(server.client_as(user, &[]), namespace);
    until(SOON, "calls hang", async || {
        tokio::time::timeout(Duration::from_secs(1), leases.get_opt("berth-operator")).await.is_err()
    })
    .await;
}

async fn leases_hang(server: &ApiServer, user: &str) {
    let rule = json!({
        "verbs": ["*"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"],
    });
    hang(server, user, "berth-system", json!([rule])).await;
}

/// A call with one of these verbs into that namespace has no answer yet.
async fn hangs(server: &ApiServer, namespace: &str, verbs: &[&str]) {
    let path = "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1";
    until(SOON, &format!("{verbs:?} in {namespace} to hang"), async || {
        let request = http::Request::get(path).body(vec![]).expect("a request");
        let all = server.client().request_text(request).await.expect("waiting requests");
        let of = |line: &str| {
            let words: Vec<_> = line.split(',').map(str::trim).collect();
            words.first() == Some(&NOBODY) && words.contains(&namespace) && verbs.iter().any(|v| words.contains(v))
        };
        all.lines().any(of)
    })
    .await;
}

/// No call is under way when it is stopped. When it goes on it does not learn that another leads: what keeps it from writing is the time
/// that has passed.
#[tokio::test]
async fn one_that_was_stopped_at_rest_writes_nothing_at_all() {
    let (_turn, server) = (alone().await, quiet().await);
    let old = Team::with_cluster(server).await;
    everything(server, "paused").await;
    let mut first = Operator::start_as(server, "paused", &[], &["--listen="], &[]);
    leads(server, &first, Instant::now()).await;
    taken_up(&old).await;
    let second = Operator::start(server, "successor");
    stands_by(server, &second).await;
    at_rest(server, &first).await;

    let (mark, stopped) = (server.audit_mark(), Instant::now());
    first.signal(Signal::STOP);
    leases_hang(server, first.name).await;
    let failover = leads(server, &second, stopped).await;
    let new = [Team::with_cluster(server).await, Team::with_cluster(server).await];
    old.spec(json!({"replicas": 2})).await.expect("patch");
    for team in &new {
        taken_up(team).await;
    }
    // And some that nobody has seen yet.
    second.signal(Signal::STOP);
    let unseen = Team::with_cluster(server).await;
    first.signal(Signal::CONT);
    ends(&mut first).await;
    let log = first.log();
    assert!(log.contains("lost the lease; reconcile aborted"), "it wanted to write:\n{log}");
    assert!(log.contains("the lease could not be renewed"), "{log}");
    assert_eq!(first.writes(server, mark), [""; 0]);
    second.signal(Signal::CONT);
    taken_up(&unseen).await;
    took("failover from one at rest", failover, &FAILOVER_LIMIT);
}

/// Asked to end while reads of one `Cluster` and writes of another have no answer, it does not wait for them.
#[tokio::test]
async fn one_whose_calls_hang_hands_over_as_soon() {
    let (_turn, server) = (alone().await, quiet().await);
    let [unread, unwritten] = [Team::new(server).await, Team::new(server).await];
    everything(server, "busy").await;
    let writes = ["create", "update", "patch", "delete"];
    let rules = [(&unread, &["*"][..]), (&unwritten, &writes)].map(
        |(team, verbs)| json!({"verbs": verbs, "apiGroups": ["*"], "resources": ["*"], "namespaces": [team.cp_namespace]}),
    );
    hang(server, "busy", &unread.cp_namespace, json!(rules)).await;
    let mut first = Operator::start_as(server, "busy", &[], &["--listen="], &[]);
    leads(server, &first, Instant::now()).await;
    let second = Operator::start(server, "relief");
    stands_by(server, &second).await;
    for team in [&unread, &unwritten] {
        team.create(json!({})).await.expect("Cluster");
    }
    hangs(server, &unread.cp_namespace, &["get", "list"]).await;
    hangs(server, &unwritten.cp_namespace, &writes).await;

    let asked = Instant::now();
    first.signal(Signal::TERM);
    let handover = leads(server, &second, asked).await;
    let mark = server.audit_mark();
    ends(&mut first).await;
    let log = first.log();
    assert!(log.contains("released the lease") && log.contains("cut_off=true"), "{log}");
    assert_eq!(first.writes(server, mark), [""; 0]);
    // What was cut off is made by the next one.
    until(SOON, "the EtcdCluster", async || {
        unwritten.inside::<EtcdCluster>().get_opt(names::ETCD).await.is_ok_and(|e| e.is_some())
    })
    .await;
    took("hand-over by one whose calls hang", handover, &HANDOVER_LIMIT);
}
