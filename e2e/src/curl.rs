//! curl, as a person has it, with the credentials of a kubeconfig.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use kube::config::Kubeconfig;
use tempfile::TempDir;

/// curl that speaks for one kubeconfig. Its files end with it.
#[derive(Debug)]
pub struct Curl {
    dir: TempDir,
    server: String,
}

impl Curl {
    /// For the cluster and user of a kubeconfig.
    pub fn of(kubeconfig: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        // JSON is easier to take apart than YAML.
        let config = serde_json::to_value(Kubeconfig::from_yaml(kubeconfig)?)?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let files = [
            ("ca.crt", &cluster["certificate-authority-data"]),
            ("tls.crt", &user["client-certificate-data"]),
            ("tls.key", &user["client-key-data"]),
        ];
        for (name, data) in files {
            let data = data.as_str().with_context(|| format!("no {name}"))?;
            fs::write(dir.path().join(name), STANDARD.decode(data)?)?;
        }
        let server = cluster["server"].as_str().context("no server")?.to_owned();
        Ok(Self { dir, server })
    }

    /// Where its files are, and room for more.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A call of that path and query, not yet started.
    pub fn command(&self, path: &str) -> Command {
        self.command_at(&self.server, path)
    }

    /// The same at another server.
    pub fn command_at(&self, server: &str, path: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--no-buffer"]);
        for (flag, file) in [("--cacert", "ca.crt"), ("--cert", "tls.crt"), ("--key", "tls.key")] {
            command.arg(flag).arg(self.dir().join(file));
        }
        command.arg(format!("{server}{path}"));
        command
    }
}

/// What it is answered. An error has what curl says.
pub fn answer(mut command: Command) -> Result<String> {
    let output = command.output().context("curl")?;
    ensure!(output.status.success(), "curl: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
