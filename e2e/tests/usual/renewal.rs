//! Certificates change while everything runs: no pod is restarted, and every server shows its new one.
//!
//! The first test makes them change by a new name and by deleting them. The second one waits for real renewals; it takes
//! half an hour, since client-go looks for a new certificate of its own only each five minutes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::{Kube, Options, Tenant, World, certs, core, kube_client, until, until_within};
use serde_json::json;

const MINUTES: u32 = 24;
/// Secrets with leafs, and one certificate in each.
const LEAFS: [(&str, &str); 7] = [
    ("kube-apiserver-pki", "apiserver.crt"),
    ("kube-controller-manager-pki", "client.crt"),
    ("kube-scheduler-pki", "client.crt"),
    ("etcd-server", "tls.crt"),
    ("etcd-peer", "tls.crt"),
    ("etcd-client-kube-apiserver", "tls.crt"),
    ("admin-kubeconfig", "value"),
];

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

fn certificate(tenant: &Tenant<'_>, secret: &str, key: &str) -> Result<Vec<u8>> {
    let value = tenant.secret(secret, key)?;
    if key != "value" {
        return Ok(value);
    }
    let user = kube_client::certificate_of(&String::from_utf8(value)?)?;
    user.context("the kubeconfig has a certificate")
}

fn serials(tenant: &Tenant<'_>) -> Result<Vec<String>> {
    LEAFS.iter().map(|(secret, key)| certs::facts(&certificate(tenant, secret, key)?, &["-serial"])).collect()
}

fn all_are_new(tenant: &Tenant<'_>, before: &[String]) -> Result<()> {
    until("every certificate to be another", || {
        let now = serials(tenant)?;
        let same = LEAFS.iter().zip(now.iter().zip(before)).find(|(_, (new, old))| new == old);
        ensure!(same.is_none(), "{same:?}");
        Ok(())
    })
}

fn api_address(tenant: &Tenant<'_>) -> Result<String> {
    let cluster = tenant.cluster()?;
    let endpoint = &cluster["status"]["endpoints"][0];
    Ok(format!("{}:{}", endpoint["host"].as_str().context("a host")?, endpoint["port"]))
}

/// kubelet brings them into the pods within one or two minutes.
fn servers_show_them(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let etcd = tenant.etcd()?;
    let etcd = etcd["status"]["endpoints"][0]["address"].as_str().context("etcd's address")?.to_owned();
    let pod = world.kube.get(&format!("{}/etcd-0", core(&tenant.cp_namespace, "pods")))?;
    let peer = pod["status"]["podIP"].as_str().context("the member's address")?.to_owned();
    let servers = [
        (api_address(tenant)?, "kube-apiserver-pki", "apiserver.crt"),
        (format!("{etcd}:2379"), "etcd-server", "tls.crt"),
        (format!("{peer}:2380"), "etcd-peer", "tls.crt"),
    ];
    for (address, secret, key) in servers {
        until(&format!("{secret} to be shown at {address}"), || {
            let (new, shown) =
                (certs::facts(&tenant.secret(secret, key)?, &["-serial"])?, certs::served(&address, &["-serial"])?);
            ensure!(new == shown, "{new} is to be shown, {shown} is");
            Ok(())
        })?;
    }
    Ok(())
}

/// The leases of both other components go on, and writes reach etcd.
fn everything_works_on(tenant: &Tenant<'_>) -> Result<()> {
    let api = tenant.api()?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "after-"}});
    api.create(&core("default", "configmaps"), &map)?;
    for name in ["kube-controller-manager", "kube-scheduler"] {
        let path = format!("{}/{name}", kube_client::path("/apis/coordination.k8s.io/v1", "kube-system", "leases"));
        let renewed = api.get(&path)?["spec"]["renewTime"].clone();
        until(&format!("the lease of {name} to be renewed"), || {
            ensure!(api.get(&path)?["spec"]["renewTime"] != renewed);
            Ok(())
        })?;
    }
    Ok(())
}
