//! What is attached to a sandbox, in order: the cluster's network, what every pod has, and what the pod asks for.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{Error, Result},
    network::{Network, Wishes},
    selection::Selection,
};

/// One network on one interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attachment {
    /// What it is called in messages: the object that its configuration is from.
    pub(crate) origin: String,
    /// What it is called in the pod's network-status.
    pub(crate) status_name: String,
    pub(crate) interface: String,
    pub(crate) network: Network,
    #[serde(default)]
    pub(crate) wishes: Wishes,
    /// What the last plugin answered to ADD.
    #[serde(default)]
    pub(crate) result: Option<Value>,
}

/// What a selected NetworkAttachmentDefinition is called in messages.
pub(crate) fn definition(selection: &Selection) -> String {
    format!("NetworkAttachmentDefinition {}/{}", selection.namespace, selection.name)
}

/// All attachments of a pod. `first` is the interface that the runtime asks for, on the cluster's network; the others are `netN` by their
/// place, unless the pod says otherwise.
pub(crate) fn plan(
    first: &str,
    delegates: Vec<Network>,
    selected: Vec<(Selection, Network)>,
) -> Result<Vec<Attachment>> {
    let mut all: Vec<Attachment> = Vec::new();
    for (number, network) in delegates.into_iter().enumerate() {
        all.push(Attachment {
            origin: format!("delegates[{number}] ({})", network.name),
            status_name: network.name.clone(),
            interface: if number == 0 { first.to_owned() } else { format!("net{number}") },
            network,
            wishes: Wishes::default(),
            result: None,
        });
    }
    for (selection, network) in selected {
        let interface = selection.interface.clone().unwrap_or_else(|| format!("net{}", all.len()));
        let origin = definition(&selection);
        if let Some(other) = all.iter().find(|other| other.interface == interface) {
            return Err(Error::selection(format!(
                "{origin}: interface {interface} is already that of {}: the pod's annotation has to ask for another one",
                other.origin
            )));
        }
        all.push(Attachment {
            status_name: format!("{}/{}", selection.namespace, selection.name),
            origin,
            interface,
            network,
            wishes: Wishes { ips: selection.ips.unwrap_or_default(), mac: selection.mac },
            result: None,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::network;

    fn net(name: &str) -> Network {
        network::parse(&json!({"name": name, "type": "x"}), "").unwrap()
    }

    fn selected(name: &str, interface: Option<&str>) -> (Selection, Network) {
        let selection = Selection {
            name: name.to_owned(),
            namespace: "acme".to_owned(),
            interface: interface.map(str::to_owned),
            ..Selection::default()
        };
        (selection, net(name))
    }

    #[test]
    fn the_clusters_network_comes_first_and_each_has_an_interface() {
        let all = plan(
            "eth0",
            vec![net("pods")],
            vec![selected("a", None), selected("b", Some("vpc0")), selected("a", None)],
        );
        let seen: Vec<_> = all.unwrap().into_iter().map(|a| (a.status_name, a.interface)).collect();
        let expected = [("pods", "eth0"), ("acme/a", "net1"), ("acme/b", "vpc0"), ("acme/a", "net3")];
        assert_eq!(seen, expected.map(|(name, interface)| (name.to_owned(), interface.to_owned())));
    }

    #[test]
    fn no_interface_is_given_twice() {
        for taken in ["eth0", "net1"] {
            let error =
                plan("eth0", vec![net("pods")], vec![selected("a", None), selected("b", Some(taken))]).unwrap_err();
            assert!(error.message.starts_with("NetworkAttachmentDefinition acme/b: interface"), "{}", error.message);
        }
    }
}
