//! A real Prometheus, from Debian's package.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{debian, ports::port};

/// A server that scrapes one target each second and judges rules as often.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    /// Starts one for a target (`host:port`) and a file of rules.
    pub fn start(target: &str, rules: &Path) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let config = serde_json::json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{"job_name": "berth", "honor_labels": true, "static_configs": [{"targets": [target]}]}],
        });
        // JSON is YAML.
        let file = dir.path().join("prometheus.yaml");
        fs::write(&file, serde_json::to_vec(&config)?)?;
        let port = port();
        let log = fs::File::create(dir.path().join("log"))?;
        let child = Command::new(binary("prometheus")?)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot run prometheus")?;
        Ok(Self { child, port, _dir: dir })
    }

    /// The answer of its API to a path such as `/api/v1/alerts`, without the envelope.
    pub fn get(&self, path: &str) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        // By HTTP 1.0 there are no chunks.
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.starts_with("HTTP/1.0 200"), "{head}");
        let mut answer: Value = serde_json::from_str(body)?;
        Ok(answer["data"].take())
    }

    /// Asks all panels of a dashboard: their queries are well-formed, and each has an answer.
    pub fn answers(&self, dashboard: &Path) -> Result<()> {
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(dashboard)?)?;
        let panels = dashboard["panels"].as_array().context("no panels")?;
        for target in panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten()) {
            let query = target["expr"].as_str().context("no query")?;
            let encoded = query.bytes().fold(String::new(), |text, b| format!("{text}%{b:02X}"));
            let answer = self.get(&format!("/api/v1/query?query={encoded}")).with_context(|| query.to_owned())?;
            ensure!(answer["result"].as_array().is_some_and(|r| !r.is_empty()), "{query}: {answer}");
        }
        Ok(())
    }

    /// Names of the alerts that fire now.
    pub fn firing(&self) -> Result<Vec<String>> {
        let alerts = self.get("/api/v1/alerts")?;
        let firing = alerts["alerts"].as_array().into_iter().flatten().filter(|a| a["state"] == "firing");
        let mut names: Vec<String> =
            firing.filter_map(|a| Some(a["labels"]["alertname"].as_str()?.to_owned())).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rules of the chart, as promtool takes them, to be tested in `dir`: they look back for seconds in place of minutes, and fire after one. What
/// they ask is as in the chart.
pub fn impatient(rules: &Path, dir: &Path) -> Result<PathBuf> {
    let checked = Command::new(binary("promtool")?).args(["check", "rules"]).arg(rules).output()?;
    ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let text = fs::read_to_string(rules)?;
    let lines = text.lines().map(|line| match line.trim_start().strip_prefix("for: ") {
        Some(_) => "        for: 1s".to_owned(),
        None => line.replace("[5m]", "[6s]").replace("[10m]", "[6s]"),
    });
    let path = dir.join("alerts.yaml");
    fs::write(&path, lines.collect::<Vec<_>>().join("\n"))?;
    Ok(path)
}

/// `prometheus` or `promtool`.
pub fn binary(name: &str) -> Result<PathBuf> {
    let binary = debian::package("prometheus")?.join("usr/bin").join(name);
    ensure!(binary.exists(), "Debian's package prometheus has no {name}");
    Ok(binary)
}
