//! Private keys appear nowhere but in the Secrets that hold them.

use anyhow::{Result, ensure};
use berth_testkit::canary::{found, needles};

use crate::{Tenant, World, berth, core, operator::SYSTEM};

/// Looks for every private key of a tenant in the operator's log, in Events, and in what people read of a `Cluster`.
pub fn scan(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let needles = needles(&world.kube.list(&core(&tenant.home, "secrets"))?);
    ensure!(needles.len() > 20, "a tenant has more than {} private keys", needles.len());
    let mut texts = vec![(
        "the operator's log".to_owned(),
        world.kubectl(&["-n", SYSTEM, "logs", "deployment/berth-operator", "--tail=-1"])?,
    )];
    ensure!(texts[0].1.contains("DEBUG"), "the log is one at level debug");
    for namespace in [&tenant.home, &tenant.namespace] {
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
    for (place, text) in &texts {
        let found = found(&needles, text);
        ensure!(found.is_none(), "{place} holds bytes of {}", found.unwrap_or_default());
    }
    Ok(())
}
