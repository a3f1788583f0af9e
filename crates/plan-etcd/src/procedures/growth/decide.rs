//! Decides which claim is patched next.

use crate::subject::{Subject, children};
use crate::volumes;
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::EtcdCluster;
use berth_api::quantity;
use berth_plan::model::{Action, State};
use berth_plan::object_meta::{deleting, uid};
use berth_plan::observed::Observed;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// What comes next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum GrowthStep {
    /// All are as large as they are to be.
    #[default]
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
    let claims = children(etcd, observed, Kind::PersistentVolumeClaim).map(|(_, claim)| claim);
    let wanted = &etcd.spec.storage.size;
    let is_small = |claim: &&Value| asked(claim).is_some_and(|asked| quantity::is_less(asked, wanted));
    let mut small = claims.filter(|claim| !deleting(claim)).filter(is_small);
    small.find_map(class).map(str::to_owned)
}

/// A claim with its name.
type Claim<'a> = (ObjectKey, &'a Value);

fn is_less(a: Option<&str>, b: Option<&str>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if quantity::is_less(a, b))
}

fn grow((key, claim): &Claim<'_>, wanted: &str) -> GrowthStep {
    GrowthStep::Grow(Action::GrowVolume { key: key.clone(), uid: uid(claim).to_owned(), size: wanted.to_owned() })
}

fn refuse(reason: Reason, why: &str, way: &str) -> GrowthStep {
    GrowthStep::Refuse(State::blocked(reason, format!("{FIELD}: {why}. {way}; until then etcd runs unchanged")))
}

/// What comes next: a pure function of the claims and their class.
pub(crate) fn decide_growth(s: &Subject<'_>) -> GrowthStep {
    let wanted = &s.etcd.spec.storage.size;
    let claims = s.members().into_iter().filter_map(|member| volumes::claim(s, &member));
    let claims: Vec<Claim<'_>> = claims.filter(|(_, claim)| !deleting(claim)).collect();
    if let Some(step) = shrink(&claims, wanted) {
        return step;
    }
    // One that is growing comes first.
    if let Some((key, claim)) = claims.iter().find(|(_, claim)| is_less(capacity(claim), asked(claim))) {
        let (has, asks) = (capacity(claim).unwrap_or_default(), asked(claim).unwrap_or_default());
        return GrowthStep::Wait(format!("{key} to grow from {has} to {asks}{}", progress(claim)));
    }
    let Some(found) = claims.iter().find(|(_, claim)| is_less(asked(claim), Some(wanted))) else {
        return GrowthStep::Rest;
    };
    if let Err(why) = may_grow(s, found) {
        let has = asked(found.1).unwrap_or_default();
        let way = format!("Set it back to {has}");
        return refuse(Reason::EtcdChangeUnsupported, &format!("{why} stays at {has}"), &way);
    }
    if found.1["status"]["phase"] != "Bound" {
        return GrowthStep::Wait(format!("{} to be bound, and to grow to {wanted} then", found.0));
    }
    grow(found, wanted)
}

/// Where claims ask for more than is wanted: volumes do not shrink.
fn shrink(claims: &[Claim<'_>], wanted: &str) -> Option<GrowthStep> {
    let is_more = |(_, claim): &&Claim<'_>| is_less(Some(wanted), asked(claim));
    // Kubernetes lets a claim ask for less than before, if that is more than its volume has. It is what helps a claim that cannot reach what it
    // asks for, also where those before it could.
    if let Some(found) = claims.iter().filter(is_more).find(|(_, claim)| is_less(capacity(claim), Some(wanted))) {
        return Some(grow(found, wanted));
    }
    // One that has more stays so, as long as the size is that of another.
    let all_are_more = claims.iter().all(|found| is_more(&found));
    let stuck = claims.iter().filter(is_more).find(|(_, claim)| is_less(capacity(claim), asked(claim)));
    let (key, claim) = stuck.or_else(|| claims.first().filter(|_| all_are_more))?;
    let (asks, has) = (asked(claim).unwrap_or_default(), capacity(claim));
    let way = match has.filter(|_| is_less(has, Some(asks))) {
        Some(has) => format!("Kubernetes lets it ask for more than {has} in place of {asks}: set such a size"),
        None => format!("Set it back to {asks}"),
    };
    let why = format!("{wanted} is less than the {asks} of {key}, and volumes do not shrink");
    Some(refuse(Reason::InvalidSpec, &why, &way))
}

/// Whether its class lets it grow. Err: why what stays as it is.
fn may_grow(s: &Subject<'_>, (key, claim): &Claim<'_>) -> Result<(), String> {
    let Some(class) = class(claim) else { return Err(format!("{key} has no StorageClass, so it")) };
    match s.observed.get(&ObjectKey::cluster(Kind::StorageClass, class)) {
        None => Err(format!("StorageClass {class} does not exist, or Berth may not read it, so {key}")),
        Some(found) if found["allowVolumeExpansion"] != true => Err(format!(
            "StorageClass {class} does not let volumes grow (allowVolumeExpansion; the platform team can set it if the provisioner of the class can do that), so {key}"
        )),
        Some(_) => Ok(()),
    }
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
