//! `upgrade`: shows what another version changes, asks, writes it into the spec, and waits.

mod many;

use crate::access::Access;
use crate::args::{Meta, Upgrade};
use crate::confirm::confirmed;
use crate::outcome::Outcome;
use crate::wait::until;
use crate::{output, paint, plan, unchanged};
use anyhow::bail;
use berth_api::conditions::{ConditionType, Reason, find, is_settled};
use berth_api::version::Version;
use berth_api::{Cluster, labels};
use serde_json::{Value, json};

/// Shows the plan, asks, writes, and waits.
pub(crate) async fn run(meta: &Meta, args: &Upgrade) -> anyhow::Result<Outcome> {
    let Some(name) = &args.name else { return many::run(meta, args).await };
    let access = Access::to_write(meta).await?;
    let (of, value, cluster) = access.read_cluster(name).await?;
    let to = args.to.to_string();
    if cluster.spec.asked_version() == Some(args.to) {
        output::print(&format!("{of}: spec.version is {to} already\n"))?;
        if args.now {
            let patch = patch_of(&json!({}), Some(&roll(&cluster, false)));
            unchanged::patch(&access, &value, &patch).await?;
            output::print(&format!("{of}: it waits for no window any more\n"))?;
        }
    } else {
        output::print(&explanation(&of, &cluster, args.to))?;
        let mut wanted = cluster.clone();
        wanted.spec.version.clone_from(&to);
        let what = format!("set spec.version to {to}");
        let asks = (&*what, args.yes, &*args.operator_namespace);
        let roll = args.now.then(|| roll(&cluster, true));
        propose(meta, &access, &value, &wanted, (json!({"version": to}), roll), asks).await?;
        output::print(&format!("{of}: spec.version is {to}\n"))?;
    }
    if !args.wait {
        return Ok(Outcome::Done);
    }
    let look = async || Ok(progress(&access.read_cluster(name).await?.2, args.to));
    Ok(Outcome::done_if(until(args.timeout, look).await? == Some(true)))
}

/// The value of the annotation that waits for no window. `changes`: the spec is changed in the same call, so its generation is the next.
fn roll(cluster: &Cluster, changes: bool) -> String {
    let meta = &cluster.metadata;
    let generation = meta.generation.unwrap_or_default() + i64::from(changes);
    let there = meta.annotations.as_ref().and_then(|all| all.get(labels::ROLL));
    match there {
        // Another value: of what was taken back, the same one asks for nothing.
        Some(there) if *there == generation.to_string() => format!("{generation}-2"),
        _ => generation.to_string(),
    }
}

/// What is written: the spec, and the annotation that waits for no window.
fn patch_of(spec: &Value, roll: Option<&str>) -> Value {
    let mut patch = json!({"spec": spec});
    if let Some(roll) = roll {
        patch["metadata"]["annotations"] = json!({(labels::ROLL): roll});
    }
    patch
}

/// Shows what becomes of the `Cluster` with that spec, asks, and writes the patch of it. `value`: the object as it was read; `what`: what
/// is asked.
pub(crate) async fn propose(
    meta: &Meta,
    access: &Access,
    value: &Value,
    wanted: &Cluster,
    (spec, roll): (Value, Option<String>),
    (what, yes, operator_namespace): (&str, bool, &str),
) -> anyhow::Result<()> {
    let name = wanted.metadata.name.as_deref().unwrap_or_default();
    let of = format!("Cluster {}/{name}", access.namespace);
    // A team may change its Cluster, and not read all that a plan does.
    match plan::planned(meta, wanted, operator_namespace).await {
        Ok(text) => output::print(&text)?,
        Err(error) => output::note(&format!("the plan is not shown: {error:#}")),
    }
    if !yes && !confirmed(name, what)? {
        bail!("{of}: nothing was changed");
    }
    unchanged::patch(access, value, &patch_of(&spec, roll.as_deref())).await
}

/// What is to be expected, from the versions alone: the operator judges the rest.
fn explanation(of: &str, cluster: &Cluster, to: Version) -> String {
    let status = cluster.status.clone().unwrap_or_default();
    let emulates =
        status.emulated_version.as_ref().map(|minor| format!(", which emulates {minor}")).unwrap_or_default();
    let runs = status.version.as_deref().unwrap_or("no version yet");
    let minor = cluster.spec.asked_version().and_then(|now| to.minor().since(now.minor()));
    let wait = &cluster.spec.upgrade.finalize_after;
    let what = match minor {
        Some(0) => "a patch version: kube-apiserver rolls first, then the others".to_owned(),
        Some(1) => format!(
            "the next minor version, in two steps: it first emulates the one before. For {wait} after that (spec.upgrade.finalizeAfter) {} can be set again",
            cluster.spec.version
        ),
        Some(n) if n < 0 => {
            "an older minor version: Berth goes back to it only if no newer one was served since".to_owned()
        }
        _ => "more than one minor version: Berth refuses that".to_owned(),
    };
    format!("{}\n  {} → {to}: {what}\n  It runs {runs}{emulates}\n", paint::strong(of), cluster.spec.version)
}

/// Whether it has ended, well or not, and what is to be said.
fn progress(cluster: &Cluster, to: Version) -> (Option<bool>, String) {
    let status = cluster.status.clone().unwrap_or_default();
    if status.observed_generation != cluster.metadata.generation {
        return (None, "wait: the operator has not seen it yet".to_owned());
    }
    if cluster.spec.asked_version() != Some(to) {
        return (Some(false), format!("spec.version is {} by now", cluster.spec.version));
    }
    let of = |type_| find(&status.conditions, type_);
    let Some(ready) = of(ConditionType::Ready) else { return (None, "wait: no condition Ready yet".to_owned()) };
    let through = status.version.is_some_and(|runs| runs.parse() == Ok(to));
    if is_settled(ready) && through {
        let emulating = ready.reason == Reason::Emulating.as_str();
        let message = match &*ready.status {
            "True" if emulating => ready.message.clone(),
            "True" => format!("{to} is served"),
            _ => format!("{to} runs; Ready is False for another reason, {}: {}", ready.reason, ready.message),
        };
        return (Some(true), message);
    }
    // What was wrong before it, and is no obstacle to it, does not end it.
    match of(ConditionType::Stalled).filter(|stalled| stalled.status == "True" && !is_settled(ready)) {
        Some(stalled) => (Some(false), format!("{}: {}", stalled.reason, stalled.message)),
        None => (None, format!("wait: {}", ready.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(version: &str, generation: i64, status: &Value) -> Cluster {
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "acme", "namespace": "team-a", "generation": generation},
            "spec": {"version": version}, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn status(version: &str, conditions: &[(&str, &str, &str, &str)]) -> Value {
        let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        json!({"observedGeneration": 2, "version": version, "conditions": conditions.iter().map(condition).collect::<Vec<_>>()})
    }

    #[test]
    fn it_waits_until_it_is_served_or_emulates_and_no_longer_than_there_is_hope() {
        let to: Version = "1.36.3".parse().unwrap();
        let ended = |version: &str, conditions: &[(&str, &str, &str, &str)]| {
            progress(&cluster("1.36.3", 2, &status(version, conditions)), to)
        };
        assert_eq!(
            progress(&cluster("1.36.3", 3, &status("1.36.3", &[("Ready", "True", "AsExpected", "")])), to).0,
            None
        );
        assert_eq!(ended("1.35.4", &[("Ready", "True", "AsExpected", "")]).0, None, "of what ran before");
        assert_eq!(ended("1.36.3", &[("Ready", "False", "RollingOut", "x")]), (None, "wait: x".into()));
        assert_eq!(ended("1.36.3", &[("Ready", "True", "AsExpected", "")]), (Some(true), "1.36.3 is served".into()));
        let emulates = ended("1.36.3", &[("Ready", "True", "Emulating", "until then")]);
        assert_eq!(emulates, (Some(true), "until then".into()));
        let no_address =
            |message| [("Ready", "False", "NoIPAddress", message), ("Stalled", "True", "NoIPAddress", message)];
        let through = "1.36.3 runs; Ready is False for another reason, NoIPAddress: set a field".to_owned();
        assert_eq!(ended("1.36.3", &no_address("set a field")), (Some(true), through));
        let waits = ended("1.35.4", &no_address("set a field. 1.36.3: waiting for spec.upgrade.window"));
        assert_eq!(waits, (None, "wait: set a field. 1.36.3: waiting for spec.upgrade.window".into()));
        let blocked = [("Ready", "False", "UpgradeBlocked", "no"), ("Stalled", "True", "UpgradeBlocked", "no")];
        assert_eq!(ended("1.35.4", &blocked), (Some(false), "UpgradeBlocked: no".into()));
        let changed = progress(&cluster("1.36.4", 2, &status("1.36.3", &[])), to);
        assert_eq!(changed, (Some(false), "spec.version is 1.36.4 by now".into()));
    }

    #[test]
    fn it_says_what_to_expect() {
        let text = |from: &str, to: &str| {
            explanation("Cluster team-a/acme", &cluster(from, 1, &json!({})), to.parse().unwrap())
        };
        for (from, to, says) in [
            ("1.36.2", "1.36.3", "a patch version"),
            ("1.35.4", "1.36.3", "For 10m after that (spec.upgrade.finalizeAfter) 1.35.4 can be set again"),
            ("1.34.4", "1.36.3", "more than one minor version"),
            ("1.36.3", "1.35.4", "only if no newer one was served"),
        ] {
            assert!(text(from, to).contains(says), "{}", text(from, to));
        }
    }
}
