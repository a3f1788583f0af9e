//! What stands in the way of the next minor: each begins with a tenant of 1.35 at rest, of which nobody asks anything.

use super::*;
use crate::tests::preflight::{deprecated, server, well};
use berth_api::cluster::Check;
use berth_plan::asked::{Facts, Look};

const OLD: &str = "1.35.4";

fn finds(f: &mut Fixture, change: impl FnOnce(&mut Facts)) {
    let mut facts = well();
    change(&mut facts);
    f.world.observed.look = Look::Taken(facts.into());
}

fn flag(f: &mut Fixture, name: &str, value: &str) {
    let args = json!([{"name": name, "value": value}]);
    f.cluster.spec.api_server.extra_args = serde_json::from_value(args).unwrap();
    f.rest();
    f.nodes(Some(OLD));
    finds(f, |_| {});
}

const CASES: &[Case] = &[
    ("nothing stands in the way of the next minor", |f| finds(f, |_| {})),
    ("nothing does, but for what is skipped", |f| {
        f.cluster.spec.upgrade.skip_checks = vec![Check::RemovedApis];
        finds(f, |facts| deprecated(facts, "1.36"));
    }),
    ("for the next minor, no API server was ready", |f| finds(f, |facts| facts.servers.clear())),
    ("for the next minor, an API server does not answer", |f| {
        finds(f, |facts| {
            facts.servers.insert("kube-apiserver-b".into(), Err("get /version: no answer within 5s".into()));
        });
    }),
    ("for the next minor, an API server is not well", |f| {
        finds(f, |facts| server(facts).unwell = Some("get /readyz: [-]etcd failed".into()));
    }),
    ("for the next minor, an API server is another one than was thought", |f| {
        finds(f, |facts| server(facts).version.emulates = "1.34".parse().ok());
    }),
    ("for the next minor, clients use what it does not have", |f| finds(f, |facts| deprecated(facts, "1.36"))),
    ("for the next minor, an APIService is down", |f| {
        let down = [("v1beta1.metrics.k8s.io".into(), "False (MissingEndpoints)".into())];
        finds(f, |facts| facts.services_down = Ok(down.into()));
    }),
    ("for the next minor, APIServices are not told", |f| {
        finds(f, |facts| facts.services_down = Err("get apiservices: no answer within 5s".into()));
    }),
    ("for the next minor, a webhook refuses ClusterRoles", |f| {
        finds(f, |facts| {
            facts.admission = Err("create ClusterRole in a dry run: admission webhook a.io denied it".into());
        });
    }),
    ("for the next minor, kubelets that are newer, and the nodes are not counted now", |f| {
        finds(f, |_| {});
        f.nodes(Some("1.37.0"));
        f.reconcile();
        let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { unreachable!() };
        read.nodes = None;
    }),
    ("for the next minor, etcd has an alarm", |f| {
        let alarm = json!({"type": "Degraded", "status": "True", "reason": "EtcdAlarm", "message": "NOSPACE on etcd-0", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        f.live(Kind::EtcdCluster, names::ETCD)["status"]["conditions"].as_array_mut().unwrap().push(alarm);
        finds(f, |_| {});
    }),
    ("for the next minor, an alpha feature", |f| flag(f, "feature-gates", "Alpha=true")),
    ("for the next minor, a feature that is not there yet", |f| flag(f, "feature-gates", "Newer=true")),
    ("for the next minor, a feature of which nothing is known", |f| {
        flag(f, "feature-gates", "Beta=true");
        finds(f, |facts| server(facts).metrics.features.clear());
    }),
    ("for the next minor, all APIs", |f| flag(f, "runtime-config", "api/all=true")),
    ("for the next minor, an alpha API", |f| flag(f, "runtime-config", "a.io/v1alpha1=true")),
    ("the next minor, before the operator looked into the tenant", |f| {
        f.world.observed.look = Look::NotYet;
        f.version("1.36.3");
    }),
];

pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let old = Fixture::up_for_upgrade(json!({"version": OLD}));
    let cases = CASES.iter().map(|(text, happens)| {
        let mut f = old.copy();
        happens(&mut f);
        f.reconcile();
        (*text, f)
    });
    cases.collect()
}
