//! The platform's gateway, which has one address for all tenants: the chart's value `gateway`.

use serde::Deserialize;

/// Where a gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The DNS name below which each tenant has one: a wildcard record leads to the gateway.
    pub domain: String,
    /// The port on which clients find it. Default 6443.
    pub port: u16,
    /// The port on which it finds them by a name in a PROXY header, as `berth-api-proxy` on tenants' nodes sends it. Default 6444.
    pub named_port: u16,
    /// The namespace of Berth's own gateway, if tenants' API servers take clients' connections from the engines alone. Default: from everywhere.
    pub only_from: Option<String>,
    /// The namespace of Berth's own gateway, if its replicas tell the operator there who calls and uses tenants. Default: nobody does.
    pub namespace: Option<String>,
    /// What carries connections, without repetitions; at least one. Default: Berth's own gateway.
    pub engines: Vec<Engine>,
    /// Where routes of the Gateway API lead in from. Empty unless that is among the engines.
    pub parents: Vec<Parent>,
}

/// What leads clients to a tenant by the name in TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Engine {
    /// `berth-gateway`.
    Berth,
    /// What the platform has of the Gateway API, by a `TLSRoute` of each tenant.
    GatewayAPI,
}

/// A `Gateway` of the Gateway API that passes TLS through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Parent {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The listener. Default: whichever takes the route.
    pub section_name: Option<String>,
}

impl std::fmt::Display for Parent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gateway {}/{}", self.namespace, self.name)?;
        self.section_name.as_ref().map_or(Ok(()), |section| write!(f, " (listener {section})"))
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            domain: String::new(),
            port: 6443,
            named_port: 6444,
            only_from: None,
            namespace: None,
            engines: vec![Engine::Berth],
            parents: vec![],
        }
    }
}

impl Gateway {
    /// Whether this carries connections.
    pub fn has(&self, engine: Engine) -> bool {
        self.engines.contains(&engine)
    }

    /// The name of the tenant that has this control-plane namespace.
    pub fn name(&self, cp_namespace: &str) -> String {
        format!("{cp_namespace}.{}", self.domain)
    }
}

/// Names have 253 characters at most, and 64 of them are a namespace and its dot.
const LONGEST: usize = 253 - 64;

/// As the file has it.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OfFile {
    domain: String,
    port: i64,
    named_port: i64,
    only_from: Option<String>,
    namespace: Option<String>,
    engines: Vec<Engine>,
    parents: Vec<Parent>,
}

impl Default for OfFile {
    fn default() -> Self {
        let Gateway { domain, port, named_port, only_from, namespace, engines, parents } = Gateway::default();
        Self { domain, port: port.into(), named_port: named_port.into(), only_from, namespace, engines, parents }
    }
}

impl OfFile {
    pub(super) fn read(self) -> Result<Gateway, String> {
        let Self { domain, port, named_port, only_from, namespace, engines, parents } = self;
        if domain.is_empty() {
            return Err(
                "gateway.domain: it is missing. Set the DNS name below which each tenant gets one, such as api.example.com"
                    .to_owned(),
            );
        }
        if !is_name(&domain) {
            return Err(format!(
                "gateway.domain: {domain} is no DNS name in lower case, without a wildcard or a dot at an end, such as api.example.com"
            ));
        }
        if domain.len() > LONGEST {
            return Err(format!(
                "gateway.domain: {domain} has more than {LONGEST} characters, too many for names below it"
            ));
        }
        let read = |field: &str, port: i64| match u16::try_from(port) {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(format!("gateway.{field}: {port} is no port from 1 to 65535")),
        };
        let (port, named_port) = (read("port", port)?, read("namedPort", named_port)?);
        if port == named_port {
            return Err(format!(
                "gateway.namedPort: {named_port} is gateway.port, too, where clients send no PROXY header. Set another port"
            ));
        }
        let engines = read_engines(&engines, &parents)?;
        Ok(Gateway { domain, port, named_port, only_from, namespace, engines, parents })
    }
}

fn read_engines(all: &[Engine], parents: &[Parent]) -> Result<Vec<Engine>, String> {
    let mut engines: Vec<Engine> = vec![];
    for engine in all {
        if !engines.contains(engine) {
            engines.push(*engine);
        }
    }
    if engines.is_empty() {
        return Err("gateway.engines: it is empty. Set Berth, GatewayAPI, or both".to_owned());
    }
    match (engines.contains(&Engine::GatewayAPI), parents.is_empty()) {
        (true, true) => {
            return Err(
                "gateway.parents: it is empty, and gateway.engines has GatewayAPI. Set namespace and name of the Gateway that passes TLS through"
                    .to_owned(),
            );
        }
        (false, false) => {
            return Err(
                "gateway.parents: it is set, and gateway.engines has no GatewayAPI. Add that, or remove gateway.parents"
                    .to_owned(),
            );
        }
        _ => {}
    }
    for (at, parent) in parents.iter().enumerate() {
        if parent.namespace.is_empty() || parent.name.is_empty() {
            return Err(format!("gateway.parents[{at}]: namespace or name is missing. Set both"));
        }
        // As the CustomResourceDefinition has it: beside one with a listener, one without would have all.
        let same = |other: &&Parent| (&other.namespace, &other.name) == (&parent.namespace, &parent.name);
        let is_twice = |other: &Parent| other.section_name.is_none() || other.section_name == parent.section_name;
        if parents[..at].iter().filter(same).any(|other| is_twice(other) || parent.section_name.is_none()) {
            return Err(format!(
                "gateway.parents[{at}]: {}/{} is there twice. Remove one, or give each another sectionName",
                parent.namespace, parent.name
            ));
        }
    }
    Ok(engines)
}

/// The hosts that tenants behind the gateway may have: names, `*.` and a name, or `*`.
pub(super) fn hosts(all: Vec<String>) -> Result<Vec<String>, String> {
    let wrong = all.iter().find(|host| *host != "*" && !is_name(host.strip_prefix("*.").unwrap_or(host)));
    match wrong {
        Some(host) => Err(format!(
            "writers.hosts: {host} is neither a DNS name in lower case, such as api.acme.example, nor one with *. before it, nor *"
        )),
        None => Ok(all),
    }
}

/// What ends in a number is an address to some clients.
fn is_name(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(is_label) && !last.bytes().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;

    fn read(text: &str) -> Result<Option<Gateway>, String> {
        Config::parse(text).map(|config| config.gateway)
    }

    #[test]
    fn without_it_there_is_none_and_with_it_a_tenant_has_a_name() {
        for text in ["", "gateway:", "gateway: null"] {
            assert_eq!(read(text), Ok(None), "{text}");
        }
        let read = |text| read(text).unwrap().unwrap();
        let given = read("gateway: {domain: api.example.com}");
        assert_eq!(given, Gateway { domain: "api.example.com".into(), ..Gateway::default() });
        assert_eq!((given.port, given.named_port, &given.engines[..]), (6443, 6444, &[Engine::Berth][..]));
        assert_eq!(given.name("acme-0e1f2a3b"), "acme-0e1f2a3b.api.example.com");
        let only = read("gateway: {domain: api.example.com, onlyFrom: berth-gateway}").only_from;
        assert_eq!(only.as_deref(), Some("berth-gateway"));
        let told = read("gateway: {domain: api.example.com, namespace: berth-gateway}").namespace;
        assert_eq!(told.as_deref(), Some("berth-gateway"));
        let given = read("gateway: {domain: api-1.example, port: 443, namedPort: 444}");
        assert_eq!((given.port, given.named_port), (443, 444));
        assert_eq!(Config::parse("gateway: {domain: a.b, name: x}").unwrap().unknown, ["gateway.name"]);
    }

    #[test]
    fn engines_and_parents_go_together() {
        let with = |more: &str| read(&format!("gateway: {{domain: a.b, {more}}}")).map(Option::unwrap);
        let both = with(
            "engines: [Berth, GatewayAPI, Berth], parents: [{namespace: edge, name: tls}, {namespace: edge, name: b, sectionName: c}]",
        );
        let both = both.unwrap();
        assert_eq!(both.engines, [Engine::Berth, Engine::GatewayAPI]);
        let named: Vec<_> = both.parents.iter().map(ToString::to_string).collect();
        assert_eq!(named, ["Gateway edge/tls", "Gateway edge/b (listener c)"]);
        for (wrong, why) in [
            ("engines: []", "gateway.engines: it is empty. Set "),
            ("engines: [GatewayAPI]", "gateway.parents: it is empty, and gateway.engines has GatewayAPI. Set "),
            (
                "parents: [{namespace: a, name: b}]",
                "gateway.parents: it is set, and gateway.engines has no GatewayAPI. Add",
            ),
            ("engines: [GatewayAPI], parents: [{name: b}]", "gateway.parents[0]: namespace or name is missing. Set"),
            (
                "engines: [GatewayAPI], parents: [{namespace: a, name: b, sectionName: c}, {namespace: a, name: b}]",
                "gateway.parents[1]: a/b is there twice. Remove",
            ),
            (
                "engines: [GatewayAPI], parents: [{namespace: a, name: b}, {namespace: a, name: b}]",
                "gateway.parents[1]: a/b is there twice. Remove",
            ),
        ] {
            let said = with(wrong).unwrap_err();
            assert!(said.starts_with(why), "{wrong}: {said}");
        }
        let two = "engines: [GatewayAPI], parents: [{namespace: a, name: b, sectionName: c}, {namespace: a, name: b, sectionName: d}]";
        assert_eq!(with(two).unwrap().parents.len(), 2);
        assert!(with("engines: [Envoy]").unwrap_err().contains("unknown variant"));
    }

    #[test]
    fn a_domain_or_a_port_that_is_none_is_refused() {
        assert!(read("gateway: {}").unwrap_err().starts_with("gateway.domain: it is missing. Set "));
        let long = format!("{}a.example", "a23456789.".repeat(19));
        for wrong in [
            "*.example.com",
            "API.example.com",
            "api.example.com.",
            ".example.com",
            "a..b",
            "-a.b",
            "a-.b",
            "a_b.c",
            "192.0.2.7",
            "a.1",
            "2001:db8::1",
            "https://a.b",
            "a.b:443",
            "a b",
        ] {
            let said = read(&format!("gateway: {{domain: '{wrong}'}}")).unwrap_err();
            assert!(said.starts_with(&format!("gateway.domain: {wrong} is no DNS name in lower case")), "{said}");
        }
        let said = read(&format!("gateway: {{domain: {long}}}")).unwrap_err();
        assert!(said.contains("has more than 189 characters"), "{said}");
        for port in ["0", "-1", "65536"] {
            let said = read(&format!("gateway: {{domain: a.b, port: {port}}}")).unwrap_err();
            assert_eq!(said, format!("gateway.port: {port} is no port from 1 to 65535"));
            let said = read(&format!("gateway: {{domain: a.b, namedPort: {port}}}")).unwrap_err();
            assert_eq!(said, format!("gateway.namedPort: {port} is no port from 1 to 65535"));
        }
        let said = read("gateway: {domain: a.b, port: 6444}").unwrap_err();
        assert!(said.starts_with("gateway.namedPort: 6444 is gateway.port, too"), "{said}");
    }

    #[test]
    fn hosts_are_names_or_all_below_one() {
        let hosts = |host: &str| Config::parse(&format!("writers: {{hosts: ['{host}']}}")).map(|c| c.writers.hosts);
        for fine in ["*", "api.acme.example", "*.acme.example"] {
            assert_eq!(hosts(fine), Ok(vec![fine.to_owned()]));
        }
        for wrong in ["", "*.", "a.*", "*acme.example", "API.acme.example", "192.0.2.7"] {
            let said = hosts(wrong).unwrap_err();
            assert!(said.starts_with(&format!("writers.hosts: {wrong} is neither ")), "{said}");
        }
    }
}
