//! Values in Secrets that an `App` names. As with ConfigMaps a change of them is one of the `App`; but an installation has digests of them alone, and its Job
//! copies what is in the Secrets by then if that is still what the digests are of.

use super::Problem;
use berth_api::app::{APP_SECRET, AppRelease, ReadSecret};
use berth_plan::Observed;
use berth_plan::digest::sha256;
use berth_plan::object_meta::uid;
use berth_render::{Kind, ObjectKey};

/// What messages call it.
const FIELD: &str = "spec.valuesFrom";

/// The Secrets that the values of a release are in. `namespace`: that of its `App`.
pub fn sources<'a>(release: &'a AppRelease, namespace: &'a str) -> impl Iterator<Item = (ObjectKey, &'a str)> {
    release
        .value_secrets()
        .map(move |(_, secret, key)| (ObjectKey::namespaced(Kind::Secret, namespace, &*secret.name), key))
}

/// Which values are in those that it names.
pub(crate) fn read(release: &AppRelease, namespace: &str, observed: &Observed) -> Result<Vec<ReadSecret>, Problem> {
    let stays = |why: String| format!("{why}. What is deployed stays as it is");
    let one = |(secret, key): (ObjectKey, &str)| {
        let digest = digest_of(observed, FIELD, &secret, key).map_err(|problem| match problem {
            Problem::Waits(on) => Problem::Waits(stays(on)),
            Problem::Wrong(why) => Problem::Wrong(stays(why)),
        })?;
        Ok(ReadSecret { name: secret.name, key: key.to_owned(), digest })
    };
    sources(release, namespace).map(one).collect()
}

/// Digest of them. None: the release names no Secret with values.
pub(crate) fn digest(release: &AppRelease, read: &[ReadSecret]) -> Option<String> {
    release.value_secrets().next()?;
    let mut digest = sha256(&serde_json::to_vec(read).unwrap_or_default());
    digest.truncate(40);
    Some(digest)
}

/// The digest of what is in a key of a Secret. Err: what is wrong with it. `field`: that names it.
pub(crate) fn digest_of(observed: &Observed, field: &str, secret: &ObjectKey, key: &str) -> Result<String, Problem> {
    let waits = |on: String| Err(Problem::Waits(on));
    let Some(facts) = observed.secrets.get(secret) else {
        return waits(format!("{secret}, which {field} names: create it with type {APP_SECRET}, or correct the name"));
    };
    if let Some(why) = &facts.refused {
        return waits(format!("{secret} ({field}), which Berth may not read: {why}"));
    }
    if facts.type_ != APP_SECRET {
        return Err(Problem::Wrong(format!(
            "{field}: {secret} is not of type {APP_SECRET}, by which its owner says that Berth may read it: create it anew with that type"
        )));
    }
    let Some(digest) = facts.digests.get(key) else {
        return waits(format!(
            "key {key} of {secret}, which {field} names: add it to the Secret, or correct the name of the key"
        ));
    };
    let Some(uid) = observed.get(secret).map(uid) else {
        return waits(format!("the UID of {secret}, which {field} names"));
    };
    let mut digest = sha256(format!("{uid} {digest}").as_bytes());
    digest.truncate(40);
    Ok(digest)
}
