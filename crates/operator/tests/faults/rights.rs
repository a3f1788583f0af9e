//! Every rule of the generated roles, taken from the operator and given back: it is told which right is missing, and the return
//! heals without a touch.

use crate::common::log::Log;
use crate::common::{Running, SOON, Team, alone, server};
use crate::full;
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::{Cluster, EtcdCluster, names};
use berth_operator::meta;
use berth_plan::meta::MetaRanges;
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually, fixtures::from_json, fixtures::from_yaml, yaml};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ACCOUNT: &str = "system:serviceaccount:berth-system:berth-operator";
const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:berth-system"];

/// A minute of back-off at most, and then what is left to do.
const HEALED: Duration = Duration::from_mins(2);

/// Which of all rules `make test` tries.
const FIRST: usize = 14;
const STEP: usize = 20;

/// The roles as the chart has them.
fn roles() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/berth/templates/clusterroles.yaml");
    let text = std::fs::read_to_string(file).expect("the generated roles");
    text.split("---\n").skip(1).map(from_yaml).collect()
}

/// A rule, and the role that it was taken from.
struct Lack<'a> {
    role: &'a Value,
    rule: usize,
}

impl Lack<'_> {
    fn name(&self) -> String {
        self.role["metadata"]["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Every verb on every resource of the rule.
    fn rights(&self) -> Vec<(String, String)> {
        let rule = &self.role["rules"][self.rule];
        let texts = |field: &str| {
            let all = rule[field].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let verbs = texts("verbs");
        texts("resources").into_iter().flat_map(|r| verbs.iter().map(move |v| (v.clone(), r.clone()))).collect()
    }

    /// Whether no pass fails for the lack of it, or none can say so: then the log tells.
    fn is_quiet(&self) -> bool {
        let silent = ["events", "nodes", "servicecidrs", "endpointslices", "customresourcedefinitions"];
        let own = ["clusters", "clusters/status"];
        let quiet = |(verb, resource): (String, String)| {
            ["list", "watch"].contains(&&*verb) || silent.contains(&&*resource) || own.contains(&&*resource)
        };
        self.rights().into_iter().all(quiet) || self.rights().iter().any(|(_, r)| own.contains(&&**r))
    }

    /// Whether a text names one of the rights, as the API server does.
    fn told_by(&self, text: &str) -> bool {
        self.rights().iter().any(|(verb, resource)| text.contains(&format!("cannot {verb} resource \"{resource}\"")))
    }

    async fn set(&self, server: &ApiServer, granted: bool) -> Result<()> {
        let mut role = self.role.clone();
        if !granted {
            role["rules"].as_array_mut().context("rules")?.remove(self.rule);
        }
        let api = Api::<ClusterRole>::all(server.client());
        api.replace(&self.name(), &PostParams::default(), &from_json(role)).await?;
        let right = self.in_force(server, granted);
        right.await
    }

    /// Waits until the authorizer knows: some right of the rule is denied, or all are there.
    async fn in_force(&self, server: &ApiServer, granted: bool) -> Result<()> {
        let rule = &self.role["rules"][self.rule];
        let place = if self.name() == names::OPERATOR_NAMESPACE_ROLE { PLACE } else { "" };
        let reviews = Api::<SubjectAccessReview>::all(server.client());
        let known = async || {
            let mut all = true;
            for (verb, resource) in self.rights() {
                let (resource, sub) = resource.split_once('/').unwrap_or((&resource, ""));
                let review = from_json(json!({"spec": {"user": ACCOUNT, "groups": GROUPS, "resourceAttributes": {
                    "verb": verb, "group": rule["apiGroups"][0], "resource": resource, "subresource": sub,
                    "namespace": place, "name": rule["resourceNames"][0].as_str().unwrap_or_default(),
                }}}));
                let answer = reviews.create(&PostParams::default(), &review).await?;
                all &= answer.status.is_some_and(|s| s.allowed);
            }
            ensure!(all == granted, "allowed: {all}");
            Ok(())
        };
        eventually(SOON, "the right is as it should be", known).await
    }
}

/// A namespace in which the operator has the rights of a control-plane namespace.
const PLACE: &str = "rights-place";

async fn grant(server: &ApiServer, roles: &[Value]) {
    let (client, params) = (server.client(), PatchParams::apply("test").force());
    for role in roles {
        let role: ClusterRole = from_json(role.clone());
        Api::<ClusterRole>::all(client.clone())
            .patch(&role.name_any(), &params, &Patch::Apply(&role))
            .await
            .expect("role");
    }
    let subject = "{kind: ServiceAccount, namespace: berth-system, name: berth-operator}";
    let binding = |kind: &str, role: &str| {
        format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: {kind}, metadata: {{name: rights-{role}}}, subjects: [{subject}],
               roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}}}"
        )
    };
    let everywhere: ClusterRoleBinding = from_yaml(&binding("ClusterRoleBinding", "berth-operator"));
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    bindings.patch(&everywhere.name_any(), &params, &Patch::Apply(&everywhere)).await.expect("binding");
    let place: Namespace = yaml!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {PLACE}}}}}");
    let places = Api::<Namespace>::all(client.clone());
    places.patch(PLACE, &params, &Patch::Apply(&place)).await.expect("namespace");
    // The server under test does not say where it is by itself.
    let slice: EndpointSlice = yaml!(
        "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: kubernetes}}, addressType: IPv4,
           endpoints: [{{addresses: [192.0.2.1]}}]}}"
    );
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "default");
    slices.patch("kubernetes", &params, &Patch::Apply(&slice)).await.expect("slice");
    let inside: RoleBinding = from_yaml(&binding("RoleBinding", names::OPERATOR_NAMESPACE_ROLE));
    let bindings = Api::<RoleBinding>::namespaced(client, PLACE);
    bindings.patch(&inside.name_any(), &params, &Patch::Apply(&inside)).await.expect("binding");
}

/// What the conditions of the tenant and its etcd say.
async fn conditions(team: &Team) -> Result<Vec<Condition>> {
    let cluster: Option<Cluster> = team.clusters().get_opt("acme").await?;
    let etcd = team.inside::<EtcdCluster>().get_opt(names::ETCD).await?;
    let mut all = cluster.and_then(|c| c.status).map(|s| s.conditions).unwrap_or_default();
    all.extend(etcd.and_then(|e| e.status).map(|s| s.conditions).unwrap_or_default());
    Ok(all)
}

/// Where the lack was told.
async fn told(lack: &Lack<'_>, team: &Team, log: &Log) -> Result<Option<&'static str>> {
    let of = |c: &&Condition| c.reason == "PermissionDenied" && lack.told_by(&c.message);
    if let Some(condition) = conditions(team).await?.iter().find(of) {
        ensure!(condition.message.contains("put them back as they are there"), "{}", condition.message);
        return Ok(Some("condition"));
    }
    let logged = lack.is_quiet() && log.lines().any(|l| l.contains("WARN") && lack.told_by(&l));
    Ok(logged.then_some("log"))
}

async fn one(server: &'static ApiServer, lack: &Lack<'_>, log: &Log) -> Result<()> {
    lack.set(server, false).await?;
    log.clear();
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let stop = CancellationToken::new();
    let running = Running::start_changed(server, server.config_as(ACCOUNT, &GROUPS), &plan, |context| {
        // As a process begins.
        context.configure(|s| s.isolation.meta = Err("they were not asked for yet".into()));
        tokio::spawn(meta::follow(Arc::new(context.clone()), MetaRanges::default(), false, stop.clone()));
    });
    let _stop = stop.drop_guard();
    let ready = async || team.condition(ConditionType::Ready).await.is_ok_and(|c| c.status == "True");
    let settled = async || match told(lack, &team, log).await? {
        Some(place) => Ok(place),
        None if ready().await => Ok(""),
        None => anyhow::bail!("neither up nor told: {:?}\n{}", conditions(&team).await?, log.text()),
    };
    let mut place = eventually(SOON, "up, or told", settled).await?;
    if place.is_empty() {
        // Not needed to come up; then for the end.
        team.delete().await;
        let settled = async || {
            let place = told(lack, &team, log).await?;
            place.with_context(|| format!("not told: {}", log.text()))
        };
        place = eventually(SOON, "told", settled).await?;
    }
    // What the lack does not concern goes on: without the Secret in the team's namespace the tenant serves.
    if lack.name() != names::OPERATOR_NAMESPACE_ROLE && lack.rights().contains(&("create".into(), "secrets".into())) {
        let serves = async || {
            let available = team.condition(ConditionType::Available).await?;
            ensure!(available.status == "True", "{}", available.message);
            Ok(())
        };
        eventually(SOON, "it serves", serves).await?;
    }
    lack.set(server, true).await?;
    if team.cluster_opt().await.is_some_and(|c| c.metadata.deletion_timestamp.is_none()) {
        eventually(HEALED, "up", async || if ready().await { Ok(()) } else { Err(conditions(&team).await) }).await?;
        team.delete().await;
    }
    eventually(HEALED, "gone", async || match team.cluster_opt().await {
        None => Ok(()),
        Some(_) => Err(conditions(&team).await),
    })
    .await?;
    println!("{} rule {} ({:?}): told by a {place}", lack.name(), lack.rule, lack.rights());
    drop(running);
    team.wipe().await;
    Ok(())
}

/// `make test` tries a sample; `BERTH_SWEEP=full` all.
#[tokio::test]
async fn a_rule_that_is_missing_is_named_and_its_return_heals() {
    let (_turn, server) = (alone().await, server().await);
    let log = Log::default();
    let _guard = log.listen();
    let roles = roles();
    grant(server, &roles).await;
    let lacks = roles.iter().flat_map(|role| {
        let rules = role["rules"].as_array().map_or(0, Vec::len);
        (0..rules).map(move |rule| Lack { role, rule })
    });
    let (first, step) = if full() { (0, 1) } else { (FIRST, STEP) };
    let mut failures = vec![];
    for lack in lacks.skip(first).step_by(step) {
        if let Err(error) = one(server, &lack, &log).await {
            println!("{} rule {}: FAILED: {error:#}", lack.name(), lack.rule);
            failures.push(format!("{} rule {} ({:?}): {error:#}", lack.name(), lack.rule, lack.rights()));
            lack.set(server, true).await.expect("given back");
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
