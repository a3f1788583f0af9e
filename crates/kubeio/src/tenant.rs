//! The tenant's own API, with a certificate that lives for an hour and only in memory.

mod admission;
mod connector;
#[cfg(test)]
mod hostile;
mod leases;
mod look;
mod metrics;
mod nodes;
mod pages;
mod pods;
pub(crate) mod told;

use crate::calls::{Calls, Io};
use crate::error::{ErrorKind, IoError, chain};
use crate::snapshot::Snapshot;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::version::Minor;
use berth_api::{labels, names};
use berth_fence::{Fence, FencedClient};
use berth_pki::{CertSpec, Clocks, KeyPairPem, Usage};
use berth_plan::asked::ApiVersion;
use berth_plan::observed::{ApiProbe, InsideTenant};
use berth_plan_cluster::{HostRules, ProbeRequest, Questions};
use futures::future::BoxFuture;
use http::Response;
use http_body_util::combinators::MapErr;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use jiff::SignedDuration;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{self, AuthInfo};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tower::BoxError;
use tower::util::MapResponseLayer;

pub(crate) use connector::RefusedAddress;

pub use admission::{all_webhooks, look_at_admission};
use connector::Lookup;
pub use look::{answers, look};

/// How long a call into a tenant may take; its endpoint may be anything.
const DEADLINE: Duration = Duration::from_secs(5);

/// What is read of an answer of a tenant's, at the most. What Berth keeps there has a few KiB; a tenant's admin may add to it, and parsed it
/// takes up to sixteen times as much memory.
const LONGEST: usize = 256 << 10;

/// What is read of an API server's metrics, at the most: line by line.
const METRICS: usize = 64 << 20;

/// Where a tenant's API is, and the operator's credential.
#[derive(Clone)]
pub struct TenantTarget {
    /// `https://host:port`.
    pub server: String,
    /// The tenant's CA.
    pub ca_cert: Vec<u8>,
    /// The name in the server's certificate, where that is asked at an address.
    pub server_name: Option<String>,
    /// Where the server's name may lead, if somebody else chose it.
    rules: Option<HostRules>,
    /// The operator's certificate, which lives for an hour.
    credential: KeyPairPem,
}

impl std::fmt::Debug for TenantTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantTarget").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Makes a client for a tenant; tests put a local API server in its place.
pub type Connect = Arc<dyn Fn(TenantTarget) -> BoxFuture<'static, Result<FencedClient, String>> + Send + Sync>;

/// The target of a question, from what was observed, with a new certificate. None: there is no CA.
pub fn tenant_target(
    snapshot: &Snapshot,
    asked: &ProbeRequest,
    clocks: Clocks,
) -> Option<Result<TenantTarget, String>> {
    let ProbeRequest { server, ca, rules, .. } = asked;
    let (ca_cert, ca_key) = (snapshot.secret(ca, "tls.crt")?, snapshot.secret(ca, "tls.key")?);
    Some(TenantTarget::new(server.clone(), rules.clone(), ca_cert, ca_key, clocks))
}

impl TenantTarget {
    /// The same API at an address that the meta cluster gave.
    #[must_use]
    pub fn at(self, server: String) -> Self {
        Self { server, rules: None, ..self }
    }

    /// One API server of the same tenant, at its own address.
    #[must_use]
    pub fn of_pod(&self, server: String, name: &str) -> Self {
        Self { server_name: Some(name.to_owned()), ..self.clone().at(server) }
    }

    /// With a credential of the operator's that this CA signs. `rules`: where the server's name may lead, if somebody else chose it.
    pub fn new(
        server: String,
        rules: Option<HostRules>,
        ca_cert: &[u8],
        ca_key: &[u8],
        clocks: Clocks,
    ) -> Result<Self, String> {
        let lifetime = clocks.covered(SignedDuration::from_hours(1));
        let spec = CertSpec {
            organizations: vec!["system:masters".into()],
            ..CertSpec::new(names::OPERATOR_USER, Usage::Client, lifetime)
        };
        let credential = berth_pki::issue(&spec, ca_cert, ca_key, clocks).map_err(|e| e.to_string())?;
        Ok(Self { server, server_name: None, ca_cert: ca_cert.to_vec(), rules, credential })
    }
}

/// The real [`Connect`].
pub fn connect(fence: Fence) -> Connect {
    let lookup = connector::system();
    Arc::new(move |target| {
        let (fence, lookup) = (fence.clone(), lookup.clone());
        Box::pin(async move { client(&target, lookup, fence) })
    })
}

#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the fence is put above it")]
fn client(target: &TenantTarget, lookup: Lookup, fence: Fence) -> Result<FencedClient, String> {
    let url = target.server.parse().map_err(|e| format!("{}: {e}", target.server))?;
    let mut config = config::Config::new(url);
    config.root_cert = Some(berth_pki::bundle_der(&target.ca_cert).map_err(|e| e.to_string())?);
    config.auth_info = AuthInfo {
        client_certificate_data: Some(STANDARD.encode(&target.credential.cert_pem)),
        client_key_data: Some(STANDARD.encode(target.credential.key_pem.expose()).into()),
        ..AuthInfo::default()
    };
    config.tls_server_name.clone_from(&target.server_name);
    // As kube builds it, but for the resolver; without a proxy, and retries are made above the fence.
    let http = connector::connector(target.rules.clone(), lookup);
    let https = config.rustls_https_connector_with_connector(http).map_err(|e| chain(&e))?;
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(Duration::from_secs(3)));
    connector.set_read_timeout(Some(DEADLINE));
    connector.set_write_timeout(Some(DEADLINE));
    let service = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let builder = ClientBuilder::new(service, "default").with_layer(&config.base_uri_layer());
    // Metrics of one API server are longer, and never kept.
    Ok(match target.server_name {
        Some(_) => FencedClient::new(builder.with_layer(&MapResponseLayer::new(bounded::<METRICS, _>)).build(), fence),
        None => {
            FencedClient::retrying(builder.with_layer(&MapResponseLayer::new(bounded::<LONGEST, _>)).build(), fence)
        }
    })
}

type Bounded<B> = MapErr<Limited<B>, fn(BoxError) -> BoxError>;

/// The answer, read up to its bound: who may write a `Cluster` chooses what answers.
fn bounded<const MOST: usize, B>(answer: Response<B>) -> Response<Bounded<B>>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    answer.map(|body| Limited::new(body, MOST).map_err(says_the_bound::<MOST> as fn(_) -> _))
}

fn says_the_bound<const MOST: usize>(error: BoxError) -> BoxError {
    if error.is::<LengthLimitError>() { format!("an answer of more than {} KiB", MOST >> 10).into() } else { error }
}

/// Asks the tenant's API. Returns the connection for what is to be
/// written.
pub async fn probe_tenant(
    connect: &Connect,
    target: TenantTarget,
    questions: Questions,
    calls: Arc<Calls>,
) -> (ApiProbe, Option<Io>) {
    let client = match connect(target).await {
        Ok(client) => client,
        Err(e) => return (ApiProbe::Failed(e.into()), None),
    };
    let tenant = Io::new(client, calls, DEADLINE);
    match ask(&tenant, &questions).await {
        Ok((version, read)) => (ApiProbe::Answered { version, read }, Some(tenant)),
        Err(e) if e.kind == ErrorKind::Refused => (ApiProbe::Refused(e.message.into()), None),
        Err(e) => (ApiProbe::Failed(e.message.into()), None),
    }
}

async fn ask(tenant: &Io, questions: &Questions) -> Result<(Option<ApiVersion>, InsideTenant), IoError> {
    let mut read = InsideTenant::default();
    for listing in &questions.listings {
        let (objects, whole) = tenant.list_labelled(*listing, labels::TENANT_SET).await?;
        read.extend(if whole { InsideTenant::listed(*listing, objects) } else { InsideTenant::some(objects) });
    }
    if questions.nodes {
        // Nodes write their own names and versions: what cannot be read of them says nothing of the API.
        read.nodes = nodes::count(tenant).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "nodes are not counted");
            None
        });
    }
    if !questions.leases.is_empty() {
        read.leases = match leases::read(tenant, &questions.leases).await {
            // What else was asked is answered, and who writes there chooses how many there are.
            Err(error) if !questions.listings.is_empty() => {
                tracing::debug!(%error, "leases are not read");
                None
            }
            leases => leases?,
        };
    }
    for app in &questions.pods {
        // They belong to the tenant: what cannot be read of them says nothing of the API.
        match pods::why_not(tenant, app).await {
            Ok(why) => read.pods.extend(why.map(|why| ((*app).to_owned(), why))),
            Err(error) => tracing::debug!(%error, app, "pods are not read"),
        }
    }
    let version = if questions.version {
        let answer = tenant.raw("/version").await?;
        let version = version_of(&answer);
        let strange = || IoError::new(ErrorKind::Other, "get /version", "the answer is not a Kubernetes API server's");
        Some(version.ok_or_else(strange)?)
    } else {
        None
    };
    Ok((version, read))
}

/// What an API server tells of its version. None: what it tells is none, and nothing to put into a status.
fn version_of(answer: &Value) -> Option<ApiVersion> {
    let version = answer["gitVersion"].as_str()?.trim_start_matches('v');
    let plain = version.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-".contains(&b));
    let minor = |of: [&str; 2]| -> Option<Minor> {
        let [major, minor] = of.map(|field| answer[field].as_str());
        format!("{}.{}", major?, minor?).parse().ok()
    };
    let emulates =
        minor(["emulationMajor", "emulationMinor"]).filter(|emulates| Some(*emulates) != minor(["major", "minor"]));
    (plain && (1..=64).contains(&version.len())).then(|| ApiVersion { version: version.to_owned(), emulates })
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_render::{Kind, Listing, ObjectKey, STAMPS};
    use futures::FutureExt;
    use serde_json::json;
    use std::collections::VecDeque;
    use std::net::IpAddr;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// Answers with that status and a body of four times what is read.
    async fn flood(mut stream: TcpStream, status: u16) -> std::io::Result<()> {
        const CHUNK: usize = 1 << 16;
        let _request = stream.read(&mut [0; 4096]).await?;
        let head = format!("HTTP/1.1 {status} Told\r\ntransfer-encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let chunk = format!("{CHUNK:x}\r\n{}\r\n", "x".repeat(CHUNK));
        for _ in 0..4 * LONGEST / CHUNK {
            stream.write_all(chunk.as_bytes()).await?;
        }
        stream.write_all(b"0\r\n\r\n").await
    }

    pub(super) fn target(server: String, rules: Option<HostRules>) -> TenantTarget {
        let now = jiff::Timestamp::now();
        let ca = CertSpec::new("ca", Usage::Ca, berth_pki::CA_LIFETIME);
        let ca = berth_pki::issue_ca(&ca, now).unwrap();
        TenantTarget::new(server, rules, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), now.into()).unwrap()
    }

    fn asks(listings: [Listing; 1]) -> Questions {
        Questions { listings: listings.into(), ..Questions::default() }
    }

    fn io(target: &TenantTarget, lookup: Lookup) -> Io {
        Io::new(client(target, lookup, Fence::open()).unwrap(), Arc::default(), Duration::from_mins(1))
    }

    #[tokio::test]
    async fn no_more_is_read_of_an_answer_than_its_bound() {
        for status in [200, 500] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = format!("http://{}", listener.local_addr().unwrap());
            let io = io(&target(server, None), connector::system());
            let server = async { flood(listener.accept().await.unwrap().0, status).await };
            let (answer, _cut_off) = futures::join!(io.raw("/version"), server);
            assert_eq!(answer.unwrap_err().message, "an answer of more than 256 KiB", "{status}");
        }
    }

    #[tokio::test]
    async fn a_list_says_what_is_there_and_one_that_was_cut_says_nothing_of_the_rest() {
        let wanted =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}});
        let missing = ObjectKey::namespaced(Kind::ConfigMap, "kube-system", "missing");
        for (rest, known) in [("", Some(None)), ("more", None)] {
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                assert_eq!(
                    request.uri(),
                    "/api/v1/namespaces/kube-system/configmaps?labelSelector=berth.dev%2Ftenant-set&limit=500"
                );
                let items = json!([{"metadata": {"name": "a", "namespace": "kube-system", "managedFields": []}}]);
                let list = json!({"metadata": {"continue": rest}, "items": items}).to_string();
                async move { Ok::<_, std::convert::Infallible>(Response::new(kube::client::Body::from(list.into_bytes()))) }
            });
            let client = FencedClient::new(kube::Client::new(service, "default"), Fence::open());
            let io = Io::new(client, Arc::default(), DEADLINE);
            let (_, read) = ask(&io, &asks([STAMPS])).await.unwrap();
            assert_eq!(
                read.get(&ObjectKey::of(Kind::ConfigMap, &wanted)),
                Some(Some(&wanted)),
                "typed, as a wanted one is"
            );
            assert_eq!(read.get(&missing), known, "{rest}");
        }
    }

    async fn answer(listener: &TcpListener) {
        let mut stream = listener.accept().await.unwrap().0;
        let _request = stream.read(&mut [0; 4096]).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(head.as_bytes()).await.unwrap();
    }

    /// Answers that change from lookup to lookup, as those of an attacker's DNS server.
    fn answers(all: &[&[&str]]) -> Lookup {
        let parse = |one: &&[&str]| one.iter().map(|a| a.parse().unwrap()).collect::<Vec<IpAddr>>();
        let queue: Mutex<VecDeque<_>> = Mutex::new(all.iter().map(parse).collect());
        Arc::new(move |_| {
            let next = queue.lock().unwrap().pop_front().expect("no further lookup");
            Box::pin(async move { Ok(next) })
        })
    }

    #[tokio::test]
    async fn a_name_that_changes_its_address_leads_nowhere_else() {
        let tenants = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tenants.local_addr().unwrap().port();
        let victim = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let target = target(
            format!("http://acme.example.com:{port}"),
            Some(HostRules::new(vec![[127, 0, 0, 1].into()], None, None)),
        );
        let io =
            io(&target, answers(&[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1", "127.0.0.2"], &["169.254.169.254"]]));
        let (first, ()) = futures::join!(io.raw("/version"), answer(&tenants));
        first.unwrap();
        for address in ["127.0.0.2", "127.0.0.2", "169.254.169.254"] {
            let error = io.raw("/version").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{error}");
            let start = format!("spec.endpoint.host: acme.example.com resolves to {address}, which is a ");
            assert!(error.message.starts_with(&start), "{error}");
        }
        assert!(victim.accept().now_or_never().is_none(), "nobody dialled it");
    }

    #[tokio::test]
    async fn addresses_of_the_tenants_own_load_balancer_are_its_own() {
        let tenants = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://acme.example.com:{}", tenants.local_addr().unwrap().port());
        let target = target(server, Some(HostRules::new(vec![], Some("lb.cloud.example".into()), None)));
        let io = io(&target, answers(&[&["127.0.0.1"], &["127.0.0.3", "127.0.0.1"], &["127.0.0.1"], &["127.0.0.3"]]));
        let (answer, ()) = futures::join!(io.raw("/version"), answer(&tenants));
        answer.unwrap();
        assert_eq!(io.raw("/version").await.unwrap_err().kind, ErrorKind::Refused, "it has another one by now");
    }

    /// By the system's resolver, as the operator does it.
    #[tokio::test]
    async fn a_name_of_this_machine_is_not_dialled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let connect = connect(Fence::open());
        let rules = HostRules::new(vec![], None, None);
        let (probe, io) = probe_tenant(&connect, target(server, Some(rules)), asks([STAMPS]), Arc::default()).await;
        assert!(matches!(&probe, ApiProbe::Refused(why) if why.contains("localhost resolves to ")), "{probe:?}");
        assert!(io.is_none() && listener.accept().now_or_never().is_none(), "nobody dialled it");
    }

    #[test]
    fn a_version_is_short_and_plain() {
        let of = |text: &str| version_of(&json!({"gitVersion": text})).map(|v| v.version);
        for version in ["1.34.1", "1.34.1-eks-abc", "1.34.1+k3s1"] {
            assert_eq!(of(&format!("v{version}")).as_deref(), Some(version));
        }
        assert!(of(&"1".repeat(64)).is_some());
        for strange in ["", "v", "1.34 1", "1.34\n", "1.34.1\u{e9}", "<b>", &"1".repeat(65)] {
            assert_eq!(of(strange), None, "{strange:?}");
        }
        assert_eq!(version_of(&json!({"gitVersion": 1})), None);
        let emulates = |minor: &str| {
            let told = json!({"gitVersion": "v1.36.3", "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": minor});
            version_of(&told).unwrap().emulates.map(|minor| minor.to_string())
        };
        assert_eq!((emulates("35").as_deref(), emulates("36"), emulates("x")), (Some("1.35"), None, None));
        assert_eq!(version_of(&json!([])), None);
    }
}
