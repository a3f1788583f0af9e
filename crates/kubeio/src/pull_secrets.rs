//! The platform's pull Secrets: read for all tenants at once, and kept for those who copy them.

pub(crate) mod kept;

use crate::calls::Io;
use crate::error::IoError;
use crate::snapshot::take_data;
use berth_plan::meta_cluster::pull_secrets::PullSecret;
use berth_render::{Kind, ObjectKey};
use std::collections::BTreeMap;

/// Reads those of these names, one after the other. What cannot be read is left out, and the first error is told beside the rest.
pub async fn read_pull_secrets(
    io: &Io,
    namespace: &str,
    names: &[String],
) -> (BTreeMap<String, PullSecret>, Option<IoError>) {
    let (mut all, mut failure) = (BTreeMap::new(), None);
    for name in names {
        let key = ObjectKey::namespaced(Kind::Secret, namespace, name);
        let seen = match io.get(&key).await {
            Ok(None) => PullSecret::Missing,
            Ok(Some(mut secret)) => {
                let data = take_data(&mut secret);
                let type_ = secret["type"].as_str().unwrap_or_default().to_owned();
                let seen = PullSecret::read(&type_, &data);
                if matches!(seen, PullSecret::Found { .. }) {
                    io.pull_secrets.keep(key, type_, data);
                }
                seen
            }
            Err(error) => {
                failure.get_or_insert(error);
                continue;
            }
        };
        all.insert(name.clone(), seen);
    }
    (all, failure)
}
