//! A tenant that sleeps once nobody uses it, and that a connection wakes.

use crate::tests::Fixture;
use berth_plan::heard::Uses;
use berth_plan::settings::Engine;
use jiff::SignedDuration;
use serde_json::json;

/// With the status as it is then.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let awake = |text, change: fn(&mut Fixture)| {
        let mut f = Fixture::sleeps_by_itself();
        change(&mut f);
        f.rest();
        f.comes_up();
        f.world.now += SignedDuration::from_secs(200);
        f.rest();
        (text, f)
    };
    let asleep = |text, change: fn(&mut Fixture)| {
        let mut f = Fixture::idle_and_asleep();
        change(&mut f);
        f.reconcile();
        (text, f)
    };
    let mut in_vain = Fixture::idle_and_asleep();
    in_vain.is_called(true);
    in_vain.comes_up();
    in_vain.world.observed.heard.call = None;
    in_vain.pass(11);
    in_vain.all_end();
    in_vain.etcd_sleeps();
    in_vain.is_called(true);
    let mut often = in_vain.copy();
    often.settings.hibernation.per_tenant_per_hour = 1;
    often.pass(6);
    often.is_called(true);
    vec![
        asleep("it sleeps, since nobody used it", |_| ()),
        asleep("somebody calls it while it sleeps, and as many tenants wake as may at once", |f| f.is_called(false)),
        ("connections woke it as often as they may within an hour", often),
        ("a connection woke it, nobody used it, and another one comes", in_vain),
        awake("it is to sleep once nobody uses it, and has another endpoint", |f| {
            f.cluster.spec.endpoint = serde_json::from_value(json!({"type": "ClusterIP"})).unwrap();
        }),
        awake("a connection is to wake it, and it has another endpoint", |f| {
            f.cluster.spec.hibernation.after_idle = None;
            f.cluster.spec.endpoint = serde_json::from_value(json!({"type": "ClusterIP"})).unwrap();
        }),
        awake("it is to sleep once nobody uses it, and the gateway tells nobody", |f| {
            f.settings.gateway.as_mut().unwrap().namespace = None;
        }),
        awake("it is to sleep once nobody uses it, and clients may come through other Gateways", |f| {
            f.settings.gateway.as_mut().unwrap().engines.push(Engine::GatewayAPI);
        }),
        awake("it is to sleep once nobody uses it, and has nodes", |f| f.has_nodes(3, 3)),
        awake("it is to sleep once nobody uses it, and is to have nodes with the add-on apiProxy", |f| {
            f.cluster.spec.addons = serde_json::from_value(json!({"apiProxy": {"enabled": true}})).unwrap();
        }),
        awake("a connection is to wake it from where nobody may come", |f| {
            f.cluster.spec.hibernation.wake.from = Some(vec!["203.0.113.0/24".into()]);
            f.cluster.spec.endpoint.gateway.source_ranges = Some(vec!["192.0.2.0/24".into()]);
        }),
        awake("it is to sleep once nobody uses it, and a gateway does not tell who does", |f| {
            let why = "pod berth-gateway-7d4b9c-x2x of berth-gateway does not tell who uses the tenant: the operator's log says why";
            f.world.observed.heard.uses = Uses::Unknown(why.into());
        }),
    ]
}
