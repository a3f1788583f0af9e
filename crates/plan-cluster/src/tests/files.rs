//! What kube-apiserver reads as files of its own, from fields, and what its etcd is told beside.

use super::*;
use berth_api::names;
use berth_pki::{CertSpec, Usage, issue_ca};
use berth_render::Kind;
use jiff::SignedDuration;

fn certificate(f: &Fixture) -> String {
    issue_ca(&CertSpec::new("issuer", Usage::Ca, SignedDuration::from_hours(1)), f.world.now).unwrap().cert_pem
}

fn rate_limit(qps: i32) -> Value {
    let limits = json!([{"type": "Server", "qps": qps, "burst": 100}]);
    let version = "eventratelimit.admission.k8s.io/v1alpha1";
    json!({"configuration": [{"name": "EventRateLimit",
        "configuration": {"apiVersion": version, "kind": "Configuration", "limits": limits}}]})
}

#[test]
fn files_come_with_new_pods_and_go_again() {
    let mut f = Fixture::up(json!({"version": "1.36.2", "apiServer": {"replicas": 2}}));
    let before = f.component(names::APISERVER);
    let old = f.mounted(names::APISERVER);
    let ca = certificate(&f);
    f.cluster.spec.api_server.admission = serde_json::from_value(rate_limit(50)).unwrap();
    f.cluster.spec.api_server.trusted_ca = Some(ca.clone());
    f.rest();
    let pod = f.component(names::APISERVER)["template"]["spec"].clone();
    let args = f.args(names::APISERVER);
    for part in [
        "--admission-control-config-file=/etc/kubernetes/config/admission.yaml",
        "--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs,EventRateLimit",
    ] {
        assert!(args.contains(part), "{part}: {args}");
    }
    let container = &pod["containers"][0];
    let env = container["env"].as_array().unwrap().iter().find(|e| e["name"] == "SSL_CERT_DIR").unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap();
    let folder = mounts.iter().find(|m| m["name"] == "trusted-ca").unwrap()["mountPath"].as_str().unwrap();
    let folders: Vec<_> = env["value"].as_str().unwrap().split(':').collect();
    assert_eq!(folders, ["/etc/ssl/certs", "/etc/pki/tls/certs", folder], "Go's own, and one more");
    let volumes = pod["volumes"].as_array().unwrap();
    let mounted = f.mounted(names::APISERVER);
    let volume = &volumes.iter().find(|v| v["name"] == "trusted-ca").unwrap()["configMap"];
    assert_eq!(
        (volume["name"].as_str(), volume["items"][0]["key"].as_str()),
        (Some(&*mounted), Some("trusted-ca.crt"))
    );
    let data = f.live(Kind::ConfigMap, &mounted)["data"].clone();
    assert_eq!(data["trusted-ca.crt"], ca);
    let file = data["admission.yaml"].as_str().unwrap();
    let plugins = file.lines().find_map(|line| line.strip_prefix("plugins: ")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(plugins).unwrap(), rate_limit(50)["configuration"]);
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    // Another content is another file, in a release of its own.
    f.cluster.spec.api_server.admission = serde_json::from_value(rate_limit(60)).unwrap();
    f.rest();
    assert!(f.mounted(names::APISERVER) != mounted);
    f.cluster.spec.api_server.admission = berth_api::cluster::Admission::default();
    f.cluster.spec.api_server.trusted_ca = None;
    f.rest();
    assert_eq!(f.mounted(names::APISERVER), old);
    assert_eq!(f.component(names::APISERVER)["template"], before["template"]);
}

#[test]
fn etcd_is_told_how_it_is_tuned_and_what_it_would_refuse_is_kept_from_it() {
    let mut f = Fixture::up(json!({"version": "1.36.2"}));
    let told = |f: &mut Fixture| {
        let spec = f.live(Kind::EtcdCluster, names::ETCD)["spec"].clone();
        ["heartbeatInterval", "electionTimeout", "snapshotCount"].map(|field| spec[field].clone())
    };
    assert_eq!(told(&mut f), [Value::Null, Value::Null, Value::Null]);
    f.cluster.spec.etcd.heartbeat_interval = Some("300ms".into());
    f.cluster.spec.etcd.election_timeout = Some("3s".into());
    f.cluster.spec.etcd.snapshot_count = Some(50_000);
    f.reconcile();
    assert_eq!(told(&mut f), [json!("300ms"), json!("3s"), json!(50_000)]);
    let mut f = Fixture::up(json!({"version": "1.36.2"}));
    f.cluster.spec.etcd.heartbeat_interval = Some("1s".into());
    f.reconcile();
    assert_eq!(told(&mut f), [Value::Null, Value::Null, Value::Null]);
    let (status, reason, message) = f.condition("Ready");
    assert_eq!((&*status, &*reason), ("False", "InvalidSpec"));
    let said = "spec.etcd.electionTimeout: 1000ms is less than five times heartbeatInterval (1000ms), which etcd refuses. Raise electionTimeout, or lower heartbeatInterval";
    assert!(message.ends_with(said), "{message}");
}
