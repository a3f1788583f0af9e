//! Private keys appear nowhere but in the Secrets that hold them.

use anyhow::{Result, ensure};
use berth_testkit::canary::{found, needles};

use crate::{Tenant, World, berth, core, operator::SYSTEM, tenant::name_of};

/// Looks for every private key of a tenant in the logs of the operator and of its own pods, in Events, and in what people read of a
/// `Cluster`.
pub fn scan(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let needles = needles(&world.kube.list(&core(&tenant.cp_namespace, "secrets"))?);
    ensure!(needles.len() > 30, "a tenant has more than {} needles of private keys", needles.len());
    let mut texts = vec![(
        "the operator's log".to_owned(),
        world.kubectl(&["-n", SYSTEM, "logs", "deployment/berth-operator", "--tail=-1"])?,
    )];
    ensure!(texts[0].1.contains("DEBUG"), "the log is one at level debug");
    for namespace in [&tenant.cp_namespace, &tenant.namespace] {
        for path in [
            format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
            berth(namespace, "clusters"),
            berth(namespace, "etcdclusters"),
            core(namespace, "configmaps"),
            core(namespace, "pods"),
        ] {
            texts.push((path.clone(), serde_json::to_string(&world.kube.list(&path)?)?));
        }
    }
    texts.extend(logs(world, tenant)?);
    for (place, text) in &texts {
        let found = found(&needles, text);
        ensure!(found.is_none(), "{place} holds bytes of {}", found.unwrap_or_default());
    }
    Ok(())
}

/// The logs of a tenant's pods, from their beginning.
fn logs(world: &World, tenant: &Tenant<'_>) -> Result<Vec<(String, String)>> {
    let mut all = vec![];
    for pod in &tenant.pods(None)? {
        let name = name_of(pod);
        let log = world.kubectl(&["-n", &tenant.cp_namespace, "logs", &name, "--all-containers", "--tail=-1"])?;
        // The agent runs before the component, in the same container.
        let agent = log.contains("answers after") || log.contains("may start");
        ensure!(agent && log.lines().count() > 5, "the log of {name} is not whole: it begins with what the agent says");
        all.push((format!("the log of {name}"), log));
    }
    ensure!(all.len() >= 4, "etcd and the control plane have a pod each: {}", all.len());
    Ok(all)
}
