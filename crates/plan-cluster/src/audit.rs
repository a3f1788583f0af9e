//! The webhook of `spec.apiServer.audit`: API servers get a copy of what the team's Secret says, under a name with the digest of it.
//!
//! kube-apiserver reads the file once. So a Secret that changed is another copy, and another pod template: pods that run keep the one that
//! they were made with, and a new one proves the next before an old one goes. What became of the Secret since is said, and stops nobody.

use crate::ours::is_ours;
use crate::pki::judge_into;
use crate::planned::ClusterPlan;
use crate::revision::releases;
use crate::subject::Tenant;
use berth_api::cluster::{AUDIT_KUBECONFIG, AUDIT_SECRET, Cluster};
use berth_api::conditions::Reason;
use berth_api::revision::Release;
use berth_api::{labels, names};
use berth_plan::model::{Action, SecretEntry, Stage, State};
use berth_plan::object_meta::{deleting, label};
use berth_plan::observed::Observed;
use berth_plan::secrets::SecretSpec;
use berth_render::values::ExtraArg;
use berth_render::{Binary, Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeSet;

/// The field.
const FIELD: &str = "spec.apiServer.audit.webhook.secretRef";

/// How soon a Secret that was changed is seen: nothing tells of it.
const LOOKS: SignedDuration = SignedDuration::from_mins(5);

/// The Secrets of a team that a plan may need: that of the spec, and those of releases that run or may be gone back to.
pub fn audit_secrets(cluster: &Cluster, observed: &Observed, cp_namespace: &str) -> BTreeSet<ObjectKey> {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let releases = releases(observed, cp_namespace).into_iter().chain([Release::of(&cluster.spec)]);
    let webhooks = releases.filter_map(|release| release.api_server.audit.webhook);
    webhooks.map(|webhook| ObjectKey::namespaced(Kind::Secret, namespace, webhook.secret_ref.name)).collect()
}

/// The Secret that the spec names.
fn source(t: &Tenant<'_>) -> Option<ObjectKey> {
    let webhook = t.cluster.spec.api_server.audit.webhook.as_ref()?;
    Some(ObjectKey::namespaced(Kind::Secret, t.namespace, &*webhook.secret_ref.name))
}

/// Digest of what API servers get of it, or what is wrong with it and the way out.
fn read<'a>(t: &Tenant<'a>, source: &ObjectKey) -> Result<&'a str, String> {
    let create = |name: &str| {
        format!(
            "kubectl -n {} create secret generic {name} --type={AUDIT_SECRET} --from-file={AUDIT_KUBECONFIG}=FILE",
            t.namespace
        )
    };
    let Some(facts) = t.observed.secrets.get(source) else {
        return Err(format!("{FIELD}: {source} does not exist. Create it: {}", create(&source.name)));
    };
    if facts.type_ != AUDIT_SECRET {
        return Err(format!(
            "{FIELD}: {source} is not of type {AUDIT_SECRET}, so Berth does not read it. The type of a Secret cannot be changed: create another one, and name that: {}",
            create("NAME")
        ));
    }
    match &facts.audit_webhook {
        Some(Ok(digest)) => Ok(digest),
        Some(Err(why)) => Err(format!("{FIELD}: {source}, key {AUDIT_KUBECONFIG}: {why}. Correct the Secret")),
        None => Err(format!(
            "{FIELD}: {source} cannot be read at the moment. If it stays: run helm upgrade of Berth's chart, which has the right to it"
        )),
    }
}

/// Copies of a Secret of that name, and of any.
fn copies<'t>(t: &'t Tenant<'_>) -> impl Iterator<Item = (&'t ObjectKey, &'t Value)> {
    let is_copy = |live: &Value| is_ours(live) && label(live, labels::AUDIT_WEBHOOK).is_some();
    t.observed.of_kind(Kind::Secret, &t.cp_namespace).filter(move |(_, live)| is_copy(live) && !deleting(live))
}

/// Whether API servers, as they are there, mount it.
fn is_mounted(t: &Tenant<'_>, name: &str) -> bool {
    let volumes = |live: &Value| live.pointer("/spec/template/spec/volumes").and_then(Value::as_array).cloned();
    let mounts = |volume: &Value| volume.pointer("/secret/secretName").and_then(Value::as_str) == Some(name);
    t.workloads(Binary::ApiServer).live().filter_map(volumes).any(|all| all.iter().any(mounts))
}

/// The copy that API servers go on with where the Secret says nothing of use: of those that they mount, or else of all of the same Secret, the
/// newest. During a change slots mount two.
fn kept(t: &Tenant<'_>, source: &ObjectKey) -> Option<String> {
    let all = copies(t).filter(|(_, live)| label(live, labels::AUDIT_WEBHOOK) == Some(&source.name));
    let made = |live: &Value| live.pointer("/metadata/creationTimestamp")?.as_str()?.parse::<Timestamp>().ok();
    let newest = all.max_by_key(|(key, live)| (is_mounted(t, &key.name), made(live), &key.name));
    newest.map(|(key, _)| key.name.clone())
}

/// The Secret that API servers are to mount. None: the spec has no webhook. Err: there is none to mount.
pub(crate) fn wanted(t: &Tenant<'_>) -> Result<Option<String>, State> {
    let Some(source) = source(t) else { return Ok(None) };
    match read(t, &source) {
        Ok(digest) => Ok(Some(names::audit_webhook(digest))),
        Err(why) => match kept(t, &source) {
            Some(name) => Ok(Some(name)),
            None => Err(State::blocked(Reason::AuditWebhookUnavailable, why)),
        },
    }
}

/// Whether the API servers' templates have a place for it.
fn is_read(t: &Tenant<'_>) -> bool {
    let binary = Binary::ApiServer;
    let templates = t.templates_of(t.release.pin_of(binary).0);
    templates.is_some_and(|set| set.reads(binary.folder(), "audit.webhook"))
}

/// Takes out the flags of a webhook where the templates have no place for it: a field without effect rolls no pod.
pub(crate) fn without_unread(t: &Tenant<'_>, args: &mut Vec<ExtraArg>) {
    if source(t).is_some() && !is_read(t) {
        args.retain(|arg| !arg.name.starts_with("audit-webhook-"));
    }
}

/// Keeps the copy, as a part of the stage whose Secrets are there before pods change.
pub(crate) fn follow(t: &Tenant<'_>, stage: &mut Stage, out: &mut ClusterPlan) {
    let Some(source) = source(t) else { return };
    let Some(digest) = read(t, &source).ok().filter(|_| is_read(t)) else { return };
    let mut all = t.labels();
    all.insert(labels::AUDIT_WEBHOOK.into(), source.name.clone());
    let key = t.secret(names::audit_webhook(digest));
    let spec = SecretSpec { key, type_: "Opaque", labels: all, entries: vec![SecretEntry::AuditWebhook { source }] };
    judge_into(t, stage, out, &spec, None);
}

/// What is wrong with the Secret, where API servers go on with what it said before.
pub(crate) fn problem(t: &Tenant<'_>) -> Option<String> {
    let source = source(t)?;
    let why = read(t, &source).err()?;
    kept(t, &source)?;
    Some(format!("{why}. API servers go on with what it said before; or remove spec.apiServer.audit.webhook"))
}

/// Copies that nobody is to mount any more. They hold credentials, so they do not stay.
pub(crate) fn surplus(t: &Tenant<'_>) -> Vec<Action> {
    let Ok(wanted) = wanted(t) else { return vec![] };
    let left = copies(t).filter(|(key, _)| wanted.as_ref() != Some(&key.name) && !is_mounted(t, &key.name));
    left.map(|(key, live)| Action::delete(key, live, None)).collect()
}

/// When to look at the Secret again.
pub(crate) fn looks_again(t: &Tenant<'_>) -> Option<SignedDuration> {
    source(t).map(|_| LOOKS)
}
