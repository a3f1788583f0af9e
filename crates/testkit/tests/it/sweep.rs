//! The oracle and the sweep, on an operator small enough to see what it does wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use berth_testkit::fixtures::{eventually, from_json};
use berth_testkit::oracle::{self, Dumper};
use berth_testkit::sweep::{Outcome, Sweep, lives};
use berth_testkit::{ApiServer, Fault, FaultPlan, World, yaml};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

/// Makes a Secret once, a ConfigMap that names it, and a marker. With `careless`, the Secret has a generated name that
/// is only remembered afterwards: a crash in between makes a second one.
async fn operator(client: Client, ns: String, careless: bool) -> Result<()> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &ns);
    let maps = Api::<ConfigMap>::namespaced(client, &ns);
    loop {
        if let Err(error) = reconcile(&secrets, &maps, careless).await {
            println!("pass failed: {error}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn reconcile(secrets: &Api<Secret>, maps: &Api<ConfigMap>, careless: bool) -> Result<()> {
    let state = maps.get_opt("state").await?.and_then(|s| s.data?.remove("secret"));
    let name = if let Some(name) = state { name } else { first_step(secrets, maps, careless).await? };
    if maps.get_opt("done").await?.is_none() {
        let done = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "done"}, "data": {"of": name}});
        maps.patch("done", &PatchParams::apply("operator"), &Patch::Apply(done)).await?;
    }
    Ok(())
}

async fn first_step(secrets: &Api<Secret>, maps: &Api<ConfigMap>, careless: bool) -> Result<String> {
    let named = if careless { json!({"generateName": "ca-"}) } else { json!({"name": "ca"}) };
    let mut secret: Secret = from_json(json!({"apiVersion": "v1", "kind": "Secret", "metadata": named}));
    let key = format!("{:?}", std::time::Instant::now());
    secret.data = Some(BTreeMap::from([("key".to_owned(), ByteString(key.into_bytes()))]));
    let name = match secrets.create(&PostParams::default(), &secret).await {
        Ok(made) => made.name_any(),
        Err(kube::Error::Api(e)) if e.code == 409 => "ca".to_owned(),
        Err(e) => return Err(e.into()),
    };
    let state: ConfigMap =
        yaml!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: state}}, data: {{secret: {name}}}}}");
    maps.create(&PostParams::default(), &state).await?;
    Ok(name)
}

async fn workload(server: &ApiServer, plan: FaultPlan, careless: bool) -> Result<Outcome> {
    let ns = server.namespace("sweep").await;
    let maps = Api::<ConfigMap>::namespaced(server.client(), &ns);
    let start = || operator(plan.client(server.config()), ns.clone(), careless);
    let done = eventually(Duration::from_secs(20), "done", async || maps.get("done").await);
    lives(&plan, start, done).await??;
    let state = Dumper::of([&*ns]).rename(&*ns, "NS").take(&server.client()).await?;
    let counts = oracle::renamed(&oracle::call_counts(&plan.calls()), &[(&ns, "NS")]);
    oracle::assert_deletes_carry_uid(&plan.calls());
    Ok(Outcome { state, counts })
}

#[tokio::test]
async fn a_careful_operator_survives_every_case_and_a_sweep_resumes() {
    let server = ApiServer::shared().await;
    let file = server.dir().join("careful.sweep");
    let sweep = || Sweep::new("careful", 1).state_file(&file);
    let summary = sweep().run(async |plan| workload(server, plan, false).await).await.expect("no case breaks it");
    assert_eq!((summary.mutations, summary.passed, summary.not_reached), (3, 9, 0));
    let again = sweep().run(async |plan| {
        assert!(!format!("{plan:?}").contains("Stop"), "what passed is not run again");
        workload(server, plan, false).await
    });
    assert_eq!(again.await.expect("resumed").passed, 9);
}

#[tokio::test]
async fn a_careless_operator_is_caught_with_the_call_that_broke_it() {
    let server = ApiServer::shared().await;
    // The generated name differs from run to run; what is left to compare is how often.
    let strip = |outcome: Outcome| {
        let mut counts = oracle::Counts::new();
        for (key, n) in &outcome.counts {
            *counts.entry(key.split("/ca-").next().unwrap_or(key).to_owned()).or_default() += n;
        }
        Outcome { counts, ..Outcome::default() }
    };
    let sweep = Sweep::new("careless", 1).faults([Fault::StopBefore, Fault::StopAfter]);
    let caught = sweep.run(async |plan| workload(server, plan, true).await.map(strip)).await.expect_err("caught");
    let text = format!("{caught:#}");
    assert!(
        text.contains("StopAfter at #1 Create") && text.contains("secrets: 1 times expected, 2 times done"),
        "{text}"
    );
}

#[tokio::test]
async fn dumps_of_equal_namespaces_are_equal_and_differences_are_named() {
    let server = ApiServer::shared().await;
    let client = server.client();
    let mut dumps = Vec::new();
    let mut names = Vec::new();
    for _ in 0..2 {
        let ns = server.namespace("dump").await;
        let mine = ns.clone();
        let _world = World::builder(server.client()).namespaces(move |n| n == mine).start().await.expect("world");
        let deployment: k8s_openapi::api::apps::v1::Deployment = yaml!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: d}}, spec: {{selector: {{matchLabels: {{a: b}}}},
               template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i, args: [--ns={ns}]}}]}}}}}}}}"
        );
        let api = Api::namespaced(client.clone(), &ns);
        api.create(&PostParams::default(), &deployment).await.expect("create");
        let secret: Secret =
            yaml!("{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, stringData: {{key: {ns}}}}}");
        Api::namespaced(client.clone(), &ns).create(&PostParams::default(), &secret).await.expect("create");
        let service: k8s_openapi::api::core::v1::Service = yaml!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: s}}, spec: {{type: LoadBalancer, ports: [{{port: 1}}]}}}}"
        );
        Api::namespaced(client.clone(), &ns).create(&PostParams::default(), &service).await.expect("create");
        let dump = async || {
            let dumper = Dumper::of([&*ns]).rename(&*ns, "NS");
            let dump = dumper.take(&client).await?;
            // Kinds are read one after the other: one dump alone may show a moment that never was.
            anyhow::ensure!(dump == dumper.take(&client).await?, "still moving");
            anyhow::ensure!(dump["NS/Deployment.apps/d"]["status"]["readyReplicas"] == 1, "not ready");
            anyhow::ensure!(dump["NS/Service/s"]["status"]["loadBalancer"]["ingress"].is_string(), "no address");
            Ok(dump)
        };
        dumps.push(eventually(Duration::from_secs(20), "ready", dump).await.expect("dump"));
        names.push(ns);
    }
    assert_eq!(oracle::diff(&dumps[0], &dumps[1]), "");
    assert!(
        dumps[0].contains_key("NS/Pod/d-<hash>-0") && dumps[0].contains_key("Namespace/NS"),
        "{:?}",
        dumps[0].keys()
    );

    let ns = &*names[0];
    let before = oracle::secret_keys(&client, &[ns]).await.expect("keys");
    let secrets = Api::<Secret>::namespaced(client.clone(), ns);
    let patch = Patch::Merge(json!({"stringData": {"key": "other", "new": "x"}}));
    secrets.patch("s", &PatchParams::default(), &patch).await.expect("patch");
    let dumper = Dumper::of([ns]).rename(ns, "NS");
    let after = dumper.take(&client).await.expect("dump");
    assert_eq!(oracle::diff(&dumps[0], &after), "NS/Secret/s /data/new: (absent) -> \"<present>\"");
    let keys = oracle::secret_keys(&client, &[ns]).await.expect("keys");
    let changed = std::panic::catch_unwind(|| oracle::assert_keys_unchanged(&before, &keys));
    assert!(changed.is_err(), "a changed key is noticed");
    assert!(
        dumper.with_secret_hashes().take(&client).await.expect("dump")["NS/Secret/s"]["data"]["key"]
            .to_string()
            .contains("sha256:")
    );
}

#[tokio::test]
async fn counts_agree_and_blind_deletes_are_noticed() {
    let server = ApiServer::shared().await;
    let ns = server.namespace("counts").await;
    let plan = FaultPlan::new();
    let mark = server.audit_mark();
    let api = Api::<ConfigMap>::namespaced(plan.client(server.config_as("counter", &["system:masters"])), &ns);
    let object: ConfigMap = yaml!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: x}}}}");
    let made = api.create(&PostParams::default(), &object).await.expect("create");
    let exact = Preconditions { uid: made.uid(), resource_version: None };
    api.delete("x", &DeleteParams::default().preconditions(exact)).await.expect("delete");
    api.patch("x", &PatchParams::apply("t"), &Patch::Apply(&object)).await.expect("apply");
    let events = server.audit_since(mark);
    let counts = oracle::audit_counts(events.iter().filter(|e| e.user == "counter"));
    let expected = [(format!("create {ns}/configmaps/x"), 2), (format!("delete {ns}/configmaps/x"), 1)];
    assert_eq!(counts, oracle::Counts::from(expected));
    assert_eq!(counts, oracle::call_counts(&plan.calls()));

    oracle::assert_deletes_carry_uid(&plan.calls());
    api.delete("x", &DeleteParams::default()).await.expect("delete");
    let calls = plan.calls();
    assert!(std::panic::catch_unwind(|| oracle::assert_deletes_carry_uid(&calls)).is_err());
    let all = Api::<Namespace>::all(server.client()).list(&ListParams::default()).await.expect("list");
    assert!(all.items.iter().any(|n| n.name_any() == ns));
}
