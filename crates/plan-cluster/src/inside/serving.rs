//! How many pods of add-ons serve, and why not all: what `status.addons` and `AddonsReady` say, and when the `Cluster` is not `Ready` for it.
//!
//! Counts are those of the Deployment and the DaemonSet, so no pod is read of add-ons that are well.

use super::addons::{REPLICAS, is_off};
use crate::subject::Tenant;
use berth_api::cluster::AddonStatus;
use berth_api::conditions::{ConditionType, Reason, Verdict, find};
use berth_api::labels;
use berth_api::text::TenantText;
use berth_plan::observed::{ApiProbe, InsideTenant};
use berth_plan::workload::{replica_failure, taken_up};
use berth_render::{Kind, Listing, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// How long none of an add-on may serve before the `Cluster` is not `Ready` for it: a node that restarts takes less.
const DOWN: SignedDuration = SignedDuration::from_mins(5);

/// For so long add-ons that do not all serve are looked at with all else of the tenant, once a minute; afterwards as those of any tenant.
const WATCHED: SignedDuration = SignedDuration::from_mins(15);

/// Afterwards one of which none serves is looked at so often with all else; meanwhile it is only counted.
const DOWN_FOR_LONG: SignedDuration = SignedDuration::from_mins(5);

/// After a change pods mostly serve by then.
const SETTLES: SignedDuration = SignedDuration::from_mins(2);

/// What is quoted of a tenant, at the most, in bytes.
const LONGEST: usize = 300;

/// How one that is gone comes back.
pub(super) const AT_ONCE: &str = "Berth writes it again";
/// The same of one of which something is refused.
pub(super) const ONCE_MENDED: &str = "Berth writes it again once what Ready says of the spec is mended";

/// Where an add-on's pods come from.
struct Pods {
    addon: &'static str,
    kind: Kind,
    /// The value of its pods' label `k8s-app`.
    app: &'static str,
}

const ALL: [Pods; 3] = [
    Pods { addon: "coredns", kind: Kind::Deployment, app: "kube-dns" },
    Pods { addon: "kube-proxy", kind: Kind::DaemonSet, app: "kube-proxy" },
    Pods { addon: "api-proxy", kind: Kind::DaemonSet, app: "api-proxy" },
];

impl Pods {
    fn of(addon: &str) -> Option<&'static Self> {
        ALL.iter().find(|pods| pods.addon == addon)
    }

    fn listing(&self) -> Listing {
        Listing { kind: self.kind, namespace: Some("kube-system") }
    }

    /// What is there. None: it was not read; `Some(None)`: nothing that carries Berth's label.
    #[expect(clippy::option_option)]
    fn workload<'a>(&self, read: &'a InsideTenant) -> Option<Option<&'a Value>> {
        read.get(&ObjectKey::namespaced(self.kind, "kube-system", self.addon))
    }

    /// As many as there will be when it is written.
    fn made(&self, t: &Tenant<'_>) -> i32 {
        match self.kind {
            Kind::DaemonSet => ready_nodes(t),
            _ => t.cluster.spec.addons.core_dns.replicas.unwrap_or(REPLICAS),
        }
    }

    fn count(&self, live: &Value) -> Count {
        let number =
            |path: &str| live.pointer(path).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        let (wanted, available, updated) = match self.kind {
            Kind::DaemonSet => {
                ("/status/desiredNumberScheduled", "/status/numberAvailable", "/status/updatedNumberScheduled")
            }
            _ => ("/spec/replicas", "/status/availableReplicas", "/status/updatedReplicas"),
        };
        let wanted = number(wanted).max(0);
        // A Deployment makes a new pod before an old one goes. As long as pods are not available and old ones left, these are the ones that serve.
        let left = match self.kind {
            Kind::DaemonSet => 0,
            _ if number("/status/replicas") <= number(available) => 0,
            _ => (number("/status/replicas") - number(updated)).max(0),
        };
        let (ready, updated) = (number(available).clamp(0, wanted), number(updated).clamp(0, (wanted - left).max(0)));
        Count { ready, wanted, updated, is_taken_up: taken_up(live) }
    }
}

/// What a workload says of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    ready: i32,
    wanted: i32,
    /// Made from its newest spec.
    updated: i32,
    is_taken_up: bool,
}

/// Where the counts are listed of add-ons that were written.
pub(crate) fn listings(t: &Tenant<'_>) -> Vec<Listing> {
    let was_written = |pods: &&Pods| t.status().addons.iter().any(|a| a.name == pods.addon && a.version.is_some());
    ALL.iter().filter(was_written).map(Pods::listing).collect()
}

/// Whose pods are to be looked at, by their label `k8s-app`: those of add-ons of which not all serve.
pub(crate) fn doubtful(t: &Tenant<'_>) -> Vec<&'static str> {
    let told = t.status().addons;
    let doubtful = told.iter().filter(|a| a.message.is_some() && !is_off(t, &a.name));
    doubtful.filter_map(|a| Some(Pods::of(&a.name)?.app)).collect()
}

/// Whether they are looked at with all else of the tenant, once a minute: none of one was counted yet, or for a while none serves, or something
/// changed a while ago.
pub(crate) fn in_doubt(t: &Tenant<'_>) -> bool {
    let conditions = t.status().conditions;
    let told = find(&conditions, ConditionType::AddonsReady);
    if told.is_some_and(|c| c.status == "Unknown") {
        return true;
    }
    let since = told.map(|c| c.last_transition_time.0);
    let is_new = since.is_some_and(|since| t.now.duration_since(since) < WATCHED);
    let told = t.status().addons;
    let is_down = are_down(t, &told).any(|(_, since)| t.now.duration_since(since) < WATCHED);
    is_down || (is_new && !doubtful(t).is_empty())
}

/// Add-ons of which none serves, and since when.
fn are_down<'a>(t: &'a Tenant<'_>, told: &'a [AddonStatus]) -> impl Iterator<Item = (&'a AddonStatus, Timestamp)> {
    told.iter().filter(move |a| !is_off(t, &a.name)).filter_map(|a| Some((a, a.down_since.as_ref()?.0)))
}

/// Where pods are counted once a minute at rest, too: of add-ons of which none serves.
pub(crate) fn counted_at_rest(t: &Tenant<'_>) -> Vec<Listing> {
    let told = t.status().addons;
    are_down(t, &told).filter_map(|(a, _)| Some(Pods::of(&a.name)?.listing())).collect()
}

/// When those of which none serves are looked at with all else again, if nothing tells of a change before. None: there are none.
pub(crate) fn looks_again(t: &Tenant<'_>, told: &[AddonStatus]) -> Option<SignedDuration> {
    are_down(t, told).next().map(|_| DOWN_FOR_LONG)
}

/// Whether what is told of them is about to change: for a moment not all serve after each change, and no watch tells when they do.
pub(crate) fn settles(t: &Tenant<'_>, told: &[AddonStatus]) -> bool {
    let conditions = t.status().conditions;
    let since = find(&conditions, ConditionType::AddonsReady).filter(|c| c.status != "True");
    let is_new = since.is_none_or(|c| t.now.duration_since(c.last_transition_time.0) < SETTLES);
    let is_uncounted = |a: &AddonStatus| a.ready.is_none() && ready_nodes(t) > 0;
    is_new && told.iter().any(|a| (a.message.is_some() || is_uncounted(a)) && !is_off(t, &a.name))
}

/// Whether as many of them serve as `told`, as far as that was read.
pub fn are_as_told(told: &[AddonStatus], read: &InsideTenant) -> bool {
    // Without a node none is counted.
    told.iter().filter(|told| told.ready.is_some()).all(|told| {
        let seen = Pods::of(&told.name).and_then(|pods| Some(pods.workload(read)?.map(|live| pods.count(live))));
        seen.is_none_or(|count| match count {
            Some(count) => (told.ready, told.wanted) == (Some(count.ready), Some(count.wanted)),
            None => told.ready == Some(0),
        })
    })
}

/// What is told of one that is on. `told`: what is told of it but for its pods, with what was told of these before; `back`: how it comes back if
/// it is gone.
pub(super) fn with_pods(t: &Tenant<'_>, read: &InsideTenant, told: AddonStatus, back: &str) -> AddonStatus {
    if ready_nodes(t) == 0 {
        return AddonStatus { ready: None, wanted: None, message: None, down_since: None, ..told };
    }
    let Some((pods, live)) = Pods::of(&told.name).and_then(|pods| Some((pods, pods.workload(read)?))) else {
        return told;
    };
    let (ready, wanted, message) = match live {
        Some(live) => {
            let count = pods.count(live);
            (count.ready, count.wanted, why_not(pods, live, count, read.pods.get(pods.app)))
        }
        // It was never written, or is to be gone.
        None if told.version.is_none() || is_off(t, &told.name) => return told,
        None => (0, told.wanted.unwrap_or_else(|| pods.made(t)), Some(gone(pods, back))),
    };
    let is_down = ready == 0 && (wanted > 0 || pods.kind == Kind::Deployment);
    let since = told.down_since.filter(|_| is_down).or_else(|| is_down.then_some(Time(t.now)));
    AddonStatus { ready: Some(ready), wanted: Some(wanted), message, down_since: since, ..told }
}

fn gone(pods: &Pods, back: &str) -> String {
    let (kind, name, label) = (pods.kind.name(), pods.addon, labels::TENANT_SET);
    format!("{kind} kube-system/{name} does not exist, or has lost its label {label}. {back}")
}

fn why_not(pods: &Pods, live: &Value, count: Count, of_pods: Option<&TenantText>) -> Option<String> {
    let Count { ready, wanted, updated, is_taken_up } = count;
    let (kind, name, app) = (pods.kind.name(), pods.addon, pods.app);
    if pods.kind == Kind::Deployment && wanted == 0 {
        return Some(format!(
            "Deployment kube-system/{name} has 0 replicas: nothing answers DNS queries. Set spec.addons.coreDNS.replicas, or scale it in the tenant"
        ));
    }
    if !is_taken_up {
        return Some(format!(
            "kube-controller-manager has not taken up the last change of {kind} kube-system/{name} yet"
        ));
    }
    if ready >= wanted && updated >= wanted {
        return None;
    }
    let failure = replica_failure(live).map(|why| TenantText::of(why, LONGEST));
    let why = failure.as_ref().or(of_pods).map_or_else(
        || format!("in the tenant, see kubectl -n kube-system describe pods -l k8s-app={app}"),
        ToString::to_string,
    );
    Some(if updated < wanted { format!("{updated} of {wanted} pods have the last change: {why}") } else { why })
}

fn ready_nodes(t: &Tenant<'_>) -> i32 {
    let counted = match &t.observed.api {
        ApiProbe::Answered { read, .. } => read.nodes.as_ref().map(|nodes| nodes.count.ready),
        _ => None,
    };
    counted.or_else(|| Some(t.status().nodes?.ready)).unwrap_or(0)
}

/// `AddonsReady`. None: no add-on is on. `told`: what the status tells of them.
pub(crate) fn verdict(t: &Tenant<'_>, told: &[AddonStatus]) -> Option<Verdict> {
    let on: Vec<_> = told.iter().filter(|a| !is_off(t, &a.name)).collect();
    if on.is_empty() {
        return None;
    }
    let of = |status, reason, message| Some(Verdict::new(ConditionType::AddonsReady, status, reason, message));
    if ready_nodes(t) == 0 {
        let names: Vec<_> = on.iter().map(|a| &*a.name).collect();
        return of(
            Some(true),
            Reason::AsExpected,
            format!("no node of the tenant is ready to run {}", names.join(" and ")),
        );
    }
    if let Some(unseen) = on.iter().find(|a| a.ready.is_none()) {
        return of(None, Reason::NotYetObserved, format!("pods of {} have not been counted yet", unseen.name));
    }
    let is_well = on.iter().all(|a| a.message.is_none());
    let all: Vec<_> = on.iter().map(|a| say(a)).collect();
    let reason = if is_well { Reason::AsExpected } else { Reason::AddonsNotReady };
    of(Some(is_well), reason, all.join("; "))
}

fn say(told: &AddonStatus) -> String {
    let (ready, wanted) = (told.ready.unwrap_or(0), told.wanted.unwrap_or(0));
    let why = told.message.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    format!("{}: {ready} of {wanted} pods serve{why}", told.name)
}

/// What is told of an add-on of which no pod serves although there are to be some. What was not counted is none of them.
pub(crate) fn none_serves(told: &[AddonStatus], addon: &str) -> Option<String> {
    let none = |a: &&AddonStatus| a.name == addon && a.ready == Some(0) && a.wanted.is_some_and(|wanted| wanted > 0);
    told.iter().find(none).map(say)
}

/// What `Ready` and `Degraded` say of it: none of an add-on has served for a while.
pub(crate) fn down(t: &Tenant<'_>, told: &[AddonStatus]) -> Option<(Reason, String)> {
    let is_long = |since: Timestamp| t.now.duration_since(since) >= DOWN;
    let (down, since) = are_down(t, told).find(|(_, since)| is_long(*since)).filter(|_| ready_nodes(t) > 0)?;
    let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
    Some((Reason::AddonsNotReady, format!("no pod of an add-on has served since {since}: {}", say(down))))
}
