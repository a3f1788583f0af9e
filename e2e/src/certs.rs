//! Certificates as openssl sees them: in Secrets, and as servers present them.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// What `openssl x509` says of a certificate: `facts(pem, &["-serial"])`.
pub fn facts(pem: &[u8], what: &[&str]) -> Result<String> {
    openssl(&[&["x509", "-noout"], what].concat(), pem)
}

/// What `openssl x509` says of the certificate that a server presents.
pub fn served(address: &str, what: &[&str]) -> Result<String> {
    served_to(Command::new("openssl"), address, what)
}

/// Likewise, asked by a program `openssl` that runs elsewhere, such as in a VPC.
pub fn served_to(mut openssl: Command, address: &str, what: &[&str]) -> Result<String> {
    // The server may end the handshake for want of a client's certificate; its own was shown before.
    let output = openssl
        .args(["s_client", "-connect", address])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .context("cannot run openssl")?;
    facts(&output.stdout, what).with_context(|| format!("the certificate of {address}"))
}

/// A certificate for a server at that address, which whoever trusts it accepts, and its key.
pub fn self_signed(address: &str) -> Result<(String, String)> {
    self_signed_for(&format!("IP:{address}"))
}

/// Likewise for these alternative names: `DNS:hook.default.svc`.
pub fn self_signed_for(names: &str) -> Result<(String, String)> {
    let name = format!("subjectAltName={names}");
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=test"];
    // No CA: rustls takes none for a server.
    let leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
    let both = openssl(&[&["req", "-x509", "-addext", &name, "-keyout", "-"], &leaf[..], &kind[..]].concat(), &[])?;
    Ok((openssl(&["x509"], both.as_bytes())?, openssl(&["pkey"], both.as_bytes())?))
}

/// A kubelet's request for a serving certificate, for these alternative names: `DNS:worker-1,IP:192.0.2.1`.
pub fn serving_request(node: &str, names: &str) -> Result<String> {
    request(node, &["-addext", &format!("subjectAltName={names}")])
}

/// A kubelet's request for a client certificate.
pub fn client_request(node: &str) -> Result<String> {
    request(node, &[])
}

fn request(node: &str, more: &[&str]) -> Result<String> {
    let subject = format!("/O=system:nodes/CN=system:node:{node}");
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null"];
    openssl(&[&["req", "-new", "-subj", &subject], &key[..], more].concat(), &[])
}

pub(crate) fn openssl(arguments: &[&str], input: &[u8]) -> Result<String> {
    Ok(String::from_utf8_lossy(&openssl_bytes(arguments, input)?).into_owned())
}

/// What it says as it is, such as a signature.
pub(crate) fn openssl_bytes(arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run openssl")?;
    // One that has seen enough closes its end.
    let _ = child.stdin.take().context("openssl's input")?.write_all(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}
