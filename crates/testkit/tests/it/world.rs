//! The small world: rollouts, claims, ends of namespaces, garbage, load balancers.

use std::time::Duration;

use berth_testkit::fixtures::until;
use berth_testkit::world::Fate;
use berth_testkit::{ApiServer, World, yaml};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

struct Setup {
    client: Client,
    ns: String,
    world: World,
}

async fn setup() -> Setup {
    let server = ApiServer::shared().await;
    let ns = server.namespace("world").await;
    let mine = ns.clone();
    let world = World::builder(server.client()).namespaces(move |name| name == mine).start().await.expect("world");
    Setup { client: server.client(), ns, world }
}

impl Setup {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.ns)
    }

    async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.expect("list").items
    }

    async fn deployment(&self, replicas: i32) -> Deployment {
        let deployment: Deployment = yaml!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: api}}, spec: {{replicas: {replicas},
               strategy: {{rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}}}, selector: {{matchLabels: {{app: api}}}},
               template: {{metadata: {{labels: {{app: api}}}}, spec: {{containers: [{{name: c, image: 'i:1'}}]}}}}}}}}"
        );
        self.api().create(&PostParams::default(), &deployment).await.expect("create")
    }

    async fn patch<K>(&self, name: &str, patch: serde_json::Value)
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patch");
    }

    /// Rolled out, as `kubectl rollout status` judges.
    async fn rolled_out(&self, replicas: i32) -> bool {
        let d = self.api::<Deployment>().get("api").await.expect("get");
        let (generation, status) = (d.metadata.generation, d.status.unwrap_or_default());
        let counts = [status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas];
        let available = status.conditions.iter().flatten().any(|c| c.type_ == "Available" && c.status == "True");
        status.observed_generation == generation && counts.iter().all(|c| c.unwrap_or(0) == replicas) && available
    }
}

fn images(pods: &[Pod]) -> Vec<&str> {
    pods.iter().filter_map(|p| p.spec.as_ref()?.containers[0].image.as_deref()).collect()
}

fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

#[tokio::test]
async fn a_deployment_rolls_out_updates_and_scales_to_nothing() {
    let s = setup().await;
    s.deployment(2).await;
    until(SOON, "rolled out", async || s.rolled_out(2).await).await;
    let pods = s.pods().await;
    assert!(pods.len() == 2 && pods.iter().all(ready) && pods[0].name_any().starts_with("api-"), "{pods:?}");
    assert_eq!(pods[0].labels()["app"], "api");
    assert!(pods[0].status.as_ref().expect("status").container_statuses.as_ref().expect("containers")[0].ready);
    let d = s.api::<Deployment>().get("api").await.expect("get");
    assert_eq!(d.annotations()["deployment.kubernetes.io/revision"], "1");

    // New pods that do not get ready replace nothing.
    s.world.hold();
    let image = |tag: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": format!("i:{tag}")}]}}}});
    s.patch::<Deployment>("api", image("2")).await;
    until(SOON, "one surge pod", async || images(&s.pods().await).contains(&"i:2")).await;
    let told = async || {
        let status = s.api::<Deployment>().get("api").await.expect("get").status.unwrap_or_default();
        (status.updated_replicas, status.unavailable_replicas) == (Some(1), Some(1))
    };
    until(SOON, "the status", told).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pods = s.pods().await;
    assert_eq!((images(&pods).len(), pods.iter().filter(|p| ready(p)).count()), (3, 2), "one more, two ready");
    let status = s.api::<Deployment>().get("api").await.expect("get").status.expect("status");
    assert_eq!((status.updated_replicas, status.unavailable_replicas), (Some(1), Some(1)));
    s.world.release();
    until(SOON, "rolled out again", async || s.rolled_out(2).await).await;
    assert_eq!(images(&s.pods().await), ["i:2", "i:2"]);

    s.patch::<Deployment>("api", json!({"spec": {"replicas": 0}})).await;
    until(SOON, "scaled down", async || s.rolled_out(0).await && s.pods().await.is_empty()).await;
}

#[tokio::test]
async fn at_rest_the_world_writes_nothing() {
    let s = setup().await;
    s.deployment(1).await;
    until(SOON, "rolled out", async || s.rolled_out(1).await).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let version =
        async || s.api::<Deployment>().list(&ListParams::default()).await.expect("list").items[0].resource_version();
    let pods = async || s.pods().await[0].resource_version();
    let before = (version().await, pods().await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(before, (version().await, pods().await));
}

#[tokio::test]
async fn pods_meet_their_fate() {
    let s = setup().await;
    s.world.fate(|pod| if pod["spec"]["containers"][0]["image"] == "i:1" { Fate::CrashLoop } else { Fate::Ready });
    s.deployment(1).await;
    let restarted = |p: &Pod| p.status.as_ref()?.container_statuses.as_ref()?.first().map(|c| c.restart_count);
    until(SOON, "crashing", async || s.pods().await.first().and_then(restarted).is_some_and(|n| n > 0)).await;
    assert!(!s.rolled_out(1).await);
    s.world.fate(|_| Fate::Ready);
    until(SOON, "well again", async || s.rolled_out(1).await).await;
}

#[tokio::test]
async fn a_stateful_set_keeps_claims_and_updates_from_the_top() {
    let s = setup().await;
    let set: StatefulSet = yaml!(
        "{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: etcd}}, spec: {{replicas: 3, serviceName: etcd,
           selector: {{matchLabels: {{app: etcd}}}},
           template: {{metadata: {{labels: {{app: etcd}}}}, spec: {{containers: [{{name: etcd, image: 'e:1',
             volumeMounts: [{{name: data, mountPath: /data}}]}}]}}}},
           volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{accessModes: [ReadWriteOnce],
             resources: {{requests: {{storage: 1Gi}}}}}}}}]}}}}"
    );
    s.api().create(&PostParams::default(), &set).await.expect("create");
    let settled = async |n: i32, image: &str| {
        let set = s.api::<StatefulSet>().get("etcd").await.expect("get");
        let status = set.status.unwrap_or_default();
        let counts = [Some(status.replicas), status.ready_replicas, status.updated_replicas, status.available_replicas];
        status.observed_generation == set.metadata.generation
            && counts.iter().all(|c| c.unwrap_or(0) == n)
            && status.current_revision == status.update_revision
            && images(&s.pods().await).iter().all(|i| *i == image)
    };
    until(SOON, "three members", async || settled(3, "e:1").await).await;
    let names: Vec<_> = s.pods().await.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["etcd-0", "etcd-1", "etcd-2"]);
    let claims = async || s.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.expect("list").items;
    until(SOON, "bound", async || {
        claims().await.iter().filter(|c| c.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Bound"))).count()
            == 3
    })
    .await;

    let container = json!({"name": "etcd", "image": "e:2", "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
    s.patch::<StatefulSet>("etcd", json!({"spec": {"template": {"spec": {"containers": [container]}}}})).await;
    until(SOON, "updated", async || settled(3, "e:2").await).await;
    s.patch::<StatefulSet>("etcd", json!({"spec": {"replicas": 1}})).await;
    until(SOON, "one member", async || settled(1, "e:2").await).await;
    assert_eq!(claims().await.len(), 3, "claims outlive their pods");
    s.api::<PersistentVolumeClaim>().delete("data-etcd-2", &DeleteParams::default()).await.expect("delete");
    s.api::<PersistentVolumeClaim>().delete("data-etcd-0", &DeleteParams::default()).await.expect("delete");
    until(SOON, "the unused claim is gone", async || claims().await.len() == 2).await;
    assert!(claims().await.iter().any(|c| c.name_any() == "data-etcd-0"), "a claim in use is protected");
}

#[tokio::test]
async fn a_namespace_ends_with_everything_in_it() {
    let s = setup().await;
    let namespaces = Api::<Namespace>::all(s.client.clone());
    s.deployment(1).await;
    let claim: PersistentVolumeClaim = yaml!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: c}}, spec: {{accessModes: [ReadWriteOnce],
           resources: {{requests: {{storage: 1Gi}}}}}}}}"
    );
    s.api().create(&PostParams::default(), &claim).await.expect("claim");
    let held: Secret =
        yaml!("{{apiVersion: v1, kind: Secret, metadata: {{name: held, finalizers: [example.com/hold]}}}}");
    s.api().create(&PostParams::default(), &held).await.expect("secret");
    until(SOON, "rolled out", async || s.rolled_out(1).await).await;

    namespaces.delete(&s.ns, &DeleteParams::default()).await.expect("delete");
    until(SOON, "all but the held one is gone", async || {
        let claims = s.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.expect("list").items;
        s.pods().await.is_empty() && claims.is_empty()
    })
    .await;
    let namespace = namespaces.get_opt(&s.ns).await.expect("get").expect("a finalizer in it holds the namespace");
    assert!(namespace.metadata.deletion_timestamp.is_some());
    s.patch::<Secret>("held", json!({"metadata": {"finalizers": null}})).await;
    until(SOON, "gone", async || namespaces.get_opt(&s.ns).await.expect("get").is_none()).await;
}

#[tokio::test]
async fn garbage_follows_its_owners() {
    let s = setup().await;
    let make = async |name: &str, owner: Option<&ConfigMap>| {
        let mut object: ConfigMap = yaml!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
        let owner = owner.and_then(|o| o.controller_owner_ref(&()));
        object.metadata.owner_references = owner.map(|o| vec![o]);
        s.api::<ConfigMap>().create(&PostParams::default(), &object).await.expect("create")
    };
    let exists = async |name: &str| s.api::<ConfigMap>().get_opt(name).await.expect("get").is_some();
    for (policy, child_stays) in
        [(DeleteParams::background(), false), (DeleteParams::foreground(), false), (DeleteParams::orphan(), true)]
    {
        let owner = make("owner", None).await;
        make("child", Some(&owner)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(exists("child").await, "an owned object stays while its owner does");
        s.api::<ConfigMap>().delete("owner", &policy).await.expect("delete");
        until(SOON, "the owner is gone", async || !exists("owner").await).await;
        if child_stays {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let child = s.api::<ConfigMap>().get("child").await.expect("an orphan stays");
            assert!(child.owner_references().is_empty());
        } else {
            until(SOON, "the child is gone", async || !exists("child").await).await;
        }
    }
    // The right name and the wrong UID is no owner.
    let mut stale = make("owner", None).await;
    stale.metadata.uid = Some("00000000-0000-0000-0000-000000000000".into());
    make("child-of-stale", Some(&stale)).await;
    until(SOON, "the child of a former owner is gone", async || !exists("child-of-stale").await).await;
}

#[tokio::test]
async fn load_balancers_get_an_address_when_they_may() {
    let s = setup().await;
    s.world.load_balancers(false);
    let service: Service = yaml!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: lb}}, spec: {{type: LoadBalancer, ports: [{{port: 6443}}]}}}}"
    );
    s.api().create(&PostParams::default(), &service).await.expect("create");
    let address = async || {
        let service = s.api::<Service>().get("lb").await.expect("get");
        service.status?.load_balancer?.ingress?.into_iter().next()?.ip
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(address().await, None);
    s.world.load_balancers(true);
    until(SOON, "an address", async || address().await.is_some_and(|ip| ip.starts_with("192.0.2."))).await;
}
