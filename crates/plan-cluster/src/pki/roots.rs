//! What cannot be made again, and who trusts or needs it.

use crate::components::ALL;
use crate::subject::Tenant;
use berth_api::{labels, names};
use berth_pki::{CA_LIFETIME, CertSpec, Usage};
use berth_plan::model::{Action, Plan, SecretEntry};
use berth_plan::secrets::SecretSpec;
use berth_render::{Kind, ObjectKey};

/// The Secrets that hold what cannot be made again.
pub(super) fn roots(t: &Tenant<'_>) -> Vec<SecretSpec> {
    let secret = |name: String, type_, entry| SecretSpec {
        key: t.secret(name),
        type_,
        labels: t.labels(),
        entries: vec![entry],
    };
    // The number is the CA's generation: two CAs of one name cannot be distinguished while one replaces the other.
    let ca = |name| SecretEntry::Ca(CertSpec::new(name, Usage::Ca, CA_LIFETIME));
    vec![
        secret(names::ca(t.name), labels::CAPI_SECRET_TYPE, ca("kubernetes-ca-1")),
        secret(names::proxy_ca(t.name), labels::CAPI_SECRET_TYPE, ca("kubernetes-front-proxy-ca-1")),
        secret(names::service_account(t.name), labels::CAPI_SECRET_TYPE, SecretEntry::ServiceAccountKey),
        secret(names::APISERVER_ENCRYPTION.into(), "Opaque", SecretEntry::EncryptionConfig),
    ]
}

/// What trusts or needs the roots. Data that was kept (`dataPolicy: Retain`) needs them, too: without the encryption key it cannot be
/// read. The bootstrap ConfigMap is kept with it, and tells of it.
fn users(t: &Tenant<'_>) -> impl Iterator<Item = ObjectKey> {
    let others = [names::APPROVER_PKI, names::ADMIN_KUBECONFIG];
    let secrets = ALL.iter().map(|c| c.secret).chain(others).map(|s| t.secret(s));
    let workloads = ALL.iter().flat_map(|c| t.workloads(c.binary).keys().to_vec());
    let data = [etcd(t), t.key(Kind::ConfigMap, names::etcd::bootstrap(names::ETCD))];
    secrets.chain(workloads).chain(data)
}

fn etcd(t: &Tenant<'_>) -> ObjectKey {
    t.key(Kind::EtcdCluster, names::ETCD)
}

/// What is there that trusts or needs the roots, if anything.
pub(super) fn roots_in_use(t: &Tenant<'_>) -> Option<String> {
    users(t).find(|k| t.observed.get(k).is_some()).map(|k| k.to_string())
}

/// Holds back the first of what trusts or needs the roots until all of them are there: beside it, one that is not made yet could not be
/// distinguished from one that is lost.
pub(crate) fn roots_first(t: &Tenant<'_>, plan: &mut Plan) {
    if roots(t).iter().all(|root| t.observed.get(&root.key).is_some()) {
        return;
    }
    // What is lost is known to be so by then, and an etcd that was there before may go on without the roots.
    let lost = roots_in_use(t).is_some();
    let held: Vec<_> = users(t).filter(|k| t.observed.get(k).is_none() && !(lost && *k == etcd(t))).collect();
    let makes = |action: &Action| match action {
        Action::Secret(plan) => held.contains(&plan.key),
        Action::Apply(object) | Action::Create(object) => held.contains(object.key()),
        _ => false,
    };
    for stage in &mut plan.stages {
        stage.actions.retain(|a| !makes(a));
    }
}
