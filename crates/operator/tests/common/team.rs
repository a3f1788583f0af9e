//! A team with one `Cluster`, and what tests do with it and ask of it.

use super::{SOON, tenant};
use anyhow::{Context as _, Result, anyhow, ensure};
use berth_api::conditions::{ConditionType, find};
use berth_api::{Cluster, EtcdCluster, names};
use berth_testkit::fault::{Call, Verb};
use berth_testkit::oracle::{SecretKeys, secret_keys};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

/// The name of every team's `Cluster`, unless it is about names.
pub(crate) const ACME: &str = "acme";

/// An annotation that means nothing, see [`Team::touch`].
pub(crate) const TOUCHED: &str = "test.berth.dev/touched";

/// StatefulSets say that their pods are ready. They do so a moment after the pods did, and tests compare what they say.
pub(crate) async fn counted(client: &Client, namespace: &str) -> Result<()> {
    for set in Api::<StatefulSet>::namespaced(client.clone(), namespace).list(&ListParams::default()).await? {
        let (wanted, status) = (set.spec.and_then(|s| s.replicas), set.status.unwrap_or_default());
        // Where there is none, they say nothing.
        let told = [status.ready_replicas, status.available_replicas].map(Option::unwrap_or_default);
        ensure!(told == [wanted.unwrap_or(1); 2], "of {wanted:?}: {status:?}");
    }
    Ok(())
}

/// A namespace of a team, and the control-plane namespace of its `Cluster` [`ACME`].
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) client: Client,
    pub(crate) ns: String,
    pub(crate) cp_namespace: String,
}

impl Team {
    /// A new one, without `Cluster`.
    pub(crate) async fn new(server: &ApiServer) -> Self {
        let ns = server.namespace("team").await;
        let cp_namespace = names::control_plane_namespace(&ns, ACME);
        Self { client: server.client(), ns, cp_namespace }
    }

    /// A new one, with a `Cluster`.
    pub(crate) async fn with_cluster(server: &ApiServer) -> Self {
        let team = Self::new(server).await;
        team.create(json!({})).await.expect("a valid Cluster");
        team
    }

    pub(crate) fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.client.clone(), &self.ns)
    }

    /// Access to what is in the control-plane namespace.
    pub(crate) fn inside<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.cp_namespace)
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    /// Creates the `Cluster`, with `spec` laid over the shortest one.
    pub(crate) async fn create(&self, spec: Value) -> Result<Cluster, kube::Error> {
        self.create_as(ACME, spec).await
    }

    /// Likewise, by another name. Deletion is not protected unless asked for.
    pub(crate) async fn create_as(&self, name: &str, spec: Value) -> Result<Cluster, kube::Error> {
        let mut all = json!({"version": "1.36.3", "deletion": {"protected": false}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object =
            json!({"apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": all});
        let request = http::Request::post(format!("/apis/berth.dev/v1alpha1/namespaces/{}/clusters", self.ns))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&object).unwrap())
            .unwrap();
        self.client.request(request).await
    }

    /// The keys that are made once.
    pub(crate) async fn root_keys(&self) -> SecretKeys {
        let roots = ["acme-ca", "acme-proxy", "acme-sa", "kube-apiserver-encryption", "etcd-peer-ca", "etcd-client-ca"];
        let mut keys = secret_keys(&self.client, &[&self.cp_namespace]).await.expect("keys");
        keys.retain(|key, _| roots.iter().any(|root| key.contains(&format!("/{root}/"))));
        keys
    }

    /// Changes the spec by a merge patch.
    pub(crate) async fn spec(&self, spec: Value) -> Result<Cluster, kube::Error> {
        self.clusters().patch(ACME, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await
    }

    /// A merge patch of the `Cluster` of that name.
    pub(crate) async fn merge(&self, name: &str, patch: &Value) {
        self.clusters().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patch");
    }

    /// Makes the operator look at the `Cluster`, and at its etcd, by changing what it does not care about.
    pub(crate) async fn touch(&self) {
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": {TOUCHED: format!("{:?}", std::time::Instant::now())}}}));
        self.clusters().patch(ACME, &PatchParams::default(), &patch).await.expect("touch");
        let etcds = self.inside::<EtcdCluster>();
        if etcds.get_opt(names::ETCD).await.expect("get").is_some() {
            etcds.patch(names::ETCD, &PatchParams::default(), &patch).await.expect("touch");
        }
    }

    /// Waits until reconciles of the `Cluster`, and of its etcd, have ended that began after this. What they did not do does not happen.
    pub(crate) async fn reconciled(&self, plan: &FaultPlan) {
        self.try_reconciled(plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    }

    /// Likewise, where that may fail: a sweep has other cases.
    pub(crate) async fn try_reconciled(&self, plan: &FaultPlan) -> Result<()> {
        let mark = plan.calls().len();
        self.reconciled_by(|| {
            let calls = plan.calls_after(mark);
            let reads = |resource: &str, namespace: &str| {
                let of = |c: &&Call| c.verb == Verb::Get && c.resource == resource && c.namespace == namespace;
                calls.iter().filter(of).count()
            };
            [reads("clusters", &self.ns), reads("etcdclusters", &self.cp_namespace)]
        })
        .await
    }

    /// Likewise, where somebody else counts how often the operator has read the two. It reads an object once in a reconcile, and the
    /// reconciles of one object come one after the other: with the third read, two have ended. Should it read twice, one has.
    pub(crate) async fn reconciled_by(&self, reads: impl Fn() -> [usize; 2]) -> Result<()> {
        let etcd = self.inside::<EtcdCluster>().get_opt(names::ETCD).await.expect("get").is_some();
        for _ in 0..3 {
            let before = reads();
            self.touch().await;
            let again = async || {
                let now = reads();
                ensure!(now[0] > before[0] && (!etcd || now[1] > before[1]), "{before:?} reads, then {now:?}");
                Ok(())
            };
            eventually(SOON, "another reconcile", again).await?;
        }
        Ok(())
    }

    pub(crate) async fn cluster(&self) -> Cluster {
        self.clusters().get(ACME).await.expect("the Cluster")
    }

    /// The `Cluster`, if it is there.
    pub(crate) async fn cluster_opt(&self) -> Option<Cluster> {
        self.clusters().get_opt(ACME).await.expect("get")
    }

    /// A condition as it is now.
    pub(crate) async fn condition(&self, type_: ConditionType) -> Result<Condition> {
        let cluster = self.clusters().get(ACME).await?;
        let conditions = cluster.status.map(|s| s.conditions).unwrap_or_default();
        find(&conditions, type_).cloned().ok_or_else(|| anyhow!("no condition {type_}"))
    }

    /// Waits until `Ready` is true for the present spec, and no change waits for its turn.
    pub(crate) async fn ready(&self) -> Result<Cluster> {
        let attempt = async || {
            let cluster = self.clusters().get(ACME).await?;
            let status = cluster.status.clone().unwrap_or_default();
            ensure!(status.observed_generation == cluster.metadata.generation, "not observed: {:?}", status.conditions);
            let ready = find(&status.conditions, ConditionType::Ready).context("no condition Ready")?;
            let waits = ready.reason == "WaitingForTurn";
            ensure!(ready.status == "True" && !waits, "{}: {}", ready.reason, ready.message);
            counted(&self.client, &self.cp_namespace).await?;
            Ok(cluster)
        };
        eventually(SOON, "Ready", attempt).await
    }

    /// Waits until a condition has this reason; its message.
    pub(crate) async fn says(&self, type_: ConditionType, reason: &str) -> String {
        self.says_of(type_, reason, "").await
    }

    /// Likewise, where the reason was there before for something else.
    pub(crate) async fn says_of(&self, type_: ConditionType, reason: &str, about: &str) -> String {
        let attempt = async || {
            let now = self.condition(type_).await?;
            ensure!(
                now.reason == reason && now.message.contains(about),
                "{}: {}: {}",
                now.status,
                now.reason,
                now.message
            );
            Ok(now.message)
        };
        eventually(SOON, reason, attempt).await.unwrap_or_else(|e| panic!("{e:#}"))
    }

    /// Waits until the rollout of that revision is in the status, and lets its step last for so many seconds already.
    pub(crate) async fn rolls_since(&self, revision: i64, seconds: i64) -> Result<()> {
        let attempt = async || {
            let cluster = self.clusters().get(ACME).await?;
            let rollout = cluster.status.clone().unwrap_or_default().rollout.context("no rollout")?;
            ensure!(rollout.revision == revision && rollout.since.is_some(), "{rollout:?}");
            let stuck = self.inside::<Deployment>().get(&rollout.step).await?.status.unwrap_or_default();
            ensure!(stuck.updated_replicas == Some(1) && stuck.replicas > Some(1), "{stuck:?}");
            Ok(cluster)
        };
        eventually(SOON, "a rollout that is stuck", attempt).await?;
        let since = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
        let patch =
            Patch::Merge(json!({"status": {"rollout": {"since": since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}}}));
        self.clusters().patch_status(ACME, &PatchParams::default(), &patch).await?;
        self.touch().await;
        Ok(())
    }

    /// Deletes the `Cluster` as a user would.
    pub(crate) async fn delete(&self) {
        self.clusters().delete(ACME, &DeleteParams::default()).await.expect("delete");
    }

    /// Waits until the `Cluster` is gone.
    pub(crate) async fn gone(&self) -> Result<()> {
        let attempt = async || match self.clusters().get_opt(ACME).await? {
            None => Ok(()),
            Some(c) => Err(anyhow!("still there: {:?}", c.status.map(|s| s.conditions))),
        };
        eventually(SOON, "deletion", attempt).await
    }

    /// The namespace that stands for the tenant's own API.
    pub(crate) async fn tenant(&self) -> Result<String> {
        let ca = self.inside::<Secret>().get(&names::ca(ACME)).await?;
        Ok(tenant::id(&ca.data.unwrap_or_default()["tls.crt"].0))
    }

    /// Likewise as [`Self::wipe`], whatever the `Cluster`s are called.
    pub(crate) async fn wipe_all(&self) {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        for cluster in self.clusters().list(&ListParams::default()).await.expect("list") {
            let name = cluster.name_any();
            let cp_namespace = names::control_plane_namespace(&self.ns, &name);
            let _ = self.clusters().delete(&name, &DeleteParams::default()).await;
            let _ = self.clusters().patch(&name, &PatchParams::default(), &free).await;
            let etcds = Api::<EtcdCluster>::namespaced(self.client.clone(), &cp_namespace);
            let _ = etcds.delete(names::ETCD, &DeleteParams::default()).await;
            let _ = etcds.patch(names::ETCD, &PatchParams::default(), &free).await;
            let _ = self.namespaces().delete(&cp_namespace, &DeleteParams::default()).await;
        }
        let _ = self.namespaces().delete(&self.ns, &DeleteParams::default()).await;
    }

    /// Takes everything away without the operator's help, so that the next test's operator does not see it.
    pub(crate) async fn wipe(&self) {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = self.clusters().delete(ACME, &DeleteParams::default()).await;
        let _ = self.clusters().patch(ACME, &PatchParams::default(), &free).await;
        let etcds = self.inside::<EtcdCluster>();
        let _ = etcds.delete(names::ETCD, &DeleteParams::default()).await;
        let _ = etcds.patch(names::ETCD, &PatchParams::default(), &free).await;
        let tenant = self.tenant().await;
        let inside = tenant.ok().map(|id| tenant::namespaces(&id).map(|(_, name)| name));
        for ns in [self.cp_namespace.clone(), self.ns.clone()].into_iter().chain(inside.into_iter().flatten()) {
            let _ = self.namespaces().delete(&ns, &DeleteParams::default()).await;
        }
    }

    /// Creates any object of a kind in the control-plane namespace.
    pub(crate) async fn put<K>(&self, object: K) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::Serialize
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        self.inside::<K>().create(&PostParams::default(), &object).await.expect("create")
    }
}
