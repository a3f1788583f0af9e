//! What tests of renewed certificates look at.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{Tenant, World, certs, core, kube_client, until};

/// Secrets with leafs, and one certificate in each.
pub const LEAFS: [(&str, &str); 7] = [
    ("kube-apiserver-pki", "apiserver.crt"),
    ("kube-controller-manager-pki", "client.crt"),
    ("kube-scheduler-pki", "client.crt"),
    ("etcd-server", "tls.crt"),
    ("etcd-peer", "tls.crt"),
    ("etcd-client-kube-apiserver", "tls.crt"),
    ("admin-kubeconfig", "value"),
];

fn certificate(tenant: &Tenant<'_>, secret: &str, key: &str) -> Result<Vec<u8>> {
    let value = tenant.secret(secret, key)?;
    if key != "value" {
        return Ok(value);
    }
    let user = kube_client::certificate_of(&String::from_utf8(value)?)?;
    user.context("the kubeconfig has a certificate")
}

/// The serial number of each of [`LEAFS`].
pub fn serials(tenant: &Tenant<'_>) -> Result<Vec<String>> {
    LEAFS.iter().map(|(secret, key)| certs::facts(&certificate(tenant, secret, key)?, &["-serial"])).collect()
}

/// Where the API server is reached, as `status.endpoints` says.
pub fn api_address(tenant: &Tenant<'_>) -> Result<String> {
    let cluster = tenant.cluster()?;
    let endpoint = &cluster["status"]["endpoints"][0];
    Ok(format!("{}:{}", endpoint["host"].as_str().context("a host")?, endpoint["port"]))
}

/// Waits until every server shows its new certificate: kubelet brings them into the pods within one or two minutes.
pub fn servers_show_them(world: &World, tenant: &Tenant<'_>) -> Result<()> {
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
pub fn everything_works_on(tenant: &Tenant<'_>) -> Result<()> {
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
