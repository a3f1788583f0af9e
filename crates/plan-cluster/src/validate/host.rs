//! What a `Cluster` may not name as its host. The operator dials the host, and a condition says what it met there: whoever writes
//! `Cluster`s shall not look around in the meta cluster that way. What a name stands for is known to whoever connects ([`HostRules`]).

use berth_plan::meta_cluster::addresses::{MetaRanges, is_metadata, reached};
use std::net::IpAddr;

/// Why `host` is refused, if so. `own`: addresses of the tenant's own Service.
pub(crate) fn refusal(host: &str, own: &[IpAddr], meta: Option<&MetaRanges>) -> Option<String> {
    let what = match host.parse::<IpAddr>() {
        Ok(address) if own.contains(&address) => None,
        Ok(address) => no_address_of_a_tenant(reached(address), meta),
        Err(_) => no_name(host).map(str::to_owned),
    }?;
    Some(format!(
        "spec.endpoint.host: {host} is {what}. Set the name or address at which clients reach the API of this tenant"
    ))
}

/// The address of `spec.endpoint.advertiseAddress`, or why it is refused. Nobody but the tenant's pods dials it; that it is not the meta
/// cluster's is said where the field is written, and not found out on a node. `own`: addresses of the tenant's own Service. `way_out`: what to
/// do instead where it is to be another one than the API's.
pub(crate) fn refusal_inside(
    text: &str,
    own: &[IpAddr],
    meta: Option<&MetaRanges>,
    way_out: Option<&str>,
) -> Result<IpAddr, String> {
    let way_out =
        way_out.unwrap_or("Set the IP address at which the tenant's nodes reach its API, or remove the field");
    let address = text.parse::<IpAddr>().map_err(|_| "no IP address".to_owned());
    let judged = address.and_then(|address| {
        let refused = no_address_of_a_tenant(reached(address), meta).filter(|_| !own.contains(&address));
        refused.map_or(Ok(address), Err)
    });
    judged.map_err(|what| format!("spec.endpoint.advertiseAddress: {text} is {what}. {way_out}"))
}

/// Where a name in `spec.endpoint.host` may lead: for the client that resolves it, since an answer of DNS holds for one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRules {
    own: Vec<IpAddr>,
    load_balancer: Option<String>,
    meta: Option<MetaRanges>,
}

impl HostRules {
    /// From the addresses of the tenant's own Service, the name of its load balancer (what that resolves to is the tenant's own, too), and
    /// what is known of the meta cluster.
    pub fn new(own: Vec<IpAddr>, load_balancer: Option<String>, meta: Option<MetaRanges>) -> Self {
        Self { own, load_balancer, meta }
    }

    /// The name of the load balancer, which is worth resolving before an address is refused.
    pub fn load_balancer(&self) -> Option<&str> {
        self.load_balancer.as_deref()
    }

    /// Why nothing connects to this address of `host`, if so.
    pub fn refusal(&self, host: &str, address: IpAddr) -> Option<String> {
        if self.own.contains(&address) {
            return None;
        }
        let what = no_address_of_a_tenant(reached(address), self.meta.as_ref())?;
        Some(format!(
            "spec.endpoint.host: {host} resolves to {address}, which is {what}, so the operator does not connect to it. Change its DNS record to the address at which clients reach the API of this tenant, or change the field"
        ))
    }
}

fn no_address_of_a_tenant(address: IpAddr, meta: Option<&MetaRanges>) -> Option<String> {
    let this_machine = match address {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_loopback(),
    };
    let many = address.is_multicast() || matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    let what = if this_machine {
        "a loopback or unspecified address"
    } else if many {
        "a multicast or broadcast address"
    } else if is_metadata(address) {
        "a link-local or cloud metadata address"
    } else {
        let (whose, range) = meta?.own(address)?;
        return Some(format!("in {range}, where the meta cluster has its {whose}"));
    };
    Some(what.to_owned())
}

fn no_name(host: &str) -> Option<&'static str> {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let number = match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => last.bytes().all(|b| b.is_ascii_digit()),
    };
    // The system's resolver takes `127.1` and `0x7f000001` for 127.0.0.1.
    match &*last {
        _ if number => Some("an IP address in an unusual form"),
        "localhost" => Some("a name of the local machine"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_plan::meta_cluster::addresses::network;

    fn meta() -> MetaRanges {
        let nets = |text: &str| vec![network(text).unwrap()];
        MetaRanges {
            pods: nets("10.1.0.0/16"),
            services: nets("10.96.0.0/16"),
            nodes: nets("10.1.255.0/24"),
            api_servers: nets("192.168.9.9"),
        }
    }

    fn said(host: &str) -> Option<String> {
        refusal(host, &[], Some(&meta()))
    }

    #[test]
    fn what_only_the_operator_would_reach_is_refused() {
        for (host, what) in [
            ("127.0.0.1", "a loopback or unspecified address"),
            ("127.8.9.10", "a loopback or unspecified address"),
            ("0.0.0.0", "a loopback or unspecified address"),
            ("0.1.2.3", "a loopback or unspecified address"),
            ("::1", "a loopback or unspecified address"),
            ("::", "a loopback or unspecified address"),
            ("::ffff:127.0.0.1", "a loopback or unspecified address"),
            ("64:ff9b::7f00:1", "a loopback or unspecified address"),
            ("64:ff9b::169.254.169.254", "a link-local or cloud metadata address"),
            ("64:ff9b::10.96.0.1", "in 10.96.0.0/16, where the meta cluster has its Services"),
            ("169.254.169.254", "a link-local or cloud metadata address"),
            ("100.100.100.200", "a link-local or cloud metadata address"),
            ("168.63.129.16", "a link-local or cloud metadata address"),
            ("192.0.0.192", "a link-local or cloud metadata address"),
            ("fd00:ec2::254", "a link-local or cloud metadata address"),
            ("fd00:ec2::23", "a link-local or cloud metadata address"),
            ("fd20:ce::254", "a link-local or cloud metadata address"),
            ("fd00:c1::a9fe:a9fe", "a link-local or cloud metadata address"),
            ("fd00:100::100:200", "a link-local or cloud metadata address"),
            ("fd00:a9fe:a9fe::1", "a link-local or cloud metadata address"),
            ("fd00:42::42", "a link-local or cloud metadata address"),
            ("fe80::1", "a link-local or cloud metadata address"),
            ("224.0.0.1", "a multicast or broadcast address"),
            ("255.255.255.255", "a multicast or broadcast address"),
            ("ff02::1", "a multicast or broadcast address"),
            ("10.1.2.3", "in 10.1.0.0/16, where the meta cluster has its pods"),
            ("10.96.0.1", "in 10.96.0.0/16, where the meta cluster has its Services"),
            ("192.168.9.9", "in 192.168.9.9/32, where the meta cluster has its API servers"),
            ("127.1", "an IP address in an unusual form"),
            ("2130706433", "an IP address in an unusual form"),
            ("0x7F.1", "an IP address in an unusual form"),
            ("169.254.0xa9fe", "an IP address in an unusual form"),
            ("localhost", "a name of the local machine"),
            ("x.LocalHost", "a name of the local machine"),
        ] {
            let wanted = format!(
                "spec.endpoint.host: {host} is {what}. Set the name or address at which clients reach the API of this tenant"
            );
            assert_eq!(said(host), Some(wanted));
        }
    }

    #[test]
    fn where_clients_reach_a_tenant_is_allowed() {
        for host in [
            "acme.example.com",
            "1.acme.example.com",
            "localhost.example.com",
            "0x.example.com",
            "192.0.2.7",
            "10.2.0.1",
            "2001:db8::7",
            "64:ff9b::c000:207",
            "fd00:ec2::253",
            "fd20:ce::253",
        ] {
            assert_eq!(said(host), None);
        }
        assert_eq!(said("10.1.255.7"), None, "a node's, for node ports, though it is in the range of pods");
        let own = "10.96.0.7".parse().unwrap();
        assert_eq!(refusal("10.96.0.7", &[own], Some(&meta())), None);
        assert!(refusal("10.96.0.8", &[own], Some(&meta())).is_some());
    }

    #[test]
    fn pods_are_not_sent_to_addresses_of_the_meta_cluster() {
        let own = "10.96.0.7".parse().unwrap();
        for (text, refused) in [
            ("192.0.2.7", None),
            ("10.96.0.7", None),
            ("10.1.255.7", None),
            ("10.96.0.1", Some("in 10.96.0.0/16, where the meta cluster has its Services")),
            ("169.254.169.254", Some("a link-local or cloud metadata address")),
            ("::ffff:10.1.2.3", Some("in 10.1.0.0/16, where the meta cluster has its pods")),
            ("acme.example.com", Some("no IP address")),
        ] {
            let said = refusal_inside(text, &[own], Some(&meta()), None);
            let wanted = refused.map(|what| format!("spec.endpoint.advertiseAddress: {text} is {what}. Set the IP"));
            match (said, wanted) {
                (Ok(address), None) => assert_eq!(address.to_string(), text),
                (Err(said), Some(wanted)) => assert!(said.starts_with(&wanted), "{said}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let said = refusal_inside("255.255.255.255", &[], None, Some("Do that")).unwrap_err();
        assert!(said.ends_with("255.255.255.255 is a multicast or broadcast address. Do that"), "{said}");
    }

    #[test]
    fn what_needs_no_ranges_is_refused_without_them() {
        assert!(refusal("169.254.169.254", &[], None).is_some());
        assert_eq!(refusal("10.96.0.1", &[], None), None);
    }
}
