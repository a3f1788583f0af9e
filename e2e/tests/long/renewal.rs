//! Certificates are renewed before they end. It takes half an hour, since client-go looks for a new certificate of its own only each five
//! minutes.

use std::time::Duration;

use anyhow::ensure;
use berth_e2e::{
    Kube, Options, Tenant,
    renewal::{everything_works_on, serials, servers_show_them},
    until_within,
};
use serde_json::json;

const MINUTES: u32 = 24;

#[test]
#[ignore = "make test-all: half an hour"]
fn certificates_are_renewed_before_they_end() {
    berth_e2e::run("renewal in time", |world| {
        world.install(&Options { leaf_lifetime_minutes: Some(MINUTES), ..Options::default() })?;
        let tenant = Tenant::ready(world, "brief", &json!({}))?;
        let pods = tenant.pod_identities()?;
        let before = serials(&tenant)?;
        let old_kubeconfig = tenant.kubeconfig()?;
        until_within(Duration::from_mins(u64::from(MINUTES)), "every certificate to be renewed", || {
            ensure!(serials(&tenant)?.iter().zip(&before).all(|(new, old)| new != old), "not all are");
            Ok(())
        })?;
        until_within(Duration::from_mins(u64::from(MINUTES)), "the first certificates to be at their end", || {
            ensure!(Kube::new(&old_kubeconfig)?.get("/version").is_err(), "the first kubeconfig is good");
            Ok(())
        })?;
        servers_show_them(world, &tenant)?;
        everything_works_on(&tenant)?;
        ensure!(tenant.pod_identities()? == pods, "no pod was restarted");
        world.install(&Options::default())
    });
}
