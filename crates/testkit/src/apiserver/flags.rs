//! Where the binaries are, and the command lines of the two servers.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Finds `<cache>/bin/<project>/<version>/<name>` in `$BERTH_CACHE`, `$XDG_CACHE_HOME/berth` or `~/.cache/berth`.
///
/// A missing binary is an error, never a skipped test.
pub fn binary(project: &str, version: &str, name: &str) -> Result<PathBuf> {
    let dir = |key: &str| env::var_os(key).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = dir("BERTH_CACHE")
        .or_else(|| dir("XDG_CACHE_HOME").map(|d| d.join("berth")))
        .or_else(|| dir("HOME").map(|d| d.join(".cache/berth")))
        .context("none of BERTH_CACHE, XDG_CACHE_HOME and HOME is set")?;
    let path = cache.join("bin").join(project).join(version).join(name);
    if !path.is_file() {
        bail!("{} is not there: run `make binaries`", path.display());
    }
    Ok(path)
}

/// One etcd member on loopback without TLS or fsync: a fixture, nothing to copy for a tenant.
pub(crate) fn etcd(dir: &Path, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    vec![
        "--name=test".into(),
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=test={peer}"),
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

const ISSUER: &str = "--service-account-issuer=";

/// A kube-apiserver with RBAC and an audit log. Its files are expected in `dir/pki`.
///
/// The `ServiceAccount` admission plugin is off: no controller makes the `default` accounts that it asks for.
/// Everything else is as upstream ships it, `StorageObjectInUseProtection` and Pod Security included.
pub(crate) fn apiserver(dir: &Path, port: u16, etcd: u16, extra: &[String]) -> Vec<String> {
    let pki = |file: &str| dir.join("pki").join(file).display().to_string();
    let mut args = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--service-account-key-file={}", pki("sa.pub")),
        format!("--service-account-signing-key-file={}", pki("sa.key")),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--authorization-mode=RBAC".into(),
        // As tenants have it: kube-proxy needs it.
        "--allow-privileged=true".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
        format!("--audit-policy-file={}", dir.join("audit-policy.yaml").display()),
        format!("--audit-log-path={}", dir.join("audit.log").display()),
        // MiB: a log that is turned over in the middle of a test makes its marks void.
        "--audit-log-maxsize=65536".into(),
        "--profiling=false".into(),
        "--shutdown-delay-duration=0s".into(),
    ];
    // The first signs, so one of the harness would be before a test's own.
    if !extra.iter().any(|arg| arg.starts_with(ISSUER)) {
        args.push(format!("{ISSUER}https://kubernetes.default.svc"));
    }
    args.extend_from_slice(extra);
    args
}

/// Metadata of every finished request, without the server's own housekeeping.
pub(crate) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [system:apiserver]
- level: None
  nonResourceURLs: ['/livez*', '/readyz*', '/healthz*', '/version']
- level: Metadata
";
