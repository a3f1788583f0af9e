//! Which proxy leads to an address, by the variables that curl and Go read. Pure.

use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;

/// The proxy for an address: of `HTTPS_PROXY` or `HTTP_PROXY` by the address' scheme, else of `ALL_PROXY`; none for what `NO_PROXY`
/// names, and for this machine itself. Each variable also in small letters, which win.
pub(super) fn choose(uri: &Uri, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let either = |name: &str| {
        let set = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        set(&name.to_ascii_lowercase()).or_else(|| set(name))
    };
    let by_scheme = if uri.scheme_str() == Some("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let proxy = either(by_scheme).or_else(|| either("ALL_PROXY"))?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return None;
    }
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let excepted = either("NO_PROXY").is_some_and(|list| {
        let entries = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|entry| !entry.is_empty());
        entries.map(str::to_ascii_lowercase).any(|entry| is_excepted(&entry, &host, address, port))
    });
    (!excepted).then_some(proxy)
}

fn is_excepted(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some(address) = address {
        if let Ok(net) = entry.parse::<IpNet>() {
            return net.contains(&address);
        }
        if let Ok(other) = entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return other == address;
        }
    }
    let (name, wanted) = match entry.rsplit_once(':').map(|(name, port)| (name, port.parse::<u16>())) {
        Some((name, Ok(port))) => (name, Some(port)),
        _ => (entry, None),
    };
    let name = name.trim_start_matches('*').trim_start_matches('.');
    let is_below = host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !name.is_empty() && is_below && wanted.is_none_or(|wanted| wanted == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let lookup =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        choose(&url.parse().unwrap(), lookup)
    }

    #[test]
    fn the_schemes_own_variable_wins_over_the_one_for_all() {
        let all = [("HTTPS_PROXY", "s"), ("HTTP_PROXY", "h"), ("ALL_PROXY", "a")];
        assert_eq!(proxy("https://dl.k8s.io/x", &all).as_deref(), Some("s"));
        assert_eq!(proxy("http://mirror/x", &all).as_deref(), Some("h"));
        assert_eq!(proxy("https://dl.k8s.io/x", &all[1..]).as_deref(), Some("a"));
        assert_eq!(proxy("https://dl.k8s.io/x", &all[1..2]), None);
        assert_eq!(proxy("https://dl.k8s.io/x", &[("https_proxy", "small"), all[0]]).as_deref(), Some("small"));
        assert_eq!(
            proxy("https://dl.k8s.io/x", &[("https_proxy", ""), all[0]]).as_deref(),
            Some("s"),
            "empty is unset"
        );
        assert_eq!(proxy("https://dl.k8s.io/x", &[]), None);
    }

    #[test]
    fn exceptions_are_names_domains_addresses_and_ranges() {
        let excepted = |url: &str, list: &str| proxy(url, &[("ALL_PROXY", "a"), ("NO_PROXY", list)]).is_none();
        for list in
            ["k8s.io", ".k8s.io", "*.k8s.io", "dl.k8s.io", "DL.K8S.IO", "a.example, dl.k8s.io", "*", "dl.k8s.io:443"]
        {
            assert!(excepted("https://dl.k8s.io/x", list), "{list}");
        }
        for list in ["s.io", "x.dl.k8s.io", "dl.k8s.io:80", ",", "10.0.0.0/8", ".", ":443"] {
            assert!(!excepted("https://dl.k8s.io/x", list), "{list}");
        }
        assert!(excepted("http://10.1.2.3:8000", "10.0.0.0/8") && excepted("http://10.1.2.3:8000", "10.1.2.3"));
        assert!(!excepted("http://11.1.2.3", "10.0.0.0/8") && !excepted("http://10.1.2.3", "10.1.2.30"));
        assert!(excepted("http://[fd00::1]:80", "fd00::/8") && excepted("http://[fd00::1]", "[fd00::1]"));
    }

    #[test]
    fn this_machine_is_never_asked_through_a_proxy() {
        for url in ["http://127.0.0.1:8000", "http://localhost:1", "http://[::1]:8000"] {
            assert_eq!(proxy(url, &[("ALL_PROXY", "a")]), None, "{url}");
        }
    }
}
