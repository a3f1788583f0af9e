//! Situations of a tenant whose own webhooks are in the way.

use super::*;
use crate::tests::admission::webhook;
use berth_plan::admission::Write;

fn target() -> Value {
    json!({"service": {"namespace": "policy", "name": "engine"}})
}

pub(super) const ADMISSION: &[Case] = &[
    ("a webhook of the tenant's hangs on leases, and no controller works", |f| {
        f.electors(3600);
        f.lose(names::CONTROLLER_MANAGER);
        f.hangs(&[Write::Lease], vec![webhook("slow", &json!({"url": "https://192.0.2.1/x"}))]);
    }),
    ("webhooks of the tenant's hang on pods, nobody serves one of them, and kube-scheduler's pod is not ready", |f| {
        f.live(Kind::Deployment, names::SCHEDULER)["status"]["availableReplicas"] = json!(0);
        f.hangs(&[Write::Pod], ["slow", "policy-a"].map(|name| webhook(name, &target())).into());
    }),
    ("a webhook of the tenant's hangs on what Berth writes", |f| {
        let served = json!({"service": {"namespace": "policy", "name": "other"}});
        f.hangs(&[Write::Own], ["slow", "policy-a", "policy-b"].map(|name| webhook(name, &served)).into());
    }),
    ("a webhook of the tenant's hangs on what Berth writes, amid a release", |f| {
        f.flag("v");
        f.reconcile();
        f.hangs(&[Write::Own], vec![webhook("slow", &target())]);
    }),
    ("a webhook of the tenant's hangs on what Berth writes, and a release is to go on all the same", |f| {
        f.flag("v");
        f.reconcile();
        f.cluster.metadata.annotations = Some([(labels::DESPITE_WEBHOOK.to_owned(), "2".to_owned())].into());
        f.hangs(&[Write::Own], vec![webhook("slow", &target())]);
    }),
    ("a webhook of the tenant's with a name that is none hangs on leases", |f| {
        f.hangs(&[Write::Lease], vec![webhook("x;id", &target())]);
    }),
];

/// A call in the tenant has no answer.
pub(super) fn failed(f: &mut Fixture) {
    f.hangs(&[Write::Own], vec![webhook("slow", &target())]);
    f.fails(Reason::Error, "apply ConfigMap kube-system/berth-endpoint: no answer within 5s", true);
}
