//! A real API server with the rights that tenants have, a controller-manager that signs, and `berth-approve`.

use anyhow::{Context as _, Result, ensure};
use berth_api::{labels, names};
use berth_render::values::{AccessValues, EndpointValues};
use berth_render::{Catalog, Kind, Object, TenantSet, render_tenant_set};
use berth_testkit::ApiServer;
use berth_testkit::apiserver::{Process, binary};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, SanType};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// How soon a request that is as it should be is approved.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// How long something may take that has no bound of its own.
pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) const SERVING: &str = "kubernetes.io/kubelet-serving";

pub(crate) const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// The usages of a client's certificate.
pub(crate) const CLIENT_USAGES: [&str; 2] = ["digital signature", "client auth"];

/// Asks until it is so.
pub(crate) async fn until<T>(what: &str, within: Duration, mut ask: impl AsyncFnMut() -> Result<T>) -> T {
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(found) => return found,
            Err(error) if start.elapsed() > within => panic!("{what}: {error:#}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Gives the approver's user the rights that Berth gives it in every tenant.
pub(crate) async fn grant(server: &ApiServer) -> Result<()> {
    let access = AccessValues { approver: names::APPROVER_USER.into(), ..AccessValues::default() };
    let is_its = |object: &Object| {
        let subjects = object.value()["subjects"].as_array();
        subjects.is_none_or(|all| all.iter().all(|subject| subject["name"] == names::APPROVER_USER))
    };
    apply(server, &TenantSet::Access(access), is_its).await
}

/// What Berth keeps of the `kubernetes` Service.
pub(crate) async fn endpoints(server: &ApiServer, address: &str) -> Result<()> {
    apply(server, &leading_to(address)?, |_| true).await
}

/// The first of them alone, as an operator whose next write fails.
pub(crate) async fn slice(server: &ApiServer, address: &str) -> Result<()> {
    apply(server, &leading_to(address)?, |object| object.key().kind == Kind::EndpointSlice).await
}

fn leading_to(address: &str) -> Result<TenantSet> {
    let addresses = vec![address.parse()?];
    Ok(TenantSet::Endpoint(EndpointValues { addresses, family: "IPv4".into(), port: 6443 }))
}

/// Applies a set as the operator does.
async fn apply(server: &ApiServer, set: &TenantSet, is_wanted: impl Fn(&Object) -> bool) -> Result<()> {
    let templates = Catalog::builtin().tenant("1.36".parse()?).context("templates")?;
    for object in render_tenant_set(templates, set)?.iter().filter(|object| is_wanted(object)) {
        let (key, kind) = (object.key(), object.key().kind);
        let api_version = kind.api_version();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let of = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group(), version, kind.name()));
        let all: Api<DynamicObject> = match &key.namespace {
            Some(namespace) => Api::namespaced_with(server.client(), namespace, &of),
            None => Api::all_with(server.client(), &of),
        };
        let params = PatchParams::apply(labels::MANAGER_CLUSTER).force();
        all.patch(&key.name, &params, &Patch::Apply(object.value())).await?;
    }
    Ok(())
}

/// Copies a user's certificate and key to where the approver reads its own.
pub(crate) fn credential(server: &ApiServer, user: &str, to: &Path) -> Result<()> {
    let auth = server.config_as(user, &[]).auth_info;
    for (from, name) in [(auth.client_certificate, "client.crt"), (auth.client_key, "client.key")] {
        let new = to.join("new");
        std::fs::copy(from.context("a file")?, &new)?;
        std::fs::rename(new, to.join(name))?;
    }
    Ok(())
}

/// The program that is tested.
pub(crate) fn approver(server: &ApiServer, dir: &Path) -> Result<Process> {
    let file = |name: &str| dir.join(name).display().to_string();
    let arguments = [
        format!("--server={}", server.url()),
        format!("--cacert={}", server.dir().join("pki/ca.crt").display()),
        format!("--cert={}", file("client.crt")),
        format!("--key={}", file("client.key")),
        "--client-certificates".to_owned(),
        "--service-cidr=10.96.0.0/16".to_owned(),
        "--service-cidr=fd00:1::/108".to_owned(),
    ];
    Process::spawn(dir, "berth-approve", Path::new(env!("CARGO_BIN_EXE_berth-approve")), &arguments)
}

/// What signs in a tenant.
pub(crate) fn signer(server: &ApiServer, dir: &Path) -> Result<Process> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![])?;
    params.distinguished_name.push(DnType::CommonName, "kubernetes-ca-1");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    std::fs::write(dir.join("ca.crt"), params.self_signed(&key)?.pem())?;
    std::fs::write(dir.join("ca.key"), key.serialize_pem())?;
    std::fs::write(
        dir.join("kubeconfig"),
        server.kubeconfig_as("system:kube-controller-manager", &["system:masters"]),
    )?;
    let file = |name: &str| dir.join(name).display().to_string();
    let arguments = [
        format!("--kubeconfig={}", file("kubeconfig")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        "--controllers=certificatesigningrequest-signing-controller".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    let program = binary("kubernetes", "v1.36.3", "kube-controller-manager")?;
    Process::spawn(dir, "kube-controller-manager", &program, &arguments)
}

/// A node with these addresses, by type.
pub(crate) async fn node(client: &Client, name: &str, addresses: &[(&str, &str)]) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    nodes.create(&PostParams::default(), &node).await?;
    tell(client, name, addresses).await
}

/// The node's addresses from now on.
pub(crate) async fn tell(client: &Client, name: &str, addresses: &[(&str, &str)]) -> Result<()> {
    let addresses: Vec<Value> =
        addresses.iter().map(|(type_, address)| json!({"type": type_, "address": address})).collect();
    let nodes: Api<Node> = Api::all(client.clone());
    let status = Patch::Merge(json!({"status": {"addresses": addresses}}));
    nodes.patch_status(name, &PatchParams::default(), &status).await?;
    Ok(())
}

/// What the node's condition `Ready` says from now on, and since when.
pub(crate) async fn reports(client: &Client, name: &str, status: &str, since: Timestamp) -> Result<()> {
    let condition = json!({
        "type": "Ready", "status": status, "reason": "Test", "message": "",
        "lastHeartbeatTime": since.to_string(), "lastTransitionTime": format!("{since:.0}"),
    });
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    nodes.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Type and message of the condition by which it was decided.
pub(crate) async fn decision(client: &Client, name: &str) -> Result<(String, String)> {
    let all: Api<CertificateSigningRequest> = Api::all(client.clone());
    let conditions = all.get_status(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
    ensure!(conditions.len() <= 1, "{name} was decided more than once");
    let decided = conditions.into_iter().next().context("nobody decided")?;
    Ok((decided.type_, decided.message.unwrap_or_default()))
}

/// A request by a kubelet, as PEM.
pub(crate) fn pem(node: &str, names: &[&str], addresses: &[&str]) -> Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    for name in names {
        params.subject_alt_names.push(SanType::DnsName((*name).try_into()?));
    }
    for address in addresses {
        params.subject_alt_names.push(SanType::IpAddress(address.parse()?));
    }
    Ok(params.serialize_request(&KeyPair::generate()?)?.pem()?)
}

/// Sends a request.
pub(crate) async fn ask(client: &Client, name: &str, signer: &str, usages: &[&str], pem: &str) -> Result<()> {
    let request = k8s_openapi::ByteString(pem.as_bytes().to_vec());
    let csr = json!({
        "metadata": {"name": name}, "spec": {"signerName": signer, "usages": usages, "request": request},
    });
    let all: Api<CertificateSigningRequest> = Api::all(client.clone());
    all.create(&PostParams::default(), &serde_json::from_value(csr)?).await?;
    Ok(())
}

/// The usages of a server's certificate.
pub(crate) const USAGES: [&str; 2] = ["digital signature", "server auth"];

/// Sends a serving request as that node.
pub(crate) async fn ask_as_node(server: &ApiServer, node: &str, name: &str, sans: (&[&str], &[&str])) -> Result<()> {
    let client = server.client_as(&format!("system:node:{node}"), &["system:nodes", "system:masters"]);
    ask(&client, name, SERVING, &USAGES, &pem(node, sans.0, sans.1)?).await
}

/// The certificate, once it is approved and signed.
pub(crate) async fn certificate(client: &Client, name: &str) -> Result<Vec<u8>> {
    let all: Api<CertificateSigningRequest> = Api::all(client.clone());
    let certificate = all.get_status(name).await?.status.and_then(|status| status.certificate);
    Ok(certificate.context("there is no certificate")?.0)
}

/// Whether somebody decided.
pub(crate) async fn is_decided(client: &Client, name: &str) -> Result<bool> {
    let all: Api<CertificateSigningRequest> = Api::all(client.clone());
    let conditions = all.get_status(name).await?.status.and_then(|status| status.conditions);
    Ok(conditions.is_some_and(|conditions| !conditions.is_empty()))
}

/// An error until somebody decides.
pub(crate) async fn decided(client: &Client, name: &str) -> Result<()> {
    ensure!(is_decided(client, name).await?, "nobody decided");
    Ok(())
}

/// What Events say of a request.
pub(crate) async fn said(client: &Client, name: &str) -> Result<String> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let of = ListParams::default().fields(&format!("involvedObject.name={name}"));
    let all = events.list(&of).await?.items;
    ensure!(all.len() <= 1, "more than one Event of {name}");
    all.into_iter().next().and_then(|event| event.message).with_context(|| format!("no Event of {name}"))
}
