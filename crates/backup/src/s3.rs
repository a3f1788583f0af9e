//! A bucket: S3 and what speaks like it. Memory is bounded by a part, whatever the size of an object.

use crate::direct::{Direct, Redirects};
use crate::problem::Problem;
use crate::store::{PART, hex, part, too_large};
use berth_contract::backup::{At, Store, keys};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::HttpErrorKind;
use object_store::path::Path as Key;
use object_store::{BackoffConfig, Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, RetryConfig};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a request is tried again, beside the first try: one that had no answer in time is sent once more.
const RETRIES: Duration = Duration::from_mins(1);

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    s3: AmazonS3,
    runtime: Runtime,
    store: Store,
}

impl Bucket {
    /// Reads the credentials; asks nothing. Each request may take so long.
    pub(crate) fn open(store: &Store, credentials: &Path, timeout: Duration) -> Result<Self, Problem> {
        // A second call in one process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let plain = store.endpoint.starts_with("http://");
        let retry = RetryConfig { retry_timeout: timeout + RETRIES, max_retries: 6, backoff: BackoffConfig::default() };
        // etcd's image has no roots.
        let ca = if plain { None } else { Some(read(credentials, keys::CA)?) };
        let direct = Direct::new(ca.as_deref(), timeout)
            .map_err(|_| Problem::lasting(At::Store, format!("{}: not certificates in PEM", keys::CA)))?;
        let s3 = AmazonS3Builder::new()
            .with_endpoint(if store.path_style { store.endpoint.clone() } else { hosted(store) })
            .with_bucket_name(&store.bucket)
            .with_region(&store.region)
            .with_virtual_hosted_style_request(!store.path_style)
            .with_access_key_id(read(credentials, keys::ACCESS_KEY_ID)?)
            .with_secret_access_key(read(credentials, keys::SECRET_ACCESS_KEY)?)
            .with_allow_http(plain)
            .with_http_connector(direct)
            .with_retry(retry)
            .build();
        let s3 = s3.map_err(|e| Problem::lasting(At::Store, format!("{}: {}", store.endpoint, words(&e))))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Problem::brief(At::Other, format!("cannot begin: {e}")))?;
        Ok(Self { s3, runtime, store: store.clone() })
    }

    /// Whether something is there under that key.
    pub(crate) fn exists(&self, key: &str) -> Result<bool, Problem> {
        match self.runtime.block_on(self.s3.head(&Key::from(key))) {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(self.problem("look for", key, &e)),
        }
    }

    /// Sends a file, and overwrites nothing. S3 has no condition for what is sent in parts: there the key alone is what no other has,
    /// and it is looked up first.
    pub(crate) fn put_file(&self, key: &str, file: &Path) -> Result<(), Problem> {
        if self.exists(key)? {
            return Err(Problem::lasting(At::Store, format!("{key} is there already; nothing is overwritten")));
        }
        let mut open = File::open(file).map_err(|e| Problem::file("the snapshot", &e))?;
        let first = part(&mut open)?;
        if first.len() < PART {
            return self.create(key, first);
        }
        self.runtime.block_on(async {
            let mut upload =
                self.s3.put_multipart(&Key::from(key)).await.map_err(|e| self.problem("write", key, &e))?;
            let mut next = first;
            let sent = loop {
                if next.is_empty() {
                    break upload.complete().await.map(drop).map_err(|e| self.problem("write", key, &e));
                }
                let bytes = std::mem::take(&mut next);
                if let Err(e) = upload.put_part(bytes.into()).await {
                    break Err(self.problem("write", key, &e));
                }
                next = match part(&mut open) {
                    Ok(next) => next,
                    Err(problem) => break Err(problem),
                };
            };
            if sent.is_err() {
                // What was sent costs money until it is given up.
                let _ = upload.abort().await;
            }
            sent
        })
    }

    /// Creates an object, and overwrites none where the store knows the condition.
    pub(crate) fn create(&self, key: &str, bytes: Vec<u8>) -> Result<(), Problem> {
        let at = Key::from(key);
        let payload = PutPayload::from(bytes);
        let created = self.runtime.block_on(self.s3.put_opts(&at, payload.clone(), PutMode::Create.into()));
        match created {
            // A store that does not know the condition.
            Err(e) if ["NotImplemented", "501"].iter().any(|word| e.to_string().contains(word)) => {
                let put = self.runtime.block_on(self.s3.put(&at, payload));
                put.map(drop).map_err(|e| self.problem("write", key, &e))
            }
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                Err(Problem::lasting(At::Store, format!("{key} is there already; nothing is overwritten")))
            }
            other => other.map(drop).map_err(|e| self.problem("write", key, &e)),
        }
    }

    /// Reads an object into a file; its SHA-256 and size. Each part is a request of its own, so that one that is cut is asked again.
    pub(crate) fn read_back(&self, key: &str, most: u64, into: &Path) -> Result<(String, u64), Problem> {
        let at = Key::from(key);
        let of = |e: &Error| self.problem("read", key, e);
        let size = self.runtime.block_on(self.s3.head(&at)).map_err(|e| of(&e))?.size;
        if size > most {
            return Err(too_large(key, size, most));
        }
        let mut file = File::create(into).map_err(|e| Problem::file("the snapshot that was read back", &e))?;
        let (mut hash, mut done) = (Sha256::new(), 0);
        while done < size {
            let end = size.min(done + PART as u64);
            let bytes = self.runtime.block_on(self.s3.get_range(&at, done..end)).map_err(|e| of(&e))?;
            if bytes.len() as u64 != end - done {
                return Err(Problem::brief(
                    At::Proof,
                    format!("{key}: the store gave {} of {} bytes", bytes.len(), end - done),
                ));
            }
            hash.update(&bytes);
            file.write_all(&bytes).map_err(|e| Problem::file("the snapshot that was read back", &e))?;
            done = end;
        }
        Ok((hex(&hash.finalize()), size))
    }

    /// An object that fits into memory.
    pub(crate) fn read(&self, key: &str) -> Result<Vec<u8>, Problem> {
        let at = Key::from(key);
        let of = |e: &Error| self.problem("read", key, e);
        let size = self.runtime.block_on(self.s3.head(&at)).map_err(|e| of(&e))?.size;
        let bytes = self.runtime.block_on(self.s3.get_range(&at, 0..size.min(PART as u64))).map_err(|e| of(&e))?;
        Ok(bytes.to_vec())
    }

    /// Deletes an object. Gone already is as good.
    pub(crate) fn delete(&self, key: &str) -> Result<(), Problem> {
        match self.runtime.block_on(self.s3.delete(&Key::from(key))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.problem("delete", key, &e)),
        }
    }

    fn problem(&self, verb: &str, key: &str, error: &Error) -> Problem {
        let Store { endpoint, bucket, .. } = &self.store;
        let code = code(error);
        let why = match code.as_deref() {
            Some("NoSuchBucket") => format!("the bucket {bucket} does not exist"),
            Some(code) => format!("it answers {code}"),
            None => words(error),
        };
        let message = format!("store {endpoint}: cannot {verb} {key} in bucket {bucket}: {why}");
        let refused =
            matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. } | Error::NotFound { .. });
        Problem { lasting: refused, ..Problem::brief(At::Store, message) }
    }
}

/// The endpoint with the bucket in the host's name: the library takes an endpoint as it is.
fn hosted(store: &Store) -> String {
    match store.endpoint.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}.{rest}", store.bucket),
        None => store.endpoint.clone(),
    }
}

/// A file of the Secret, without spaces around it.
fn read(dir: &Path, name: &str) -> Result<String, Problem> {
    match fs::read_to_string(dir.join(name)) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(_) => {
            Err(Problem::lasting(At::Store, format!("the Secret with the store's credentials has no key {name}")))
        }
    }
}

/// S3's own word for what is wrong. The rest of the answer can hold the access key.
fn code(error: &Error) -> Option<String> {
    let text = error.to_string();
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let plain = code.len() < 60 && code.chars().all(|c| c.is_ascii_alphanumeric());
    plain.then(|| code.to_owned())
}

/// What is known without the server's own words.
fn words(error: &Error) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(http) = inner.downcast_ref::<object_store::client::HttpError>() {
            let deepest = std::iter::successors(std::error::Error::source(http), |e| e.source()).last();
            let why = deepest.map(|e| format!(": {e}")).unwrap_or_default();
            return match http.kind() {
                HttpErrorKind::Connect => format!("no connection{why}"),
                HttpErrorKind::Timeout => "no answer in time".into(),
                HttpErrorKind::Interrupted => format!("the connection was cut{why}"),
                _ => format!("the request failed{why}"),
            };
        }
        source = inner.source();
    }
    match error {
        Error::NotFound { .. } => "it answers 404: there is no such object or bucket".into(),
        Error::PermissionDenied { .. } => "it answers 403: the credentials do not allow it".into(),
        Error::Unauthenticated { .. } => "it answers 401: the credentials are not valid".into(),
        _ => redirect(error).map_or_else(|| "the request failed".into(), |status| Redirects(status).to_string()),
    }
}

/// The status, if the server sends on a request whose body cannot be sent again.
fn redirect(error: &Error) -> Option<u16> {
    let text = error.to_string();
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok().filter(|status| (300..400).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Answers each request with this, and counts them.
    fn server(answer: String) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (endpoint, asked) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
        let counts = asked.clone();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                counts.fetch_add(1, Ordering::SeqCst);
                let _ = client.read(&mut [0; 4096]);
                let _ = client.write_all(answer.as_bytes());
            }
        });
        (endpoint, asked)
    }

    /// An endpoint is allowed by its whole URL: what it answers opens no other.
    #[test]
    fn a_redirect_is_told_and_not_followed() {
        let closed = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        let (elsewhere, reached) = server(format!("HTTP/1.1 200 OK\r\n{closed}"));
        let dir = tempfile::tempdir().unwrap();
        for key in [keys::ACCESS_KEY_ID, keys::SECRET_ACCESS_KEY] {
            fs::write(dir.path().join(key), "AKIA1").unwrap();
        }
        for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
            let (endpoint, asked) =
                server(format!("HTTP/1.1 {status}\r\nLocation: {elsewhere}/bucket/a.db\r\n{closed}"));
            let store =
                Store { endpoint, bucket: "b".into(), region: "r".into(), path_style: true, ..Store::default() };
            let bucket = Bucket::open(&store, dir.path(), Duration::from_secs(5)).unwrap();
            let file = dir.path().join("a.db");
            let problems = [
                bucket.exists("a.db").unwrap_err(),
                bucket.create("a.db", vec![1]).unwrap_err(),
                bucket.read_back("a.db", 9, &file).unwrap_err(),
                bucket.delete("a.db").unwrap_err(),
            ];
            for Problem { failure, .. } in problems {
                let wanted = format!("it redirects to another address ({}), and Berth follows none", &status[..3]);
                assert!(failure.message.contains(&wanted), "{}", failure.message);
                assert!(!failure.message.contains(&elsewhere) && !failure.message.contains("AKIA1"));
            }
            assert_eq!(asked.load(Ordering::SeqCst), 4, "none is tried again");
        }
        assert_eq!(reached.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_bucket_may_be_in_the_hosts_name() {
        let store = Store { endpoint: "https://s3:9000".into(), bucket: "b".into(), ..Store::default() };
        assert_eq!(hosted(&store), "https://b.s3:9000");
    }

    #[test]
    fn a_servers_words_are_not_repeated_since_they_hold_the_access_key() {
        let body = "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIA1</AWSAccessKeyId></Error>";
        let error = Error::Generic { store: "S3", source: body.into() };
        assert_eq!(code(&error).as_deref(), Some("SignatureDoesNotMatch"));
        assert_eq!(code(&Error::Generic { store: "S3", source: "<Code>a b</Code>".into() }), None);
        assert!(!words(&error).contains("AKIA1"));
    }
}
