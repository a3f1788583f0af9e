//! URLs of issuers, read as kube-apiserver reads them (Go's `net/url`): what it takes for a path or a host is no matter of taste.

use std::net::Ipv6Addr;

/// What an issuer's URL has that it may not have.
pub(super) fn faults(url: &str) -> Vec<&'static str> {
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let Some(rest) = https(before).filter(|_| !url.bytes().any(|b| b.is_ascii_control())) else {
        return vec!["has to be a URL that begins with https://"];
    };
    let mut faults = vec![];
    if !fragment.is_empty() {
        faults.push("may have no fragment. Remove what begins with #");
    }
    // A question mark alone at the end is no query.
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !query.is_empty() {
        faults.push("may have no query. Remove what begins with ?");
    }
    // Without slashes it is opaque, and taken.
    let Some(hierarchy) = rest.strip_prefix("//") else {
        let path = rest.strip_prefix('/').is_none_or(escapes_are_whole);
        faults.extend((!path).then_some(PATH));
        return faults;
    };
    let (authority, path) = hierarchy.split_at(hierarchy.find('/').unwrap_or(hierarchy.len()));
    let host = authority.rsplit_once('@');
    if host.is_some() {
        faults.push("may have no user and no password. Remove what stands before @");
    }
    if !host_is_good(host.map_or(authority, |(_, host)| host)) {
        faults.push("has no host, or port, that can be read");
    }
    faults.extend((!escapes_are_whole(path)).then_some(PATH));
    faults
}

const PATH: &str = "has a % in its path that no two hexadecimal digits follow";

fn https(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    scheme.eq_ignore_ascii_case("https").then_some(rest)
}

/// Whether kube-apiserver can read it as a URL, whatever it is of.
pub(super) fn is_readable(url: &str) -> bool {
    if url.bytes().any(|b| b.is_ascii_control()) {
        return false;
    }
    let before = url.split_once('#').map_or(url, |(before, _)| before);
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    let rest = match before.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        // Without a scheme, its first part may have no colon.
        Some((first, _)) if !first.contains('/') => return false,
        _ => before,
    };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    match rest.strip_prefix("//") {
        Some(hierarchy) => {
            let (authority, path) = hierarchy.split_at(hierarchy.find('/').unwrap_or(hierarchy.len()));
            let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            escapes_are_whole(user) && host_is_good(host) && escapes_are_whole(path)
        }
        None => !rest.starts_with('/') || escapes_are_whole(rest),
    }
}

fn escapes_are_whole(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| part.len() > 1 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
}

fn host_is_good(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.rsplit_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok() && port_is_good(port);
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    // What is escaped may be other than ASCII only, and no name of a host is.
    let is_good = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&b) || !b.is_ascii();
    name.bytes().all(is_good) && port_is_good(port)
}

fn port_is_good(port: &str) -> bool {
    port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_kube_apiserver_reads_them() {
        for good in [
            "https://dex.example.com",
            "HTTPS://dex.example.com:5556/dex",
            "https://[fd00::1]:443/a%20b",
            "https://dex.example.com/?",
            "https://dex.example.com/#",
            "https://bücher.example/x",
        ] {
            assert_eq!(faults(good), Vec::<&str>::new(), "{good}");
        }
        for (bad, word) in [
            ("", "https://"),
            ("dex.example.com", "https://"),
            ("http://dex.example.com", "https://"),
            ("https://dex.example.com\n", "https://"),
            ("https://dex.example.com/#x", "fragment"),
            ("https://dex.example.com/?a=b", "query"),
            ("https://dex.example.com/??", "query"),
            ("https://me:secret@dex.example.com", "user"),
            ("https://@dex.example.com", "user"),
            ("https://dex example.com", "host"),
            ("https://dex.example.com:https", "port"),
            ("https://[fd00::1", "host"),
            ("https://a:b:80", "port"),
            ("https://dex.example.com/%zz", "%"),
        ] {
            let found = faults(bad);
            assert!(found.len() == 1 && found[0].contains(word), "{bad}: {found:?}");
            assert!(!found[0].contains("secret"));
        }
    }
}
