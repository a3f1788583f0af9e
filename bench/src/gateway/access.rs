//! A call by the login, to the tenant's API server itself in turns; then as many as there can be, by several people.

use anyhow::{Context as _, Result};
use berth_contract::access::{ACCESS, ADDRESS, Answer, Ask, CERTIFICATE, OPERATOR, Outcome, Pass};
use berth_edge::link::Identity;
use berth_pki::{CertSpec, KeyPairPem, Usage, issue_ca, issue_for};
use berth_testkit::ApiServer;
use berth_testkit::apiserver::{Options, Process};
use berth_testkit::ports::ports;
use futures::{SinkExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use rustls::pki_types::ServerName;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::codec::{Framed, LinesCodec};

use super::calls::{PATH, Pair, figures};
use super::client::{Caller, Connection, Way};
use super::world::{TEAM, World, create, grant, port_of, user};
use crate::Figure;
use crate::process::usage;

const RUNS: usize = 5;
const CALLS: usize = 2000;
/// People who call at once, and for how long.
const PEOPLE: usize = 16;
const BUSY: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_mins(1);
const TENANT: &str = "acme";
/// The path of a call by the login.
const BY_LOGIN: &str = "/clusters/team-a/acme/api/v1/namespaces/default";

pub(crate) async fn run(world: &World) -> Result<Vec<Figure>> {
    let dir = tempfile::tempdir()?;
    let spec = CertSpec::new("kubernetes-front-proxy-ca-1", Usage::Ca, SignedDuration::from_hours(48));
    let proxy_ca = issue_ca(&spec, Timestamp::now())?;
    let tenant = tenant(dir.path(), &proxy_ca).await?;
    let meta = world.meta.client();
    platform(world, &tenant.client()).await?;
    let (process, way, certificate) = start(world, dir.path())?;
    let operator = tokio::spawn(operator(
        meta.clone(),
        Pass {
            certificate: String::new(),
            seconds: 3600,
            ca: pem(&tenant.config().root_cert.context("no CA")?[0]),
            server_name: "127.0.0.1".to_owned(),
            address: format!("127.0.0.1:{}", port_of(&tenant)),
        },
        proxy_ca,
    ));
    let mut people = vec![];
    for number in 0..PEOPLE {
        let caller = Caller::bearer(&certificate, &login(&meta, &format!("person-{number}")).await?)?;
        people.push(admitted(&caller, way).await?);
    }
    let direct = Way { from: Ipv4Addr::LOCALHOST, to: (Ipv4Addr::LOCALHOST, port_of(&tenant)).into() };
    let mut direct = Caller::admin(&tenant)?.open(direct, "localhost").await?;
    let mut pairs = vec![];
    for _ in 0..RUNS {
        let mut pair = Pair::default();
        for _ in 0..CALLS {
            pair.direct.time(direct.get(PATH)).await?;
            pair.through.time(people[0].get(BY_LOGIN)).await?;
        }
        pairs.push(pair);
    }
    let pid = u32::try_from(process.pid())?;
    let used = || usage(pid).context("berth-access has ended");
    let (mark, before, begin) = (world.meta.audit_mark(), used()?, Instant::now());
    let busy = people.into_iter().map(|mut person| {
        tokio::spawn(async move {
            let mut calls = 0_u32;
            while begin.elapsed() < BUSY {
                person.get(BY_LOGIN).await?;
                calls += 1;
            }
            anyhow::Ok(calls)
        })
    });
    let mut calls = 0.0;
    for done in futures::future::join_all(busy).await {
        calls += f64::from(done??);
    }
    let (after, seconds) = (used()?, begin.elapsed().as_secs_f64());
    let asked = world.meta.audit_since(mark);
    let share = |kind: &str| {
        let count = asked.iter().filter(|event| event.resource == kind).count();
        vec![f64::from(u32::try_from(count).unwrap_or(u32::MAX)) * 1000.0 / calls]
    };
    operator.abort();
    let mut all = figures("access.call", &pairs);
    all.extend([
        Figure::new("access.busy_cpu", "ms", vec![(after.cpu - before.cpu) * 1000.0 / calls]),
        Figure::new("access.busy_rate", "1/s", vec![calls / seconds]),
        Figure::new("access.busy_rss", "MiB", vec![after.rss]),
        Figure::new("access.reviewed_access", "1/1000", share("subjectaccessreviews")),
        Figure::new("access.reviewed_tokens", "1/1000", share("tokenreviews")),
    ]);
    Ok(all)
}

/// An API server that believes who has a certificate of that CA, as tenants' do.
async fn tenant(dir: &Path, proxy_ca: &KeyPairPem) -> Result<ApiServer> {
    let file = dir.join("front-proxy-ca.crt");
    std::fs::write(&file, &proxy_ca.cert_pem)?;
    let apiserver_args = vec![
        format!("--requestheader-client-ca-file={}", file.display()),
        "--requestheader-allowed-names=front-proxy-client,berth-access".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
    ];
    ApiServer::start_with(Options { apiserver_args, ..Options::default() }).await
}

/// The tenant's `Cluster`, the rights of `berth-access` as the chart has them, and those of people.
async fn platform(world: &World, tenant: &Client) -> Result<()> {
    let meta = world.meta.client();
    world.meta.install_crds(&berth_api::crds::all()).await?;
    for namespace in [TEAM, ACCESS] {
        create(&meta, "v1", "Namespace", "", json!({"metadata": {"name": namespace}})).await?;
    }
    let cluster = json!({"metadata": {"name": TENANT}, "spec": {"version": "1.36.3"}});
    create(&meta, "berth.dev/v1alpha1", "Cluster", TEAM, cluster).await?;
    let rules = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        {"apiGroups": ["berth.dev"], "resources": ["clusters"], "verbs": ["list"]},
    ]);
    grant(&meta, "", ACCESS, &user(ACCESS), &rules).await?;
    let rules =
        json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]);
    grant(&meta, ACCESS, ACCESS, &user(ACCESS), &rules).await?;
    let group = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
    let rules = json!([{"apiGroups": ["berth.dev"], "resources": ["clusters/api"], "verbs": ["*"]}]);
    grant(&meta, TEAM, "people", &group("system:serviceaccounts:team-a"), &rules).await?;
    // People are in no group of the tenant's: groups that begin with `system:` are left out.
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]);
    grant(tenant, "", "people", &group("system:authenticated"), &rules).await
}

/// The program, where callers come to, and the certificate that they see.
fn start(world: &World, dir: &Path) -> Result<(Process, Way, String)> {
    let kubeconfig = dir.join("kubeconfig");
    std::fs::write(&kubeconfig, world.meta.kubeconfig_as(ACCESS, &[]))?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(dir.join("tls.key"), made.signing_key.serialize_pem())?;
    std::fs::write(dir.join("tls.crt"), made.cert.pem())?;
    let [port, metrics, operator] = ports();
    let arguments = [
        format!("KUBECONFIG={}", kubeconfig.display()),
        world.programs.access.display().to_string(),
        format!("--listen=127.0.0.1:{port}"),
        format!("--listen-operator=127.0.0.1:{operator}"),
        format!("--metrics=127.0.0.1:{metrics}"),
        format!("--certificate={}", dir.display()),
        format!("--namespace={ACCESS}"),
        "--pod=access-1".to_owned(),
        "--pod-ip=127.0.0.1".to_owned(),
    ];
    let process = Process::spawn(dir, "berth-access", Path::new("/usr/bin/env"), &arguments)?;
    let to: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
    Ok((process, Way { from: Ipv4Addr::LOCALHOST, to }, made.cert.pem()))
}

/// The operator's end: everybody gets that pass, with a certificate for their key.
async fn operator(meta: Client, pass: Pass, proxy_ca: KeyPairPem) -> Result<()> {
    let identity = Identity::new(OPERATOR)?;
    let lease = json!({"metadata": {"name": OPERATOR, "annotations": {CERTIFICATE: identity.pem()}}});
    create(&meta, "coordination.k8s.io/v1", "Lease", ACCESS, lease).await?;
    let leases: Api<Lease> = Api::namespaced(meta, ACCESS);
    let replica = loop {
        match leases.get_opt("access-1").await? {
            Some(lease) => break lease,
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let said = |key| replica.annotations().get(key).context("the replica's Lease says too little");
    let tls = TlsConnector::from(Arc::new(identity.client(said(CERTIFICATE)?)?));
    let stream = tls.connect(ServerName::try_from(ACCESS)?, TcpStream::connect(said(ADDRESS)?).await?).await?;
    let mut lines = Framed::new(stream, LinesCodec::new());
    while let Some(line) = lines.next().await {
        let ask: Ask = serde_json::from_str(&line?)?;
        let spec = CertSpec::new(ACCESS, Usage::Client, SignedDuration::from_hours(1));
        let (ca, key) = (proxy_ca.cert_pem.as_bytes(), proxy_ca.key_pem.expose_bytes());
        let certificate = issue_for(&ask.request, &spec, ca, key, Timestamp::now())?;
        let outcome = Outcome::Pass(Pass { certificate, ..pass.clone() });
        lines.send(serde_json::to_string(&Answer { id: ask.id, outcome })?).await?;
    }
    Ok(())
}

/// A token of a ServiceAccount, which is made.
async fn login(meta: &Client, name: &str) -> Result<String> {
    create(meta, "v1", "ServiceAccount", TEAM, json!({"metadata": {"name": name}})).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(meta.clone(), TEAM);
    let token = accounts.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await?;
    Ok(token.status.context("no token")?.token)
}

/// A connection by which a call was answered: rights count a moment after they are given.
async fn admitted(caller: &Caller, way: Way) -> Result<Connection> {
    let begin = Instant::now();
    loop {
        let called = async {
            let mut connection = caller.open(way, "localhost").await?;
            connection.get(BY_LOGIN).await?;
            anyhow::Ok(connection)
        };
        match called.await {
            Err(error) if begin.elapsed() > LONG => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            connection => return connection,
        }
    }
}

fn pem(der: &[u8]) -> String {
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}
