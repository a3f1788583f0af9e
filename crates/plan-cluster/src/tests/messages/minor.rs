//! A change of the minor: each begins with a tenant of 1.35 at rest.

use super::*;

const OLD: &str = "1.35.4";
const NEW: &str = "1.36.3";

const CASES: &[Case] = &[
    ("a minor after the next one", |f| {
        f.version("1.34.4");
        f.home_object()["metadata"]["annotations"][labels::KUBERNETES_VERSION] = json!("1.34.4");
        f.home_object()["metadata"]["annotations"][labels::SERVED_MINOR] = json!("1.34");
        f.version(NEW);
    }),
    ("the next minor, before nodes were counted", |f| {
        let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { unreachable!() };
        read.nodes = None;
        f.cluster.status.as_mut().unwrap().nodes = None;
        f.version(NEW);
    }),
    ("the next minor, with kubelets that are too old", |f| {
        f.nodes(Some("1.32.9"));
        f.version(NEW);
    }),
    ("the next minor, with kubelets that are newer", |f| {
        f.nodes(Some("1.37.0"));
        f.version(NEW);
    }),
    ("the next minor, whose kubelet has a feature gate of spec.kubelet.config locked", |f| {
        f.cluster.spec.kubelet.config =
            serde_json::from_value(json!({"featureGates": {"ImageVolume": false}})).unwrap();
        f.version(NEW);
    }),
    ("the next minor, whose kubelet does not know a feature gate of spec.kubelet.config", |f| {
        f.cluster.spec.kubelet.config =
            serde_json::from_value(json!({"featureGates": {"MemoryManager": true}})).unwrap();
        f.version(NEW);
    }),
    ("the next minor, with a kubelet that tells no version", |f| {
        f.nodes(Some("unknown"));
        f.version(NEW);
    }),
    ("the next minor, with an etcd that does not fit it", |f| {
        let etcd = f.live(Kind::EtcdCluster, names::ETCD);
        etcd["spec"]["version"] = json!("3.4.1");
        f.version(NEW);
    }),
    ("the next minor, without its EtcdCluster", |f| {
        f.world.remove(&Fixture::key(Kind::EtcdCluster, names::ETCD));
        f.version(NEW);
        f.hold();
    }),
    ("the next minor, with all alpha features", |f| {
        let gates = json!([{"name": "feature-gates", "value": "AllAlpha=true"}]);
        f.cluster.spec.api_server.extra_args = serde_json::from_value(gates).unwrap();
        f.version(NEW);
    }),
    ("the next minor, while a component is rolled out", |f| {
        f.live(Kind::Deployment, names::SCHEDULER)["status"]["availableReplicas"] = json!(0);
        f.version(NEW);
    }),
    ("the next minor, while the API does not answer", |f| {
        f.nodes(Some(OLD));
        f.reconcile();
        f.world.observed.api = ApiProbe::Failed("no answer within 5s".into());
        f.version(NEW);
    }),
    ("the next minor: its first step", |f| f.version(NEW)),
    ("the first step is rolled out, and the API does not answer", |f| {
        f.version(NEW);
        for _ in 0..2 {
            f.reconcile();
            f.roll_out(names::APISERVER);
        }
        f.reconcile();
        components().for_each(|name| f.roll_out(name));
        f.world.observed.api = ApiProbe::Failed("no answer within 5s".into());
    }),
    ("the first step waits for spec.upgrade.finalizeAfter", |f| {
        f.version(NEW);
        f.rest();
    }),
    ("the second step", |f| {
        f.version(NEW);
        f.rest();
        f.later(11);
    }),
    ("the way back in the first step", |f| {
        f.version(NEW);
        f.rest();
        f.version(OLD);
    }),
    ("a version that cannot be, in the first step", |f| {
        f.version(NEW);
        f.rest();
        f.version("1.29.1");
    }),
];

pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let old = Fixture::up_for_upgrade(json!({"version": OLD}));
    let mut begins = old.copy();
    begins.version(NEW);
    let planned = begins.plan();
    let input = Input {
        object: &begins.cluster,
        observed: &begins.world.observed,
        settings: &begins.settings,
        now: begins.world.now,
    };
    begins.cluster.status = Some(status(input, &planned, None));
    let mut two = Fixture::up_for_upgrade(json!({"version": "1.34.4"}));
    two.version(OLD);
    two.rest();
    two.version(NEW);
    two.reconcile();
    let more =
        [("the next minor, before Berth recorded it", begins), ("the one after it, before the first is through", two)];
    let cases = CASES.iter().map(|(text, happens)| {
        let mut f = old.copy();
        happens(&mut f);
        f.reconcile();
        (*text, f)
    });
    cases.chain(more).collect()
}
