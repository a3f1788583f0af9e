//! A tenant sleeps once nobody uses it, and a connection wakes it, through the world of a plan.

use super::*;
use berth_api::hibernation::{Happened, SleepRecord};
use berth_plan::heard::{Call, Heard, Uses};
use berth_plan::settings::Gateway;
use jiff::Timestamp;

impl Fixture {
    /// Awake behind Berth's gateway, used a moment ago; it sleeps after an hour, and a connection wakes it.
    pub(in crate::tests) fn sleeps_by_itself() -> Self {
        let mut f = Self::awake();
        let namespace = Some("berth-gateway".to_owned());
        f.settings.gateway = Some(Gateway { domain: "api.example.com".into(), namespace, ..Gateway::default() });
        f.cluster.spec.endpoint = serde_json::from_value(json!({"type": "Gateway"})).unwrap();
        let asked = json!({"afterIdle": "1h", "wake": {"onConnect": true}});
        f.cluster.spec.hibernation = serde_json::from_value(asked).unwrap();
        f.rest();
        f.comes_up();
        // Kubeconfigs follow once every API server has the name.
        f.world.now += SignedDuration::from_secs(200);
        f.rest();
        f.is_used(f.world.now, false);
        f.world.log.clear();
        f
    }

    /// Gateways say that somebody was connected then, the last time, or is.
    pub(in crate::tests) fn is_used(&mut self, last: Timestamp, now: bool) {
        let since = last - SignedDuration::from_hours(24);
        self.world.observed.heard = Heard { uses: Uses::Known { since, last: Some(last), now }, call: None };
        self.reconcile();
    }

    /// Somebody calls it now.
    pub(in crate::tests) fn is_called(&mut self, turn: bool) {
        self.world.observed.heard.call = Some(Call { at: self.world.now, turn });
        self.reconcile();
    }

    /// The operator is another one, which has heard nothing.
    fn hears_nothing(&mut self) {
        self.world.observed.heard = Heard::default();
        self.reconcile();
    }

    pub(in crate::tests) fn pass(&mut self, minutes: i64) {
        self.world.now += SignedDuration::from_mins(minutes);
        self.reconcile();
    }

    /// Nobody used it for an hour.
    pub(in crate::tests) fn idle_and_asleep() -> Self {
        let mut f = Self::sleeps_by_itself();
        f.pass(60);
        assert_eq!(f.sleep_state(), SleepState::FallingAsleep, "{:?}", f.condition("Ready"));
        f.all_end();
        f.etcd_sleeps();
        assert_eq!(f.sleep_state(), SleepState::Asleep);
        f
    }

    fn sleep_record(&self) -> SleepRecord {
        let live = self.world.observed.get(&Self::namespace()).unwrap();
        SleepRecord::parse(live["metadata"]["annotations"][labels::SLEEP].as_str().unwrap()).unwrap()
    }

    fn told_to_gateways(&self) -> Value {
        let service = self.world.observed.get(&Self::key(Kind::Service, names::APISERVER)).unwrap();
        let text = service["metadata"]["annotations"]["berth.dev/gateway"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()["hibernation"].clone()
    }

    /// It stays awake, and says so.
    fn stays_awake(&mut self, why: &str) {
        self.pass(600);
        assert_eq!(self.sleep_state(), SleepState::Awake);
        let (ready, reason, message) = self.condition("Ready");
        assert_eq!((&*ready, &*reason), ("True", "StaysAwake"), "{message}");
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn one_that_nobody_uses_sleeps_and_a_connection_wakes_it() {
    let mut f = Fixture::sleeps_by_itself();
    assert_eq!(f.told_to_gateways(), json!({"wakes": true}));
    let due = f.reconcile().due.unwrap();
    assert!(due <= SignedDuration::from_hours(1), "{due}");
    f.pass(59);
    assert_eq!(f.sleep_state(), SleepState::Awake);
    f.is_used(f.world.now, true);
    f.pass(59);
    assert_eq!(f.sleep_state(), SleepState::Awake, "somebody is connected");
    let mut f = Fixture::idle_and_asleep();
    assert!(f.condition("Ready").2.contains("(spec.hibernation.afterIdle)"), "{:?}", f.condition("Ready"));
    f.world.log.clear();
    f.hears_nothing();
    f.pass(600);
    assert_eq!((f.sleep_state(), f.world.log.len()), (SleepState::Asleep, 0), "another operator wakes nobody");
    f.is_called(false);
    assert_eq!(f.sleep_state(), SleepState::Asleep);
    assert!(f.condition("Ready").2.contains("it wakes in its turn"), "{:?}", f.condition("Ready"));
    f.is_called(true);
    assert_eq!((f.sleep_state(), f.etcd_is_told()), (SleepState::Waking, false));
    f.hears_nothing();
    f.comes_up();
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::Awake, vec![1, 1, 1]), "an operator that ended goes on");
    assert_eq!(f.sleep_record().by_itself.by.unwrap().what, Happened::Connection);
}

impl Fixture {
    /// Somebody was given a right in it. `woke`: the wake after which all that had ended was gone.
    fn has_rights(&mut self, woke: Option<Timestamp>) {
        let given = json!({"kind": "ClusterRoleBinding", "name": "berth:access:1", "uid": "1"});
        let record = json!({"epoch": 1, "objects": [given], "woke": woke});
        let key = Self::key(Kind::ConfigMap, names::USERS_RECORD);
        let object = json!({"metadata": {"name": key.name, "namespace": key.namespace, "uid": "record"}, "data": {"record": record.to_string()}});
        self.world.observed.put(key, object);
        self.reconcile();
    }
}

#[test]
fn one_that_wakes_takes_nobody_in_before_rights_that_ended_are_gone() {
    let closed = json!({"wakes": true, "closed": true});
    let mut f = Fixture::sleeps_by_itself();
    f.has_rights(None);
    assert_eq!(f.told_to_gateways(), json!({"wakes": true}), "it is awake");
    let mut f = Fixture::idle_and_asleep();
    assert_eq!(f.told_to_gateways(), json!({"wakes": true}), "nobody has any");
    f.has_rights(None);
    assert_eq!(f.told_to_gateways(), closed);
    f.is_called(true);
    f.comes_up();
    assert_eq!((f.sleep_state(), f.told_to_gateways()), (SleepState::Waking, closed.clone()));
    f.has_rights(Some(f.sleep_record().since.0 - SignedDuration::from_hours(1)));
    assert_eq!(
        (f.sleep_state(), f.told_to_gateways()),
        (SleepState::Waking, closed.clone()),
        "that was an earlier wake"
    );
    f.has_rights(Some(f.sleep_record().since.0));
    f.reconcile();
    assert_eq!((f.sleep_state(), f.told_to_gateways()), (SleepState::Awake, json!({"wakes": true})));
    // What cannot be taken back holds it up for a while, and no longer.
    let mut f = Fixture::idle_and_asleep();
    f.has_rights(None);
    f.is_called(true);
    f.comes_up();
    f.pass(11);
    f.reconcile();
    assert_eq!((f.sleep_state(), f.told_to_gateways()), (SleepState::Awake, json!({"wakes": true})));
}

#[test]
fn woken_in_vain_it_sleeps_again_and_is_deaf_for_a_while() {
    let mut f = Fixture::idle_and_asleep();
    f.is_called(true);
    f.comes_up();
    f.world.observed.heard.call = None;
    f.pass(9);
    assert_eq!(f.sleep_state(), SleepState::Awake);
    f.pass(2);
    assert_eq!(f.sleep_state(), SleepState::FallingAsleep, "{:?}", f.sleep_record());
    f.all_end();
    f.etcd_sleeps();
    f.is_called(true);
    assert_eq!(f.sleep_state(), SleepState::Asleep);
    assert!(f.condition("Ready").2.contains("no connection wakes it before"), "{:?}", f.condition("Ready"));
    f.world.now += SignedDuration::from_mins(5);
    f.is_called(true);
    assert_eq!(f.sleep_state(), SleepState::Waking);
    assert_eq!((f.sleep_record().by_itself.unused, f.sleep_record().by_itself.woken.len()), (1, 2));
    f.comes_up();
    f.is_used(f.world.now + SignedDuration::from_secs(1), false);
    f.pass(30);
    assert_eq!(f.sleep_state(), SleepState::Awake, "it was used");
    f.pass(31);
    assert_eq!((f.sleep_state(), f.sleep_record().by_itself.unused), (SleepState::FallingAsleep, 0));
}

#[test]
fn a_connection_wakes_what_a_person_put_to_sleep_but_not_what_the_spec_does() {
    let mut f = Fixture::sleeps_by_itself();
    f.requests("sleep");
    f.all_end();
    f.etcd_sleeps();
    f.world.now += SignedDuration::from_secs(1);
    f.is_called(true);
    assert_eq!(f.sleep_state(), SleepState::Waking);
    f.comes_up();
    assert_eq!(f.sleep_state(), SleepState::Awake);
    let mut f = Fixture::idle_and_asleep();
    f.wants_sleep(true);
    f.world.now += SignedDuration::from_secs(1);
    f.is_called(true);
    assert_eq!((f.sleep_state(), f.told_to_gateways()), (SleepState::Asleep, json!({"wakes": false})));
}

#[test]
fn without_the_fields_nothing_is_told_and_nothing_happens() {
    let mut f = Fixture::idle_and_asleep();
    f.cluster.spec.hibernation = serde_json::from_value(json!({})).unwrap();
    f.reconcile();
    assert_eq!((f.sleep_state(), f.told_to_gateways()), (SleepState::Waking, Value::Null));
    f.comes_up();
    f.pass(600);
    assert_eq!(f.sleep_state(), SleepState::Awake);
    assert_eq!(f.condition("Ready").1, "AsExpected");
}

#[test]
fn where_it_cannot_be_it_stays_awake_and_says_the_way_out() {
    let changed = |change: fn(&mut Fixture)| {
        let mut f = Fixture::sleeps_by_itself();
        change(&mut f);
        f.rest();
        f.comes_up();
        f
    };
    changed(|f| f.cluster.spec.endpoint = serde_json::from_value(json!({"type": "ClusterIP"})).unwrap())
        .stays_awake("spec.endpoint.type is ClusterIP. Set that to Gateway, or remove the field");
    changed(|f| f.settings.gateway.as_mut().unwrap().namespace = None).stays_awake("the platform has none that does");
    // Of one with nodes more is to be said: their pods do not reach the API by its name.
    let mut f = Fixture::sleeps_by_itself();
    f.has_nodes(1, 1);
    f.pass(600);
    assert_eq!(f.sleep_state(), SleepState::Awake);
    assert!(
        f.condition("Ready").2.contains("it stays awake, since it has 1 node, whose"),
        "{:?}",
        f.condition("Ready")
    );
    let mut f = changed(|f| {
        f.cluster.spec.hibernation.after_idle = None;
        f.cluster.spec.hibernation.wake.from = Some(vec!["192.0.2.7/32".into(), "203.0.113.0/24".into()]);
        f.cluster.spec.endpoint.gateway.source_ranges = Some(vec!["192.0.2.0/24".into()]);
    });
    f.stays_awake("spec.hibernation.wake.from: nobody may come from 203.0.113.0/24");
    assert_eq!(f.told_to_gateways(), json!({"wakes": true, "from": ["192.0.2.7/32", "203.0.113.0/24"]}));
    let mut f = Fixture::sleeps_by_itself();
    f.world.observed.heard.uses = Uses::Unknown("pod g of berth-gateway does not tell who uses the tenant".into());
    f.stays_awake("it stays awake, since pod g of berth-gateway does not tell");
}
