//! Two tenants at once share nothing: no key, no credential, no etcd.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Result, ensure};
use berth_api::names;
use berth_devcluster::{binaries, versions};
use berth_e2e::{Kube, Tenant, World, core, kube_client::status_of};
use serde_json::{Value, json};

#[test]
fn two_tenants_share_nothing() {
    berth_e2e::run("two_tenants", |world| {
        let a = Tenant::create(world, "one", &json!({}))?;
        let b = Tenant::create(world, "two", &json!({}))?;
        a.wait_ready()?;
        b.wait_ready()?;
        no_secret_has_anything_of_the_other(world, &a, &b)?;
        for (mine, theirs) in [(&a, &b), (&b, &a)] {
            the_api_refuses(mine, theirs)?;
            etcd_refuses(world, mine, theirs)?;
        }
        each_sees_its_own(&a, &b)?;
        let before = b.pod_identities()?;
        a.delete()?;
        b.api()?.get("/version")?;
        ensure!(b.pod_identities()? == before, "the other's pods are as they were");
        Ok(())
    });
}

/// Every value of every Secret: keys, certificates, CAs, kubeconfigs, encryption keys.
fn no_secret_has_anything_of_the_other(world: &World, a: &Tenant<'_>, b: &Tenant<'_>) -> Result<()> {
    let values = |tenant: &Tenant<'_>| -> Result<BTreeSet<String>> {
        let all = world.kube.list(&core(&tenant.home, "secrets"))?;
        let values = all.iter().filter_map(|s| s["data"].as_object()).flat_map(|d| d.values());
        Ok(values.filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let (of_a, of_b) = (values(a)?, values(b)?);
    ensure!(of_a.len() > 20, "there are {} values", of_a.len());
    ensure!(of_a.is_disjoint(&of_b), "two Secrets of different tenants have a value in common");
    Ok(())
}

fn the_api_refuses(mine: &Tenant<'_>, theirs: &Tenant<'_>) -> Result<()> {
    mine.api()?.list(&core("", "namespaces"))?;
    let wrong = Kube::with_user_of(&theirs.kubeconfig()?, &mine.kubeconfig()?)?;
    refused(&wrong, "a certificate of another tenant")?;
    // The own API, but another tenant's CA: the client refuses.
    let wrong = Kube::trusting(&mine.kubeconfig()?, &theirs.kubeconfig()?)?;
    let error = format!("{:?}", wrong.list(&core("", "namespaces")).err());
    ensure!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");
    let account = format!("{}/default/token", core("default", "serviceaccounts"));
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = mine.api()?.create(&account, &asked)?["status"]["token"].as_str().unwrap_or_default().to_owned();
    Kube::with_token(&mine.kubeconfig()?, &token)?.get("/version")?;
    refused(&Kube::with_token(&theirs.kubeconfig()?, &token)?, "a token of another tenant")
}

fn refused(kube: &Kube, what: &str) -> Result<()> {
    match kube.list(&core("", "namespaces")) {
        Err(e) if status_of(&e) == Some(401) => Ok(()),
        other => anyhow::bail!("{what}: {other:?}"),
    }
}

fn etcd_refuses(world: &World, mine: &Tenant<'_>, theirs: &Tenant<'_>) -> Result<()> {
    let asked = |server: &Tenant<'_>, client: &Tenant<'_>| -> Result<String> {
        let directory = world.cluster.dir().join("e2e-etcd-client");
        std::fs::create_dir_all(&directory)?;
        let secret = names::etcd::client(names::ETCD, names::APISERVER);
        let file = |name: &str, tenant: &Tenant<'_>, key: &str| -> Result<String> {
            let path = directory.join(name);
            std::fs::write(&path, tenant.secret(&secret, key)?)?;
            Ok(path.display().to_string())
        };
        let etcd = server.etcd()?;
        let address = etcd["status"]["endpoints"][0]["address"].as_str().unwrap_or_default().to_owned();
        let output = Command::new(binaries::path("etcd", versions::ETCD, "etcdctl")?)
            .args(["--endpoints", &format!("https://{address}:2379"), "--command-timeout=10s"])
            .args(["--cacert", &file("ca.crt", server, "ca.crt")?])
            .args(["--cert", &file("tls.crt", client, "tls.crt")?, "--key", &file("tls.key", client, "tls.key")?])
            .args(["get", "/registry/namespaces/default", "--keys-only"])
            .output()?;
        Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    };
    let own = asked(mine, mine)?;
    ensure!(own.contains("/registry/namespaces/default"), "its own etcd serves it: {own}");
    let other = asked(theirs, mine)?;
    ensure!(!other.contains("/registry/namespaces/default"), "the other's etcd serves it");
    ensure!(other.contains("bad certificate") || other.contains("unknown") || other.contains("deadline"), "{other}");
    Ok(())
}

fn each_sees_its_own(a: &Tenant<'_>, b: &Tenant<'_>) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}});
    a.api()?.create(&core("default", "configmaps"), &map)?;
    ensure!(b.api()?.find(&format!("{}/mine", core("default", "configmaps")))?.is_none());
    Ok(())
}
