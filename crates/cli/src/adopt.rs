//! `adopt`: takes over a control-plane namespace whose `Cluster` is gone.

use crate::access::Access;
use crate::args::{Adopt, Meta};
use crate::confirm::confirmed;
use crate::outcome::Outcome;
use crate::{output, paint, unchanged};
use anyhow::bail;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::{Cluster, labels, names};
use berth_kubeio::ErrorKind;
use berth_plan::object_meta::{annotation, label, uid};
use berth_plan::observed::Observed;
use berth_plan::{Planner as _, Settings, State};
use berth_plan_cluster::{ClusterPlanner, Input, adoptable, without_advice};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Explains, asks, and sets the annotation.
pub(crate) async fn run(meta: &Meta, args: &Adopt) -> anyhow::Result<Outcome> {
    let access = Access::to_write(meta).await?;
    let (of, value, cluster) = access.read_cluster(&args.name).await?;
    let cp_namespace = names::control_plane_namespace(&access.namespace, &args.name);
    let (live, verdict) = match access.io.get(&ObjectKey::cluster(Kind::Namespace, &cp_namespace)).await {
        Ok(live) => (live.clone(), judge(&cluster, live.as_ref(), Timestamp::now())),
        Err(error) if error.kind == ErrorKind::Forbidden => {
            let verdict = told(&cluster).ok_or_else(|| access.explain(error))?;
            (None, verdict)
        }
        Err(error) => return Err(access.explain(error)),
    };
    let wanted = match verdict {
        Verdict::Nothing(why) => {
            output::print(&format!("{of}: nothing to adopt: {}\n", paint::safe(&why)))?;
            return Ok(Outcome::NotYet);
        }
        Verdict::Adopt { value, why } => {
            output::print(&explanation(&of, &cp_namespace, &cluster, live.as_ref(), &why))?;
            value
        }
    };
    if !args.yes && !confirmed(&args.name, "take over")? {
        bail!("{of}: nothing was changed");
    }
    let patch = json!({"metadata": {"annotations": {(labels::ADOPT): wanted}}});
    unchanged::patch(&access, &value, &patch).await?;
    output::print(&format!(
        "{of}: annotation {}={} is set, and the operator takes over. Next: kubectl berth status {name} -n {ns}\nOnce it is Ready, remove the annotation, since with it Berth accepts a replaced namespace unasked: kubectl -n {ns} annotate clusters.berth.dev {name} {}-\n",
        labels::ADOPT,
        paint::safe(&wanted),
        labels::ADOPT,
        name = args.name,
        ns = access.namespace,
    ))?;
    Ok(Outcome::Done)
}

/// What there is to adopt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Set the annotation to this value.
    Adopt {
        /// The UID.
        value: String,
        /// What the condition says.
        why: String,
    },
    /// Nothing, for this reason.
    Nothing(String),
}

/// Asks the planner, as the operator does: its answer is what the condition says, or will say in a moment.
fn judge(cluster: &Cluster, live: Option<&Value>, now: Timestamp) -> Verdict {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let cp_namespace = ObjectKey::cluster(Kind::Namespace, names::control_plane_namespace(namespace, name));
    let mut observed = Observed { denied: true, ..Observed::default() };
    if let Some(live) = live {
        // Whether this team may is the operator's to judge, who can read its namespace.
        observed.team_uid = annotation(live, labels::TEAM_UID).map(str::to_owned);
        observed.put(cp_namespace.clone(), live.clone());
    }
    let settings = Settings::default();
    let planned = ClusterPlanner::plan(Input { object: cluster, observed: &observed, settings: &settings, now });
    let value = adoptable(cluster, &observed, &planned.plan);
    let blocked = planned.plan.stages.iter().find_map(|s| match &s.state {
        State::Blocked { reason: Reason::AdoptionRequired | Reason::ControlPlaneLost, message } => {
            Some(message.clone())
        }
        _ => None,
    });
    match (blocked, live) {
        (Some(why), _) => match value {
            Some(value) => Verdict::Adopt { value, why },
            // It is not there, or about to go.
            None => Verdict::Nothing(format!("{why}. Run this again when it is restored")),
        },
        (None, None) => Verdict::Nothing(format!("{cp_namespace} does not exist; Berth creates it")),
        (None, Some(live)) if label(live, labels::CLUSTER_UID) == cluster.metadata.uid.as_deref() => {
            Verdict::Nothing(format!("{cp_namespace} is this Cluster's own"))
        }
        (None, Some(_)) => {
            let asked = cluster.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(labels::ADOPT));
            Verdict::Nothing(if asked {
                format!("the annotation {} is already set; the operator takes over", labels::ADOPT)
            } else {
                format!(
                    "{cp_namespace} exists and cannot be taken over; `kubectl berth status {name} -n {namespace}` says why"
                )
            })
        }
    }
}

/// What the operator's status says, for those who may not read namespaces.
fn told(cluster: &Cluster) -> Option<Verdict> {
    let status = cluster.status.as_ref()?;
    let degraded = find(&status.conditions, ConditionType::Degraded).filter(|c| c.status == "True")?;
    // An operator of an earlier build leaves the field as it was.
    let waits = matches!(degraded.reason.parse(), Ok(Reason::AdoptionRequired | Reason::ControlPlaneLost));
    status.adopt.clone().filter(|_| waits).map(|value| Verdict::Adopt { value, why: degraded.message.clone() })
}

fn explanation(of: &str, cp_namespace: &str, cluster: &Cluster, live: Option<&Value>, why: &str) -> String {
    let recorded = cluster.status.as_ref().and_then(|s| s.control_plane_namespace.as_ref()).map(|n| n.uid.as_str());
    let owner = live.map_or("not readable", |l| label(l, labels::CLUSTER_UID).unwrap_or("nobody"));
    let own = cluster.metadata.uid.as_deref().unwrap_or_default();
    let rows = [
        ("Namespace", cp_namespace),
        ("its UID", live.map_or("not readable", uid)),
        ("UID that the Cluster recorded", recorded.unwrap_or("none")),
        ("it belongs to the Cluster with UID", owner),
        ("this Cluster has UID", own),
    ];
    let rows: Vec<_> = rows.iter().map(|(what, value)| vec![format!("  {what}"), paint::safe(value)]).collect();
    // How to take it over is what this command is for.
    format!(
        "{}\n  {}\n{}This takes over etcd's data, the CAs and all keys in that namespace. Kubeconfigs of that tenant keep working.\n",
        paint::strong(of),
        paint::safe(without_advice(why)),
        output::columns(&rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(more: &Value) -> Cluster {
        let mut object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "acme", "namespace": "team-a", "uid": "new"}, "spec": {"version": "1.36.3"},
        });
        for (key, value) in more.as_object().unwrap() {
            object[key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn namespace(owner: &str) -> Value {
        let labels = json!({
            (labels::MANAGED_BY): labels::MANAGED_BY_VALUE, (labels::CLUSTER_NAME): "acme",
            (labels::CLUSTER_NAMESPACE): "team-a", (labels::CLUSTER_UID): owner,
        });
        let name = names::control_plane_namespace("team-a", "acme");
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": "ns", "labels": labels}})
    }

    fn verdict(cluster: &Cluster, live: Option<&Value>) -> Verdict {
        judge(cluster, live, Timestamp::UNIX_EPOCH)
    }

    fn value(verdict: Verdict) -> String {
        match verdict {
            Verdict::Adopt { value, .. } => value,
            Verdict::Nothing(why) => panic!("{why}"),
        }
    }

    fn nothing(verdict: Verdict) -> String {
        match verdict {
            Verdict::Nothing(why) => why,
            Verdict::Adopt { value, .. } => panic!("{value}"),
        }
    }

    #[test]
    fn the_annotation_is_what_the_condition_asks_for() {
        let fresh = cluster(&json!({}));
        assert_eq!(value(verdict(&fresh, Some(&namespace("old")))), "old");
        let another = json!({"status": {"controlPlaneNamespace": {"name": "n", "uid": "before"}}});
        assert_eq!(value(verdict(&cluster(&another), Some(&namespace("new")))), "new");
    }

    #[test]
    fn who_may_not_look_at_namespaces_goes_by_the_status() {
        let degraded = |reason: &str, adopt: Option<&str>| {
            let condition = json!({"type": "Degraded", "status": "True", "reason": reason, "message": "why",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            told(&cluster(&json!({"status": {"conditions": [condition], "adopt": adopt}})))
        };
        for reason in ["AdoptionRequired", "ControlPlaneLost"] {
            assert_eq!(value(degraded(reason, Some("old")).unwrap()), "old");
            assert_eq!(degraded(reason, None), None, "not there, or of an operator that does not say it");
        }
        assert_eq!(degraded("DataLost", Some("old")), None, "left over");
        assert_eq!(told(&cluster(&json!({}))), None);
    }

    #[test]
    fn there_may_be_nothing_to_adopt() {
        let fresh = cluster(&json!({}));
        assert!(nothing(verdict(&fresh, None)).contains("Berth creates it"));
        assert!(nothing(verdict(&fresh, Some(&namespace("new")))).contains("own"));
        let lost = json!({"status": {"controlPlaneNamespace": {"name": "n", "uid": "before"}}});
        assert!(nothing(verdict(&cluster(&lost), None)).contains("Run this again when it is restored"));
        let mut ending = namespace("new");
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(nothing(verdict(&fresh, Some(&ending))).contains("Run this again when it is restored"));
        let foreign = json!({"metadata": {"name": "x", "uid": "u"}});
        assert!(nothing(verdict(&fresh, Some(&foreign))).contains("cannot be taken over"));
        let mut asked = cluster(&json!({}));
        asked.metadata.annotations = Some([(labels::ADOPT.to_owned(), "old".to_owned())].into());
        assert!(nothing(verdict(&asked, Some(&namespace("old")))).contains("already set"));
    }
}
