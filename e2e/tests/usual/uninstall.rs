//! Both charts are uninstalled while a tenant lives: it serves on. Installed again, Berth takes it up as it is.

use std::time::Duration;

use anyhow::ensure;
use berth_e2e::{Options, Tenant, core, stays};
use serde_json::json;

#[test]
fn a_tenant_serves_on_without_berth() {
    berth_e2e::run("uninstall", |world| {
        let tenant = Tenant::ready(world, "orphan", &json!({}))?;
        world.wait_alone(&tenant)?;
        let pods = tenant.pod_identities()?;
        world.uninstall()?;
        let api = tenant.api()?;
        stays("the tenant serves", Duration::from_secs(15), || {
            let map =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "while-berth-is-away-"}});
            api.create(&core("default", "configmaps"), &map)?;
            ensure!(tenant.pod_identities()? == pods, "pods changed");
            Ok(())
        })?;
        tenant.cluster()?;
        let mark = world.audit_mark()?;
        world.install(&Options::default())?;
        world.operator_has_reconciled()?;
        let writes = world.writes_since(mark)?;
        ensure!(writes.is_empty(), "{writes:#?}");
        tenant.wait_ready()?;
        ensure!(tenant.pod_identities()? == pods, "pods changed");
        Ok(())
    });
}
