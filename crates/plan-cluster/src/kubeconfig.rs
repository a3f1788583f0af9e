//! Stage 7: kubeconfigs. The admins' one is kept in the control-plane namespace and published from there; the
//! break-glass one never leaves it.

use super::endpoint::{KUBECONFIGS, url};
use super::ours::owner_labels;
use super::subject::Tenant;
use super::{ClusterPlan, pki};
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_pki::CertInfo;
use berth_plan::model::{Action, SecretEntry, Stage, StageId, State};
use berth_plan::object_meta;
use berth_plan::observed::{ApiProbe, Published};
use berth_plan::secrets::SecretSpec;
use berth_plan::workload;
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeMap;

/// The Secret in the `Cluster`'s namespace.
pub(super) fn published_key(t: &Tenant<'_>) -> ObjectKey {
    ObjectKey::namespaced(Kind::Secret, t.namespace, names::kubeconfig(t.name))
}

fn published_labels(t: &Tenant<'_>) -> BTreeMap<String, String> {
    let mut all = owner_labels(t.namespace, t.name);
    all.insert(labels::CAPI_CLUSTER_NAME.into(), t.name.into());
    all
}

/// The stage.
pub(super) fn stage(t: &Tenant<'_>, out: &mut ClusterPlan) -> Stage {
    let mut stage = Stage::new(StageId::Kubeconfig, State::Ready);
    let Some(server) = server(t, &mut stage) else {
        stage.owns.extend(KUBECONFIGS.map(|n| t.secret(n)));
        return stage;
    };
    let life = t.settings.leaf_lifetime;
    let users = [
        (names::ADMIN_KUBECONFIG, pki::client("admin", &[names::ADMIN_GROUP], life)),
        (names::BREAK_GLASS_KUBECONFIG, pki::client("break-glass", &["system:masters"], life)),
    ];
    for (name, user) in users {
        let kubeconfig = SecretEntry::Kubeconfig {
            cluster: t.name.into(),
            server: server.clone(),
            spec: user,
            issuer: t.secret(names::ca(t.name)),
            why: String::new(),
        };
        let spec = SecretSpec { key: t.secret(name), type_: "Opaque", labels: t.labels(), entries: vec![kubeconfig] };
        pki::judge_into(t, &mut stage, out, &spec, None);
    }
    publish(t, &mut stage);
    stage
}

/// The server for the kubeconfigs. Another one than they name counts once every API server shows a certificate for it: until then
/// people are served at the one that they know, and so they are while there is none.
fn server(t: &Tenant<'_>, stage: &mut Stage) -> Option<String> {
    let wanted = t.endpoint.published.as_ref().map(|(host, port)| url(host, *port));
    let named = t.endpoint.handed_out.clone();
    let on = match (&wanted, &named) {
        (None, _) => "the address of the API".to_owned(),
        (Some(wanted), Some(named)) if named != wanted && !served_everywhere(t) => {
            format!("every API server to answer at {wanted}")
        }
        _ => return wanted,
    };
    let until_then = named.as_ref().map(|named| format!("; until then kubeconfigs keep {named}"));
    stage.state = State::waiting(on + &until_then.unwrap_or_default());
    named
}

/// How long a new certificate is on its way into a pod that runs: kubelet looks once a minute and remembers for as long, and the API
/// server looks once a minute.
const TAKEN_UP: SignedDuration = SignedDuration::from_secs(150);

/// True if the API answers where it is asked, which may be elsewhere, its certificate has the name, and no pod is left that may still show
/// one from before.
fn served_everywhere(t: &Tenant<'_>) -> bool {
    let Some(Ok(certificate)) = t.observed.pair(&t.secret(names::APISERVER_PKI), "apiserver") else { return false };
    if !t.endpoint.published.as_ref().is_some_and(|(host, _)| is_named(certificate, host)) {
        return false;
    }
    let issued = certificate.issued_at();
    let current = |pod: &Value| {
        let started_with_it = workload::started_at(pod).is_some_and(|at| at >= issued);
        !object_meta::deleting(pod) && (started_with_it || t.now.duration_since(issued) >= TAKEN_UP)
    };
    let answered = matches!(t.observed.api, ApiProbe::Answered { .. });
    let mut pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER);
    answered && pods.all(|(_, pod)| current(pod))
}

fn is_named(certificate: &CertInfo, host: &str) -> bool {
    match host.parse() {
        Ok(address) => certificate.ip_addresses.contains(&address),
        Err(_) => certificate.dns_names.iter().any(|name| name.eq_ignore_ascii_case(host)),
    }
}

fn publish(t: &Tenant<'_>, stage: &mut Stage) {
    if t.observed.team_namespace_ends {
        // Nothing can be created in it any more, and that is told already.
        return;
    }
    let source = t.secret(names::ADMIN_KUBECONFIG);
    let Some(wanted) = t.observed.secrets.get(&source).and_then(|f| f.digests.get("value")) else {
        return;
    };
    let key = published_key(t);
    let labels = published_labels(t);
    let current = match &t.observed.published {
        Published::Ours { value_sha256, labels: live, .. } => {
            value_sha256 == wanted && labels.iter().all(|(k, v)| live.get(k) == Some(v))
        }
        Published::Absent => false,
        Published::Unknown => return,
        Published::Foreign(why) => {
            stage.state = State::blocked(
                Reason::ForeignObject,
                format!(
                    "{key} exists and is not Berth's ({why}), so Berth leaves it alone. Rename it or, if nobody needs it, delete it: then Berth publishes the kubeconfig there. Until then it is in {source}"
                ),
            );
            return;
        }
    };
    if !current {
        stage.actions.push(Action::PublishKubeconfig { key: key.clone(), source, labels });
        if stage.state.is_done() {
            stage.state = State::waiting(format!("{key} to be written"));
        }
    }
}
