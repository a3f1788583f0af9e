//! The Secret of an audit webhook, in a team's namespace: read for its type, as a team's store for backups is.

use crate::calls::Io;
use crate::dry_run::refused;
use crate::error::{ErrorKind, IoError};
use berth_api::cluster::AUDIT_SECRET;
use berth_plan::SecretFacts;
use berth_render::ObjectKey;
use serde_json::{Value, json};

/// What was read.
pub(crate) enum AuditSecret {
    /// One of its type, whole.
    Whole(Value),
    /// What is known of one that is not to be read, or cannot be read now.
    Known(Box<SecretFacts>),
}

/// Reads it by an empty dry run: the operator may read no Secret of a team, and a policy lets this one pass for its type. Of any other
/// nothing is kept but that it is another, or why it cannot be read.
pub(crate) async fn audit_secret(io: &Io, key: &ObjectKey) -> Result<Option<AuditSecret>, IoError> {
    let other = SecretFacts::default();
    let facts = match io.merge(key, "", "dryRun=All", &json!({})).await {
        Ok(secret) if secret["type"] == AUDIT_SECRET => return Ok(Some(AuditSecret::Whole(secret))),
        Ok(_) => other,
        Err(e) => match e.kind {
            ErrorKind::NotFound => return Ok(None),
            ErrorKind::Rejected => refused(&e),
            // A webhook that fails for dry runs, or whoever looks with less rights, holds up nothing: what API servers have stays.
            ErrorKind::Forbidden | ErrorKind::Transient => {
                SecretFacts { type_: AUDIT_SECRET.into(), ..SecretFacts::default() }
            }
            _ => return Err(e),
        },
    };
    Ok(Some(AuditSecret::Known(facts.into())))
}
