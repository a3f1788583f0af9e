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
    /// The gateway's namespace, if tenants' API servers take clients' connections from there alone. Default: from everywhere.
    pub only_from: Option<String>,
}

impl Gateway {
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
}

impl Default for OfFile {
    fn default() -> Self {
        Self { domain: String::new(), port: 6443, named_port: 6444, only_from: None }
    }
}

impl OfFile {
    pub(super) fn read(self) -> Result<Gateway, String> {
        let Self { domain, port, named_port, only_from } = self;
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
        Ok(Gateway { domain, port, named_port, only_from })
    }
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
        assert_eq!(given, Gateway { domain: "api.example.com".into(), port: 6443, named_port: 6444, only_from: None });
        assert_eq!(given.name("acme-0e1f2a3b"), "acme-0e1f2a3b.api.example.com");
        let only = read("gateway: {domain: api.example.com, onlyFrom: berth-gateway}").only_from;
        assert_eq!(only.as_deref(), Some("berth-gateway"));
        let given = read("gateway: {domain: api-1.example, port: 443, namedPort: 444}");
        assert_eq!((given.port, given.named_port), (443, 444));
        assert_eq!(Config::parse("gateway: {domain: a.b, name: x}").unwrap().unknown, ["gateway.name"]);
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
