//! What `ClusterAccess`es give, as it is listed: all in all, and in one `Cluster`.

use crate::paint::{bad, good, safe, warn};
use crate::{age, output};
use berth_api::cluster_access::{AccessInCluster, AccessState, AccessSubject, Issuer, SubjectKind};
use berth_api::conditions::{ConditionType, find};
use berth_api::selector::{ClusterSelector, LabelOperator, NamedCluster};
use berth_api::{ClusterAccess, ClusterAccessStatus};
use berth_plan::fleet::TenantId;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

/// What one gives, to one of its subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Given {
    access: String,
    pub(super) kind: SubjectKind,
    pub(super) name: String,
    /// Whose name that is.
    issuer: Issuer,
    role: String,
    /// Of the tenant; empty: all.
    namespaces: Vec<String>,
    /// Which are meant: names, or labels.
    clusters: String,
    expires_at: Option<String>,
    granted_by: Option<String>,
    reason: Option<String>,
    /// `Cluster`s where it is given, and that are meant.
    granted: i64,
    selected: i64,
    /// How it is in the `Cluster` that was asked for, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    pub(super) ready: bool,
    message: String,
}

/// `of`: how it is there, and not all in all.
pub(super) fn given(access: &ClusterAccess, of: Option<&TenantId>) -> Vec<Given> {
    let (spec, status) = (&access.spec, access.status.clone().unwrap_or_default());
    let said = find(&status.conditions, ConditionType::Ready);
    let in_all = (said.is_some_and(|said| said.status == "True"), said.map_or("", |said| &*said.message).to_owned());
    let there = of.map(|of| state(access, &status, of));
    let (ready, message) = match &there {
        Some((state, message)) => (*state == Some(AccessState::Granted), message.clone()),
        None => in_all,
    };
    let one = |subject: &AccessSubject| Given {
        access: format!("{}/{}", access.namespace().unwrap_or_default(), access.name_any()),
        kind: subject.kind,
        name: subject.name.clone(),
        issuer: spec.issuer,
        role: spec.role.clone(),
        namespaces: spec.namespaces.clone(),
        clusters: which(spec.cluster_selector.as_ref(), &spec.cluster_refs),
        expires_at: spec.expires_at.as_ref().map(|at| at.time().map_or_else(|| at.as_str().to_owned(), time)),
        granted_by: spec.granted_by.clone(),
        reason: spec.reason.clone(),
        granted: status.granted.unwrap_or_default(),
        selected: status.selected.unwrap_or_default(),
        state: there.as_ref().and_then(|(state, _)| state.map(AccessState::as_str)),
        ready,
        message: message.clone(),
    };
    spec.subjects.iter().map(one).collect()
}

fn which(selector: Option<&ClusterSelector>, named: &[NamedCluster]) -> String {
    let Some(ClusterSelector { match_labels, match_expressions }) = selector else {
        let name = |of: &NamedCluster| match &of.namespace {
            Some(namespace) => format!("{namespace}/{}", of.name),
            None => of.name.clone(),
        };
        return named.iter().map(name).collect::<Vec<_>>().join(",");
    };
    let labels = match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let more = match_expressions.iter().map(|of| match of.operator {
        LabelOperator::In => format!("{} in ({})", of.key, of.values.join(",")),
        LabelOperator::NotIn => format!("{} notin ({})", of.key, of.values.join(",")),
        LabelOperator::Exists => of.key.clone(),
        LabelOperator::DoesNotExist => format!("!{}", of.key),
    });
    let all: Vec<_> = labels.chain(more).collect();
    if all.is_empty() { "all".to_owned() } else { all.join(",") }
}

pub(super) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Those that are not as asked for, and how many of them the status does not name.
fn not_as_asked(status: &ClusterAccessStatus) -> (&[AccessInCluster], i64) {
    let of = [status.waiting, status.failed, status.not_revoked];
    let all: i64 = of.into_iter().map(Option::unwrap_or_default).sum();
    (&status.clusters, all - i64::try_from(status.clusters.len()).unwrap_or(all))
}

/// How it is in that `Cluster`, by its status.
fn state(access: &ClusterAccess, status: &ClusterAccessStatus, of: &TenantId) -> (Option<AccessState>, String) {
    let (named, unnamed) = not_as_asked(status);
    if let Some(there) = named.iter().find(|there| there.namespace == of.namespace && there.name == of.name) {
        return (Some(there.state), there.message.clone());
    }
    if status.observed_generation != access.metadata.generation {
        return (None, "the operator has not seen it yet".to_owned());
    }
    if unnamed > 0 {
        return (
            None,
            format!("its status has {unnamed} more Clusters that are not as asked for, and names none of them"),
        );
    }
    let said = find(&status.conditions, ConditionType::Ready).map(|said| said.message.clone()).unwrap_or_default();
    if status.granted.unwrap_or_default() == 0 { (None, said) } else { (Some(AccessState::Granted), String::new()) }
}

/// Whether it ended, or is deleted.
fn is_over(access: &ClusterAccess, now: Timestamp) -> bool {
    let ended = access.spec.expires_at.as_ref().is_some_and(|until| until.is_over(now));
    ended || access.metadata.deletion_timestamp.is_some()
}

/// Whether somebody has anything by it, as far as its status tells: one that ended still gives what is not taken back.
pub(super) fn counts(access: &ClusterAccess, now: Timestamp) -> bool {
    let status = access.status.clone().unwrap_or_default();
    let left = status.granted.unwrap_or_default() + status.not_revoked.unwrap_or_default();
    !is_over(access, now) || left > 0
}

/// The same in that `Cluster`. `is_meant`: whether it is for that one, as it says now.
pub(super) fn counts_in(access: &ClusterAccess, of: &TenantId, is_meant: bool, now: Timestamp) -> bool {
    let status = access.status.clone().unwrap_or_default();
    let (named, unnamed) = not_as_asked(&status);
    let is_it = |there: &&AccessInCluster| there.namespace == of.namespace && there.name == of.name;
    let is_left = named.iter().find(is_it).is_some_and(|there| there.state == AccessState::NotRevoked);
    let may_be = is_meant && (status.granted.unwrap_or_default() > 0 || unnamed > 0);
    is_left || (is_meant && !is_over(access, now)) || (is_over(access, now) && may_be)
}

pub(super) fn table(given: &[Given], now: Timestamp) -> String {
    let rows = given.iter().map(|one| {
        let until = one.expires_at.as_ref().map(|at| at.parse::<Timestamp>().ok());
        let until = match until.map(|at| at.map(|at| age::until(at, now))) {
            None => "-".to_owned(),
            Some(None) => "no time".to_owned(),
            Some(Some(None)) => "ended".to_owned(),
            Some(Some(Some(left))) => format!("in {left}"),
        };
        let how = one.state.map_or_else(|| format!("{}/{}", one.granted, one.selected), str::to_owned);
        let within = if one.namespaces.is_empty() { "all".to_owned() } else { one.namespaces.join(",") };
        // The same word is another person there.
        let whose = if one.issuer == Issuer::Tenant { " (tenant's)" } else { "" };
        vec![
            format!("{} {}{whose}", one.kind.as_str(), safe(&one.name)),
            safe(&one.role),
            safe(&within),
            safe(&one.clusters),
            if one.ready { good(&how) } else { warn(&how) },
            until,
            safe(one.granted_by.as_deref().unwrap_or("-")),
            safe(&one.access),
            if one.ready { safe(one.reason.as_deref().unwrap_or_default()) } else { bad(&safe(&one.message)) },
        ]
    });
    output::table(["WHO", "ROLE", "NAMESPACES", "CLUSTERS", "GIVEN", "UNTIL", "BY", "CLUSTERACCESS", ""], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-11-30T12:00:00Z".parse().unwrap()
    }

    fn access(spec: &Value, status: &Value) -> ClusterAccess {
        let mut all =
            json!({"subjects": [{"kind": "User", "name": "eve"}], "role": "Viewer", "clusterRefs": [{"name": "acme"}]});
        for (field, value) in spec.as_object().unwrap() {
            all[field] = value.clone();
        }
        serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess",
            "metadata": {"name": "devs", "namespace": "team-a", "generation": 1}, "spec": all, "status": status,
        }))
        .unwrap()
    }

    fn acme() -> TenantId {
        TenantId { namespace: "team-a".into(), name: "acme".into() }
    }

    fn in_acme(state: &str) -> Value {
        json!([{"namespace": "team-a", "name": "acme", "state": state, "message": "it sleeps"}])
    }

    #[test]
    fn in_a_cluster_it_is_as_the_status_says_of_that_one() {
        let ready = |message: &str| json!([{"type": "Ready", "status": "False", "reason": "Waiting", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (status, state, message) in [
            (
                json!({"observedGeneration": 1, "selected": 2, "granted": 1, "waiting": 1, "clusters": in_acme("Waiting")}),
                Some("Waiting"),
                "it sleeps",
            ),
            (
                json!({"observedGeneration": 1, "selected": 2, "granted": 1, "waiting": 1, "clusters": [{"namespace": "team-a", "name": "b", "state": "Waiting", "message": ""}]}),
                Some("Granted"),
                "",
            ),
            (
                json!({"observedGeneration": 1, "selected": 3, "granted": 1, "waiting": 2}),
                None,
                "its status has 2 more Clusters",
            ),
            (json!({"observedGeneration": 0, "selected": 1, "granted": 1}), None, "the operator has not seen it yet"),
            (json!({}), None, "the operator has not seen it yet"),
            (json!({"observedGeneration": 1, "conditions": ready("spec.role: no")}), None, "spec.role: no"),
        ] {
            let one = given(&access(&json!({}), &status), Some(&acme())).remove(0);
            assert_eq!((one.state, one.ready), (state, state == Some("Granted")));
            assert!(one.message.starts_with(message), "{}", one.message);
        }
    }

    /// Until it is taken back somebody has it, whatever the object says.
    #[test]
    fn what_ended_counts_until_it_is_taken_back() {
        let (over, granted) = (json!({"expiresAt": "2026-11-30T11:00:00Z"}), json!({"selected": 1, "granted": 1}));
        let left = json!({"selected": 1, "notRevoked": 1, "clusters": in_acme("NotRevoked")});
        let elsewhere = json!({"selected": 1, "notRevoked": 1, "clusters": [{"namespace": "team-a", "name": "b", "state": "NotRevoked", "message": ""}]});
        for (spec, status, is_meant, is_there, anywhere) in [
            (json!({}), json!({}), true, true, true),
            (json!({}), json!({}), false, false, true),
            (over.clone(), json!({"selected": 0, "granted": 0}), true, false, false),
            (over.clone(), granted, true, true, true),
            (over.clone(), left.clone(), true, true, true),
            (over, elsewhere, true, false, true),
            // It is not for that one any more.
            (json!({}), left, false, true, true),
        ] {
            let access = access(&spec, &status);
            let said = (counts_in(&access, &acme(), is_meant, now()), counts(&access, now()));
            assert_eq!(said, (is_there, anywhere), "{access:?}");
        }
    }

    #[test]
    fn whose_name_it_is_and_which_clusters_are_meant_is_told() {
        let selector = json!({"matchLabels": {"tier": "gold"}, "matchExpressions": [
            {"key": "env", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"},
        ]});
        let spec = json!({"issuer": "Tenant", "clusterRefs": [], "clusterSelector": selector, "reason": "a look"});
        let mut one = given(&access(&spec, &json!({})), None);
        assert_eq!(one[0].clusters, "tier=gold,env in (a,b),!old");
        one[0].ready = true;
        let text = crate::paint::plain(&table(&one, now()));
        assert!(text.contains("User eve (tenant's)") && text.contains("a look"), "{text}");
        let named = json!({"clusterRefs": [{"name": "acme"}, {"name": "x", "namespace": "team-b"}]});
        assert_eq!(given(&access(&named, &json!({})), None)[0].clusters, "acme,team-b/x");
        let all = json!({"clusterRefs": [], "clusterSelector": {}});
        assert_eq!(given(&access(&all, &json!({})), None)[0].clusters, "all");
    }
}
