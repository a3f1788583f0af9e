//! Certificates are renewed before they end, that of the tenant's Argo CD, too. It takes half an hour, since client-go looks for a new
//! certificate of its own only each five minutes.

use std::time::Duration;

use anyhow::ensure;
use berth_e2e::{
    Kube, Options, Tenant, core,
    renewal::{everything_works_on, serials, servers_show_them},
    until, until_within,
};
use serde_json::json;

use crate::registration;

const MINUTES: u32 = 24;

#[test]
#[ignore = "make test-all: half an hour"]
fn certificates_are_renewed_before_they_end() {
    berth_e2e::run("renewal in time", |world| {
        let values = registration::allowed(world)?;
        world.install(&Options { leaf_lifetime_minutes: Some(MINUTES), values, ..Options::default() })?;
        let tenant = Tenant::ready(world, "brief", &json!({"registration": {"argoCD": {}}}))?;
        tenant.wait_condition("Registered", "True", "AsExpected")?;
        let secret = world.kube.get(&registration::path(&tenant))?;
        let argocd = registration::client(world, &secret)?;
        argocd.list(&core("", "nodes"))?;
        let pods = tenant.pod_identities()?;
        let before = serials(&tenant)?;
        let old_kubeconfig = tenant.kubeconfig()?;
        until_within(Duration::from_mins(u64::from(MINUTES)), "every certificate to be renewed", || {
            ensure!(serials(&tenant)?.iter().zip(&before).all(|(new, old)| new != old), "not all are");
            Ok(())
        })?;
        let renewed = until("Argo CD's to be renewed", || {
            let now = world.kube.get(&registration::path(&tenant))?;
            ensure!(registration::certificate(&now)? != registration::certificate(&secret)?, "it is the same");
            Ok(now)
        })?;
        ensure!(renewed["metadata"]["uid"] == secret["metadata"]["uid"], "it is another Secret");
        // Whoever has read it before goes on with what they have.
        argocd.list(&core("", "nodes"))?;
        until_within(Duration::from_mins(u64::from(MINUTES)), "the first certificates to be at their end", || {
            ensure!(Kube::new(&old_kubeconfig)?.get("/version").is_err(), "the first kubeconfig is good");
            ensure!(argocd.list(&core("", "nodes")).is_err(), "Argo CD's first certificate is good");
            Ok(())
        })?;
        registration::client(world, &world.kube.get(&registration::path(&tenant))?)?.list(&core("", "nodes"))?;
        servers_show_them(world, &tenant)?;
        everything_works_on(&tenant)?;
        ensure!(tenant.pod_identities()? == pods, "no pod was restarted");
        tenant.delete()?;
        registration::no_longer(world)?;
        world.install(&Options::default())
    });
}
