//! A bucket: S3 and what speaks like it. Memory is bounded by a part, whatever the size of an object.
//!
//! An answer may be lost, or come from something before the store, after the store did what it was asked. So after "it is there already" and
//! after no clear answer, what is there is looked at: what was sent counts as written, and another's object is never overwritten.

pub(crate) mod answer;
mod look;
mod words;

use crate::direct::Direct;
use crate::problem::Problem;
use crate::proxies::Proxies;
use crate::store::{Deletion, Found, PART, Remote, part, too_large};
use answer::{Last, Until};
use berth_contract::backup::{At, Kept, Store, keys};
use jiff::Timestamp;
use object_store::aws::{AmazonS3, AmazonS3Builder, Checksum};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, RetryConfig};
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use words::{Unclear, is_cut, words};

/// How long a request is tried again, beside the first try: one that had no answer in time is sent once more.
const RETRIES: Duration = Duration::from_mins(1);

/// How often an object is sent of which nothing is there after no clear answer.
const SENT: usize = 3;

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    s3: AmazonS3,
    /// The same, without a checksum with each upload.
    unchecked: AmazonS3,
    /// The store has refused the checksums' headers, as some do.
    knows_none: Cell<bool>,
    runtime: Runtime,
    store: Store,
    last: Last,
    /// How it is reached, for messages: empty, or by which proxy.
    by: String,
    /// What no message may hold.
    secrets: Vec<String>,
}

impl Bucket {
    /// Reads the credentials; asks nothing. Each request may take so long.
    pub(crate) fn open(
        store: &Store,
        credentials: &Path,
        timeout: Duration,
        proxies: &Proxies,
    ) -> Result<Self, Problem> {
        // A second call in one process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let plain = store.endpoint.starts_with("http://");
        let retry = RetryConfig { retry_timeout: timeout + RETRIES, max_retries: 6, backoff: BackoffConfig::default() };
        // etcd's image has no roots.
        let ca = if plain { None } else { Some(read(credentials, keys::CA)?) };
        let last = Last::default();
        let direct = Direct::new(ca.as_deref(), timeout, last.clone())
            .map_err(|_| Problem::lasting(At::Store, format!("{}: not certificates in PEM", keys::CA)))?;
        let endpoint = if store.path_style { store.endpoint.clone() } else { hosted(store) };
        let proxy = proxies.of(&endpoint);
        let by = proxy.as_ref().map(|proxy| format!(", by the proxy {}", proxy.url())).unwrap_or_default();
        let direct = direct.by(proxy);
        let (id, secret) = (read(credentials, keys::ACCESS_KEY_ID)?, read(credentials, keys::SECRET_ACCESS_KEY)?);
        let token = fs::read_to_string(credentials.join(keys::SESSION_TOKEN)).unwrap_or_default().trim().to_owned();
        let mut s3 = AmazonS3Builder::new()
            .with_endpoint(endpoint)
            .with_bucket_name(&store.bucket)
            .with_region(&store.region)
            .with_virtual_hosted_style_request(!store.path_style)
            .with_access_key_id(&id)
            .with_secret_access_key(&secret)
            .with_allow_http(plain)
            // Each is refused by itself, with its own reason.
            .with_disable_bulk_delete(true)
            .with_http_connector(direct)
            .with_retry(retry);
        if !token.is_empty() {
            s3 = s3.with_token(&token);
        }
        let encryption =
            [("aws_server_side_encryption", &store.server_side_encryption), ("aws_sse_kms_key_id", &store.kms_key_id)];
        for (name, value) in encryption.into_iter().filter(|(_, value)| !value.is_empty()) {
            let key = name.parse().map_err(|e| Problem::lasting(At::Other, format!("{name}: {e}")))?;
            s3 = s3.with_config(key, value);
        }
        let build = |s3: AmazonS3Builder| {
            s3.build().map_err(|e| Problem::lasting(At::Store, format!("{}: {}", store.endpoint, words(&e))))
        };
        let unchecked = build(s3.clone())?;
        // Buckets with a default retention take no object without one.
        let s3 = build(s3.with_checksum_algorithm(Checksum::SHA256))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Problem::brief(At::Other, format!("cannot begin: {e}")))?;
        let knows_none = Cell::new(false);
        let secrets = vec![id, secret, token];
        Ok(Self { s3, unchecked, knows_none, runtime, store: store.clone(), last, by, secrets })
    }
}

impl Remote for Bucket {
    fn exists(&self, key: &str) -> Result<bool, Problem> {
        Ok(self.size("look for", key)?.is_some())
    }

    /// S3 has no condition for what is sent in parts: there the key alone is what no other has, and it is looked up first.
    fn put_file(&self, key: &str, file: &Path) -> Result<(), Problem> {
        let mut open = File::open(file).map_err(|e| Problem::file("the snapshot", &e))?;
        let first = part(&mut open)?;
        if first.len() < PART {
            return self.create(key, first);
        }
        if self.exists(key)? {
            return Err(self.taken(key));
        }
        let of = |e: &Error| self.problem("write", key, e);
        let at = Key::from(key);
        let begin = || self.runtime.block_on(self.writer().put_multipart(&at));
        let upload = begin().or_else(|e| if self.goes_without_checksums() { begin() } else { Err(e) });
        let mut upload = upload.map_err(|e| of(&e))?;
        let sent = self.send(key, upload.as_mut(), first, &mut open).and_then(|size| {
            let Err(error) = self.runtime.block_on(upload.complete()) else { return Ok(()) };
            let told = of(&error);
            // It may be whole all the same: then there is no upload any more, whoever asks again.
            match self.size("look for", key) {
                Ok(Some(there)) if there == size => Ok(()),
                Ok(Some(_)) => Err(self.taken(key)),
                Ok(None) | Err(_) => Err(told),
            }
        });
        if sent.is_err() {
            // What was sent costs money until it is given up.
            let _ = self.runtime.block_on(upload.abort());
        }
        sent
    }

    /// It overwrites none where the store knows the condition, and else looks first.
    fn create(&self, key: &str, bytes: Vec<u8>) -> Result<(), Problem> {
        let at = Key::from(key);
        let payload = PutPayload::from(bytes.clone());
        let mut mode = PutMode::Create;
        for sent in 1.. {
            let put = self.runtime.block_on(self.writer().put_opts(&at, payload.clone(), mode.clone().into()));
            let Err(error) = put else { break };
            if self.goes_without_checksums() {
                continue;
            }
            let told = self.problem("write", key, &error);
            let again = match self.unclear(&error) {
                Unclear::NoCondition if mode == PutMode::Create => {
                    mode = PutMode::Overwrite;
                    true
                }
                Unclear::No | Unclear::NoCondition => return Err(told),
                Unclear::Answer { again } => again && sent < SENT,
            };
            match self.is_there(key, &bytes) {
                Ok(Some(true)) => break,
                Ok(Some(false)) => return Err(self.taken(key)),
                Ok(None) if again => {}
                Ok(None) | Err(_) => return Err(told),
            }
        }
        Ok(())
    }

    /// Each part is a request of its own, so that one that is cut is asked again.
    fn read_back(&self, key: &str, most: u64, into: &Path) -> Result<(String, u64), Problem> {
        let at = Key::from(key);
        let of = |e: &Error| self.problem("read", key, e);
        let size = self.size_of(key)?;
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
        Ok((format!("{:x}", hash.finalize()), size))
    }

    fn read(&self, key: &str) -> Result<Vec<u8>, Problem> {
        let size = self.size_of(key)?;
        let bytes = self.runtime.block_on(self.s3.get_range(&Key::from(key), 0..size.min(PART as u64)));
        Ok(bytes.map_err(|e| self.problem("read", key, &e))?.to_vec())
    }

    fn delete(&self, key: &str) -> Result<Deletion, Problem> {
        let at = Key::from(key);
        let delete = || self.runtime.block_on(self.s3.delete(&at));
        // The library sends none again that had no answer.
        let error = match delete().or_else(|e| if is_cut(&e) { delete() } else { Err(e) }) {
            Ok(()) | Err(Error::NotFound { .. }) => return Ok(Deletion::Gone),
            Err(e) => e,
        };
        let told = self.problem("delete", key, &error);
        let Some(refused) = self.last.get().filter(|answer| (400..500).contains(&answer.status)) else {
            return Err(told);
        };
        // Stores refuse for rights and for retention alike, and tell the one from the other by the object.
        let asked = self.runtime.block_on(self.s3.head(&at));
        let there = self.last.get().filter(|_| asked.is_ok()).unwrap_or_default();
        let Some(Until(until)) = refused.keeps(&there, Timestamp::now()) else { return Err(told) };
        Ok(Deletion::Kept(Kept { until: until.map(|until| until.to_string()), message: told.failure.message }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Found>, Problem> {
        let found = self.runtime.block_on(self.s3.list_with_delimiter(Some(&Key::from(prefix))));
        let found = found.map_err(|e| self.problem("list", prefix, &e))?;
        let at = |seconds| Timestamp::from_second(seconds).unwrap_or_default();
        Ok(found
            .objects
            .into_iter()
            .map(|o| Found { key: o.location.to_string(), at: at(o.last_modified.timestamp()) })
            .collect())
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

#[cfg(test)]
mod tests;
