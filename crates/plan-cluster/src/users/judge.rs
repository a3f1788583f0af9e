//! What a `ClusterAccess` is to come to in a tenant.

use super::record::{AccessId, Record};
use super::refuse::refusal;
use super::roles::{built_in, of_platform};
use super::select::selects;
use super::wanted::{Grant, grant};
use berth_api::labels::FINALIZER;
use berth_api::until::Until;
use berth_api::{ClusterAccess, ClusterAccessSpec};
use berth_plan::fleet::TenantId;
use berth_plan::object_meta::deleting;
use berth_plan::settings::Writers;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// ClusterRoles of the meta cluster, by name. None: it is not there.
pub type Roles = BTreeMap<String, Option<Value>>;

/// What it is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The tenant.
    pub of: &'a TenantId,
    /// Labels of its `Cluster`.
    pub labels: &'a BTreeMap<String, String>,
    /// What one waits for that gives nothing there yet. None: for nothing.
    pub nothing_new: Option<&'a str>,
    /// The operator's namespace.
    pub platform: Option<&'a str>,
    /// What teams may give.
    pub writers: &'a Writers,
    /// The platform's own roles. One that could not be read is not among them.
    pub roles: &'a Roles,
    /// The time.
    pub now: Timestamp,
}

/// One of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Which.
    pub id: AccessId,
    /// What it is to come to.
    pub verdict: Verdict,
    /// When it ends, if that is in the future.
    pub until: Option<Timestamp>,
}

/// What it is to come to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is given.
    Given(Grant),
    /// It is taken back, where it was given: it ended, is deleted, or means another tenant.
    Ends,
    /// Likewise, since it may not be given; the message says why.
    Refused(String),
    /// What is there stays as it is, and nothing is added; the message says what for.
    Stays(String),
}

/// `access` as it was read just now.
pub fn judge(access: &ClusterAccess, asked: Asked<'_>, record: &Record) -> Judged {
    let id = AccessId::of(access);
    let until = access.spec.expires_at.as_ref().and_then(Until::time).filter(|until| *until > asked.now);
    let verdict = verdict(access, &id, asked, record);
    Judged { id, verdict, until }
}

/// `live`: one that this build cannot read, such as with a field of a newer Berth. It stays what it was, until it is deleted or over.
pub fn judge_unread(id: AccessId, live: &Value, now: Timestamp) -> Judged {
    let until = live.pointer("/spec/expiresAt").filter(|until| !until.is_null());
    let until = until.map(|until| until.as_str().and_then(|until| until.parse::<Timestamp>().ok()));
    if deleting(live) || until.is_some_and(|until| until.is_none_or(|until| until <= now)) {
        return Judged { id, verdict: Verdict::Ends, until: None };
    }
    let verdict = Verdict::Stays("the ClusterAccess, which this version of Berth cannot read".into());
    Judged { id, verdict, until: until.flatten() }
}

/// Reads it. One that is deleted needs no more than its metadata, whatever else is in it.
pub fn read(live: &Value) -> Result<ClusterAccess, String> {
    let read = |live: Value| serde_json::from_value::<ClusterAccess>(live).map_err(|error| error.to_string());
    match read(live.clone()) {
        Err(_) if deleting(live) => {
            let metadata = serde_json::from_value(live["metadata"].clone()).map_err(|error| error.to_string())?;
            Ok(ClusterAccess { metadata, spec: ClusterAccessSpec::default(), status: None })
        }
        read => read,
    }
}

fn verdict(access: &ClusterAccess, id: &AccessId, asked: Asked<'_>, record: &Record) -> Verdict {
    let Asked { of, labels, nothing_new, platform, writers, roles, now } = asked;
    let spec = &access.spec;
    // One that is no time is refused, which says so.
    let over = spec.expires_at.as_ref().and_then(Until::time).is_some_and(|until| until <= now);
    let held = access.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    if access.metadata.deletion_timestamp.is_some() || over || !selects(access, of, labels, platform) {
        return Verdict::Ends;
    }
    if let Some((_, why)) = refusal(access, writers, platform) {
        return Verdict::Refused(why);
    }
    if !held {
        return Verdict::Stays("Berth's finalizer".into());
    }
    let (name, rules) = match built_in(&spec.role) {
        Some((name, rules)) => (name.to_owned(), rules),
        None => match roles.get(&spec.role) {
            None => {
                return Verdict::Stays(format!("ClusterRole {} of the meta cluster, which cannot be read", spec.role));
            }
            Some(live) => match of_platform(&spec.role, live.as_ref()) {
                Ok((name, rules)) => (name, Some(rules)),
                Err(why) => return Verdict::Refused(why),
            },
        },
    };
    // It holds up nothing that ends.
    if let Some(what) = nothing_new.filter(|_| record.of(id).next().is_none()) {
        return Verdict::Stays(what.into());
    }
    grant(access, id.clone(), &name, rules).map_or_else(Verdict::Refused, Verdict::Given)
}
