//! Which networks a pod asks for: its annotation, in the short form or as JSON.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The pod's annotation.
pub(crate) const ANNOTATION: &str = "k8s.v1.cni.cncf.io/networks";

/// The longest name of an interface, in bytes.
const INTERFACE_MAX: usize = 15;

/// One network that a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Selection {
    /// The NetworkAttachmentDefinition.
    pub(crate) name: String,
    /// Its namespace; the pod's own by default.
    #[serde(default)]
    pub(crate) namespace: String,
    /// The interface in the pod; `netN` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interface: Option<String>,
    /// Addresses, with or without a prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ips: Option<Vec<String>>,
    /// The interface's hardware address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mac: Option<String>,
}

/// The networks in the annotation's value; an error says which entry and field is wrong.
pub(crate) fn parse(value: &str, pod_namespace: &str) -> Result<Vec<Selection>> {
    let value = value.trim();
    let wrong = |message: String| Error::selection(format!("annotation {ANNOTATION}: {message}"));
    let mut all: Vec<Selection> = if value.starts_with('[') {
        serde_json::from_str(value).map_err(|e| wrong(format!("the list cannot be read: {e}")))?
    } else {
        value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(short).collect()
    };
    for (number, selection) in all.iter_mut().enumerate() {
        if selection.namespace.is_empty() {
            pod_namespace.clone_into(&mut selection.namespace);
        }
        check(selection).map_err(|message| wrong(format!("[{number}].{message}")))?;
    }
    Ok(all)
}

/// `<namespace>/<name>@<interface>`; the interface is an extension that multus made usual.
fn short(item: &str) -> Selection {
    let (item, interface) = item.split_once('@').map_or((item, None), |(item, name)| (item, Some(name.to_owned())));
    let (namespace, name) = item.split_once('/').unwrap_or(("", item));
    Selection { name: name.to_owned(), namespace: namespace.to_owned(), interface, ..Selection::default() }
}

/// The field that is wrong and why, if one is.
fn check(selection: &Selection) -> std::result::Result<(), String> {
    for (field, value) in [("name", &selection.name), ("namespace", &selection.namespace)] {
        if !is_dns_label(value, field == "name") {
            return Err(format!("{field}: `{value}` is no name of a Kubernetes object"));
        }
    }
    if let Some(interface) = &selection.interface {
        let valid = |c: char| !c.is_whitespace() && c != '/' && c != ':' && !c.is_control();
        if interface.is_empty()
            || interface.len() > INTERFACE_MAX
            || !interface.chars().all(valid)
            || interface == "."
            || interface == ".."
        {
            return Err(format!("interface: `{interface}` is no interface's name of at most {INTERFACE_MAX} bytes"));
        }
    }
    if let Some(ips) = &selection.ips {
        if ips.is_empty() {
            return Err("ips: the list is empty".to_owned());
        }
        for (number, ip) in ips.iter().enumerate() {
            if !is_address(ip) {
                return Err(format!("ips[{number}]: `{ip}` is no address"));
            }
        }
    }
    match &selection.mac {
        Some(mac) if !is_mac(mac) => Err(format!("mac: `{mac}` is no hardware address of six or twenty bytes")),
        _ => Ok(()),
    }
}

fn is_dns_label(name: &str, dots: bool) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || (dots && c == '.');
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253 && name.chars().all(inner) && name.starts_with(outer) && name.ends_with(outer)
}

fn is_address(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<_> = text.split([':', '-']).collect();
    [6, 20].contains(&parts.len())
        && parts.iter().all(|part| part.len() == 2 && part.chars().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &str) -> Vec<Selection> {
        parse(value, "own").unwrap()
    }

    fn refused(value: &str) -> String {
        parse(value, "own").unwrap_err().message
    }

    #[test]
    fn the_short_form_names_networks_here_and_elsewhere() {
        let named = |name: &str, namespace: &str| Selection {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            ..Selection::default()
        };
        assert_eq!(
            parsed("net-a, net-b,other/net-c"),
            [named("net-a", "own"), named("net-b", "own"), named("net-c", "other")]
        );
        let with = Selection { interface: Some("vpc0".to_owned()), ..named("net-a", "other") };
        assert_eq!(parsed("other/net-a@vpc0"), [with]);
        assert_eq!(parsed(""), []);
        assert_eq!(parsed("net-a,net-a").len(), 2, "each request is an attachment of its own");
    }

    #[test]
    fn json_has_addresses_and_interfaces() {
        let all = parsed(
            r#" [{"name": "net-a"},
                {"name": "net-b", "namespace": "other", "interface": "vpc0", "ips": ["172.20.0.2/24", "fd00::5"],
                 "mac": "02:23:45:67:89:01", "org.example.key": 1}]"#,
        );
        assert_eq!((&*all[0].name, &*all[0].namespace, &all[0].ips), ("net-a", "own", &None));
        assert_eq!(all[1].ips.as_ref().unwrap(), &["172.20.0.2/24", "fd00::5"]);
        assert_eq!((&*all[1].namespace, all[1].interface.as_deref()), ("other", Some("vpc0")));
        assert_eq!(all[1].mac.as_deref(), Some("02:23:45:67:89:01"));
    }

    #[test]
    fn an_error_names_the_entry_and_the_field() {
        for (value, said) in [
            ("Net_A", "[0].name: `Net_A`"),
            ("net-a,b/c/d", "[1].name: `c/d`"),
            (r#"[{"name": "a"}, {"name": "a", "ips": []}]"#, "[1].ips: the list is empty"),
            (r#"[{"name": "a", "ips": ["172.20.0.2/33"]}]"#, "[0].ips[0]: `172.20.0.2/33`"),
            (r#"[{"name": "a", "ips": ["172.20.0.1", "x"]}]"#, "[0].ips[1]: `x`"),
            (r#"[{"name": "a", "mac": "02:23"}]"#, "[0].mac: `02:23`"),
            (r#"[{"name": "a", "interface": "sixteen-bytes-xx"}]"#, "[0].interface: `sixteen-bytes-xx`"),
            (r#"[{"namespace": "a"}]"#, "missing field `name`"),
            ("[", "the list cannot be read"),
        ] {
            let message = refused(value);
            assert!(message.starts_with("annotation k8s.v1.cni.cncf.io/networks: "), "{message}");
            assert!(message.contains(said), "{value}: {message}");
        }
    }
}
