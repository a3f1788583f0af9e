//! Whether a kubelet gets the serving certificate that it asks for.
//!
//! Kubelets write the addresses of their own `Node`, so that a name or address stands there is not enough: it must not be the API's, nor a
//! Service's, nor another node's.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::client::Kubelet;

/// What a kubelet asks to be: a request that is well-formed, see [`crate::request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Serving {
    /// The node that it is for, which is also who asked.
    pub(crate) node: String,
    /// DNS names, in lower case.
    pub(crate) names: Vec<String>,
    /// IP addresses.
    pub(crate) addresses: Vec<IpAddr>,
}

/// What a `Node` says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// `metadata.name`.
    pub(crate) name: String,
    /// Those of its `status.addresses` that are no IP addresses, in lower case.
    pub(crate) names: Vec<String>,
    /// Those that are.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether it reports.
    pub(crate) kubelet: Kubelet,
}

/// What no node may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Names in the API server's own certificate, in lower case; they may begin with `*.`. The `kubernetes` Service's are among them, and
    /// with them the domain of all Services.
    pub(crate) names: Vec<String>,
    /// Addresses in it.
    pub(crate) addresses: Vec<IpAddr>,
    /// Where Services have their addresses.
    pub(crate) service_cidrs: Vec<IpNet>,
}

/// What becomes of a request. The text follows "not approved: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The certificate may be signed.
    Approve,
    /// Not as things are; another look at the nodes may tell otherwise.
    Wait(String),
    /// Never by this program; a person may.
    Leave(String),
    /// It is refused for good. Who asks is told, and may ask anew.
    Deny(String),
}

/// `own`: the node that asks, if it is there. `others`: nodes, of which the one that asks may be one.
pub(crate) fn decide(request: &Serving, reserved: &Reserved, own: Option<&Node>, others: &[Node]) -> Decision {
    let (names, addresses) = (&request.names, &request.addresses);
    let refused = names.iter().find_map(|name| reserved.name(name).map(|why| (name.clone(), why)));
    let refused = refused.or_else(|| addresses.iter().find_map(|ip| Some((ip.to_string(), reserved.address(*ip)?))));
    if let Some((what, why)) = refused {
        return Decision::Leave(format!("it asks for {what}, which is {why}"));
    }
    let node = &request.node;
    let Some(own) = own else { return Decision::Wait(format!("there is no Node {node}")) };
    let foreign = names.iter().find(|name| *name != node && !own.names.contains(name)).cloned();
    let foreign = foreign.or_else(|| addresses.iter().find(|ip| !own.addresses.contains(ip)).map(ToString::to_string));
    if let Some(what) = foreign {
        return Decision::Wait(format!(
            "it asks for {what}, which is not among the addresses in the status of Node {node}"
        ));
    }
    for other in others.iter().filter(|other| other.name != *node) {
        let name = names.iter().find(|name| **name == other.name || other.names.contains(name)).cloned();
        let shared = name.or_else(|| addresses.iter().find(|ip| other.addresses.contains(ip)).map(ToString::to_string));
        if let Some(what) = shared {
            return Decision::Wait(format!("it asks for {what}, which is also of Node {}", other.name));
        }
    }
    Decision::Approve
}

impl Reserved {
    /// Whose a name is.
    fn name(&self, name: &str) -> Option<&'static str> {
        let under = |parent: &str| name.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let covers = |pattern: &String| match pattern.strip_prefix("*.") {
            Some(parent) => name.split_once('.').is_some_and(|(_, rest)| rest == parent),
            None => pattern == name,
        };
        let services = self.names.iter().filter_map(|name| name.strip_prefix("kubernetes.default."));
        let mut services = services.filter(|domain| domain.starts_with("svc."));
        if under("localhost") {
            Some("every machine's own")
        } else if ["kubernetes", "kubernetes.default"].contains(&name) || self.names.iter().any(covers) {
            Some("the API's")
        } else if under("svc") || services.any(under) {
            Some("a Service's")
        } else {
            None
        }
    }

    /// Whose an address is.
    fn address(&self, ip: IpAddr) -> Option<&'static str> {
        let everybodys = match ip {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        if everybodys || ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() {
            Some("no machine's alone")
        } else if self.addresses.contains(&ip) {
            Some("the API's")
        } else if self.service_cidrs.iter().any(|range| range.contains(&ip)) {
            Some("a Service's")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Decision::{Approve, Leave, Wait};

    fn ips(all: &[&str]) -> Vec<IpAddr> {
        all.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|&text| text.to_owned()).collect()
    }

    fn node(name: &str, names: &[&str], addresses: &[&str]) -> Node {
        Node { name: name.to_owned(), names: texts(names), addresses: ips(addresses), ..Node::default() }
    }

    fn reserved() -> Reserved {
        Reserved {
            names: texts(&[
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
                "kube-apiserver",
                "kube-apiserver.acme-0a1b2c3d.svc",
                "api.example.com",
                "*.apis.example.com",
                "kubernetes.default.example.com",
            ]),
            addresses: ips(&["192.0.2.10", "2001:db8::10"]),
            service_cidrs: ["10.96.0.0/12", "fd00:1::/108"].map(|cidr| cidr.parse().unwrap()).into(),
        }
    }

    fn asks(names: &[&str], addresses: &[&str]) -> Serving {
        Serving { node: "n1".to_owned(), names: texts(names), addresses: ips(addresses) }
    }

    #[test]
    fn a_node_gets_what_is_its_own() {
        let own = node("n1", &["n1", "n1.example.com"], &["172.20.0.5", "2001:db8::5"]);
        let others = [own.clone(), node("n2", &["n2"], &["172.20.0.6"])];
        for (names, addresses) in [
            (&["n1"][..], &["172.20.0.5"][..]),
            (&["n1", "n1.example.com"], &["172.20.0.5", "2001:db8::5"]),
            (&["n1"], &[]),
            (&[], &["172.20.0.5"]),
        ] {
            assert_eq!(decide(&asks(names, addresses), &reserved(), Some(&own), &others), Approve, "{names:?}");
        }
        // Its name in the API is its own, whatever its addresses say.
        assert_eq!(decide(&asks(&["n1"], &[]), &reserved(), Some(&node("n1", &[], &[])), &others), Approve);
    }

    #[test]
    fn what_is_not_or_not_yet_its_own_waits() {
        let own = node("n1", &["n1"], &["172.20.0.5", "172.20.0.6"]);
        let others = [own.clone(), node("n2", &["n2", "node-2.example.com"], &["172.20.0.6"])];
        let of = |names: &[&str], addresses: &[&str], own: Option<&Node>| match decide(
            &asks(names, addresses),
            &reserved(),
            own,
            &others,
        ) {
            Wait(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&["n1"], &["172.20.0.5"], None), "there is no Node n1");
        let status = "which is not among the addresses in the status of Node n1";
        assert_eq!(of(&["n1"], &["172.20.0.7"], Some(&own)), format!("it asks for 172.20.0.7, {status}"));
        assert_eq!(of(&["n1", "n3"], &[], Some(&own)), format!("it asks for n3, {status}"));
        let mut liar = own.clone();
        liar.names.extend(texts(&["n2", "node-2.example.com"]));
        for shared in ["n2", "node-2.example.com"] {
            assert_eq!(of(&[shared], &[], Some(&liar)), format!("it asks for {shared}, which is also of Node n2"));
        }
        let taken = of(&["n1"], &["172.20.0.5", "172.20.0.6"], Some(&own));
        assert_eq!(taken, "it asks for 172.20.0.6, which is also of Node n2");
    }

    #[test]
    fn what_is_reserved_is_refused_though_the_node_says_that_it_is_its_own() {
        let of = |names: &[&str], addresses: &[&str]| {
            let own = node("n1", names, addresses);
            match decide(&asks(names, addresses), &reserved(), Some(&own), &[]) {
                Leave(why) => why,
                other => panic!("{names:?} {addresses:?}: {other:?}"),
            }
        };
        for (name, whose) in [
            ("localhost", "every machine's own"),
            ("x.localhost", "every machine's own"),
            ("kubernetes", "the API's"),
            ("kubernetes.default", "the API's"),
            ("kubernetes.default.svc", "the API's"),
            ("kubernetes.default.svc.cluster.local", "the API's"),
            ("kube-apiserver", "the API's"),
            ("kube-apiserver.acme-0a1b2c3d.svc", "the API's"),
            ("api.example.com", "the API's"),
            ("eu.apis.example.com", "the API's"),
            ("hook.team.svc", "a Service's"),
            ("hook.team.svc.cluster.local", "a Service's"),
            ("svc", "a Service's"),
            ("svc.cluster.local", "a Service's"),
        ] {
            assert_eq!(of(&[name], &[]), format!("it asks for {name}, which is {whose}"));
            assert_eq!(of(&["n1", name], &["172.20.0.5"]), format!("it asks for {name}, which is {whose}"));
        }
        for (address, whose) in [
            ("127.0.0.1", "no machine's alone"),
            ("127.1.2.3", "no machine's alone"),
            ("::1", "no machine's alone"),
            ("0.0.0.0", "no machine's alone"),
            ("0.1.2.3", "no machine's alone"),
            ("::", "no machine's alone"),
            ("169.254.169.254", "no machine's alone"),
            ("fe80::1", "no machine's alone"),
            ("224.0.0.1", "no machine's alone"),
            ("ff02::1", "no machine's alone"),
            ("255.255.255.255", "no machine's alone"),
            ("192.0.2.10", "the API's"),
            ("2001:db8::10", "the API's"),
            ("10.96.0.1", "a Service's"),
            ("10.111.255.255", "a Service's"),
            ("fd00:1::1", "a Service's"),
        ] {
            assert_eq!(of(&[], &[address]), format!("it asks for {address}, which is {whose}"));
            assert_eq!(of(&["n1"], &["172.20.0.5", address]), format!("it asks for {address}, which is {whose}"));
        }
    }

    #[test]
    fn names_that_only_look_reserved_are_not() {
        for name in
            ["mysvc", "kubernetes-1", "notlocalhost", "apis.example.com", "a.b.apis.example.com", "n.cluster.local"]
        {
            let own = node("n1", &[name], &[]);
            assert_eq!(decide(&asks(&[name], &[]), &reserved(), Some(&own), &[]), Approve, "{name}");
        }
        let own = node("n1", &[], &["10.112.0.1"]);
        assert_eq!(decide(&asks(&[], &["10.112.0.1"]), &reserved(), Some(&own), &[]), Approve, "beside the range");
    }
}
