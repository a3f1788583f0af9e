//! A tenant that Argo CD knows by itself, as far as Argo CD can be had here: by the form of its Secret, and by what a client that knows nothing else
//! can do in the tenant.

use anyhow::{Context as _, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::{labels, names};
use berth_e2e::operator::Options;
use berth_e2e::{Kube, Kubectl, Tenant, World, core, run, until};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ARGOCD: &str = "argocd";
const OPERATOR: &str = "--as=system:serviceaccount:berth-system:berth-operator";
const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/berth:argocd";

/// `data` of a cluster's Secret, decoded, as Argo CD's declarative setup has it; no other field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    name: String,
    server: String,
    project: String,
    config: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    tls_client_config: TlsClientConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as Argo CD has them")]
struct TlsClientConfig {
    ca_data: String,
    cert_data: String,
    key_data: String,
}

fn read(secret: &Value) -> Result<(Cluster, Config)> {
    ensure!(secret["metadata"]["labels"][labels::ARGOCD_SECRET_TYPE] == "cluster", "{}", secret["metadata"]);
    let data: BTreeMap<String, String> = serde_json::from_value(secret["data"].clone())?;
    let decoded = data.into_iter().map(|(key, value)| -> Result<(String, Value)> {
        Ok((key, String::from_utf8(STANDARD.decode(value)?)?.into()))
    });
    let data: serde_json::Map<String, Value> = decoded.collect::<Result<_>>()?;
    let cluster: Cluster = serde_json::from_value(data.into())?;
    let config = serde_json::from_str(&cluster.config)?;
    Ok((cluster, config))
}

/// A client that knows what the Secret says, and nothing else. It is no pod, so it knows no names of Services: the address of this one is in the
/// certificate, too.
pub(crate) fn client(world: &World, secret: &Value) -> Result<Kube> {
    let (Cluster { server, .. }, Config { tls_client_config: tls }) = read(secret)?;
    let (host, port) =
        server.strip_prefix("https://").and_then(|rest| rest.rsplit_once(':')).context("a host and a port")?;
    let (service, namespace) = host.strip_suffix(".svc").and_then(|host| host.split_once('.')).context("a Service")?;
    let service = world.kube.get(&format!("{}/{service}", core(namespace, "services")))?;
    let server = format!("https://{}:{port}", service["spec"]["clusterIP"].as_str().context("an address")?);
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": tls.ca_data}}],
        "users": [{"name": "u", "user": {"client-certificate-data": tls.cert_data, "client-key-data": tls.key_data}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    // JSON is YAML.
    Kube::new(&kubeconfig.to_string())
}

/// The certificate in it.
pub(crate) fn certificate(secret: &Value) -> Result<String> {
    Ok(read(secret)?.1.tls_client_config.cert_data)
}

/// Where it is.
pub(crate) fn path(tenant: &Tenant<'_>) -> String {
    format!("{}/{}", core(ARGOCD, "secrets"), names::argocd_cluster(&tenant.namespace, &tenant.name))
}

/// Argo CD's namespace, and the values of the chart by which tenants of tests may be registered there.
pub(crate) fn allowed(world: &World) -> Result<Vec<String>> {
    let argocd = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ARGOCD}});
    world.kube.ensure(&core("", "namespaces"), &argocd)?;
    let team = Tenant::named(world, "registered").namespace;
    Ok(vec![format!("registration.argoCD.namespace={ARGOCD}"), format!("registration.argoCD.projects.{team}=shops")])
}

/// The end of [`allowed`].
pub(crate) fn no_longer(world: &World) -> Result<()> {
    world.kube.delete(&format!("{}/{ARGOCD}", core("", "namespaces")))
}

#[test]
#[ignore = "make test-all: a tenant with real pods; orders and messages are tested in memory, the policies with a real API server"]
fn argo_cd_knows_a_tenant_as_long_as_it_is_asked_to() {
    run("registration", |world| {
        world.install(&Options { values: allowed(world)?, ..Options::default() })?;
        work(world)?;
        no_longer(world)
    });
}

fn work(world: &World) -> Result<()> {
    println!("    registered");
    let asked = json!({"registration": {"argoCD": {"labels": {"env": "prod"}}}});
    let tenant = Tenant::ready(world, "registered", &asked)?;
    let path = path(&tenant);
    let said = tenant.wait_condition("Registered", "True", "AsExpected")?;
    let secret = world.kube.get(&path)?;
    let (cluster, _) = read(&secret)?;
    ensure!(cluster.name == format!("{}.registered", tenant.namespace) && said.contains(&cluster.name), "{said}");
    ensure!(cluster.project == "shops" && secret["metadata"]["labels"]["env"] == "prod", "{}", secret["metadata"]);
    let told = tenant.cluster()?["status"]["registration"]["argoCD"].clone();
    ensure!(told["uid"] == secret["metadata"]["uid"] && told["namespace"] == "argocd", "{told}");
    let argocd = client(world, &secret)?;
    argocd.list(&core("", "nodes"))?;
    let namespaces = argocd.list(&core("", "namespaces"))?;
    ensure!(namespaces.iter().any(|n| n["metadata"]["name"] == "kube-system"), "{namespaces:?}");
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    argocd.create(&core("", "namespaces"), &made).context("it is a cluster-admin")?;

    println!("    what somebody changes is set back");
    world.kube.merge(&path, &json!({"data": {"project": STANDARD.encode("others")}}))?;
    world.restart_operator()?;
    until("the project to be set back", || {
        let (cluster, _) = read(&world.kube.get(&path)?)?;
        ensure!(cluster.project == "shops", "{}", cluster.project);
        Ok(())
    })?;

    println!("    the operator's account writes nothing else there");
    refused(world)?;

    println!("    switched off");
    tenant.change(&json!({"registration": null}))?;
    let inside = tenant.api()?;
    until("the Secret and the rights to be gone", || {
        ensure!(world.kube.find(&path)?.is_none(), "the Secret is there");
        ensure!(inside.find(BINDING)?.is_none(), "the binding is there");
        let kubeconfig = format!("{}/{}", core(&tenant.cp_namespace, "secrets"), names::ARGOCD_KUBECONFIG);
        ensure!(world.kube.find(&kubeconfig)?.is_none(), "the kubeconfig is there");
        let status = tenant.cluster()?["status"].clone();
        ensure!(status["registration"].is_null(), "{}", status["registration"]);
        Ok(())
    })?;
    let left = argocd.list(&core("", "nodes"));
    ensure!(left.is_err(), "who copied the Secret still lists nodes");

    println!("    somebody else's Secret of that name");
    let name = names::argocd_cluster(&tenant.namespace, "registered");
    let theirs = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {(labels::ARGOCD_SECRET_TYPE): "cluster"}},
        "stringData": {"name": "theirs", "server": "https://192.0.2.1", "config": "{}"},
    });
    let theirs = world.kube.create(&core("argocd", "secrets"), &theirs)?;
    tenant.change(&asked)?;
    let said = tenant.wait_condition("Registered", "False", "ForeignObject")?;
    ensure!(said.contains(&format!("Secret argocd/{name}")), "{said}");
    tenant.wait_ready()?;
    ensure!(world.kube.get(&path)?["data"] == theirs["data"], "it was changed");
    world.kube.delete(&path)?;
    tenant.wait_condition("Registered", "True", "AsExpected")?;

    println!("    deleted with its tenant");
    tenant.nothing_restarted()?;
    tenant.delete()?;
    ensure!(world.kube.find(&path)?.is_none(), "the Secret outlived its tenant");
    Ok(())
}

/// Secrets of other forms in Argo CD's namespace.
fn refused(world: &World) -> Result<()> {
    let kubectl = Kubectl::with(&std::fs::read_to_string(world.cluster.kubeconfig())?)?;
    let create = |name: &str, more: &[&str]| {
        kubectl.run(&[&["create", "-n", "argocd", OPERATOR, "secret", "generic", name], more].concat())
    };
    for (name, type_) in [("berth-other", "Opaque"), ("other-kubeconfig", "cluster.x-k8s.io/secret")] {
        let Err(error) = create(name, &["--from-literal=a=b", &format!("--type={type_}")]) else {
            anyhow::bail!("{name} was created")
        };
        ensure!(format!("{error:#}").contains("Berth's operator writes only Secrets of type Opaque"), "{error:#}");
    }
    for verb in ["get", "list", "watch"] {
        let may = kubectl.run(&["auth", "can-i", verb, "secrets", "-n", "argocd", OPERATOR]);
        ensure!(may.is_err(), "it may {verb} Secrets there");
    }
    Ok(())
}
