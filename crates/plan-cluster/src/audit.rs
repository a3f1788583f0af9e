//! The webhook of `spec.apiServer.audit`: API servers get a copy of what the team's Secret says, under a name with the digest of it.
//!
//! kube-apiserver reads the file once. So a Secret that changed is another copy and another release, whose record names the copy: it is proven by
//! a canary, and the way back leads to the copy of the release before. The Secret itself may be gone by then. What became of it since is said,
//! and stops nobody.

use crate::ours::is_ours;
use crate::pki::judge_into;
use crate::planned::ClusterPlan;
use crate::record::Pin;
use crate::revision::releases;
use crate::subject::Tenant;
use berth_api::cluster::{AUDIT_KUBECONFIG, AUDIT_SECRET, AuditWebhook, Cluster};
use berth_api::conditions::Reason;
use berth_api::revision::Release;
use berth_api::{labels, names};
use berth_plan::digest::sha256;
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

fn secret(t: &Tenant<'_>, webhook: &AuditWebhook) -> ObjectKey {
    ObjectKey::namespaced(Kind::Secret, t.namespace, &*webhook.secret_ref.name)
}

/// The Secret that the spec names.
fn source(t: &Tenant<'_>) -> Option<ObjectKey> {
    Some(secret(t, t.cluster.spec.api_server.audit.webhook.as_ref()?))
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
    if let Some(why) = facts.refusal() {
        return Err(format!("{FIELD}: {source} {why}"));
    }
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

/// All copies.
fn copies<'t>(t: &'t Tenant<'_>) -> impl Iterator<Item = (&'t ObjectKey, &'t Value)> {
    let is_copy = |live: &Value| is_ours(live) && label(live, labels::AUDIT_WEBHOOK).is_some();
    t.observed.of_kind(Kind::Secret, &t.cp_namespace).filter(move |(_, live)| is_copy(live) && !deleting(live))
}

fn is_there(t: &Tenant<'_>, name: &str) -> bool {
    copies(t).any(|(key, _)| key.name == name)
}

/// Those that API servers, as they are there, mount.
fn mounted(t: &Tenant<'_>) -> Vec<String> {
    let volumes = |live: &Value| live.pointer("/spec/template/spec/volumes").and_then(Value::as_array).cloned();
    let workloads = t.workloads(Binary::ApiServer);
    let all = workloads.live().filter_map(volumes).flatten();
    let name = |volume: Value| volume.pointer("/secret/secretName").and_then(Value::as_str).map(str::to_owned);
    all.filter_map(name).filter(|name| name.starts_with(&names::audit_webhook(""))).collect()
}

/// The copy with what has that digest: the one that is there; or else of a name that tells nothing of what it holds, since a digest of a bad
/// password does. None: the key that makes the name is not there yet.
fn name_of(t: &Tenant<'_>, digest: &str) -> Option<String> {
    let mounted = mounted(t);
    let holds = |name: &str| {
        let facts = t.observed.secrets.get(&t.secret(name));
        facts.and_then(|facts| facts.digests.get(AUDIT_KUBECONFIG)).is_some_and(|held| held == digest)
    };
    let mut same: Vec<&str> = copies(t).map(|(key, _)| &*key.name).filter(|name| holds(name)).collect();
    same.sort_by_key(|name| !mounted.iter().any(|mounted| mounted == name));
    if let Some(there) = same.first() {
        return Some((*there).to_owned());
    }
    // So an earlier build named it.
    let plain = names::audit_webhook(digest);
    if mounted.contains(&plain) {
        return Some(plain);
    }
    let key = t.observed.secrets.get(&t.secret(names::APISERVER_ENCRYPTION))?.naming_key.as_ref()?;
    Some(names::audit_webhook(&sha256(format!("{key}/{digest}").as_bytes())))
}

/// A copy of that Secret beside those that are recorded: of those that API servers mount, or else of all, the newest.
fn unrecorded(t: &Tenant<'_>, source: &str, recorded: &[&String]) -> Option<String> {
    let made = |live: &Value| live.pointer("/metadata/creationTimestamp")?.as_str()?.parse::<Timestamp>().ok();
    let all = copies(t).filter(|(_, live)| label(live, labels::AUDIT_WEBHOOK) == Some(source));
    let mounted = mounted(t);
    all.map(|(key, live)| (mounted.contains(&key.name), made(live), &key.name))
        .filter(|(_, _, name)| !recorded.contains(name))
        .max()
        .map(|(_, _, name)| name.clone())
}

/// The copy that a release runs with. `recorded`: those of all releases. That of a release without, of an earlier build, is the one that is
/// mounted and says what the Secret says; or else another than those, or the newest: a later release may have recorded the same.
pub(crate) fn copy_of(t: &Tenant<'_>, release: &Release, recorded: &[&String]) -> Option<String> {
    let webhook = release.api_server.audit.webhook.as_ref()?;
    let name = &webhook.secret_ref.name;
    let said = || {
        let now = name_of(t, read(t, &secret(t, webhook)).ok()?)?;
        (mounted(t).contains(&now) && !recorded.contains(&&now)).then_some(now)
    };
    release
        .audit_copy
        .clone()
        .or_else(said)
        .or_else(|| unrecorded(t, name, recorded))
        .or_else(|| unrecorded(t, name, &[]))
}

/// Whether the newest release may go on with its copy: the Secret says what it said then, or nothing of use.
pub(crate) fn goes_on(t: &Tenant<'_>, newest: &Release) -> bool {
    let Some(Ok(digest)) = source(t).map(|source| read(t, &source)) else { return true };
    let (name, mounted) = (name_of(t, digest), mounted(t));
    let Some(name) = name else { return true };
    match &newest.audit_copy {
        Some(copy) => name == *copy,
        // An earlier build recorded it, or its templates had no place for one.
        None => mounted.is_empty() || mounted.contains(&name),
    }
}

/// The copy that another release of the spec is to run with. None: none, or its templates have no place for it.
pub(crate) fn copy_of_next(t: &Tenant<'_>) -> Option<String> {
    let source = source(t).filter(|_| is_read(t, &t.release.wanted_pin()))?;
    match read(t, &source) {
        Ok(digest) => name_of(t, digest),
        Err(_) => unrecorded(t, &source.name, &[]),
    }
}

/// Whether the copy that a release ran with is there, or can be made again. `pin`: its templates.
pub(crate) fn is_at_hand(t: &Tenant<'_>, (release, pin): (&Release, &Pin), recorded: &[&String]) -> bool {
    let Some(webhook) = release.api_server.audit.webhook.as_ref().filter(|_| is_read(t, pin)) else { return true };
    let now = read(t, &secret(t, webhook)).ok();
    match copy_of(t, release, recorded) {
        Some(copy) => is_there(t, &copy) || now.and_then(|digest| name_of(t, digest)).as_ref() == Some(&copy),
        None => now.is_some(),
    }
}

/// The Secret that API servers are to mount. None: the spec has no webhook. Err: there is none to mount.
pub(crate) fn wanted(t: &Tenant<'_>) -> Result<Option<String>, State> {
    let Some(source) = source(t) else { return Ok(None) };
    let said = read(t, &source);
    let now = said.as_ref().ok().and_then(|digest| name_of(t, digest));
    let recorded = t.audit_copy.as_ref().filter(|copy| is_there(t, copy) || now.as_ref() == Some(copy));
    match (recorded, said) {
        (Some(copy), _) => Ok(Some(copy.clone())),
        (None, Ok(_)) => now.map(Some).ok_or_else(|| State::waiting(t.secret(names::APISERVER_ENCRYPTION).to_string())),
        (None, Err(why)) => match unrecorded(t, &source.name, &[]) {
            Some(name) => Ok(Some(name)),
            None => Err(State::blocked(Reason::AuditWebhookUnavailable, why)),
        },
    }
}

/// Why API servers cannot have what the spec asks for. Of templates without a place for it nothing is asked.
pub(crate) fn refusal(t: &Tenant<'_>) -> Result<(), State> {
    if source(t).is_none() || !is_read(t, &t.release.wanted_pin()) {
        return Ok(());
    }
    match wanted(t) {
        Err(state @ State::Blocked { .. }) => Err(state),
        _ => Ok(()),
    }
}

/// What API servers are rendered with.
pub(crate) fn value(t: &Tenant<'_>) -> Result<Option<String>, State> {
    if is_read(t, t.release.pin_of(Binary::ApiServer).0) { wanted(t) } else { Ok(None) }
}

/// Whether the API servers' templates have a place for it.
fn is_read(t: &Tenant<'_>, pin: &Pin) -> bool {
    t.templates_of(pin).is_some_and(|set| set.reads(Binary::ApiServer.folder(), "audit.webhook"))
}

/// Takes out the flags of a webhook where the templates have no place for it: a field without effect rolls no pod.
pub(crate) fn without_unread(t: &Tenant<'_>, args: &mut Vec<ExtraArg>) {
    if source(t).is_some() && !is_read(t, t.release.pin_of(Binary::ApiServer).0) {
        args.retain(|arg| !arg.name.starts_with("audit-webhook-"));
    }
}

/// Keeps the copy, as a part of the stage whose Secrets are there before pods change.
pub(crate) fn follow(t: &Tenant<'_>, stage: &mut Stage, out: &mut ClusterPlan) {
    let Some(source) = source(t) else { return };
    let said = read(t, &source).ok().and_then(|digest| name_of(t, digest));
    // What the Secret says now may be for a release that waits.
    let Some(name) = said.filter(|name| value(t).is_ok_and(|wanted| wanted.as_ref() == Some(name))) else { return };
    let mut all = t.labels();
    all.insert(labels::AUDIT_WEBHOOK.into(), source.name.clone());
    let entries = vec![SecretEntry::AuditWebhook { source }];
    judge_into(t, stage, out, &SecretSpec { key: t.secret(name), type_: "Opaque", labels: all, entries }, None);
}

/// What is wrong with the Secret, where API servers go on with what it said before.
pub(crate) fn problem(t: &Tenant<'_>) -> Option<String> {
    let why = read(t, &source(t)?).err()?;
    value(t).ok()??;
    Some(format!("{why}. API servers go on with what it said before; or remove spec.apiServer.audit.webhook"))
}

/// Copies that nobody is to mount any more, but that which is `kept` for the way back. They hold credentials, so they do not stay.
pub(crate) fn surplus(t: &Tenant<'_>, kept: Option<&String>) -> Vec<Action> {
    let Ok(wanted) = wanted(t) else { return vec![] };
    let mounted = mounted(t);
    let stays = |name: &String| [wanted.as_ref(), kept].contains(&Some(name)) || mounted.contains(name);
    copies(t).filter(|(key, _)| !stays(&key.name)).map(|(key, live)| Action::delete(key, live, None)).collect()
}

/// When to look at the Secret again.
pub(crate) fn looks_again(t: &Tenant<'_>) -> Option<SignedDuration> {
    source(t).map(|_| LOOKS)
}
