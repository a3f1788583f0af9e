//! Who calls a tenant by the platform's login: where the way leads, and why there is none.

use super::*;
use crate::{Door, behind_door, door};
use berth_api::access::{Reason, Refused};
use berth_plan::settings::Gateway;

const GATEWAY: Option<&str> = Some("gateway.svc:6443");

fn refused(f: &Fixture) -> (Reason, String) {
    let Refused { reason, message } = door(&f.cluster, &f.world.observed, GATEWAY).unwrap_err();
    (reason, message)
}

/// All that a reconcile sees is more than is read for a call.
fn seen(f: &Fixture) -> Door {
    let mut read = berth_plan::observed::Observed::default();
    for key in behind_door(&f.cluster) {
        read.put(key.clone(), f.world.observed.get(&key).unwrap_or_else(|| panic!("{key}")).clone());
    }
    let door = door(&f.cluster, &read, GATEWAY).unwrap();
    assert!(read.get(&door.ca).is_some() && read.get(&door.signer).is_some());
    door
}

#[test]
fn a_tenant_is_reached_at_its_service_and_through_the_gateway_if_it_is_behind_that() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let inside = seen(&f);
    assert_eq!(inside.address, format!("{}:6443", f.cluster_ip()));
    assert_eq!(inside.server_name, "kube-apiserver.acme-9201d5e7.svc");
    assert!(endpoint::has_san(&f, &inside.server_name), "its certificate has that name");
    f.settings.gateway =
        Some(Gateway { domain: "api.example.com".into(), port: 443, named_port: 444, ..Gateway::default() });
    f.cluster.spec.endpoint = serde_json::from_value(json!({"type": "Gateway"})).unwrap();
    assert_eq!(seen(&f), inside, "until the gateway knows it");
    f.rest();
    let behind = seen(&f);
    assert_eq!((&*behind.address, &*behind.server_name), ("gateway.svc:6443", "acme-9201d5e7.api.example.com"));
    let without = door(&f.cluster, &f.world.observed, None).unwrap();
    assert_eq!(without, inside, "access knows no gateway");
}

#[test]
fn each_api_server_has_an_address_in_a_vpc_and_all_have_to_believe() {
    let f = Fixture::up(json!({"version": "1.36.3"}));
    let mut cluster = f.cluster.clone();
    cluster.spec.vpc = Some(
        serde_json::from_value(json!({"attachment": {"name": "a"}, "addresses": ["10.1.0.5/24", "10.1.0.6/24"]}))
            .unwrap(),
    );
    let keys: Vec<_> = behind_door(&cluster).iter().map(ToString::to_string).collect();
    assert_eq!(keys.iter().filter(|key| key.contains("StatefulSet")).count(), 2, "{keys:?}");
}

#[test]
fn why_there_is_no_way_in() {
    let new = Fixture::new(json!({"version": "1.36.3"}));
    let (reason, message) = refused(&new);
    assert_eq!(
        (reason, &*message),
        (
            Reason::NotReady,
            "the tenant acme has no control plane yet: kubectl -n team-a describe cluster acme says what it waits for"
        )
    );

    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let key = Fixture::key(Kind::Deployment, names::APISERVER);
    let change = |f: &mut Fixture, from: &str, to: &str| {
        let text = f.world.observed.get(&key).unwrap().to_string();
        assert!(text.contains(from));
        f.world.observed.put(key.clone(), serde_json::from_str(&text.replace(from, to)).unwrap());
    };
    change(&mut f, "front-proxy-client,berth-access", "front-proxy-client,berth-accessory");
    let (reason, message) = refused(&f);
    assert_eq!(reason, Reason::NotInTemplates);
    assert!(
        message.ends_with("set spec.upgrade.templates of the Cluster team-a/acme to Newest, or take its next version"),
        "{message}"
    );

    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let namespace = ObjectKey::cluster(Kind::Namespace, "acme-9201d5e7");
    let text = f.world.observed.get(&namespace).unwrap().to_string();
    f.world.observed.put(namespace, serde_json::from_str(&text.replace("\"team-a\"", "\"team-b\"")).unwrap());
    assert_eq!(refused(&f).0, Reason::NotReady, "somebody else's namespace");
}
