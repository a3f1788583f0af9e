//! What carries connections: `berth-gateway`, and HAProxy beside it.

use anyhow::{Context as _, Result, ensure};
use berth_testkit::apiserver::Process;
use berth_testkit::debian;
use berth_testkit::ports::{port, ports};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::world::{USER, World, host};
use crate::process::{Usage, usage};

/// What has no bound of its own.
const LONG: Duration = Duration::from_mins(2);

/// No limit of connections; by default a tenant has some.
pub(crate) const UNLIMITED: &[&str] = &[
    "--max-connections=1000000",
    "--max-connections-in-all=1000000",
    "--max-rate=1000000",
    "--max-rate-per-source=0",
    "--max-connections-per-source=0",
    "--max-opening-per-source=1000000",
];

/// A program that passes TLS on by its server name.
pub(crate) struct Program {
    process: Process,
    /// Where clients come to.
    pub(crate) address: SocketAddr,
    metrics: u16,
    _dir: tempfile::TempDir,
}

impl Program {
    /// Ready to take clients, with the chart's defaults but for these.
    pub(crate) async fn gateway(world: &World, args: &[&str]) -> Result<Self> {
        let program = Self::begin_gateway(world, args)?;
        program.is_ready().await?;
        Ok(program)
    }

    /// Just started.
    pub(crate) fn begin_gateway(world: &World, args: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, world.meta.kubeconfig_as(USER, &[]))?;
        let [port, metrics] = ports();
        let mut arguments = vec![
            format!("KUBECONFIG={}", kubeconfig.display()),
            world.programs.gateway.display().to_string(),
            format!("--listen=127.0.0.1:{port}"),
            format!("--metrics=127.0.0.1:{metrics}"),
        ];
        arguments.extend(args.iter().map(|arg| (*arg).to_owned()));
        let process = Process::spawn(dir.path(), "berth-gateway", Path::new("/usr/bin/env"), &arguments)?;
        Ok(Self { process, address: (Ipv4Addr::LOCALHOST, port).into(), metrics, _dir: dir })
    }

    /// Until it takes clients.
    pub(crate) async fn is_ready(&self) -> Result<()> {
        let begin = Instant::now();
        while !self.get("/readyz").await.is_ok_and(|answer| answer.contains(" 200 ")) {
            ensure!(begin.elapsed() < LONG, "berth-gateway is not ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.metrics)).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// A sample of its metrics; 0 if there is none.
    async fn metric(&self, sample: &str) -> Result<f64> {
        let answer = self.get("/metrics").await?;
        let value = answer.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.map_or(Ok(0.0), |value| Ok(value.parse()?))
    }

    /// Connections that are open.
    pub(crate) async fn open(&self) -> Result<f64> {
        self.metric("berth_gateway_connections").await
    }

    /// Why connections have ended, and how many, as its metrics say.
    pub(crate) async fn ends(&self) -> Result<String> {
        let answer = self.get("/metrics").await?;
        let ends = answer.lines().filter_map(|line| line.strip_prefix("berth_gateway_connections_ended_total"));
        Ok(ends.filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>().join(", "))
    }

    /// Debian's, which leads these names there.
    pub(crate) async fn haproxy(names: &[(String, SocketAddr)]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (path, map) = (dir.path().join("haproxy.cfg"), dir.path().join("names"));
        let port = port();
        let mut config = format!(
            "global\n maxconn 4000\ndefaults\n mode tcp\n timeout connect 3s\n timeout client 1h\n timeout server 1h\n\
             frontend tls\n bind 127.0.0.1:{port} backlog 4096\n tcp-request inspect-delay 5s\n \
             tcp-request content accept if {{ req.ssl_hello_type 1 }}\n use_backend %[req.ssl_sni,lower,map({})]\n",
            map.display()
        );
        let mut lines = String::new();
        for (name, address) in names {
            writeln!(lines, "{} {name}", host(name))?;
            writeln!(config, "backend {name}\n server one {address}")?;
        }
        std::fs::write(&map, lines)?;
        std::fs::write(&path, config)?;
        let libraries = ["liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"]
            .map(|name| Ok(debian::package(name)?.join("usr/lib/x86_64-linux-gnu").display().to_string()));
        let libraries: Result<Vec<String>> = libraries.into_iter().collect();
        let arguments = [
            format!("LD_LIBRARY_PATH={}", libraries?.join(":")),
            debian::package("haproxy")?.join("usr/sbin/haproxy").display().to_string(),
            "-db".to_owned(),
            "-f".to_owned(),
            path.display().to_string(),
        ];
        let process = Process::spawn(dir.path(), "haproxy", Path::new("/usr/bin/env"), &arguments)?;
        let mut program = Self { process, address: (Ipv4Addr::LOCALHOST, port).into(), metrics: 0, _dir: dir };
        let begin = Instant::now();
        while TcpStream::connect(program.address).await.is_err() {
            program.process.check()?;
            ensure!(begin.elapsed() < LONG, "haproxy does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(program)
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(u32::try_from(self.process.pid())?).context("it has ended")
    }
}
