//! A meta cluster's API server, a tenant's, `berth-access` between them, and the operator's end of its connection.

use anyhow::Result;
use berth_api::Cluster;
use berth_contract::access::{ACCESS, ADDRESS, Answer, Ask, CERTIFICATE, OPERATOR, Outcome, Pass, Reason, Refused};
use berth_edge::link::Identity;
use berth_pki::{CertSpec, KeyPairPem, Usage, issue_ca, issue_for};
use berth_testkit::ApiServer;
use berth_testkit::apiserver::{Options, Process};
use berth_testkit::patience::patience;
use berth_testkit::ports::ports;
use futures::{SinkExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_util::codec::{Framed, LinesCodec};

/// Who the program is in the meta cluster, and its namespace.
pub(crate) const USER: &str = "berth-access";
pub(crate) const NAMESPACE: &str = "berth-access";
/// The name in its certificate.
const HOST: &str = "localhost";

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

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Rules for a user or a ServiceAccount of `namespace`, there or, without a namespace, everywhere.
pub(crate) async fn grant(server: &ApiServer, namespace: &str, name: &str, subject: &Value, rules: &Value) {
    let (role, binding) =
        if namespace.is_empty() { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
    create(server, RBAC, role, namespace, &json!({"metadata": {"name": name}, "rules": rules})).await;
    let bound = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [subject],
    });
    create(server, RBAC, binding, namespace, &bound).await;
}

pub(crate) fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

/// All of it.
pub(crate) struct Platform {
    pub(crate) access: Access,
    pub(crate) operator: Operator,
    pub(crate) meta: ApiServer,
    pub(crate) tenant: ApiServer,
    /// The tenant's front-proxy CA.
    pub(crate) proxy_ca: KeyPairPem,
    pub(crate) dir: tempfile::TempDir,
}

impl Platform {
    /// With the tenants `team-a/acme` and `team-b/other`, of which the first has API servers.
    pub(crate) async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let spec = CertSpec::new("kubernetes-front-proxy-ca-1", Usage::Ca, SignedDuration::from_hours(48));
        let proxy_ca = issue_ca(&spec, Timestamp::now())?;
        let ca_file = dir.path().join("front-proxy-ca.crt");
        std::fs::write(&ca_file, &proxy_ca.cert_pem)?;
        // As tenants have it.
        let apiserver_args = vec![
            format!("--requestheader-client-ca-file={}", ca_file.display()),
            "--requestheader-allowed-names=front-proxy-client,berth-access".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
        ];
        let options = Options { apiserver_args, ..Options::default() };
        let (meta, tenant) = tokio::try_join!(ApiServer::start(), ApiServer::start_with(options))?;
        meta.install_crds(&berth_api::crds::all()).await?;
        for namespace in ["team-a", "team-b", NAMESPACE] {
            create(&meta, "v1", "Namespace", "", &json!({"metadata": {"name": namespace}})).await;
        }
        for (namespace, name) in [("team-a", "acme"), ("team-b", "other")] {
            let cluster = json!({"metadata": {"name": name}, "spec": {"version": "1.36.3"}});
            create(&meta, "berth.dev/v1alpha1", "Cluster", namespace, &cluster).await;
        }
        let _: Option<Cluster> = Api::namespaced(meta.client(), "team-a").get_opt("acme").await?;
        // As the chart has it.
        let rules = json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
            {"apiGroups": ["berth.dev"], "resources": ["clusters"], "verbs": ["list"]},
        ]);
        grant(&meta, "", USER, &user(USER), &rules).await;
        let rules = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]);
        grant(&meta, NAMESPACE, USER, &user(USER), &rules).await;
        let access = Access::start(&meta, dir.path())?;
        let operator = Operator::start(&meta).await;
        operator.connect(&meta, &tenant, &proxy_ca);
        until("the operator is connected", async || access.says("the operator is connected")).await;
        Ok(Self { access, operator, meta, tenant, proxy_ca, dir })
    }

    /// A token of that ServiceAccount in `team-a`, which is made.
    pub(crate) async fn login(&self, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.meta.client(), "team-a");
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        accounts
            .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
            .await
            .unwrap();
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let token = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        token.status.unwrap().token
    }

    /// Those rights to the API of `acme`.
    pub(crate) async fn allow(&self, account: &str, verbs: &[&str]) {
        let rules = json!([{"apiGroups": ["berth.dev"], "resources": ["clusters/api"], "resourceNames": ["acme"], "verbs": verbs}]);
        let subject = json!({"kind": "ServiceAccount", "namespace": "team-a", "name": account});
        grant(&self.meta, "team-a", account, &subject, &rules).await;
    }
}

/// The program that is tested.
pub(crate) struct Access {
    process: Option<Process>,
    log: PathBuf,
    pub(crate) port: u16,
    /// Where the operator comes to.
    pub(crate) for_operator: String,
    /// Where its metrics are.
    pub(crate) metrics: String,
    pub(crate) ca: String,
}

impl Access {
    fn start(meta: &ApiServer, dir: &Path) -> Result<Self> {
        let kubeconfig = dir.join("kubeconfig");
        std::fs::write(&kubeconfig, meta.kubeconfig_as(USER, &[]))?;
        let ca = certificate(dir, 30)?;
        let [port, metrics, operator] = ports();
        let arguments = [
            format!("KUBECONFIG={}", kubeconfig.display()),
            env!("CARGO_BIN_EXE_berth-access").to_owned(),
            format!("--listen=127.0.0.1:{port}"),
            format!("--listen-operator=127.0.0.1:{operator}"),
            format!("--metrics=127.0.0.1:{metrics}"),
            format!("--certificate={}", dir.display()),
            format!("--namespace={NAMESPACE}"),
            "--ask-again=2s".to_owned(),
            "--pod=access-1".to_owned(),
            "--pod-ip=127.0.0.1".to_owned(),
            r#"--login={"command":"get-token"}"#.to_owned(),
        ];
        let process = Process::spawn(dir, "berth-access", Path::new("/usr/bin/env"), &arguments)?;
        let log = dir.join("berth-access.log");
        let (for_operator, metrics) = (format!("127.0.0.1:{operator}"), format!("127.0.0.1:{metrics}"));
        Ok(Self { process: Some(process), log, port, for_operator, metrics, ca })
    }

    /// It ends, without a word.
    pub(crate) fn stop(&mut self) {
        self.process = None;
    }

    /// Whether its log has that.
    pub(crate) fn says(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Writes a certificate for so many days, and its key, to where the program reads them.
pub(crate) fn certificate(dir: &Path, days: i64) -> Result<String> {
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new([HOST.to_owned()])?;
    let end = Timestamp::now() + SignedDuration::from_hours(24 * days);
    params.not_after = std::time::SystemTime::from(end).into();
    let made = params.self_signed(&key)?.pem();
    std::fs::write(dir.join("tls.key"), key.serialize_pem())?;
    std::fs::write(dir.join("tls.crt"), &made)?;
    Ok(made)
}

/// The operator's end.
pub(crate) struct Operator {
    identity: Arc<Identity>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// Passes that it gave.
    pub(crate) signed: Arc<AtomicUsize>,
}

impl Operator {
    async fn start(meta: &ApiServer) -> Self {
        let identity = Arc::new(Identity::new(OPERATOR).unwrap());
        let leases: Api<Lease> = Api::namespaced(meta.client(), NAMESPACE);
        let annotations = [(CERTIFICATE.to_owned(), identity.pem().to_owned())].into();
        let metadata =
            ObjectMeta { name: Some(OPERATOR.to_owned()), annotations: Some(annotations), ..ObjectMeta::default() };
        leases.create(&PostParams::default(), &Lease { metadata, ..Lease::default() }).await.unwrap();
        Self { identity, task: Mutex::default(), signed: Arc::default() }
    }

    /// It comes to the program, and answers from then on.
    pub(crate) fn connect(&self, meta: &ApiServer, tenant: &ApiServer, proxy_ca: &KeyPairPem) {
        let leases: Api<Lease> = Api::namespaced(meta.client(), NAMESPACE);
        let (identity, counter) = (self.identity.clone(), self.signed.clone());
        let (proxy_ca, ca) = (proxy_ca.clone(), ca_pem(tenant));
        let address = tenant.url().trim_start_matches("https://").to_owned();
        let task = tokio::spawn(async move {
            let replica = loop {
                match leases.get_opt("access-1").await.unwrap() {
                    Some(lease) => break lease,
                    None => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            let said = |key| replica.annotations()[key].clone();
            let tls = TlsConnector::from(Arc::new(identity.client(&said(CERTIFICATE)).unwrap()));
            let stream = TcpStream::connect(said(ADDRESS)).await.unwrap();
            let stream = tls.connect(ServerName::try_from(ACCESS).unwrap(), stream).await.unwrap();
            let mut lines = Framed::new(stream, LinesCodec::new());
            while let Some(Ok(line)) = lines.next().await {
                let ask: Ask = serde_json::from_str(&line).unwrap();
                let outcome = match ask.cluster.name.as_str() {
                    "acme" => {
                        counter.fetch_add(1, Relaxed);
                        let certificate = sign(&ask.request, &proxy_ca);
                        let (server_name, ca, address) = ("127.0.0.1".to_owned(), ca.clone(), address.clone());
                        Outcome::Pass(Pass { certificate, seconds: 3600, ca, server_name, address })
                    }
                    "other" => {
                        Outcome::Refused(Refused { reason: Reason::NotInTemplates, message: "set Newest".to_owned() })
                    }
                    _ => Outcome::Refused(Refused { reason: Reason::NotFound, message: String::new() }),
                };
                lines.send(serde_json::to_string(&Answer { id: ask.id, outcome }).unwrap()).await.unwrap();
            }
        });
        *self.task.lock().unwrap() = Some(task);
    }

    /// It ends.
    pub(crate) fn stop(&self) {
        if let Some(task) = self.task.lock().unwrap().take() {
            task.abort();
        }
    }
}

fn ca_pem(server: &ApiServer) -> String {
    let der = &server.config().root_cert.unwrap()[0];
    pem(der)
}

fn pem(der: &[u8]) -> String {
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// As the operator does.
pub(crate) fn sign(request: &str, proxy_ca: &KeyPairPem) -> String {
    let spec = CertSpec::new(ACCESS, Usage::Client, SignedDuration::from_hours(1));
    issue_for(request, &spec, proxy_ca.cert_pem.as_bytes(), proxy_ca.key_pem.expose_bytes(), Timestamp::now()).unwrap()
}
