//! Names of a team's own at the platform's gateway: who has one already. Each is found by a label of its tenant's Service, so that nobody has to
//! read all Services for one.

use crate::digest::sha256;
use crate::object_meta::{annotation, uid};
use berth_api::gateway::{ANNOTATION, ClusterName, Exposed, comparable};
use berth_api::names;
use jiff::Timestamp;
use serde_json::Value;

/// Label of a Service with [`value`] of its tenant's `spec.endpoint.host`.
pub const LABEL: &str = "berth.dev/gateway-host";

/// Label of a Service whose tenant has given that name up, and is still reached by it.
pub fn still(host: &str) -> String {
    format!("{LABEL}-{}", value(host))
}

/// A name, as labels may have it.
pub fn value(host: &str) -> String {
    sha256(comparable(host).as_bytes()).chars().take(32).collect()
}

/// Each selects Services whose tenants may have that name: those that ask for it, and those that have given it up.
pub fn selectors(host: &str) -> [String; 2] {
    [format!("{LABEL}={}", value(host)), still(host)]
}

/// Who has that name, if that is another than `own`. `services`: what [`selectors`] find. As for the gateway, only Services of control planes count,
/// and of these the oldest.
pub fn other(services: &[Value], host: &str, own: &ClusterName) -> Option<ClusterName> {
    let all = services.iter().filter_map(|service| has(service, &comparable(host)));
    let (_, first) = all.min_by(|(a, _), (b, _)| a.cmp(b))?;
    (first != *own).then_some(first)
}

/// Since when, and whose it is.
fn has(service: &Value, host: &str) -> Option<((Option<Timestamp>, String), ClusterName)> {
    let exposed: Exposed = serde_json::from_str(annotation(service, ANNOTATION)?).ok()?;
    let of = &exposed.cluster;
    let at = |path: &str| service.pointer(path).and_then(Value::as_str);
    let is_its = at("/metadata/name") == Some(names::APISERVER)
        && at("/metadata/namespace") == Some(&*names::control_plane_namespace(&of.namespace, &of.name));
    let created = at("/metadata/creationTimestamp").and_then(|time| time.parse().ok());
    let has = is_its && exposed.names.iter().any(|name| comparable(name) == host);
    has.then(|| ((created, uid(service).to_owned()), exposed.cluster))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HOST: &str = "api.acme.example";

    fn cluster(name: &str) -> ClusterName {
        ClusterName { namespace: "team-a".into(), name: name.into() }
    }

    fn service(name: &str, second: u32, names: &[&str]) -> Value {
        let home = names::control_plane_namespace("team-a", name);
        let exposed = json!({"cluster": cluster(name), "names": names}).to_string();
        json!({"metadata": {"name": names::APISERVER, "namespace": home, "uid": name,
            "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"), "annotations": {ANNOTATION: exposed}}})
    }

    #[test]
    fn the_oldest_that_has_it_is_the_one() {
        let all = [service("b", 2, &[HOST]), service("a", 1, &["x.example", "API.acme.example."])];
        assert_eq!(other(&all, HOST, &cluster("b")), Some(cluster("a")));
        assert_eq!(other(&all, "Api.Acme.Example.", &cluster("a")), None);
        assert_eq!(other(&all, HOST, &cluster("c")), Some(cluster("a")), "who has not got it yet comes last");
        assert_eq!(other(&all[..1], HOST, &cluster("b")), None);
        assert_eq!(other(&[service("a", 1, &["x.example"])], HOST, &cluster("b")), None, "it has given it up");
        let equal = [service("b", 1, &[HOST]), service("a", 1, &[HOST])];
        assert_eq!(other(&equal, HOST, &cluster("b")), Some(cluster("a")), "by their UIDs");
    }

    #[test]
    fn what_is_no_control_planes_does_not_count() {
        for (field, value) in [("namespace", "evil"), ("name", "other")] {
            let mut stolen = service("a", 1, &[HOST]);
            stolen["metadata"][field] = value.into();
            assert_eq!(other(&[stolen], HOST, &cluster("b")), None, "{field}");
        }
        let mut unread = service("a", 1, &[HOST]);
        unread["metadata"]["annotations"][ANNOTATION] = "yes".into();
        assert_eq!(other(&[unread], HOST, &cluster("b")), None);
    }

    #[test]
    fn a_label_may_have_it() {
        let long = format!("{0}.{0}.{0}.example", "a".repeat(63));
        assert_eq!(value(&long).len(), 32);
        assert_eq!(value("API.acme.example."), value(HOST));
        let [asks, still_has] = selectors(HOST);
        assert_eq!(asks, format!("berth.dev/gateway-host={}", value(HOST)));
        assert_eq!((still_has, still(HOST).len()), (still("API.acme.example."), "berth.dev/".len() + 45));
    }
}
