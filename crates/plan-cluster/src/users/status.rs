//! What a `ClusterAccess` says of itself.

use super::decide::Outcome;
use berth_api::cluster_access::{AccessInCluster, AccessState};
use berth_api::conditions::{Reason, Verdict, shortened};
use berth_api::text::printable;
use berth_api::until::Until;
use berth_api::{ClusterAccess, ClusterAccessStatus};
use berth_plan::fleet::TenantId;
use berth_plan::verdicts;
use jiff::Timestamp;

/// So many tenants that are not as asked for are listed.
const LISTED: usize = 16;

/// What is said of one, at the most, in bytes.
const LONGEST: usize = 300;

/// `refusal`: why it is given nowhere. `all`: how it is in each tenant that it means, or that it gave something in. `missing`: `Cluster`s that it
/// names and that are not there.
pub fn status(
    access: &ClusterAccess,
    refusal: Option<(Reason, String)>,
    all: &[(TenantId, Outcome)],
    missing: &[TenantId],
    now: Timestamp,
) -> ClusterAccessStatus {
    let count = |state| all.iter().filter(|(_, outcome)| outcome.state == state).count();
    let old = access.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut bad: Vec<_> = all.iter().filter(|(_, outcome)| outcome.state != AccessState::Granted).collect();
    bad.sort_by(|(a, of_a), (b, of_b)| (of_a.state, a).cmp(&(of_b.state, b)));
    let clusters = bad.iter().take(LISTED).map(|(id, Outcome { state, message })| AccessInCluster {
        namespace: id.namespace.clone(),
        name: id.name.clone(),
        state: *state,
        message: shortened(&printable(message), LONGEST),
    });
    let clusters: Vec<AccessInCluster> = clusters.collect();
    let generation = access.metadata.generation.unwrap_or_default();
    let verdicts = verdicts(access, refusal, all, missing, (&clusters, now));
    let many = |n: usize| Some(i64::try_from(n).unwrap_or(i64::MAX));
    ClusterAccessStatus {
        observed_generation: Some(generation),
        granted_by: access.spec.granted_by.clone(),
        selected: many(all.len()),
        granted: many(count(AccessState::Granted)),
        waiting: many(count(AccessState::Waiting)),
        failed: many(count(AccessState::Failed)),
        not_revoked: many(count(AccessState::NotRevoked)),
        conditions: verdicts::publish(old, verdicts, generation, now, false),
        clusters,
    }
}

fn verdicts(
    access: &ClusterAccess,
    refusal: Option<(Reason, String)>,
    all: &[(TenantId, Outcome)],
    missing: &[TenantId],
    (clusters, now): (&[AccessInCluster], Timestamp),
) -> Vec<Verdict> {
    let in_state = |state| {
        let n = all.iter().filter(|(_, outcome)| outcome.state == state).count();
        let one = clusters.iter().find(|cluster| cluster.state == state);
        one.map(|one| format!("{n} of {} Clusters, such as {}/{}: {}", all.len(), one.namespace, one.name, one.message))
    };
    let not_revoked = in_state(AccessState::NotRevoked);
    if access.metadata.deletion_timestamp.is_some() {
        return verdicts::deleting(
            not_revoked.map(|rest| format!("rights are not taken back yet in {rest}")).as_deref(),
        );
    }
    if let Some(rest) = not_revoked {
        let message = format!("rights that ended are not taken back yet in {rest}. It is tried again");
        return verdicts::both(Some(false), true, Reason::Error, message);
    }
    if let Some((reason, message)) = refusal {
        return verdicts::both(Some(false), true, reason, message);
    }
    let until = access.spec.expires_at.as_ref().and_then(Until::time);
    let by = access.spec.granted_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
    let among = if all.len() == 1 { "1 Cluster".to_owned() } else { format!("{} Clusters", all.len()) };
    let time = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if let Some(until) = until.filter(|until| *until <= now) {
        // What was there before it ended, and was not looked at since.
        if let Some((first, _)) = all.first() {
            let until = time(until);
            let message = format!("it ended at {until}; rights are still to be taken back in {among}, such as {first}");
            return verdicts::both(Some(false), false, Reason::Waiting, message);
        }
        let message = format!("it ended at {}, and all rights are taken back", time(until));
        return verdicts::both(Some(true), false, Reason::AsExpected, message);
    }
    if let Some(rest) = in_state(AccessState::Failed) {
        return verdicts::both(Some(false), true, Reason::Error, format!("not given in {rest}. It is tried again"));
    }
    if let Some(first) = missing.first() {
        let more = if missing.len() > 1 { format!(" and {} more", missing.len() - 1) } else { String::new() };
        let message = format!("spec.clusterRefs: there is no Cluster {first}{more}");
        return verdicts::both(Some(false), false, Reason::Waiting, message);
    }
    if all.is_empty() {
        return verdicts::both(Some(false), false, Reason::Waiting, "spec.clusterSelector: no Cluster fits it");
    }
    if let Some(rest) = in_state(AccessState::Waiting) {
        return verdicts::both(Some(false), false, Reason::Waiting, format!("waiting in {rest}"));
    }
    let until = until.map(|until| format!(" until {}", time(until))).unwrap_or_default();
    let message = format!("{} is given in {among}{until}{by}", access.spec.role);
    verdicts::both(Some(true), false, Reason::AsExpected, message)
}
