//! Waits until interfaces have their addresses, then until HTTPS endpoints answer 200.
//!
//! A component that exits because what it needs is not there yet goes into back-off, which costs ten seconds to five minutes. This
//! waits in its place, and notices within [`INTERVAL`].

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;

use crate::{install::ExecArgs, interface::Wanted};
use ureq::{
    Agent,
    tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem},
};

/// Between two rounds over all endpoints.
const INTERVAL: Duration = Duration::from_millis(150);
/// Of connecting to one endpoint. Refusals of a Service without endpoints are ICMP, of which Linux sends one a second; a first
/// packet that got no answer is sent again after a second only, and by then the endpoint may have been there for as long.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
/// Every so many rounds a network that is slow gets more time.
const LONG_EVERY: u32 = 10;
const LONG_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Of one request; etcd's and the apiserver's own checks take up to two seconds.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Between two lines in the log.
const LOG_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An interface and the IPv4 address that it is to have, such as net1=172.20.0.2/24, or net1 for any; repeat for several.
    #[arg(long = "interface")]
    interfaces: Vec<Wanted>,
    /// An HTTPS address to ask; repeat for several.
    #[arg(long = "url", required = true)]
    urls: Vec<String>,
    /// One endpoint is enough. Without it all have to answer.
    #[arg(long)]
    any: bool,
    /// The CA that signed the endpoints' certificates, PEM.
    #[arg(long)]
    cacert: PathBuf,
    /// Client certificate, PEM.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    #[command(flatten)]
    then: ExecArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // As process 1 of its container it would ignore SIGTERM, and every deletion of a waiting pod would take the grace period.
    signal_hook::flag::register_conditional_shutdown(
        signal_hook::consts::SIGTERM,
        143,
        Arc::new(AtomicBool::new(true)),
    )?;
    // Fails only if there is a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let start = Instant::now();
    for wanted in &args.interfaces {
        wait_for_interface(wanted, start);
    }
    let mut logged: Option<Instant> = None;
    let mut pending: Vec<&str> = args.urls.iter().map(String::as_str).collect();
    let mut rounds = 0_u32;
    loop {
        rounds = rounds.wrapping_add(1);
        let patient = rounds.is_multiple_of(LONG_EVERY);
        let connect_timeout = if patient { LONG_CONNECT_TIMEOUT } else { CONNECT_TIMEOUT };
        let last = match round(args, &mut pending, connect_timeout) {
            Ok(()) => {
                println!("{} answers after {:.1} s", args.urls.join(" "), start.elapsed().as_secs_f64());
                return args.then.exec();
            }
            Err(error) => error,
        };
        if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            logged = Some(Instant::now());
            let mode = if args.any { "any" } else { "all" };
            println!("waiting for {} s for {mode} of {}; {last:#}", start.elapsed().as_secs(), pending.join(" "));
        }
        thread::sleep(INTERVAL);
    }
}

fn wait_for_interface(wanted: &Wanted, start: Instant) {
    let mut logged: Option<Instant> = None;
    while let Err(why) = wanted.check() {
        if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            logged = Some(Instant::now());
            println!("waiting for {} s for {wanted}: {why:#}", start.elapsed().as_secs());
        }
        thread::sleep(INTERVAL);
    }
    println!("{wanted} is there after {:.1} s", start.elapsed().as_secs_f64());
}

/// Asks every endpoint that has not answered yet; an error is the last reason to go on waiting. A new client is made each time:
/// Secrets are renewed while a pod waits.
fn round(args: &Args, pending: &mut Vec<&str>, connect_timeout: Duration) -> anyhow::Result<()> {
    let client = client(args, connect_timeout)?;
    let mut last = None;
    let mut left = Vec::new();
    for url in pending.iter().copied() {
        match ask(&client, url) {
            Ok(()) if args.any => return Ok(()),
            Ok(()) => {}
            Err(error) => {
                last = Some(anyhow::anyhow!("{url}: {error}"));
                left.push(url);
            }
        }
    }
    *pending = left;
    last.map_or(Ok(()), Err)
}

fn ask(client: &Agent, url: &str) -> Result<(), String> {
    match client.get(url).call() {
        Ok(response) if response.status() == 200 => Ok(()),
        Ok(response) => Err(format!("status {}", response.status().as_u16())),
        Err(error) => Err(error.to_string()),
    }
}

fn client(args: &Args, connect_timeout: Duration) -> anyhow::Result<Agent> {
    let cas = certificates(&args.cacert)?;
    let client_cert = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let pem = fs::read(key).with_context(|| key.display().to_string())?;
            let key = PrivateKey::from_pem(&pem).with_context(|| key.display().to_string())?;
            Some(ClientCert::new_with_certs(&chain, key))
        }
        _ => None,
    };
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&cas)).client_cert(client_cert).build();
    let config = Agent::config_builder()
        .https_only(true)
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_connect(Some(connect_timeout))
        .timeout_global(Some(TIMEOUT))
        .tls_config(tls)
        .build();
    Ok(Agent::new_with_config(config))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let pem = fs::read(path).with_context(|| path.display().to_string())?;
    let mut out = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.with_context(|| path.display().to_string())? {
            out.push(certificate);
        }
    }
    anyhow::ensure!(!out.is_empty(), "{} holds no certificate", path.display());
    Ok(out)
}
