//! A real API server with tenants' Services, and a gateway beside it.

use anyhow::Result;
use berth_testkit::ApiServer;
use berth_testkit::apiserver::Process;
use berth_testkit::hello::hello;
use berth_testkit::patience::patience;
use berth_testkit::ports::ports;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use proxy_header::{ProxyHeader, Tlv};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Who the gateway is.
pub(crate) const USER: &str = "gateway";

/// What has no bound of its own.
const LONG: Duration = Duration::from_mins(1);

/// Asks until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < patience(LONG), "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The rights that it has, and no others.
pub(crate) async fn grant(server: &ApiServer) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    let group = "rbac.authorization.k8s.io/v1";
    create(server, group, "ClusterRole", "", &json!({"metadata": {"name": USER}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    create(server, group, "ClusterRoleBinding", "", &binding).await;
}

/// An object of that kind; without a namespace if that is empty.
pub(crate) async fn create(server: &ApiServer, api_version: &str, kind: &str, namespace: &str, object: &Value) {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let of = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let mut object = object.clone();
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let all: Api<DynamicObject> = match namespace {
        "" => Api::all_with(server.client(), &of),
        namespace => Api::namespaced_with(server.client(), namespace, &of),
    };
    all.create(&PostParams::default(), &object).await.unwrap();
}

/// The Service of API servers, as the operator labels and annotates it.
pub(crate) async fn service(server: &ApiServer, namespace: &str, exposed: &Value) {
    let service = json!({
        "metadata": {
            "name": "kube-apiserver",
            "labels": {"berth.dev/gateway": "true"},
            "annotations": {"berth.dev/gateway": exposed.to_string()},
        },
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
    });
    create(server, "v1", "Service", namespace, &service).await;
}

pub(crate) async fn annotate(server: &ApiServer, namespace: &str, exposed: &Value) {
    let patch = json!({"metadata": {"annotations": {"berth.dev/gateway": exposed.to_string()}}});
    let services: Api<Service> = Api::namespaced(server.client(), namespace);
    services.patch("kube-apiserver", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

pub(crate) async fn delete_service(server: &ApiServer, namespace: &str) {
    let services: Api<Service> = Api::namespaced(server.client(), namespace);
    services.delete("kube-apiserver", &DeleteParams::default()).await.unwrap();
}

/// As Kubernetes makes it for that Service.
pub(crate) async fn slice(server: &ApiServer, namespace: &str, address: &str) {
    let slice = json!({
        "metadata": {
            "name": "kube-apiserver-x7k2p",
            "labels": {"berth.dev/gateway": "true", "kubernetes.io/service-name": "kube-apiserver"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
    });
    create(server, "discovery.k8s.io/v1", "EndpointSlice", namespace, &slice).await;
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    UnknownName,
    Reset,
}

/// The program that is tested.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    log: PathBuf,
    port: u16,
    named: u16,
    metrics: u16,
    _dir: tempfile::TempDir,
}

impl Gateway {
    pub(crate) fn start(server: &ApiServer) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig_as(USER, &[]))?;
        let [port, named, metrics] = ports();
        let arguments = [
            format!("KUBECONFIG={}", kubeconfig.display()),
            env!("CARGO_BIN_EXE_berth-gateway").to_owned(),
            format!("--listen=127.0.0.1:{port}"),
            format!("--listen-named=127.0.0.1:{named}"),
            format!("--metrics=127.0.0.1:{metrics}"),
            "--dial-timeout=200ms".to_owned(),
        ];
        let process = Process::spawn(dir.path(), "berth-gateway", Path::new("/usr/bin/env"), &arguments)?;
        Ok(Self { process, log: dir.path().join("berth-gateway.log"), port, named, metrics, _dir: dir })
    }

    pub(crate) fn address(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.port)
    }

    /// Whether its log has that.
    pub(crate) fn says(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// How often its log has that.
    pub(crate) fn count(&self, text: &str) -> usize {
        std::fs::read_to_string(&self.log).map_or(0, |log| log.matches(text).count())
    }

    /// Status and body. 0: it does not listen yet.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.metrics)).await else { return (0, String::new()) };
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        (status, answer)
    }

    /// What `berth-api-proxy` is told that comes for that name: always the same, so the log has to say why.
    pub(crate) async fn ask_by_header(&self, name: &str) {
        let mut header = ProxyHeader::with_local();
        header.append_tlv(Tlv::Authority(name.into()));
        let mut bytes = [0; 256];
        let length = header.encode_to_slice_v2(&mut bytes).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", self.named)).await.unwrap();
        stream.write_all(&bytes[..length]).await.unwrap();
        let error = stream.read_to_end(&mut vec![]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{name}");
    }

    /// What a client with that server name is told.
    pub(crate) async fn ask(&self, name: &str) -> Answer {
        let hello = hello(Some(name)).unwrap();
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        let mut answer = vec![];
        match stream.read_to_end(&mut answer).await {
            Ok(_) if answer == [21, 3, 3, 0, 2, 2, 112] => Answer::UnknownName,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Answer::Reset,
            other => panic!("{other:?} {answer:?}"),
        }
    }
}
