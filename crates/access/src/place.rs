//! What a path asks for. It is read once, here; what is not plain leads nowhere.

use berth_contract::access::ClusterName;
use percent_encoding::percent_decode_str;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Which tenants the caller may use.
    Clusters,
    /// How to log in.
    Login,
    /// A tenant, and the path there.
    Tenant(ClusterName, String),
}

/// None: it leads nowhere.
pub(crate) fn place(path: &str) -> Option<Place> {
    match path {
        "/clusters" | "/clusters/" => return Some(Place::Clusters),
        "/login" => return Some(Place::Login),
        _ => {}
    }
    let rest = path.strip_prefix("/clusters/")?;
    let (namespace, rest) = rest.split_once('/')?;
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let is_plain = is_label(namespace) && is_label(name) && is_plain(rest);
    let cluster = ClusterName { namespace: namespace.to_owned(), name: name.to_owned() };
    is_plain.then(|| Place::Tenant(cluster, format!("/{rest}")))
}

/// Each segment is one, however it is read: with or without what is encoded, by a server that takes `..` back or joins `//`.
fn is_plain(path: &str) -> bool {
    let mut segments = path.split('/');
    // A slash at the end is common.
    let last = segments.next_back().unwrap_or_default();
    (last.is_empty() || is_segment(last)) && segments.all(is_segment)
}

fn is_segment(segment: &str) -> bool {
    let decoded: Vec<u8> = percent_decode_str(segment).collect();
    let is_separate = |byte: &u8| !matches!(byte, b'/' | b'\\' | b'%') && !byte.is_ascii_control();
    !decoded.is_empty() && decoded != b"." && decoded != b".." && decoded.iter().all(is_separate)
}

/// As Kubernetes names namespaces and, Berth, tenants.
fn is_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(path: &str) -> Option<String> {
        match place(path)? {
            Place::Tenant(cluster, rest) => Some(format!("{} {} {rest}", cluster.namespace, cluster.name)),
            _ => None,
        }
    }

    #[test]
    fn a_tenant_is_two_segments_and_the_rest_is_its_own() {
        for (path, is) in [
            ("/clusters/team-a/acme/api/v1/pods", "team-a acme /api/v1/pods"),
            ("/clusters/team-a/acme/apis/", "team-a acme /apis/"),
            ("/clusters/team-a/acme", "team-a acme /"),
            ("/clusters/team-a/acme/", "team-a acme /"),
            ("/clusters/team-a/acme/api/v1/x/system:node%3Aa", "team-a acme /api/v1/x/system:node%3Aa"),
        ] {
            assert_eq!(tenant(path).as_deref(), Some(is), "{path}");
        }
        assert_eq!((place("/clusters"), place("/login")), (Some(Place::Clusters), Some(Place::Login)));
    }

    #[test]
    fn what_others_may_read_in_another_way_leads_nowhere() {
        for path in [
            "/",
            "/api",
            "/clusters/team-a",
            "/clusters//acme/api",
            "/clusters/Team/acme/api",
            "/clusters/team-a/acme%2f/api",
            "/clusters/../clusters/team-a/acme/api",
            "/clusters/team-a/../team-b/acme/api",
            "/clusters/team-a/acme/..",
            "/clusters/team-a/acme/../other/api",
            "/clusters/team-a/acme/%2e%2e/other",
            "/clusters/team-a/acme/.%2E/other",
            "/clusters/team-a/acme/a/./b",
            "/clusters/team-a/acme//api",
            "/clusters/team-a/acme/api//",
            "/clusters/team-a/acme/a%2Fb",
            "/clusters/team-a/acme/a%5cb",
            "/clusters/team-a/acme/a\\b",
            "/clusters/team-a/acme/a%00b",
            "/clusters/team-a/acme/a%0d%0ab",
            "/clusters/team-a/acme/%252e%252e/b",
            "/clusters/team-a/acme/%2",
        ] {
            assert_eq!(place(path), None, "{path}");
        }
    }
}
