//! Stage 1: the control-plane namespace, what the tenant is pinned to, and the operator's rights inside.

use super::ours::{ensure_manifest, is_ours};
use super::pull_secrets;
use super::record::{self, Pin};
use super::release;
use super::subject::Tenant;
use super::vpc;
use berth_api::conditions::Reason;
use berth_api::{Cluster, labels, names};
use berth_plan::model::{Action, Plan, Stage, StageId, State};
use berth_plan::object_meta::{self, annotation, deleting, label};
use berth_plan::objects::ensure_templates;
use berth_plan::observed::Observed;
use berth_render::{Kind, Object, ObjectKey};
use kube_core::ResourceExt;
use serde_json::{Value, json};

/// How the message ends of who may take over a namespace.
const TAKE_OVER: &str = ". To take it over";

/// What a condition says of a namespace, without how to take it over.
pub fn without_advice(message: &str) -> &str {
    message.split_once(TAKE_OVER).map_or(message, |(why, _)| why)
}

/// The stage. `kept_templates`: those of releases that are recorded.
pub(super) fn stage(t: &Tenant<'_>, kept_templates: &[ObjectKey]) -> Stage {
    let mut stage = Stage::new(StageId::Namespace, State::Ready);
    let key = ObjectKey::cluster(Kind::Namespace, t.cp_namespace.clone());
    let recorded = t.status().control_plane_namespace;
    let adopt = t.cluster.annotations().get(labels::ADOPT).map(String::as_str);
    stage.owns.push(key.clone());
    let Some(live) = t.observed.get(&key) else {
        if let Some(lost) = recorded {
            stage.state = State::blocked(
                Reason::ControlPlaneLost,
                format!(
                    "namespace {} (UID {}), which held the tenant's keys and data, is gone. Restore it from a backup and set the annotation {}={} on this Cluster, or delete the Cluster. Berth does not create it again by itself",
                    lost.name,
                    lost.uid,
                    labels::ADOPT,
                    t.uid
                ),
            );
            return stage;
        }
        match Object::new(namespace(t)) {
            Ok(object) => stage.actions.push(Action::Create(object)),
            Err(e) => stage.state = State::blocked(Reason::Error, e),
        }
        if stage.state.is_done() {
            stage.state = State::waiting(format!("namespace {} to be created", t.cp_namespace));
        }
        return stage;
    };
    if let Some(state) = refuse(t, live, recorded.as_ref().map(|r| r.uid.as_str()), adopt) {
        stage.state = state;
        return stage;
    }
    ensure_manifest(&mut stage, t.observed, namespace(t));
    rights(t, &mut stage);
    if t.observed.denied {
        return stage;
    }
    pinned_templates(t, &mut stage);
    let kept = kept_templates.iter().filter(|key| t.observed.get(key).is_some() && !stage.owns.contains(key));
    let kept: Vec<_> = kept.cloned().collect();
    stage.owns.extend(kept);
    super::isolation::policies(t, &mut stage);
    pull_secrets::follow(t, &mut stage);
    stage
}

/// Why the namespace that is there cannot be used.
fn refuse(t: &Tenant<'_>, live: &Value, recorded: Option<&str>, adopt: Option<&str>) -> Option<State> {
    let cp_namespace = &t.cp_namespace;
    let theirs = [(labels::CLUSTER_NAME, t.name), (labels::CLUSTER_NAMESPACE, t.namespace)];
    if !is_ours(live) || theirs.iter().any(|(k, v)| label(live, k) != Some(v)) {
        return Some(State::blocked(
            Reason::ForeignObject,
            format!(
                "namespace {cp_namespace} exists and does not belong to this Cluster, so Berth leaves it alone. If nobody needs it, delete it; otherwise create this Cluster under another name"
            ),
        ));
    }
    if deleting(live) {
        return Some(ending(t, live, recorded));
    }
    // Before it is taken over: then it would end with this Cluster, which cannot be given other networks.
    if let Some(state) = record::refuse(t, live) {
        return Some(state);
    }
    let owner = label(live, labels::CLUSTER_UID).unwrap_or_default();
    if let Some(state) = of_another_team(t, live).filter(|_| owner != t.uid) {
        return Some(state);
    }
    if owner != t.uid && adopt != Some(owner) {
        return Some(State::blocked(
            Reason::AdoptionRequired,
            format!(
                "namespace {cp_namespace} belongs to an earlier Cluster {namespace}/{name} with UID {owner}{TAKE_OVER} with its keys and data, run: kubectl berth adopt {name} -n {namespace}. Or set the annotation {}={owner} on this Cluster; remove it once the Cluster is Ready",
                labels::ADOPT,
                namespace = t.namespace,
                name = t.name,
            ),
        ));
    }
    let uid = object_meta::uid(live);
    if recorded.is_some_and(|r| r != uid) && adopt.is_none_or(|a| a != owner && a != t.uid) {
        return Some(State::blocked(
            Reason::ControlPlaneLost,
            format!(
                "namespace {cp_namespace} has been replaced: this Cluster recorded UID {}, and it now has UID {uid}. If it was restored from a backup, set the annotation {}={} on this Cluster; otherwise restore it first, or delete this Cluster",
                recorded.unwrap_or_default(),
                labels::ADOPT,
                t.uid
            ),
        ));
    }
    None
}

/// A namespace name is given to other teams: keys and data of the former one are not theirs before the platform team says so. A tenant of
/// which no build recorded the team's namespace is its owner's to adopt.
fn of_another_team(t: &Tenant<'_>, live: &Value) -> Option<State> {
    let recorded = annotation(live, labels::TEAM_UID)?;
    let now = t.observed.team_uid.as_deref();
    if now.is_some_and(|now| now == recorded || annotation(live, labels::ALLOW_ADOPTION) == Some(now)) {
        return None;
    }
    let (ns, cp, now) = (t.namespace, &t.cp_namespace, now.unwrap_or("not known"));
    let allow = labels::ALLOW_ADOPTION;
    Some(State::blocked(
        Reason::AdoptionRequired,
        format!(
            "namespace {cp} holds keys and data of a Cluster {ns}/{name} from an earlier namespace {ns} (UID {recorded}; this one's is {now}), which may have been another team's. If this team may have them, a cluster administrator runs: kubectl annotate namespace {cp} {allow}={now}. Then: kubectl berth adopt {name} -n {ns}. Otherwise create this Cluster under another name",
            name = t.name,
        ),
    ))
}

/// Somebody deletes the namespace. With this Cluster's own, keys and data go; that of an earlier one makes room.
fn ending(t: &Tenant<'_>, live: &Value, recorded: Option<&str>) -> State {
    let (ns, uid) = (&t.cp_namespace, object_meta::uid(live));
    if recorded != Some(uid) && label(live, labels::CLUSTER_UID) != Some(t.uid) {
        let on = format!("the deletion of namespace {ns}; if that lasts, see its status.conditions");
        return State::waiting(on);
    }
    // The same words until it is gone, however much of it is left: what runs out first is for nobody to wait for.
    State::blocked(
        Reason::ControlPlaneLost,
        format!(
            "namespace {ns} (UID {uid}), which holds the tenant's keys and data, is being deleted, and that cannot be undone. Save at once what is still there. Keys: kubectl -n {ns} get secrets,configmaps -o yaml > {ns}.yaml. Data: kubectl get pv -o jsonpath='{{.items[?(@.spec.claimRef.namespace==\"{ns}\")].metadata.name}}' | xargs kubectl patch pv -p '{{\"spec\":{{\"persistentVolumeReclaimPolicy\":\"Retain\"}}}}'. When it is gone, restore it from a backup and set the annotation {}={} on this Cluster, or delete the Cluster",
            labels::ADOPT,
            t.uid
        ),
    )
}

/// What the annotation `berth.dev/adopt` has to say for the namespace that is there to be taken over, while the plan waits for that.
pub fn adoptable(cluster: &Cluster, observed: &Observed, plan: &Plan) -> Option<String> {
    let State::Blocked { reason, .. } = &plan.stage(StageId::Namespace)?.state else { return None };
    let meta = &cluster.metadata;
    let cp_namespace = names::control_plane_namespace(meta.namespace.as_deref()?, meta.name.as_deref()?);
    let live = observed.get(&ObjectKey::cluster(Kind::Namespace, cp_namespace))?;
    match reason {
        Reason::AdoptionRequired => label(live, labels::CLUSTER_UID).map(str::to_owned),
        Reason::ControlPlaneLost => meta.uid.clone().filter(|_| !deleting(live)),
        _ => None,
    }
}

fn namespace(t: &Tenant<'_>) -> Value {
    let mut all = t.labels();
    all.insert(labels::CLUSTER_UID.into(), t.uid.into());
    let modes: &[_] = if vpc::pods_are_held(t) {
        all.insert(labels::VPC.into(), "true".into());
        &[("enforce", "privileged"), ("warn", "restricted"), ("audit", "restricted")]
    } else {
        &[("enforce", "restricted"), ("warn", "restricted")]
    };
    for (mode, level) in modes {
        all.insert(format!("pod-security.kubernetes.io/{mode}"), (*level).into());
    }
    let mut notes = json!({
        (labels::KUBERNETES_VERSION): t.pin().version,
        (labels::TEMPLATES): t.pin().templates,
        (labels::AGENT_IMAGE): t.pin().agent_image,
        (labels::AGENT_DELIVERY): t.pin().agent_delivery,
    });
    if let Some(amounts) = &t.pin().helper_resources {
        notes[labels::HELPER_RESOURCES] = amounts.to_json().into();
    }
    if let Some(proxy) = &t.pin().proxy {
        notes[labels::PROXY] = proxy.to_json().into();
    }
    if let Some(direct) = &t.pin().no_proxy {
        notes[labels::NO_PROXY] = json!(direct).to_string().into();
    }
    if !t.pin().jwt.is_empty() {
        notes[labels::JWT] = json!(t.pin().jwt).to_string().into();
    }
    if !t.pin().sizes.is_empty() {
        notes[labels::SIZES] = json!(t.pin().sizes).to_string().into();
    }
    for name in [labels::PRIVATE_NETWORKS, labels::SPECIAL_NETWORKS] {
        if super::isolation::private::recorded(t, name) {
            notes[name] = labels::NETWORKS_CLOSED.into();
        }
    }
    if let Some(images) = vpc::images_note(t).filter(|_| vpc::pods_are_held(t)) {
        notes[labels::VPC_IMAGES] = images.into();
    }
    // Where it is not known now, what is recorded stays.
    let recorded = || annotation(t.live_namespace()?, labels::TEAM_UID);
    if let Some(uid) = t.observed.team_uid.as_deref().or_else(recorded) {
        notes[labels::TEAM_UID] = uid.into();
    }
    if let Some(networks) = record::networks_annotation(t) {
        notes[labels::NETWORK] = networks.into();
    }
    if let Some(addons) = record::addons_annotation(t) {
        notes[labels::ADDONS] = addons.into();
    }
    if let Some(names) = pull_secrets::record(t) {
        notes[labels::PULL_SECRETS] = names.into();
    }
    if let Some(sleep) = t.sleep.annotation() {
        notes[labels::SLEEP] = sleep.into();
    }
    notes[labels::SERVED_MINOR] = t.release.served().to_string().into();
    if let Some(upgrade) = &t.release.upgrade {
        notes[labels::UPGRADE] = release::annotation_of(upgrade).into();
    }
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": t.cp_namespace, "labels": all, "annotations": notes},
    })
}

/// Lets the operator read and write what is in this namespace, Secrets among it, and nowhere else.
pub(super) fn rights(t: &Tenant<'_>, stage: &mut Stage) {
    if t.observed.denied && !matches!(stage.state, State::Blocked { .. }) {
        stage.state =
            State::waiting(format!("the operator's RoleBinding in namespace {} to take effect", t.cp_namespace));
    }
    let Some((namespace, name)) = &t.settings.service_account else { return };
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": names::OPERATOR_ROLE_BINDING, "namespace": t.cp_namespace, "labels": t.labels()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": names::OPERATOR_NAMESPACE_ROLE},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    });
    ensure_manifest(stage, t.observed, binding);
}

/// Keeps the template set in the tenant's namespace, for operators that no longer have it built in.
fn pinned_templates(t: &Tenant<'_>, stage: &mut Stage) {
    for pin in t.release.kept() {
        templates_of(t, stage, pin);
    }
}

fn templates_of(t: &Tenant<'_>, stage: &mut Stage, pin: &Pin) {
    let key = ObjectKey::namespaced(Kind::ConfigMap, t.cp_namespace.clone(), names::templates(&pin.templates));
    let Some(set) = t.templates_of(pin) else {
        stage.state = if t.observed.get(&key).is_some() {
            State::blocked(
                Reason::VersionUnsupported,
                format!(
                    "this operator cannot read the templates in {key}. Run the operator version that wrote them; or set spec.version to another patch version, which brings this operator's templates"
                ),
            )
        } else {
            State::blocked(
                Reason::Error,
                format!(
                    "{key} with the tenant's pinned templates is gone, and this operator has others. Restore it from a backup; or set spec.version to another patch version, which brings this operator's templates"
                ),
            )
        };
        stage.owns.push(key);
        return;
    };
    ensure_templates(stage, t.observed, (&key, t.labels()), set, is_ours);
}
