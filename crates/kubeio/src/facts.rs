//! Facts about Secrets that were read before. Every reconcile reads every Secret of a tenant, and what they hold hardly ever changes:
//! parsing the certificates and checking the keys was a tenth of what a reconcile costs.

use berth_plan::SecretFacts;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// By a digest of the content: an object's resourceVersion may come again after a backup of the API server was restored.
type Sum = [u8; 32];

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// A KiB or two each; a tenant has fourteen.
const MOST: usize = 8192;

/// Keys of a Secret that are looked at; Berth's have a dozen.
const KEYS: usize = 256;

/// Bytes of a Secret whose facts are remembered; Berth's have less than half as many.
const REMEMBERED: usize = 64 << 10;

#[derive(Default)]
struct Known {
    facts: HashMap<Sum, Arc<SecretFacts>>,
    order: Vec<Sum>,
}

impl Known {
    /// When it is full, any one makes room: tenants are looked at in turns, and the oldest is the one that is needed next.
    fn insert(&mut self, digest: Sum, facts: Arc<SecretFacts>) {
        if self.facts.insert(digest, facts).is_some() {
            return;
        }
        if self.order.len() < MOST {
            self.order.push(digest);
            return;
        }
        // A digest is as good as a die.
        let any = usize::from(u16::from_be_bytes([digest[0], digest[1]])) % MOST;
        self.facts.remove(&std::mem::replace(&mut self.order[any], digest));
    }
}

/// [`SecretFacts::read`], once for each content.
pub(crate) fn of(type_: &str, data: &BTreeMap<String, Vec<u8>>) -> Arc<SecretFacts> {
    let digest = digest(type_, data);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(facts) = known().facts.get(&digest) {
        return facts.clone();
    }
    let facts = Arc::new(read(type_, data));
    if data.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() <= REMEMBERED {
        known().insert(digest, facts.clone());
    }
    facts
}

fn read(type_: &str, data: &BTreeMap<String, Vec<u8>>) -> SecretFacts {
    if data.len() <= KEYS {
        return SecretFacts::read(type_, data);
    }
    SecretFacts::read(type_, &data.iter().take(KEYS).map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn digest(type_: &str, data: &BTreeMap<String, Vec<u8>>) -> Sum {
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
    fn of_a_secret_that_cannot_be_ours_little_is_kept() {
        let large = BTreeMap::from([("value".to_owned(), vec![b'a'; REMEMBERED + 1])]);
        assert!(!Arc::ptr_eq(&of("Opaque", &large), &of("Opaque", &large)));
        let many = (0..=KEYS).map(|n| (n.to_string(), vec![])).collect();
        assert_eq!(of("Opaque", &many).digests.len(), KEYS);
    }

    #[test]
    fn memory_is_bounded() {
        let mut known = Known::default();
        for n in 0..2 * MOST {
            let digest = digest(&n.to_string(), &BTreeMap::new());
            known.insert(digest, Arc::default());
            known.insert(digest, Arc::default());
            assert!(known.facts.contains_key(&digest));
        }
        assert_eq!((known.facts.len(), known.order.len()), (MOST, MOST));
    }
}
