//! Berth itself.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use berth_devcluster::Cluster;

use crate::{paths, until};

/// The image that tests pack the agent into.
pub const AGENT_IMAGE: &str = "berth.dev/agent:dev";

/// How the operator is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// What new tenants are pinned to.
    pub agent_image: String,
    /// Life of leaf certificates, if not the default.
    pub leaf_lifetime_minutes: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { agent_image: AGENT_IMAGE.to_owned(), leaf_lifetime_minutes: None }
    }
}

/// A running operator. It ends with this value.
#[derive(Debug)]
pub struct Operator {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Operator {
    /// Starts it and waits until it says that it is ready.
    pub fn start(cluster: &Cluster, options: &Options) -> Result<Self> {
        let log = cluster.dir().join("log/berth-operator.log");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let file = File::options().create(true).append(true).open(&log)?;
        let mut command = Command::new(paths::operator()?);
        command
            .args(["--leader-elect", "false", "--agent-image", &options.agent_image])
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .env("KUBECONFIG", cluster.kubeconfig())
            .stdout(file.try_clone()?)
            .stderr(file)
            .stdin(Stdio::null());
        if let Some(minutes) = options.leaf_lifetime_minutes {
            command.args(["--leaf-lifetime-minutes", &minutes.to_string()]);
        }
        let child = command.spawn().context("cannot start berth-operator")?;
        let mut operator = Self { child, log, port };
        until("berth-operator to be ready", || {
            let ended = operator.child.try_wait()?;
            ensure!(ended.is_none(), "it ended: {ended:?}\n{}", operator.log_tail(10));
            ensure!(operator.http("/readyz")?.contains("200 OK"), "/readyz");
            Ok(())
        })?;
        Ok(operator)
    }

    /// One of its counters, by the beginning of its line in `/metrics`.
    pub fn metric(&self, line: &str) -> Result<u64> {
        let text = self.http("/metrics")?;
        let value = text.lines().find_map(|l| l.strip_prefix(line)?.trim().parse().ok());
        value.with_context(|| format!("no `{line}` in\n{text}"))
    }

    /// The end of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn http(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
