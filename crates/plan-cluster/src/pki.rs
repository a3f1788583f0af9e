//! Stage 3: keys and certificates.

use super::ours::is_ours;
use super::subject::Tenant;
use super::{ClusterPlan, components};
use berth_api::{labels, names};
use berth_pki::{CertInfo, CertSpec, Lifetime, Usage};
use berth_plan::model::{Action, Plan, Stage, StageId, State};
use berth_plan::secrets::{Content, Renewal, SecretSpec, judge};
use berth_render::{Kind, ObjectKey};
use std::net::IpAddr;

/// Names of a certificate that is there of which the next one takes over: what a load balancer that changes its mind every minute
/// cannot exceed.
const FORMER_NAMES: usize = 100;

/// User of the certificate by which the API server calls kubelets; bound to `system:kubelet-api-admin` in the tenant.
pub(super) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A client's certificate.
pub(super) fn client(user: &str, groups: &[&str], lifetime: Lifetime) -> CertSpec {
    CertSpec {
        common_name: user.into(),
        organizations: groups.iter().map(|g| (*g).to_owned()).collect(),
        dns_names: vec![],
        ip_addresses: vec![],
        usage: Usage::Client,
        lifetime,
    }
}

fn ca(name: &str, lifetime: Lifetime) -> CertSpec {
    CertSpec { usage: Usage::Ca, ..client(name, &[], lifetime) }
}

fn serving(name: &str, cp_namespace: &str, lifetime: Lifetime) -> CertSpec {
    let dns_names =
        vec![name.into(), format!("{name}.{cp_namespace}"), format!("{name}.{cp_namespace}.svc"), "localhost".into()];
    CertSpec { usage: Usage::Server, dns_names, ..client(name, &[], lifetime) }
}

/// The Secrets that hold what cannot be made again.
pub(super) fn roots(t: &Tenant<'_>) -> Vec<SecretSpec> {
    let life = t.settings.ca_lifetime;
    let secret = |name: String, type_, content| SecretSpec {
        key: t.secret(name),
        type_,
        labels: t.labels(),
        contents: vec![content],
    };
    let generation = "-1";
    vec![
        secret(
            names::ca(t.name),
            labels::CAPI_SECRET_TYPE,
            Content::Ca(ca(&format!("kubernetes-ca{generation}"), life)),
        ),
        secret(
            names::proxy_ca(t.name),
            labels::CAPI_SECRET_TYPE,
            Content::Ca(ca(&format!("kubernetes-front-proxy-ca{generation}"), life)),
        ),
        secret(names::service_account(t.name), labels::CAPI_SECRET_TYPE, Content::ServiceAccountKey),
        secret(names::APISERVER_ENCRYPTION.into(), "Opaque", Content::EncryptionConfig),
    ]
}

/// What trusts or needs the roots. Data that was kept (`dataPolicy: Retain`) needs them, too: without the encryption key it cannot be
/// read. The bootstrap ConfigMap is kept with it, and tells of it.
fn users(t: &Tenant<'_>) -> impl Iterator<Item = ObjectKey> {
    let others = [names::APPROVER_PKI, names::ADMIN_KUBECONFIG];
    let secrets = components::ALL.iter().map(|c| c.secret).chain(others).map(|s| t.secret(s));
    let workloads = components::ALL.iter().flat_map(|c| t.workloads(c.binary).keys().to_vec());
    let data = [etcd(t), t.key(Kind::ConfigMap, names::etcd::bootstrap(names::ETCD))];
    secrets.chain(workloads).chain(data)
}

fn etcd(t: &Tenant<'_>) -> ObjectKey {
    t.key(Kind::EtcdCluster, names::ETCD)
}

/// What is there that trusts or needs the roots, if anything.
fn roots_in_use(t: &Tenant<'_>) -> Option<String> {
    users(t).find(|k| t.observed.get(k).is_some()).map(|k| k.to_string())
}

/// Holds back the first of what trusts or needs the roots until all of them are there: beside it, one that is not made yet could not be
/// distinguished from one that is lost.
pub(super) fn roots_first(t: &Tenant<'_>, plan: &mut Plan) {
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

/// The certificates of every component. None while the names of one are not known.
fn leaves(t: &Tenant<'_>) -> Option<Vec<SecretSpec>> {
    let secret =
        |name: &str, contents| SecretSpec { key: t.secret(name), type_: "Opaque", labels: t.labels(), contents };
    let of = |c: &&components::Component| Some(secret(c.secret, (c.certificates)(t)?));
    let approver = secret(names::APPROVER_PKI, vec![approver(t)]);
    components::ALL.iter().map(of).chain([Some(approver)]).collect()
}

/// Certificate of what approves kubelets' serving certificates. It is not in the controller-manager's Secret: that one's other certificates
/// are not for it.
fn approver(t: &Tenant<'_>) -> Content {
    let spec = client(names::APPROVER_USER, &[], t.settings.leaf_lifetime);
    Content::Leaf("client".into(), spec, t.secret(names::ca(t.name)))
}

/// Certificates of a component that talks to the API server: as its client, and for its own port.
pub(super) fn api_client(t: &Tenant<'_>, name: &str) -> Vec<Content> {
    let (life, ca) = (t.settings.leaf_lifetime, t.secret(names::ca(t.name)));
    let user = format!("system:{name}");
    vec![
        Content::Leaf("client".into(), client(&user, &[], life), ca.clone()),
        Content::Leaf("server".into(), serving(name, &t.cp_namespace, life), ca),
    ]
}

/// Names at which the API server was reached before stay in its certificate until that is renewed for its age: who has an older
/// kubeconfig is still served.
pub(super) fn keep_former_names(t: &Tenant<'_>, dns_names: &mut Vec<String>, ip_addresses: &mut Vec<IpAddr>) {
    let live = t.observed.pair(&t.secret(names::APISERVER_PKI), "apiserver").and_then(Result::ok);
    let held = t.observed.meta.clocks_are_far_apart(t.settings.leaf_lifetime);
    let young = |info: &&CertInfo| held || t.now < berth_pki::renew_at(info, t.settings.leaf_lifetime, &t.cp_namespace);
    let Some(info) = live.filter(young) else { return };
    for name in info.dns_names.iter().take(FORMER_NAMES) {
        if !dns_names.contains(name) {
            dns_names.push(name.clone());
        }
    }
    for address in info.ip_addresses.iter().take(FORMER_NAMES) {
        if !ip_addresses.contains(address) {
            ip_addresses.push(*address);
        }
    }
}

/// The stage.
pub(super) fn stage(t: &Tenant<'_>, out: &mut ClusterPlan) -> Stage {
    let mut stage = Stage::new(StageId::Pki, State::Ready);
    let in_use = roots_in_use(t);
    let roots = roots(t);
    let leaves = leaves(t);
    if leaves.is_none() {
        stage.state = State::waiting("the address of the API, which its certificate must name");
    }
    for spec in roots.into_iter().chain(leaves.unwrap_or_default()) {
        judge_into(t, &mut stage, out, &spec, in_use.as_deref());
    }
    stage
}

/// Judges one Secret as part of a stage.
pub(super) fn judge_into(
    t: &Tenant<'_>,
    stage: &mut Stage,
    out: &mut ClusterPlan,
    spec: &SecretSpec,
    in_use: Option<&str>,
) {
    stage.owns.push(spec.key.clone());
    let renewal = Renewal {
        now: t.now,
        seed: &t.cp_namespace,
        held: t.observed.meta.clocks_are_far_apart(t.settings.leaf_lifetime),
    };
    let judged = judge(t.observed, spec, in_use, is_ours, renewal);
    out.certificates.add(stage, judged, t.now);
}
