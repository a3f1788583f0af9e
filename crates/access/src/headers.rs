//! Which headers pass, and which do not.

use berth_contract::access::ClusterName;
use http::Uri;
use http::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use std::net::IpAddr;

use crate::person::Known;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
/// Audit logs have it beside the address that a call came from.
const CLIENT: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Of one connection alone (RFC 9110, 7.6.1), with older ones of the kind.
const HOPS: [HeaderName; 9] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
];

/// How a token begins among a websocket's protocols.
const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// What `Connection` may name of a client's: anything else would be taken out on the way, and that might be what says who is calling.
const CONNECTION_MAY: [&str; 4] = ["close", "keep-alive", "upgrade", "te"];

/// A header says who is calling, or would have one removed: no client has a reason to.
pub(crate) fn forges(headers: &HeaderMap) -> bool {
    // With an underscore, too: some servers take it for a dash.
    let is_identity = |name: &HeaderName| name.as_str().replace('_', "-").starts_with("x-remote-");
    let named = headers.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut others = named.filter(|name| {
        let name = String::from_utf8_lossy(name).trim().to_ascii_lowercase();
        !name.is_empty() && !CONNECTION_MAY.contains(&name.as_str())
    });
    headers.keys().any(is_identity) || others.next().is_some()
}

/// The protocol that the client wants to speak from here on, if it does.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = headers.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut asks = asks.filter(|name| name.trim_ascii().eq_ignore_ascii_case(b"upgrade"));
    asks.next().and_then(|_| headers.get(UPGRADE)).cloned()
}

/// What the client presents, if that is a token in the one place for it.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (only, None) = (all.next()?, all.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= 16 * 1024).then_some(token)
}

/// For the tenant: with the person's name, without what is this connection's, and without what opened this door.
pub(crate) fn to_tenant(headers: &mut HeaderMap, known: &Known, client: IpAddr, upgrade: Option<HeaderValue>) {
    drop_hops(headers);
    headers.remove(AUTHORIZATION);
    headers.remove(HOST);
    drop_token(headers);
    for name in [CLIENT, HeaderName::from_static("forwarded"), HeaderName::from_static("x-real-ip")] {
        headers.remove(name);
    }
    headers.extend(HeaderValue::from_str(&client.to_string()).ok().map(|client| (CLIENT, client)));
    headers.insert(USER, known.user.clone());
    headers.remove(GROUP);
    for group in &known.groups {
        headers.append(GROUP, group.clone());
    }
    set_upgrade(headers, upgrade);
}

/// In a websocket's protocols browsers send tokens. An API server takes one out only if it looks at it.
fn drop_token(headers: &mut HeaderMap) {
    let Some(all) = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok()) else { return };
    let kept: Vec<_> = all.split(',').map(str::trim).filter(|one| !one.starts_with(TOKEN)).collect();
    match HeaderValue::from_str(&kept.join(", ")) {
        Ok(kept) if !kept.is_empty() => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, kept)),
        _ => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
}

/// For the client.
pub(crate) fn to_client(headers: &mut HeaderMap, upgrade: Option<HeaderValue>) {
    drop_hops(headers);
    set_upgrade(headers, upgrade);
}

/// A redirect of the tenant's stays in the tenant.
pub(crate) fn stay_below(headers: &mut HeaderMap, cluster: &ClusterName) {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(path) = location.filter(|path| path.starts_with('/') && !path.starts_with("//")) else { return };
    let path = format!("/clusters/{}/{}{path}", cluster.namespace, cluster.name);
    if let Ok(path) = HeaderValue::from_str(&path) {
        headers.insert(LOCATION, path);
    }
}

fn drop_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    for name in named.iter().chain(&HOPS) {
        headers.remove(name);
    }
}

fn set_upgrade(headers: &mut HeaderMap, upgrade: Option<HeaderValue>) {
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

/// The same path and query at a tenant's address.
pub(crate) fn uri(address: &str, path: &str, query: Option<&str>) -> Option<Uri> {
    let target = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    Uri::builder().scheme("https").authority(address).path_and_query(target).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::person::Person;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn who_says_who_is_calling_is_told_apart() {
        for all in [
            [("X-Remote-User", "admin")],
            [("x-remote-group", "system:masters")],
            [("X-Remote-Extra-a", "b")],
            [("X-Remote-Uid", "1")],
            [("x_remote_user", "admin")],
            [("X-Remote_Group", "a")],
            [("Connection", "X-Remote-User")],
            [("Connection", "close, authorization")],
            [("Connection", "Upgrade,x-remote-group")],
        ] {
            assert!(forges(&headers(&all)), "{all:?}");
        }
        for all in [[("Connection", "Upgrade")], [("Connection", "keep-alive, TE")], [("Impersonate-User", "bob")]] {
            assert!(!forges(&headers(&all)), "{all:?}");
        }
    }

    #[test]
    fn the_tenant_gets_the_name_and_not_the_token() {
        let mut all = headers(&[
            ("Authorization", "Bearer secret"),
            ("Host", "access.example.com"),
            ("Connection", "keep-alive"),
            ("Keep-Alive", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Impersonate-User", "bob"),
            ("Accept", "application/json"),
            ("X-Remote-User", "admin"),
            ("X-Remote-Group", "system:masters"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Real-IP", "127.0.0.1"),
            ("Proxy-Authorization", "Bearer secret"),
            ("Sec-WebSocket-Protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
        ]);
        let groups = vec!["devs".to_owned(), "ops".to_owned()];
        let known = Person { name: "alice".to_owned(), groups, ..Person::default() }.known().unwrap();
        to_tenant(&mut all, &known, "192.0.2.7".parse().unwrap(), None);
        let mut is: Vec<_> = all.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        is.sort();
        let should = [
            "accept: application/json",
            "impersonate-user: bob",
            "sec-websocket-protocol: v5.channel.k8s.io",
            "x-forwarded-for: 192.0.2.7",
            "x-remote-group: access:devs",
            "x-remote-group: access:ops",
            "x-remote-user: access:alice",
        ];
        assert_eq!(is, should);
    }

    #[test]
    fn an_upgrade_is_passed_on_by_itself() {
        let mut all = headers(&[("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]);
        let protocol = upgrade(&all);
        assert_eq!(protocol.as_ref().unwrap(), "SPDY/3.1");
        to_client(&mut all, protocol);
        assert_eq!(all, headers(&[("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]));
        assert_eq!(upgrade(&headers(&[("Upgrade", "h2c")])), None, "nobody asked to speak it");
    }

    #[test]
    fn a_redirect_stays_in_the_tenant() {
        let cluster = ClusterName { namespace: "team-a".to_owned(), name: "acme".to_owned() };
        for (is, becomes) in [
            ("/api/v1/x/proxy/", "/clusters/team-a/acme/api/v1/x/proxy/"),
            ("//elsewhere/a", "//elsewhere/a"),
            ("https://elsewhere/a", "https://elsewhere/a"),
        ] {
            let mut all = headers(&[("Location", is)]);
            stay_below(&mut all, &cluster);
            assert_eq!(all, headers(&[("Location", becomes)]));
        }
    }

    #[test]
    fn a_token_is_in_one_place() {
        assert_eq!(token(&headers(&[("Authorization", "bearer abc")])), Some("abc"));
        for none in [
            &[][..],
            &[("Authorization", "Basic abc")],
            &[("Authorization", "Bearer ")],
            &[("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
        ] {
            assert_eq!(token(&headers(none)), None, "{none:?}");
        }
    }
}
