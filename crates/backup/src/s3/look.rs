//! What is there, whatever was answered before, and what is told of an answer.

use super::Bucket;
use super::answer::Answer;
use super::words::{Unclear, is_cut, words};
use crate::problem::Problem;
use crate::store::part;
use berth_contract::backup::{At, Store};
use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{Error, MultipartUpload, ObjectStoreExt};
use std::fs::File;

impl Bucket {
    /// The client for writes.
    pub(super) fn writer(&self) -> &AmazonS3 {
        if self.knows_none.get() { &self.unchecked } else { &self.s3 }
    }

    /// Whether the store has just refused a checksum for the first time. From now on none is sent.
    pub(super) fn goes_without_checksums(&self) -> bool {
        self.last.get().is_some_and(|answer| answer.knows_no_checksums()) && !self.knows_none.replace(true)
    }

    /// Sends a file in parts; how much it was.
    pub(super) fn send(
        &self,
        key: &str,
        upload: &mut dyn MultipartUpload,
        first: Vec<u8>,
        file: &mut File,
    ) -> Result<u64, Problem> {
        let (mut next, mut size) = (first, 0);
        while !next.is_empty() {
            size += next.len() as u64;
            let sent = self.runtime.block_on(upload.put_part(std::mem::take(&mut next).into()));
            sent.map_err(|e| self.problem("write", key, &e))?;
            next = part(file)?;
        }
        Ok(size)
    }

    pub(super) fn unclear(&self, error: &Error) -> Unclear {
        let answer = self.last.get();
        if answer.as_ref().is_some_and(|a| a.status == 501 || a.code.as_deref() == Some("NotImplemented")) {
            return Unclear::NoCondition;
        }
        match answer.map(|answer| answer.status) {
            Some(409 | 412 | 304) => Unclear::Answer { again: true },
            // The library has tried it again.
            Some(408 | 429 | 500..) => Unclear::Answer { again: false },
            None if is_cut(error) => Unclear::Answer { again: true },
            _ => Unclear::No,
        }
    }

    /// Whether an object has these bytes. None: there is none.
    pub(super) fn is_there(&self, key: &str, bytes: &[u8]) -> Result<Option<bool>, Problem> {
        let Some(size) = self.size("look for", key)? else { return Ok(None) };
        if size != bytes.len() as u64 {
            return Ok(Some(false));
        }
        let read = self.runtime.block_on(self.s3.get_range(&Key::from(key), 0..size));
        Ok(Some(read.map_err(|e| self.problem("read", key, &e))? == bytes))
    }

    /// The size of an object. None: there is none.
    pub(super) fn size(&self, verb: &str, key: &str) -> Result<Option<u64>, Problem> {
        match self.runtime.block_on(self.s3.head(&Key::from(key))) {
            Ok(found) => Ok(Some(found.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.explained(verb, key, &e)),
        }
    }

    /// The size of an object that is to be there.
    pub(super) fn size_of(&self, key: &str) -> Result<u64, Problem> {
        let found = self.runtime.block_on(self.s3.head(&Key::from(key)));
        found.map(|found| found.size).map_err(|e| self.explained("read", key, &e))
    }

    /// What refuses a `HEAD`, which has no body to say why: another request is asked.
    pub(super) fn explained(&self, verb: &str, key: &str, error: &Error) -> Problem {
        let told = self.problem(verb, key, error);
        if !self.last.get().is_some_and(|answer| (400..500).contains(&answer.status)) {
            return told;
        }
        let asked = self.runtime.block_on(self.s3.get_range(&Key::from(key), 0..1));
        asked.err().filter(|_| self.says().is_some()).map_or(told, |e| self.problem(verb, key, &e))
    }

    /// The store's own words in its last answer.
    pub(super) fn says(&self) -> Option<String> {
        self.last.get()?.words(&self.secrets)
    }

    pub(super) fn place(&self) -> String {
        format!("store {}, bucket {}", self.store.endpoint, self.store.bucket)
    }

    pub(super) fn taken(&self, key: &str) -> Problem {
        Problem::taken(&self.place(), key)
    }

    /// Of an error that was the last answer.
    pub(super) fn problem(&self, verb: &str, key: &str, error: &Error) -> Problem {
        let Store { endpoint, bucket, .. } = &self.store;
        let answer = self.last.get().filter(|answer| answer.status >= 300);
        let why = match answer.as_ref().and_then(|answer| answer.code.as_deref()) {
            Some("NoSuchBucket") => format!("the bucket {bucket} does not exist (NoSuchBucket)"),
            _ => answer.map_or_else(|| words(error), |answer| self.of_answer(&answer, error)),
        };
        let message = format!("store {endpoint}{}: cannot {verb} {key} in bucket {bucket}: {why}", self.by);
        let refused =
            matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. } | Error::NotFound { .. });
        Problem { lasting: refused, ..Problem::brief(At::Store, message) }
    }

    pub(super) fn of_answer(&self, answer: &Answer, error: &Error) -> String {
        match (answer.words(&self.secrets), answer.status) {
            (Some(said), _) => format!("it answers {said}"),
            (None, 300..=399 | 401 | 403 | 404) => words(error),
            (None, status) => format!("it answers {status}, and does not say why"),
        }
    }
}
