//! Who decides client certificates of machines that join.

use super::configuration::of_templates;
use super::*;
use berth_api::labels;
use berth_plan::object_meta::annotation;
use berth_render::{Listing, TenantSet};

pub(super) const BINDING: &str = "kubeadm:node-autoapprove-bootstrap";
const RENEWALS: &str = "kubeadm:node-autoapprove-certificate-rotation";
const ARGUMENT: &str = "--client-certificates";
const BINDINGS: Listing = Listing { kind: Kind::ClusterRoleBinding, namespace: None };

impl Fixture {
    fn binds(&self, name: &str) -> bool {
        self.world.inside.contains_key(&ObjectKey::cluster(Kind::ClusterRoleBinding, name))
    }

    /// Whether a plan writes or deletes the binding if somebody has deleted the Deployment.
    fn speaks_of_it_without_a_deployment(&self) -> bool {
        let mut f = self.copy();
        f.world.remove(&Self::key(Kind::Deployment, names::CONTROLLER_MANAGER));
        f.plan().plan.actions().any(|action| action.describe().contains(BINDING))
    }

    /// A pod of kube-controller-manager from an older template.
    fn older_pod(&mut self) -> ObjectKey {
        let key = Self::key(Kind::Pod, "kube-controller-manager-older");
        let labels = json!({(labels::COMPONENT): names::CONTROLLER_MANAGER});
        self.world.put(key.clone(), json!({"metadata": {"name": key.name, "labels": labels}}));
        key
    }

    pub(super) fn inside(&mut self) -> &mut InsideTenant {
        let ApiProbe::Answered { read, .. } = &mut self.world.observed.api else { panic!("it is up") };
        read
    }
}

/// Of a tenant with the templates of a build before berth-approve decided these.
fn older() -> Fixture {
    of_templates(|data| {
        let text = data.get_mut("controller-manager__deployment.yaml.j2").unwrap();
        assert!(text.contains(ARGUMENT) && text.contains(labels::CLIENT_CERTIFICATES));
        let argument = format!("            - {ARGUMENT}\n");
        *text = text.replace(&argument, "").replace(labels::CLIENT_CERTIFICATES, "example.com/older");
    })
}

#[test]
fn a_new_tenants_controller_manager_approves_no_machine_that_joins() {
    for version in ["1.34.4", "1.35.4", "1.36.3"] {
        let f = Fixture::up(json!({"version": version}));
        assert!(!f.binds(BINDING) && f.binds(RENEWALS), "{version}");
        let live = f.world.observed.get(&Fixture::key(Kind::Deployment, names::CONTROLLER_MANAGER)).unwrap();
        let pod = &live["spec"]["template"];
        let containers = pod["spec"]["containers"].as_array().unwrap();
        let approver = containers.iter().find(|container| container["name"] == names::APPROVER).unwrap();
        assert!(!f.speaks_of_it_without_a_deployment());
        let decides = approver["args"].as_array().unwrap().contains(&ARGUMENT.into());
        assert!(decides && annotation(pod, labels::CLIENT_CERTIFICATES).is_some(), "both or neither: {version}");
    }
}

#[test]
fn what_runs_keeps_its_approver_until_one_that_decides_runs_everywhere() {
    let mut f = older();
    assert!(f.binds(BINDING) && f.binds(RENEWALS) && !f.speaks_of_it_without_a_deployment());
    let old = f.older_pod();
    f.rest();
    assert!(f.world.log.is_empty(), "a new operator changes nothing: {:#?}", f.world.log);

    f.version("1.36.3");
    f.rest();
    f.seconds(61);
    f.rest();
    let live = f.world.observed.get(&Fixture::key(Kind::Deployment, names::CONTROLLER_MANAGER)).unwrap();
    assert!(annotation(&live["spec"]["template"], labels::CLIENT_CERTIFICATES).is_some(), "it is rolled out");
    assert!(f.binds(BINDING), "a pod that approves by it runs");

    f.world.remove(&old);
    f.rest();
    let deleted = format!("delete ClusterRoleBinding {BINDING} in the tenant");
    assert!(!f.binds(BINDING) && f.binds(RENEWALS) && f.world.log.contains(&deleted), "{:#?}", f.world.log);

    // As on the way back to the release before, or by hand.
    f.older_pod();
    f.reconcile();
    assert!(f.binds(BINDING));
}

#[test]
fn after_a_rollout_it_is_looked_for_at_once_and_later_in_turn() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let asked = |f: &Fixture, minute: i64| {
        let now = f.world.now + jiff::SignedDuration::from_mins(minute);
        asked_inside(Input { now, ..f.input() })
    };
    let minutes = |f: &Fixture| (0..32).filter(|minute| asked(f, *minute).contains(&BINDINGS)).count();
    assert_eq!(minutes(&f), 1);
    let pod = f.older_pod();
    assert_eq!(minutes(&f), 32);
    assert!((0..32).all(|minute| asked(&f, minute).iter().filter(|listing| **listing == BINDINGS).count() == 1));
    f.world.remove(&pod);
    f.older_pod();
    f.later(40);
    assert_eq!(minutes(&f), 1);
}

#[test]
fn a_binding_that_is_left_is_drift_and_a_persons_is_theirs() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let inside = f.world.inside.values().filter(|object| BINDINGS.holds(object.key()));
    let inside: Vec<_> = inside.map(|object| (object.key().clone(), object.value().clone())).collect();
    let wanted = wanted_inside(f.input());
    assert!(wanted.is_in_sync(BINDINGS, &InsideTenant::listed(BINDINGS, inside.clone())));
    let key = ObjectKey::cluster(Kind::ClusterRoleBinding, BINDING);
    for (labels, is_ours) in [
        (json!({(labels::TENANT_SET): "join"}), true),
        (json!({}), false),
        (json!({(labels::TENANT_SET): "another"}), false),
    ] {
        let left = json!({"metadata": {"name": BINDING, "uid": "u", "labels": labels}});
        let read = InsideTenant::listed(BINDINGS, inside.iter().cloned().chain([(key.clone(), left.clone())]));
        assert_eq!(wanted.is_in_sync(BINDINGS, &read), !is_ours, "{left}");
        f.inside().insert(key.clone(), Some(left.clone()));
        f.world.log.clear();
        f.reconcile();
        assert_eq!(!f.world.log.is_empty(), is_ours, "{left}: {:#?}", f.world.log);
    }
    let mut ends = json!({"metadata": {"name": BINDING, "uid": "u", "labels": {(labels::TENANT_SET): "join"}}});
    ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    f.inside().insert(key, Some(ends));
    let planned = f.plan();
    assert_eq!(planned.plan.actions().count(), 0);
    let stage = planned.plan.stage(StageId::Tenant).unwrap();
    assert!(matches!(&stage.state, State::Waiting { on, .. } if on.contains(BINDING)), "{:?}", stage.state);
    assert!(TenantSet::LISTINGS.contains(&BINDINGS));
}
