//! A real S3 server on a directory, and a proxy before it that misbehaves as object stores and what is before them do.

mod proxy;

pub use proxy::{Misbehaviour, Request, S3Proxy};

use crate::ports::port;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server with one bucket. It ends with its value.
#[derive(Debug)]
pub struct S3Server {
    dir: TempDir,
    process: Child,
    address: SocketAddr,
}

impl S3Server {
    /// The bucket that is there from the beginning.
    pub const BUCKET: &str = "bucket";
    /// ID of the access key.
    pub const ACCESS_KEY_ID: &str = "AKIATEST";
    /// The access key.
    pub const SECRET_ACCESS_KEY: &str = "secret";

    /// Starts `program`, which is devcluster's `s3s-fs`.
    pub fn start(program: &Path) -> Self {
        assert!(program.exists(), "{} is not there: run devcluster build s3s-fs", program.display());
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(Self::BUCKET)).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port()));
        let process = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--access-key", Self::ACCESS_KEY_ID, "--secret-key", Self::SECRET_ACCESS_KEY])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < crate::patience::patience(Duration::from_secs(30)), "the S3 server is not there");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { dir, process, address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file of an object.
    pub fn file(&self, key: &str) -> PathBuf {
        self.dir.path().join(Self::BUCKET).join(key)
    }

    /// Keys of all objects in a folder and below it, in their order.
    pub fn keys(&self, folder: &str) -> Vec<String> {
        let mut found = vec![];
        walk(&self.file(folder), folder, &mut found);
        found.sort();
        found
    }
}

/// The server's own files begin with a point.
fn walk(dir: &Path, above: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let key = format!("{above}/{name}");
        if entry.path().is_dir() {
            walk(&entry.path(), &key, found);
        } else if !name.starts_with('.') {
            found.push(key);
        }
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
