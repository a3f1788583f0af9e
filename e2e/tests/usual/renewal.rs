//! Certificates change while everything runs, by a new name and by deleting them: no pod is restarted, and every server shows its new one.

use anyhow::{Result, ensure};
use berth_e2e::{
    Kube, Tenant, certs, core,
    renewal::{LEAFS, api_address, everything_works_on, serials, servers_show_them},
    until,
};
use serde_json::json;

#[test]
fn certificates_are_exchanged_while_everything_runs() {
    berth_e2e::run("renewal", |world| {
        let tenant = Tenant::ready(world, "renewed", &json!({}))?;
        let pods = tenant.pod_identities()?;
        let old_kubeconfig = tenant.kubeconfig()?;
        let before = serials(&tenant)?;
        tenant.change(&json!({"endpoint": {"certSANs": ["acme.k8s.example.com"]}}))?;
        for (secret, _) in LEAFS.iter().filter(|(name, _)| *name != "kube-apiserver-pki") {
            world.kube.delete(&format!("{}/{secret}", core(&tenant.cp_namespace, "secrets")))?;
        }
        all_are_new(&tenant, &before)?;
        servers_show_them(world, &tenant)?;
        let names = certs::served(&api_address(&tenant)?, &["-ext", "subjectAltName"])?;
        ensure!(names.contains("DNS:acme.k8s.example.com"), "{names}");
        until("the published kubeconfig to be the new one", || {
            ensure!(tenant.kubeconfig()? != old_kubeconfig);
            Ok(())
        })?;
        tenant.wait_ready()?;
        // Before its end an old certificate is as good as a new one.
        Kube::new(&old_kubeconfig)?.get("/version")?;
        everything_works_on(&tenant)?;
        ensure!(tenant.pod_identities()? == pods, "no pod was restarted");
        Ok(())
    });
}

fn all_are_new(tenant: &Tenant<'_>, before: &[String]) -> Result<()> {
    until("every certificate to be another", || {
        let now = serials(tenant)?;
        let same = LEAFS.iter().zip(now.iter().zip(before)).find(|(_, (new, old))| new == old);
        ensure!(same.is_none(), "{same:?}");
        Ok(())
    })
}
