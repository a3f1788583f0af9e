//! Two tenants at once share nothing: no key, no credential, no etcd.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_api::{labels, names};
use berth_devcluster::{binaries, versions};
use berth_e2e::{Kube, Options, Tenant, World, canary, core, kube_client::status_of, until};
use berth_testkit::policies::{End, Network, Pod, Protocol};
use serde_json::{Value, json};

#[test]
fn two_tenants_share_nothing() {
    berth_e2e::run("two_tenants", |world| {
        world.install(&Options { values: vec!["operator.log=debug".into()], ..Options::default() })?;
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
        policies_keep_them_apart(world, &a, &b)?;
        let before = b.pod_identities()?;
        canary::scan(world, &a)?;
        a.delete()?;
        b.api()?.get("/version")?;
        ensure!(b.pod_identities()? == before, "the other's pods are as they were");
        world.install(&Options::default())
    });
}

/// Every value of every Secret: keys, certificates, CAs, kubeconfigs, encryption keys.
fn no_secret_has_anything_of_the_other(world: &World, a: &Tenant<'_>, b: &Tenant<'_>) -> Result<()> {
    let values = |tenant: &Tenant<'_>| -> Result<BTreeSet<String>> {
        let all = world.kube.list(&core(&tenant.cp_namespace, "secrets"))?;
        // The platform's own, which pulls images for both.
        let own = all.iter().filter(|s| s["metadata"]["labels"][labels::PULL_SECRET].is_null());
        let values = own.filter_map(|s| s["data"].as_object()).flat_map(|d| d.values());
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
    // The controller-manager makes the account, and a tenant may be ready before it has.
    let answer = until("a token of the default ServiceAccount", || mine.api()?.create(&account, &asked))?;
    let token = answer["status"]["token"].as_str().unwrap_or_default().to_owned();
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

/// What the NetworkPolicies mean for the pods that run. The network of the test cluster enforces none.
fn policies_keep_them_apart(world: &World, a: &Tenant<'_>, b: &Tenant<'_>) -> Result<()> {
    let names = ["berth-system", "kube-system", &a.cp_namespace, &b.cp_namespace];
    let mut network = Network::default();
    for name in names {
        let namespace = world.kube.get(&format!("{}/{name}", core("", "namespaces")))?;
        network.namespaces.insert(name.into(), serde_json::from_value(namespace["metadata"]["labels"].clone())?);
        let policies = world.kube.list(&format!("/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies"))?;
        network.policies.extend(policies.into_iter().map(serde_json::from_value).collect::<Result<Vec<_>, _>>()?);
    }
    let pod = |namespace: &str, label: &str, value: &str| -> Result<Pod> {
        let pods = world.kube.list(&core(namespace, "pods"))?;
        let found = pods.into_iter().find(|p| p["metadata"]["labels"][label] == value);
        let found = found.with_context(|| format!("a pod with {label}={value} in {namespace}"))?;
        Ok(Pod {
            namespace: namespace.into(),
            labels: serde_json::from_value(found["metadata"]["labels"].clone())?,
            ip: found["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok()),
            ..Pod::default()
        })
    };
    let of = |tenant: &Tenant<'_>, name: &str| pod(&tenant.cp_namespace, labels::COMPONENT, name);
    let (api, etcd, theirs) = (of(a, "kube-apiserver")?, of(a, "etcd")?, of(b, "etcd")?);
    let operator = pod("berth-system", labels::COMPONENT, "operator")?;
    let dns = pod("kube-system", "k8s-app", "kube-dns")?;
    let node = world.kube.list(&core("", "nodes"))?[0]["status"]["addresses"][0]["address"].clone();
    let address = |text: &str| -> Result<End<'static>> { Ok(End::Address(text.parse()?)) };
    let service = world.kube.get(&format!("{}/kubernetes", core("default", "services")))?["spec"]["clusterIP"].clone();
    let (node, service) = (address(node.as_str().unwrap_or_default())?, address(service.as_str().unwrap_or_default())?);
    let table = [
        ("API server to its etcd", End::Pod(&api), End::Pod(&etcd), 2379, true),
        ("operator to etcd", End::Pod(&operator), End::Pod(&etcd), 2379, true),
        ("operator to the API server", End::Pod(&operator), End::Pod(&api), 6443, true),
        ("API server to DNS", End::Pod(&api), End::Pod(&dns), 53, true),
        ("API server to the world", End::Pod(&api), address("203.0.113.1")?, 443, true),
        ("node to the API server", node, End::Pod(&api), 6443, true),
        ("API server to another tenant's etcd", End::Pod(&api), End::Pod(&theirs), 2379, false),
        ("etcd to another tenant's etcd", End::Pod(&etcd), End::Pod(&theirs), 2380, false),
        ("API server to the operator", End::Pod(&api), End::Pod(&operator), 8080, false),
        ("API server to the node", End::Pod(&api), node, 10250, false),
        ("API server to the meta cluster's API", End::Pod(&api), service, 443, false),
        ("API server to the cloud's metadata", End::Pod(&api), address("169.254.169.254")?, 80, false),
        ("operator to etcd's metrics", End::Pod(&operator), End::Pod(&etcd), 2381, false),
        ("etcd to the world", End::Pod(&etcd), address("203.0.113.1")?, 443, false),
    ];
    for (what, from, to, port, wanted) in table {
        for blocks_cover_pods in [false, true] {
            network.blocks_cover_pods = blocks_cover_pods;
            let found = network.allows(from, to, Protocol::Tcp, port);
            ensure!(found == wanted, "{what}, port {port}: {found}, ipBlocks cover pods: {blocks_cover_pods}");
        }
    }
    Ok(())
}

fn each_sees_its_own(a: &Tenant<'_>, b: &Tenant<'_>) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}});
    a.api()?.create(&core("default", "configmaps"), &map)?;
    ensure!(b.api()?.find(&format!("{}/mine", core("default", "configmaps")))?.is_none());
    Ok(())
}
