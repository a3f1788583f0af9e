//! An issuer of tokens for people, as API servers know one: its two documents over TLS, and what it signs.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certs;

/// For whom its tokens are.
pub const AUDIENCE: &str = "kubernetes";

/// Whose key it is in its list.
const KEY: &str = "e2e";

/// It answers until the test's process ends. Each path below its address is an issuer, with the same key.
#[derive(Debug)]
pub struct Issuer {
    /// Where it is: `https://IP:port`.
    pub url: String,
    /// Its certificate, which whoever trusts it accepts, as PEM.
    pub certificate: String,
    dir: TempDir,
}

impl Issuer {
    /// Begins to answer at that address, at a free port.
    pub fn serve(address: Ipv4Addr) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (certificate, key) = certs::self_signed(&address.to_string())?;
        let listener = TcpListener::bind((address, 0)).context("a port for the issuer")?;
        let issuer = Self { url: url_of(listener.local_addr()?), certificate, dir };
        certs::openssl(&["genrsa", "-out", &issuer.key().to_string_lossy(), "2048"], &[])?;
        let keys = issuer.keys()?;
        let chain = CertificateDer::pem_slice_iter(issuer.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?);
        let url = issuer.url.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, keys, url) = (config.clone(), keys.clone(), url.clone());
                // Whoever ends the connection asks again.
                thread::spawn(move || answer(stream, config, &url, &keys));
            }
        });
        Ok(issuer)
    }

    /// A token for an hour of the issuer at a path, such as `/names`, for whom these claims say.
    pub fn token(&self, path: &str, claims: &Value) -> Result<String> {
        self.token_of(&format!("{}{path}", self.url), claims)
    }

    /// Likewise with another issuer's URL in it.
    pub fn token_of(&self, url: &str, claims: &Value) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let mut all = json!({"iss": url, "aud": AUDIENCE, "sub": "somebody", "iat": now, "exp": now + 3600});
        for (claim, value) in claims.as_object().into_iter().flatten() {
            all[claim] = value.clone();
        }
        let header = json!({"alg": "RS256", "kid": KEY, "typ": "JWT"});
        let part = |of: &Value| URL_SAFE_NO_PAD.encode(of.to_string());
        let signed = format!("{}.{}", part(&header), part(&all));
        let key = self.key();
        let signature = certs::openssl_bytes(&["dgst", "-sha256", "-sign", &key.to_string_lossy()], signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    /// The list of its key.
    fn keys(&self) -> Result<Value> {
        let said = certs::openssl(&["rsa", "-noout", "-modulus"], &fs::read(self.key())?)?;
        let modulus = said.trim().strip_prefix("Modulus=").context("a modulus")?;
        ensure!(modulus.len().is_multiple_of(2), "{modulus}");
        let byte = |at: usize| u8::from_str_radix(modulus.get(at..at + 2).unwrap_or_default(), 16);
        let modulus = (0..modulus.len()).step_by(2).map(byte).collect::<Result<Vec<u8>, _>>()?;
        // The exponent is 65537.
        let key = json!({
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY, "n": URL_SAFE_NO_PAD.encode(modulus), "e": "AQAB",
        });
        Ok(json!({"keys": [key]}))
    }
}

fn url_of(address: SocketAddr) -> String {
    format!("https://{address}")
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>, url: &str, keys: &Value) -> Result<()> {
    let mut reader = BufReader::new(StreamOwned::new(ServerConnection::new(config)?, stream));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let path = first.split(' ').nth(1).context("a path")?;
    // Its headers say nothing that matters.
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let (status, body) = match path.strip_suffix("/.well-known/openid-configuration") {
        Some(path) => ("200 OK", discovery(url, path).to_string()),
        None if path == "/keys" => ("200 OK", keys.to_string()),
        None => ("404 Not Found", "{}".to_owned()),
    };
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.conn.send_close_notify();
    Ok(stream.flush()?)
}

fn discovery(url: &str, path: &str) -> Value {
    json!({
        "issuer": format!("{url}{path}"), "jwks_uri": format!("{url}/keys"), "authorization_endpoint": format!("{url}/authorize"),
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As curl reads it, and with a signature that openssl takes.
    #[test]
    fn it_tells_its_key_and_signs_with_it() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let issuer = Issuer::serve(Ipv4Addr::LOCALHOST).unwrap();
        let ca = issuer.dir.path().join("ca.crt");
        fs::write(&ca, &issuer.certificate).unwrap();
        let ask = |path: &str| -> Value {
            let mut curl = std::process::Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--cacert"]).arg(&ca);
            let output = curl.arg(format!("{}{path}", issuer.url)).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let told = ask("/names/.well-known/openid-configuration");
        assert_eq!(told["issuer"], format!("{}/names", issuer.url));
        assert_eq!(ask("/keys")["keys"][0]["n"].as_str().unwrap().len(), 342);
        let token = issuer.token("/names", &json!({"email": "jane@example.com"})).unwrap();
        let parts: Vec<_> = token.split('.').collect();
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(
            (&claims["iss"], &claims["email"]),
            (&json!(format!("{}/names", issuer.url)), &json!("jane@example.com"))
        );
        let (public, signature) = (issuer.dir.path().join("public.pem"), issuer.dir.path().join("signature"));
        let (key, public) = (issuer.key().to_string_lossy().into_owned(), public.to_string_lossy().into_owned());
        certs::openssl(&["rsa", "-in", &key, "-pubout", "-out", &public], &[]).unwrap();
        fs::write(&signature, URL_SAFE_NO_PAD.decode(parts[2]).unwrap()).unwrap();
        let verify = ["dgst", "-sha256", "-verify", &public, "-signature", &signature.to_string_lossy()];
        certs::openssl(&verify, format!("{}.{}", parts[0], parts[1]).as_bytes()).unwrap();
    }
}
