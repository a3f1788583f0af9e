//! Facts about Secrets that were read before. Every pass reads every Secret of a tenant, and what they hold hardly ever changes:
//! parsing the certificates and checking the keys was a tenth of what a pass costs.

use berth_plan::SecretFacts;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// By a digest of the content: an object's resourceVersion may come again after a backup of the API server was restored.
type Known = HashMap<[u8; 32], Arc<SecretFacts>>;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Some KiB each. When it is full it starts anew: the facts come back with the next pass.
const MOST: usize = 512;

/// [`SecretFacts::read`], once for each content.
pub(crate) fn of(type_: &str, data: &BTreeMap<String, Vec<u8>>) -> Arc<SecretFacts> {
    let digest = digest(type_, data);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(facts) = known().get(&digest) {
        return facts.clone();
    }
    let facts = Arc::new(SecretFacts::read(type_, data));
    let mut known = known();
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(digest, facts.clone());
    facts
}

fn digest(type_: &str, data: &BTreeMap<String, Vec<u8>>) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(type_.as_bytes());
    for (key, value) in data {
        part(key.as_bytes());
        part(value);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_follow_the_content_and_nothing_else() {
        let data = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.as_bytes().to_vec())]);
        let first = of("Opaque", &data("value", "a"));
        assert!(Arc::ptr_eq(&first, &of("Opaque", &data("value", "a"))));
        for other in
            [of("Opaque", &data("value", "b")), of("t", &data("value", "a")), of("Opaque", &data("valuea", ""))]
        {
            assert!(!Arc::ptr_eq(&first, &other));
        }
        assert_ne!(first.digests, of("Opaque", &data("value", "b")).digests);
        assert_eq!(of("t", &data("value", "a")).type_, "t");
    }

    #[test]
    fn memory_is_bounded() {
        for n in 0..=MOST {
            of("bounded", &BTreeMap::from([(n.to_string(), vec![])]));
        }
        assert!(KNOWN.lock().unwrap().len() <= MOST);
    }
}
