//! Labels and owner references of children, one field a run, and several while the operator is away or without a touch of the
//! `Cluster`: nothing follows from it but that it is put right, or told.

use super::pairs::Pairs;
use super::{full, templates};
use crate::common::log::Log;
use crate::common::team::ACME;
use crate::common::{Running, SOON, Team, alone_at_a_server, crds, operator_world, state::settled};
use anyhow::{Result, ensure};
use berth_api::{labels, names};
use berth_fence::{Fence, FencedClient};
use berth_kubeio::Io;
use berth_render::{Kind, ObjectKey, Place};
use berth_testkit::fault::{Call, Verb};
use berth_testkit::oracle::{SecretKeys, secret_keys};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, slice};

/// What nobody announces is seen when the operator looks by itself: within a minute.
const BY_ITSELF: Duration = Duration::from_mins(3);

/// Kinds that the operator does not watch.
const UNWATCHED: [Kind; 4] = [Kind::Secret, Kind::ConfigMap, Kind::NetworkPolicy, Kind::PodDisruptionBudget];

/// One field of one child.
#[derive(Clone)]
struct Case {
    key: ObjectKey,
    what: String,
    patch: Value,
    /// Labels as they were.
    labels: Value,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)
    }
}

/// Everything that Berth makes in a control-plane namespace, the namespace, and the kubeconfig in the team's.
async fn children(team: &Team, io: &Io) -> Vec<(ObjectKey, Value)> {
    let cp_namespace = ObjectKey::cluster(Kind::Namespace, team.cp_namespace.clone());
    let published = ObjectKey::namespaced(Kind::Secret, team.ns.clone(), names::kubeconfig(ACME));
    let mut all = vec![];
    for key in [cp_namespace, published] {
        let object = io.get(&key).await.expect("get").unwrap_or_else(|| panic!("{key} is not there"));
        all.push((key, object));
    }
    // This server has no API of network definitions, and none of routes.
    let made = |kind: &Kind| {
        kind.namespaced()
            && kind.verbs(Place::ControlPlane).contains(&"create")
            && ![Kind::NetworkAttachmentDefinition, Kind::TLSRoute].contains(kind)
    };
    for kind in Kind::ALL.into_iter().filter(|k| made(k) || *k == Kind::RoleBinding) {
        for object in io.list(kind, &*team.cp_namespace, None).await.expect("list") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if object["metadata"]["labels"][labels::MANAGED_BY] == labels::MANAGED_BY_VALUE {
                all.push((ObjectKey::namespaced(kind, team.cp_namespace.clone(), name), object));
            }
        }
    }
    all
}

/// Each label of each child; and `owner`, which is in `cp_namespace`, as the owner of each that is there, too.
fn cases(children: &[(ObjectKey, Value)], cp_namespace: &str, owner: &Value) -> Vec<Case> {
    let mut all = vec![];
    for (key, object) in children {
        let labels = object["metadata"]["labels"].clone();
        let mut case = |what: String, metadata: Value| {
            let patch = json!({"metadata": metadata});
            all.push(Case { key: key.clone(), what, patch, labels: labels.clone() });
        };
        for label in labels.as_object().into_iter().flat_map(|l| l.keys()) {
            case(format!("without label {label}"), json!({"labels": {label: null}}));
            // Of these Kubernetes knows the values.
            let other = if label.starts_with("pod-security.kubernetes.io/") { "privileged" } else { "other" };
            case(format!("another label {label}"), json!({"labels": {label: other}}));
        }
        // The owner exists: of one that does not, Kubernetes takes the child at once. Whoever gives the published kubeconfig an owner has
        // it published again after that one's end.
        if key.namespace.as_deref() == Some(cp_namespace) {
            case("an owner".into(), json!({"ownerReferences": [owner]}));
        }
    }
    all
}

/// For each kind in each namespace one case, a label or the owner in turns; each time the same.
fn sample(cases: &[Case]) -> Vec<Case> {
    let place = |c: &Case| (c.key.kind, c.key.namespace.clone());
    let places: BTreeSet<_> = cases.iter().map(place).collect();
    let owner = |c: &Case| c.what == "an owner";
    let one = |(n, wanted): (usize, &(Kind, Option<String>))| {
        let (owners, labels): (Vec<&Case>, Vec<&Case>) =
            cases.iter().filter(|c| place(c) == *wanted).partition(|c| owner(c));
        let some = if n % 2 == 0 || owners.is_empty() { labels } else { owners };
        some.get(some.len() / 2).map(|c| (*c).clone())
    };
    places.iter().enumerate().filter_map(one).collect()
}

/// Of everything in the namespace: what it is, so that nothing came or went.
async fn uids(team: &Team, io: &Io) -> BTreeSet<String> {
    let children = children(team, io).await;
    children.into_iter().map(|(key, o)| format!("{key} {}", o["metadata"]["uid"])).collect()
}

/// A tenant with each kind of child, and the operator that keeps it.
struct Subject {
    team: Team,
    plan: FaultPlan,
    io: Io,
    server: &'static ApiServer,
    running: Option<Running>,
}

/// How the operator learns of what was done to a child.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Notice {
    /// It runs, and somebody touches the `Cluster`.
    Touch,
    /// It is started afterwards.
    Start,
    /// It runs, and looks by itself.
    ByItself,
}

impl Subject {
    async fn new(server: &'static ApiServer) -> Self {
        let (team, plan) = (Team::new(server).await, FaultPlan::new());
        team.create(json!({"replicas": 2, "etcd": {"replicas": 3}})).await.expect("Cluster");
        let running = Some(Running::start(server, &plan));
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        settled(&plan).await;
        let io = Io::new(FencedClient::new(team.client.clone(), Fence::open()), Arc::default(), Duration::from_mins(1));
        Self { team, plan, io, server, running }
    }

    async fn cases(&self) -> Vec<Case> {
        let owner: ConfigMap = berth_testkit::yaml!("{{metadata: {{name: somebodys}}}}");
        let owner = self.team.put(owner).await.metadata;
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid, "controller": true});
        cases(&children(&self.team, &self.io).await, &self.team.cp_namespace, &owner)
    }

    async fn state(&self) -> Result<(Vec<String>, SecretKeys, BTreeSet<String>)> {
        let keys = secret_keys(&self.team.client, &[&self.team.ns, &self.team.cp_namespace]).await?;
        Ok((templates(&self.team).await, keys, uids(&self.team, &self.io).await))
    }

    /// Whether it is reported, so that a person puts it right; an error as long as it is neither that nor as it was.
    async fn is_reported(&self, case: &Case) -> Result<bool> {
        let live = self.io.get(&case.key).await?.unwrap_or_default();
        let owners = live["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        if live["metadata"]["labels"] == case.labels && owners == 0 {
            return Ok(false);
        }
        let cluster = self.team.cluster().await.status.unwrap_or_default();
        let degraded = cluster.conditions.iter().find(|c| c.type_ == "Degraded" && c.status == "True");
        let told = degraded.is_some_and(|c| c.message.to_lowercase().contains(&case.key.to_string().to_lowercase()));
        ensure!(told, "{case}: neither put right nor told: {} {:?}", live["metadata"], cluster.conditions);
        Ok(true)
    }

    /// Waits until each is as it was. What is reported is put right by hand, since others may wait for that. Returns what was.
    async fn healed(&self, cases: &[Case], notice: Notice) -> Result<BTreeSet<usize>> {
        let mut told = BTreeSet::new();
        let all = async || {
            let mut left = vec![];
            for (n, case) in cases.iter().enumerate() {
                match self.is_reported(case).await {
                    Ok(false) => {}
                    Ok(true) => {
                        settled(&self.plan).await;
                        self.restore(case).await?;
                        if notice == Notice::Touch {
                            self.team.touch().await;
                        }
                        told.insert(n);
                    }
                    Err(error) => left.push(error.to_string()),
                }
            }
            ensure!(left.is_empty(), "{}", left.join("\n"));
            Ok(())
        };
        eventually(if notice == Notice::ByItself { BY_ITSELF } else { SOON }, "put right, or told", all).await?;
        Ok(told)
    }

    /// Corrupts these at once. Returns, by number, which of them only a person could put right.
    async fn run(&mut self, cases: &[Case], notice: Notice) -> Result<BTreeSet<usize>> {
        let (before, mark) = (self.state().await?, self.plan.calls().len());
        if notice == Notice::Start {
            self.running = None;
        }
        for case in cases {
            self.io.merge(&case.key, "", "fieldManager=somebody", &case.patch).await?;
        }
        match notice {
            Notice::Touch => self.team.touch().await,
            Notice::Start => self.running = Some(Running::start(self.server, &self.plan)),
            Notice::ByItself => {}
        }
        let told = self.healed(cases, notice).await?;
        settled(&self.plan).await;
        self.team.ready().await?;
        let calls = self.plan.calls();
        // The operator still clears up what a test before this one left elsewhere.
        let own = |c: &&Call| [&self.team.ns, &self.team.cp_namespace].iter().any(|own| c.object().contains(&***own));
        let deletes = calls[mark..].iter().filter(|c| c.verb == Verb::Delete).filter(own);
        let deletes: Vec<_> = deletes.map(ToString::to_string).collect();
        ensure!(deletes.is_empty(), "deleted: {deletes:?}");
        let after = self.state().await?;
        ensure!(after.0 == before.0 && after.1 == before.1, "templates or keys changed");
        ensure!(after.2 == before.2, "children came or went: {:?} {:?}", before.2, after.2);
        Ok(told)
    }

    async fn restore(&self, case: &Case) -> Result<()> {
        let back = json!({"metadata": {"labels": case.labels, "ownerReferences": null}});
        self.io.merge(&case.key, "", "fieldManager=somebody", &back).await?;
        Ok(())
    }
}

fn outcome(told: bool) -> &'static str {
    if told { "told" } else { "put right" }
}

/// `make test` tries one field of each kind; `BERTH_SWEEP=full` all of all.
#[tokio::test]
async fn a_field_of_a_child_that_is_corrupted_has_no_consequences() {
    let (_turn, server) = alone_at_a_server().await;
    let mut subject = Subject::new(server).await;
    let mut cases = subject.cases().await;
    if !full() {
        cases = sample(&cases);
    }
    let mut failures = vec![];
    for case in &cases {
        match subject.run(slice::from_ref(case), Notice::Touch).await {
            Ok(told) => println!("{case}: {}", outcome(!told.is_empty())),
            Err(error) => {
                failures.push(format!("{case}: {error:#}"));
                subject.restore(case).await.expect("back");
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    subject.team.wipe().await;
}

/// All of them at once.
async fn at_once(subject: &mut Subject, cases: &[Case], notice: Notice) {
    let told = subject.run(cases, notice).await.unwrap_or_else(|e| panic!("{notice:?}: {e:#}"));
    for (n, case) in cases.iter().enumerate() {
        println!("{notice:?}: {case}: {}", outcome(told.contains(&n)));
    }
}

/// A field of each kind at once, and private keys. With a server of its own: it waits for most of its time, and others go on meanwhile.
#[tokio::test]
async fn what_is_corrupted_unseen_has_no_consequences() {
    let log = Log::default();
    let _guard = log.listen_for_all();
    let (server, _world) = operator_world(&crds()).await;
    let mut subject = Subject::new(server).await;
    let pairs = Pairs::new(server, &log).await;
    let all = sample(&subject.cases().await);
    let unwatched: Vec<_> = all.iter().filter(|c| UNWATCHED.contains(&c.key.kind)).cloned().collect();
    assert_eq!(unwatched.len(), UNWATCHED.len() + 1, "one of each, and the published kubeconfig");
    at_once(&mut subject, &all, Notice::Start).await;
    let swapped = pairs.swap().await;
    at_once(&mut subject, &unwatched, Notice::ByItself).await;
    swapped.seen().await;
}
