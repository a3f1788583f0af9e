//! A kube-apiserver that is started for what it says of a file, and finds nothing to connect to.

use berth_testkit::{apiserver::binary, ports::port};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The issuer of its service accounts.
pub(crate) const SERVICE_ACCOUNTS: &str = "https://kubernetes.default.svc.cluster.local";

pub(crate) struct Server {
    binary: PathBuf,
    dir: tempfile::TempDir,
}

impl Server {
    pub(crate) fn new(version: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = berth_pki::generate_service_account_key().unwrap();
        std::fs::write(dir.path().join("private"), key.private_pem.expose()).unwrap();
        std::fs::write(dir.path().join("public"), &key.public_pem).unwrap();
        Self { binary: binary("kubernetes", version, "kube-apiserver").unwrap(), dir }
    }

    /// The path of a file of its own, which need not be there.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Its command with what it reads before the file in question. Without an issuer.
    pub(crate) fn command(&self) -> Command {
        let port = port();
        let mut command = Command::new(&self.binary);
        command.stdin(Stdio::null()).args([
            "--etcd-servers=http://127.0.0.1:1".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // It listens before it reads that file.
            "--permit-port-sharing=true".to_owned(),
            "--service-cluster-ip-range=10.112.0.0/16".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--service-account-key-file={}", self.file("public")),
            format!("--service-account-signing-key-file={}", self.file("private")),
            format!("--cert-dir={}", self.file("certificates")),
        ]);
        command
    }
}

/// What it says as it ends by itself, with an error.
pub(crate) fn last_words(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}
