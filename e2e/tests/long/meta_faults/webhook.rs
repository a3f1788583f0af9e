//! Webhooks that are asked about the Deployment of kube-controller-manager alone: one denies, one is down, one hangs.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use berth_e2e::certs;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

/// A `ValidatingWebhookConfiguration` for one namespace.
pub(crate) fn configuration(namespace: &str, name: &str, client: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{name}.test.berth.dev"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30, "clientConfig": client,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}],
            "matchConditions": [{"name": "one", "expression": "object.metadata.name == 'kube-controller-manager'"}],
        }],
    })
}

/// Nobody listens there.
pub(crate) fn down(address: Ipv4Addr) -> Result<Value> {
    let port = TcpListener::bind((address, 0))?.local_addr()?.port();
    Ok(json!({"url": format!("https://{address}:{port}/")}))
}

/// Takes connections as long as the process lives, and never answers.
pub(crate) fn hangs(address: Ipv4Addr) -> Result<Value> {
    let listener = TcpListener::bind((address, 0)).context("a port for the webhook")?;
    let url = format!("https://{}/", listener.local_addr()?);
    thread::spawn(move || listener.incoming().take(1000).collect::<Vec<_>>());
    Ok(json!({"url": url}))
}

/// Denies for that reason as long as the process lives.
pub(crate) fn denies(address: Ipv4Addr, why: &'static str) -> Result<Value> {
    let (certificate, key) = certs::self_signed(&address.to_string())?;
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?);
    let listener = TcpListener::bind((address, 0)).context("a port for the webhook")?;
    let url = format!("https://{}/", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            thread::spawn(move || {
                if let Err(error) = deny(stream, config, why) {
                    println!("    the webhook that denies: {error:#}");
                }
            });
        }
    });
    Ok(json!({"url": url, "caBundle": STANDARD.encode(certificate)}))
}

/// Answers the one request of a connection.
fn deny(stream: TcpStream, config: Arc<ServerConfig>, why: &str) -> Result<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config)?, stream));
    let mut length = 0;
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line)? > 0, "the request ends early");
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse()?,
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut review = vec![0; length];
    stream.read_exact(&mut review)?;
    let review: Value = serde_json::from_slice(&review)?;
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"code": 403, "message": why}},
    });
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close",
        answer.len()
    );
    let stream = stream.get_mut();
    stream.write_all(format!("{head}\r\n\r\n{answer}").as_bytes())?;
    stream.conn.send_close_notify();
    Ok(stream.flush()?)
}
