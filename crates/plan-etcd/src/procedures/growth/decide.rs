//! Decides which claim is patched next.

use crate::subject::{Subject, is_ours};
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::EtcdCluster;
use berth_api::{labels, quantity};
use berth_plan::etcd_home::name_of;
use berth_plan::model::{Action, State};
use berth_plan::observed::{Observed, deleting, label, uid};
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GrowthStep {
    /// All are as large as they are to be.
    Rest,
    /// A claim is patched, also where it asks for what its volume has not grown to.
    Grow(Action),
    /// What it waits for.
    Wait(String),
    /// They stay as they are. Why, and the way out.
    Refuse(State),
}

/// What a claim asks for.
fn asked(claim: &Value) -> Option<&str> {
    claim.pointer("/spec/resources/requests/storage")?.as_str()
}

/// How large its volume is.
fn capacity(claim: &Value) -> Option<&str> {
    claim.pointer("/status/capacity/storage")?.as_str()
}

fn class(claim: &Value) -> Option<&str> {
    claim["spec"]["storageClassName"].as_str().filter(|class| !class.is_empty())
}

/// The StorageClass to be read for a plan: of volumes that are to be larger.
pub fn storage_class(etcd: &EtcdCluster, observed: &Observed) -> Option<String> {
    let (name, namespace) = name_of(etcd);
    let claims = observed.of_kind(Kind::PersistentVolumeClaim, namespace).map(|(_, claim)| claim);
    let ours = claims.filter(|c| label(c, labels::ETCD_CLUSTER) == Some(name) && !deleting(c));
    let wanted = &etcd.spec.storage.size;
    let mut small = ours.filter(|c| asked(c).is_some_and(|asked| quantity::is_less(asked, wanted)));
    small.find_map(class).map(str::to_owned)
}

/// What comes next: a pure function of the claims and their class.
pub(crate) fn decide_growth(s: &Subject<'_>) -> GrowthStep {
    let wanted = &s.etcd.spec.storage.size;
    let key = |member: &str| s.key(Kind::PersistentVolumeClaim, format!("data-{member}"));
    let members = s.members();
    let claims = members.iter().map(|member| key(member));
    let claims =
        claims.filter_map(|key| Some((s.observed.get(&key).filter(|c| is_ours(c, s.name) && !deleting(c))?, key)));
    let claims: Vec<(&Value, ObjectKey)> = claims.collect();
    let is_less = |a: Option<&str>, b: Option<&str>| matches!((a, b), (Some(a), Some(b)) if quantity::is_less(a, b));
    let refuse = |reason, why: String, way: String| {
        GrowthStep::Refuse(State::blocked(reason, format!("{FIELD}: {why}. {way}; until then etcd runs unchanged")))
    };
    let grow = |(claim, key): &(&Value, ObjectKey)| {
        GrowthStep::Grow(Action::GrowVolume { key: key.clone(), uid: uid(claim).to_owned(), size: wanted.clone() })
    };
    let is_more = |(claim, _): &&(&Value, ObjectKey)| is_less(Some(wanted), asked(claim));
    // Kubernetes lets a claim ask for less than before, if that is more than its volume has. It is what helps a claim that cannot reach what it
    // asks for, also where those before it could.
    if let Some(found) = claims.iter().find(|found| is_more(found) && is_less(capacity(found.0), Some(wanted))) {
        return grow(found);
    }
    // One that has more stays so, as long as the size is that of another.
    let is_stuck = |found: &&(&Value, ObjectKey)| is_more(found) && is_less(capacity(found.0), asked(found.0));
    let all_are_more = claims.iter().all(|found| is_more(&found));
    let stuck = claims.iter().find(is_stuck);
    if let Some((claim, key)) = stuck.or_else(|| claims.first().filter(|_| all_are_more)) {
        let (asks, has) = (asked(claim).unwrap_or_default(), capacity(claim));
        let way = match has.filter(|_| is_less(has, Some(asks))) {
            Some(has) => format!("Kubernetes lets it ask for more than {has} in place of {asks}: set such a size"),
            None => format!("Set it back to {asks}"),
        };
        let why = format!("{wanted} is less than the {asks} of {key}, and volumes do not shrink");
        return refuse(Reason::InvalidSpec, why, way);
    }
    // One that is growing comes first.
    if let Some((claim, key)) = claims.iter().find(|(claim, _)| is_less(capacity(claim), asked(claim))) {
        let (has, asks) = (capacity(claim).unwrap_or_default(), asked(claim).unwrap_or_default());
        return GrowthStep::Wait(format!("{key} to grow from {has} to {asks}{}", progress(claim)));
    }
    let Some(found) = claims.iter().find(|(claim, _)| is_less(asked(claim), Some(wanted))) else {
        return GrowthStep::Rest;
    };
    let (claim, key) = found;
    let has = asked(claim).unwrap_or_default();
    let stays = |why: String, what: &str| {
        let why = format!("{why}, so {what} stays at {has}");
        refuse(Reason::EtcdChangeUnsupported, why, format!("Set it back to {has}"))
    };
    let Some(class) = class(claim) else { return stays(format!("{key} has no StorageClass"), "it") };
    match s.observed.get(&ObjectKey::cluster(Kind::StorageClass, class)) {
        None => {
            return stays(format!("StorageClass {class} does not exist, or Berth may not read it"), &key.to_string());
        }
        Some(found) if found["allowVolumeExpansion"] != true => {
            let why = format!(
                "StorageClass {class} does not let volumes grow (allowVolumeExpansion; the platform team can set it if the provisioner of the class can do that)"
            );
            return stays(why, &key.to_string());
        }
        Some(_) => {}
    }
    if claim["status"]["phase"] != "Bound" {
        return GrowthStep::Wait(format!("{key} to be bound, and to grow to {wanted} then"));
    }
    grow(found)
}

/// How people find the field, whichever object they have.
const FIELD: &str = "spec.storage.size (spec.etcd.storage.size of its Cluster)";

/// What Kubernetes says of it.
fn progress(claim: &Value) -> String {
    let meta = |field: &str| claim["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (meta("namespace"), meta("name"));
    let infeasible = claim["status"]["allocatedResourceStatuses"]["storage"].as_str();
    let infeasible = infeasible.filter(|status| status.ends_with("Infeasible"));
    let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    let pending = conditions.into_iter().any(|c| c["type"] == "FileSystemResizePending" && c["status"] == "True");
    match infeasible {
        Some(status) => format!(
            "; it is {status}: its storage cannot do that. Why: kubectl -n {namespace} describe pvc {name}. Set {FIELD} to less than that, and more than {}",
            capacity(claim).unwrap_or_default()
        ),
        None if pending => format!(
            "; the file system grows while its pod runs. If the storage cannot do that, start the pod anew: kubectl -n {namespace} delete pod {}",
            name.strip_prefix("data-").unwrap_or(name)
        ),
        None => String::new(),
    }
}

/// What people read of it.
pub(crate) fn state(step: &GrowthStep) -> Option<State> {
    match step {
        GrowthStep::Rest | GrowthStep::Refuse(_) => None,
        GrowthStep::Wait(on) => Some(State::waiting(on.clone())),
        GrowthStep::Grow(action) => Some(State::waiting(format!("Berth to {}", action.describe()))),
    }
}

/// As the template of the claims has it, which cannot be changed.
pub(crate) fn of_template(s: &Subject<'_>) -> String {
    let live = s.get(Kind::StatefulSet, s.name);
    let size =
        live.and_then(|set| set.pointer("/spec/volumeClaimTemplates/0/spec/resources/requests/storage")?.as_str());
    size.unwrap_or(&s.etcd.spec.storage.size).to_owned()
}
