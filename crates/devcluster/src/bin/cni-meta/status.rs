//! What the pod's annotation `network-status` says, from the plugins' results; and whether a result has what the pod asked for.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::attachment::Attachment;

/// The annotation that is written back.
pub(crate) const ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";

/// The annotation's value, an entry for each attachment. Addresses are without their prefix, as multus writes them.
pub(crate) fn of(attachments: &[Attachment]) -> String {
    let entries = attachments.iter().enumerate().map(|(number, attachment)| {
        let mut entry = json!({"name": attachment.status_name, "default": number == 0});
        let result = attachment.result.as_ref().unwrap_or(&Value::Null);
        if let Some((_, interface)) = sandbox_interface(result) {
            entry["interface"] = interface["name"].clone();
            if let Some(mac) = interface["mac"].as_str().filter(|mac| !mac.is_empty()) {
                entry["mac"] = json!(mac);
            }
        }
        let ips: Vec<_> = addresses(result).into_iter().map(bare).collect();
        if !ips.is_empty() {
            entry["ips"] = json!(ips);
        }
        entry["dns"] = result.get("dns").cloned().unwrap_or_else(|| json!({}));
        entry
    });
    Value::Array(entries.collect()).to_string()
}

/// What the pod asked for and did not get, if anything: a plugin may ignore what it is asked for, and the standard wants that to fail.
pub(crate) fn missing(attachment: &Attachment) -> Option<String> {
    let result = attachment.result.as_ref()?;
    let given = addresses(result);
    for asked in &attachment.wishes.ips {
        // Without a prefix any prefix will do.
        let same =
            |given: &&str| if asked.contains('/') { same_network(given, asked) } else { same_address(given, asked) };
        if !given.iter().any(same) {
            let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
            return Some(format!(
                "the pod asks for ips {asked} and the plugin gave {given}: it has to take `ips` (\"capabilities\": {{\"ips\": true}} in \
                 spec.config, with ipam static)"
            ));
        }
    }
    let asked = attachment.wishes.mac.as_deref()?;
    let given = sandbox_interface(result).and_then(|(_, interface)| interface["mac"].as_str()).unwrap_or_default();
    let plain = |mac: &str| mac.replace('-', ":").to_ascii_lowercase();
    (plain(given) != plain(asked)).then(|| {
        format!("the pod asks for mac {asked} and the plugin gave {given}: it has to take `mac` (\"capabilities\": {{\"mac\": true}})")
    })
}

/// The first interface in the pod, and its place in the result.
fn sandbox_interface(result: &Value) -> Option<(usize, &Value)> {
    let interfaces = result["interfaces"].as_array()?;
    interfaces.iter().enumerate().find(|(_, one)| one["sandbox"].as_str().is_some_and(|sandbox| !sandbox.is_empty()))
}

/// The addresses of that interface, with prefix; where a result lists no interface in the pod, those of no interface.
fn addresses(result: &Value) -> Vec<&str> {
    let place = sandbox_interface(result).map(|(place, _)| place as u64);
    let all = result["ips"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter(|ip| ip["interface"].as_u64() == place).filter_map(|ip| ip["address"].as_str()).collect()
}

fn bare(address: &str) -> &str {
    address.split('/').next().unwrap_or(address)
}

fn same_address(a: &str, b: &str) -> bool {
    let parsed = |text| bare(text).parse::<IpAddr>().ok();
    parsed(a).is_some() && parsed(a) == parsed(b)
}

fn same_network(a: &str, b: &str) -> bool {
    same_address(a, b) && a.split('/').nth(1) == b.split('/').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{self, Wishes};

    fn attachment(result: Value, wishes: Wishes) -> Attachment {
        Attachment {
            origin: "NetworkAttachmentDefinition acme/vpc-a".to_owned(),
            status_name: "acme/vpc-a".to_owned(),
            interface: "net1".to_owned(),
            network: network::parse(&json!({"type": "x"}), "vpc-a").unwrap(),
            wishes,
            result: Some(result),
        }
    }

    /// As the bridge plugin answers: two interfaces of the node, then the pod's.
    fn bridge() -> Value {
        json!({
            "interfaces": [
                {"name": "cni0", "mac": "aa:00:00:00:00:01"},
                {"name": "veth1", "mac": "aa:00:00:00:00:02"},
                {"name": "eth0", "mac": "aa:00:00:00:00:03", "sandbox": "/run/netns/x"},
            ],
            "ips": [{"interface": 0, "address": "10.1.0.1/24"}, {"interface": 2, "address": "10.1.0.7/24", "gateway": "10.1.0.1"}],
            "dns": {},
        })
    }

    #[test]
    fn it_tells_of_the_interface_in_the_pod() {
        let status: Value = serde_json::from_str(&of(&[attachment(bridge(), Wishes::default())])).unwrap();
        assert_eq!(
            status,
            json!([{
                "name": "acme/vpc-a", "default": true, "interface": "eth0", "ips": ["10.1.0.7"], "mac": "aa:00:00:00:00:03",
                "dns": {},
            }])
        );
        let plain = json!({"ips": [{"address": "fd00::7/64"}]});
        let two = of(&[attachment(bridge(), Wishes::default()), attachment(plain, Wishes::default())]);
        let status: Value = serde_json::from_str(&two).unwrap();
        assert_eq!(status[1], json!({"name": "acme/vpc-a", "default": false, "ips": ["fd00::7"], "dns": {}}));
    }

    #[test]
    fn what_was_not_given_is_missing() {
        let ask = |ip: &str, mac: Option<&str>| {
            missing(&attachment(bridge(), Wishes { ips: vec![ip.to_owned()], mac: mac.map(str::to_owned) }))
        };
        assert_eq!(ask("10.1.0.7", None), None);
        assert_eq!(ask("10.1.0.7/24", Some("AA-00-00-00-00-03")), None);
        assert!(ask("10.1.0.7/16", None).unwrap().contains("asks for ips 10.1.0.7/16 and the plugin gave 10.1.0.7/24"));
        assert!(ask("10.1.0.1", None).is_some(), "the bridge's own address is not the pod's");
        assert!(ask("10.1.0.7", Some("aa:00:00:00:00:04")).unwrap().contains("asks for mac"));
    }
}
