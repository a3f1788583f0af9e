//! Who somebody is in the meta cluster, and by what name a tenant knows them.

use berth_contract::access::USER_PREFIX;
use http::HeaderValue;
use std::collections::BTreeMap;

/// Groups and users of Kubernetes itself.
const SYSTEM: &str = "system:";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Bytes of all names together, at most: API servers take a megabyte of headers.
const LONGEST: usize = 256 * 1024;

/// Somebody, as the meta cluster's API server says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// The same, as tenants are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) user: HeaderValue,
    pub(crate) groups: Vec<HeaderValue>,
}

impl Person {
    /// None: tenants know no such user.
    pub(crate) fn known(&self) -> Option<Known> {
        // Who is a part of the meta cluster has no business in a tenant. A ServiceAccount is somebody's program.
        if self.name.is_empty() || (self.name.starts_with(SYSTEM) && !self.name.starts_with(SERVICE_ACCOUNT)) {
            return None;
        }
        let groups = self.groups.iter().filter(|group| !group.is_empty() && !group.starts_with(SYSTEM));
        let size: usize = groups.clone().map(String::len).sum();
        if size + self.name.len() > LONGEST {
            return None;
        }
        // A group less is a right less.
        let groups = groups.filter_map(|group| value(group)).collect();
        Some(Known { user: value(&self.name)?, groups })
    }
}

/// With the prefix. None: it does not fit into a header, so another name would arrive.
fn value(name: &str) -> Option<HeaderValue> {
    let is_kept = name.trim() == name && !name.chars().any(char::is_control);
    is_kept.then(|| HeaderValue::from_bytes(format!("{USER_PREFIX}{name}").as_bytes()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, groups: &[&str]) -> Option<(String, Vec<String>)> {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let known = Person { name: name.to_owned(), groups, ..Person::default() }.known()?;
        let text = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
        Some((text(&known.user), known.groups.iter().map(text).collect()))
    }

    #[test]
    fn everybody_has_the_prefix_and_nobody_is_of_the_system() {
        let groups = ["devs", "system:masters", "system:authenticated", "", "ops:eu"];
        let is = known("alice@example.com", &groups).unwrap();
        assert_eq!(
            (&*is.0, is.1.as_slice()),
            ("access:alice@example.com", &["access:devs".to_owned(), "access:ops:eu".to_owned()][..])
        );
        let program = known("system:serviceaccount:team-a:ci", &["system:serviceaccounts"]).unwrap();
        assert_eq!((&*program.0, program.1.len()), ("access:system:serviceaccount:team-a:ci", 0));
        for nobody in ["", "system:admin", "system:anonymous", "system:node:n1", "system:kube-scheduler"] {
            assert_eq!(known(nobody, &[]), None, "{nobody}");
        }
    }

    #[test]
    fn a_name_arrives_whole_or_not_at_all() {
        assert_eq!(
            known("Zoë Šimić", &["größe"]).unwrap(),
            ("access:Zoë Šimić".to_owned(), vec!["access:größe".to_owned()])
        );
        for cut in ["alice\r\nX-Remote-Group: system:masters", "alice\n", "al\0ice", " alice", "alice ", "\u{85}x"] {
            assert_eq!(known(cut, &[]), None, "{cut:?}");
            assert_eq!(known("alice", &[cut]).unwrap().1.len(), 0, "{cut:?}");
        }
        assert_eq!(known(&"a".repeat(LONGEST + 1), &[]), None);
    }
}
