//! `defrag`: asks Berth for it, by an annotation, and waits.

use super::{Found, find};
use crate::access::Access;
use crate::args::etcd::Defrag;
use crate::confirm::confirmed;
use crate::outcome::Outcome;
use crate::output;
use crate::wait::until;
use anyhow::bail;
use berth_api::{EtcdCluster, labels};
use jiff::Timestamp;
use serde_json::json;

/// Asks, sets the annotation, and waits.
pub(super) async fn run(access: &Access, args: &Defrag) -> anyhow::Result<Outcome> {
    let Found { named, value, etcd, key } = find(access, &args.of).await?;
    output::print(&explanation(&etcd, &key.to_string()))?;
    if !args.yes && !confirmed(&args.of.name, "defragment its etcd")? {
        bail!("{named}: nothing was changed");
    }
    let asked = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let patch = json!({"metadata": {"uid": value["metadata"]["uid"], "annotations": {(labels::DEFRAG): asked}}});
    access.io.merge(&named, "", "fieldManager=kubectl-berth", &patch).await.map_err(|e| access.explain(e))?;
    output::print(&format!("{named}: annotation {}={asked} is set\n", labels::DEFRAG))?;
    if !args.wait.wait {
        return Ok(Outcome::Done);
    }
    let look = async || Ok(progress(&find(access, &args.of).await?.etcd, &asked));
    Ok(Outcome::done_if(until(args.wait.timeout, look).await?.is_some()))
}

fn explanation(etcd: &EtcdCluster, key: &str) -> String {
    let meanwhile = match etcd.spec.replicas {
        1 => "it has a single member: the API does not answer meanwhile, for about a second per 100 MiB in use",
        _ => "one member after the other, the leader last; the others serve meanwhile",
    };
    format!("{key}: {meanwhile}\n")
}

/// Whether it has ended, and what is to be said.
fn progress(etcd: &EtcdCluster, asked: &str) -> (Option<()>, String) {
    let upkeep = etcd.status.as_ref().and_then(|s| s.upkeep.as_ref()).filter(|u| u.request.as_deref() == Some(asked));
    let Some(upkeep) = upkeep else {
        return (
            None,
            "wait: Berth has not begun yet; it does when all members are well, and nothing else goes on".into(),
        );
    };
    let done = upkeep.done.join(", ");
    match &upkeep.finished {
        Some(_) => (Some(()), format!("defragmented: {done}")),
        None => (None, format!("defragmented so far: {}", if done.is_empty() { "none" } else { &done })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_what_was_asked_and_not_for_an_earlier_one() {
        let etcd = |upkeep: serde_json::Value| -> EtcdCluster {
            let object = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "etcd"},
                "spec": {"version": "3.6.16"}, "status": {"upkeep": upkeep},
            });
            serde_json::from_value(object).unwrap()
        };
        let since = "2026-01-01T00:00:00Z";
        let earlier =
            etcd(json!({"reason": "Requested", "since": since, "request": "1", "done": ["etcd-0"], "finished": since}));
        assert_eq!(progress(&earlier, "2").0, None);
        assert_eq!(progress(&earlier, "1"), (Some(()), "defragmented: etcd-0".into()));
        let running = etcd(json!({"reason": "Requested", "since": since, "request": "2"}));
        assert_eq!(progress(&running, "2"), (None, "defragmented so far: none".into()));
        assert!(explanation(&running, "x").contains("the API does not answer"));
    }
}
