use super::*;
use berth_api::labels;
use berth_render::Catalog;
use berth_testkit::simulated::before;

/// Members that an operator made whose templates did not read the quota yet, and a quota.
pub(super) fn unread(e: &mut Etcd) {
    let set = before(Catalog::builtin().etcd("3.6".parse().unwrap()).unwrap(), "cluster", "quota_bytes = 2147483648");
    e.cr.status.as_mut().unwrap().templates.as_mut().unwrap().digest = set.digest();
    let key = super::super::pinned_templates(&e.cr, &e.world.observed).unwrap();
    e.world.put(key, json!({"immutable": true, "metadata": {"name": "x", "labels": {(labels::ETCD_CLUSTER): NAME}}}));
    e.world.observed.pinned = Some(set);
    e.reconcile();
    e.members_run();
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
    e.world.log.clear();
    e.cr.spec.quota_backend_bytes = Some(4 << 30);
}

#[test]
fn a_field_that_the_pinned_templates_do_not_read_is_named_by_ready() {
    let mut e = Etcd::formed(1);
    unread(&mut e);
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::NotInTemplates));
    assert_eq!(e.condition(ConditionType::Degraded), is("True", Reason::NotInTemplates));
    assert_eq!(e.condition(ConditionType::Available).0, "True");
    assert_eq!(
        e.message(ConditionType::Ready),
        "spec.quotaBackendBytes is not applied: the pinned templates do not use it. Set spec.version to a newer patch version, which brings newer templates, or remove the field"
    );
}
