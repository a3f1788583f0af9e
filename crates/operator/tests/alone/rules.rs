//! Namespaces with rules on requests and limits: for each there is a spec with which all of Berth's pods are admitted, and where one is
//! refused, the message has the field. The admission is that of a real kube-apiserver.

use crate::backup::create;
use crate::common::{Running, SOON, SYSTEM, Team, alone_at_a_server, backups, settings};
use anyhow::Context as _;
use berth_plan::workload::explained;
use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, FaultPlan};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, Pod, ResourceQuota, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// What a spec asks for so that each of [`rules`] is met.
fn fits() -> Value {
    let component = json!({
        "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
        "limits": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"},
    });
    let helper = json!({
        "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
        "limits": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "128Mi"},
    });
    let job = json!({
        "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "21Gi"},
        "limits": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "42Gi"},
    });
    let resources = |of: &Value| json!({"resources": of});
    json!({
        "apiServer": resources(&component), "controllerManager": resources(&component),
        "scheduler": resources(&component), "etcd": resources(&component),
        "helpers": {"resources": helper, "jobs": resources(&job)},
    })
}

/// Quotas on each amount that containers can have, and limits of each kind.
fn rules() -> Vec<Value> {
    const AMOUNTS: [&str; 11] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "count/pods",
    ];
    let quotas = AMOUNTS.map(|amount| json!({"hard": {amount: "100Gi"}}));
    let limit = |rule: Value| json!({"limits": [rule]});
    let limits = [
        json!({"type": "Container", "min": {"cpu": "20m", "memory": "32Mi"}}),
        json!({"type": "Container", "max": {"cpu": "2", "memory": "4Gi"}}),
        json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "4", "memory": "4"}}),
        json!({"type": "Container", "default": {"cpu": "300m", "memory": "256Mi"}, "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}),
        json!({"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}}),
        json!({"type": "Pod", "min": {"cpu": "100m", "memory": "128Mi"}}),
        json!({"type": "Pod", "max": {"cpu": "4", "memory": "8Gi"}}),
        json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "4", "memory": "4"}}),
    ];
    quotas.into_iter().chain(limits.map(limit)).collect()
}

/// A namespace with that rule, as it is once the quota's controller has counted.
async fn ruled(server: &ApiServer, rule: &Value) -> String {
    let (client, namespace) = (server.client(), server.namespace("ruled").await);
    let object = json!({"metadata": {"name": "rule"}, "spec": rule});
    if rule["hard"].is_null() {
        let ranges: Api<LimitRange> = Api::namespaced(client, &namespace);
        ranges.create(&PostParams::default(), &typed(object)).await.unwrap();
        return namespace;
    }
    let quotas: Api<ResourceQuota> = Api::namespaced(client, &namespace);
    quotas.create(&PostParams::default(), &typed(object)).await.unwrap();
    let amount = rule["hard"].as_object().unwrap().keys().next().unwrap();
    let status = json!({"status": {"hard": rule["hard"], "used": {amount: "0"}}});
    quotas.patch_status("rule", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    namespace
}

/// Templates of all pods of the tenant of that team, by their names.
async fn templates(team: &Team) -> Vec<(String, Value)> {
    let attempt = async || {
        let mut all = vec![];
        for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            let live = team.inside::<Deployment>().get(name).await?;
            all.push((name.to_owned(), json!(live)["spec"]["template"].clone()));
        }
        let etcd = json!(team.inside::<StatefulSet>().get("etcd").await?);
        let mut template = etcd["spec"]["template"].clone();
        for claim in etcd["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
            let volume = json!({"name": claim["metadata"]["name"], "emptyDir": {}});
            template["spec"]["volumes"].as_array_mut().context("volumes")?.push(volume);
        }
        all.push(("etcd".to_owned(), template));
        let job = json!(team.inside::<Job>().get("backup-one").await?);
        all.push(("backup".to_owned(), job["spec"]["template"].clone()));
        anyhow::Ok(all)
    };
    eventually(SOON, "all workloads and the Job", attempt).await.unwrap_or_else(|e| panic!("{e:#}"))
}

/// What the API server says to a pod of that template. None: it takes it.
async fn refusal(server: &ApiServer, namespace: &str, name: &str, template: &Value) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(server.client(), namespace);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": template["metadata"]["labels"]}, "spec": template["spec"],
    });
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let attempt = async || match pods.create(&dry, &typed(pod.clone())).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(said)) if said.message.contains("status unknown for quota") => anyhow::bail!(said.message),
        Err(kube::Error::Api(said)) => Ok(Some(said.message.clone())),
        Err(error) => anyhow::bail!(error),
    };
    eventually(SOON, "an answer", attempt).await.unwrap_or_else(|e| panic!("{e:#}"))
}

/// Makes the tenant of a team, and a backup of it.
async fn tenant(server: &ApiServer, spec: Value) -> Team {
    let team = Team::new(server).await;
    team.create(spec).await.expect("a valid Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    create(&team, "one", "Delete").await;
    team
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_of_a_namespace_can_be_met_and_a_refusal_names_the_field() {
    let (_turn, server) = alone_at_a_server().await;
    let namespaces: Api<Namespace> = Api::all(server.client());
    let _ = namespaces.create(&PostParams::default(), &typed(json!({"metadata": {"name": SYSTEM}}))).await;
    let secrets: Api<Secret> = Api::namespaced(server.client(), SYSTEM);
    let secret = json!({"metadata": {"name": "s3"}, "stringData": {"accessKeyID": "A", "secretAccessKey": "B"}});
    let _ = secrets.create(&PostParams::default(), &typed(secret)).await;
    let plan = FaultPlan::new();
    let with = berth_plan::Settings { backups: backups("rules"), ..settings() };
    let _operator = Running::start_with(server, with, &plan);
    let (plain, fit) = (tenant(server, json!({})).await, tenant(server, fits()).await);
    let (plain, fit) = (templates(&plain).await, templates(&fit).await);
    let mut refused = 0;
    for rule in rules() {
        let namespace = ruled(server, &rule).await;
        for (name, template) in &fit {
            let said = refusal(server, &namespace, name, template).await;
            assert_eq!(said, None, "{rule}: {name}");
        }
        for (name, template) in &plain {
            let Some(said) = refusal(server, &namespace, name, template).await else { continue };
            refused += 1;
            let told = explained(&said, template, &namespace);
            assert!(told.contains(". Set spec."), "{rule}: {name}: {told}");
        }
    }
    assert!(refused >= 20, "{refused}");
}
