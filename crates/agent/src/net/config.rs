//! The file that the operator writes. Kubelet replaces it in place while the pod runs.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use berth_contract::vpc::{Cidr, Net, Open, Protocol};

/// Kubelet writes it for each pod.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The file as it was last read.
#[derive(Debug)]
pub(super) struct Config {
    path: PathBuf,
    content: Vec<u8>,
}

impl Config {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), content: vec![] }
    }

    /// Reads it. None: it is as it was, be it good or broken.
    pub(super) fn changed(&mut self) -> Option<anyhow::Result<Net>> {
        match fs::read(&self.path) {
            Ok(content) if content == self.content => None,
            Ok(content) => {
                let net = parse(&content).with_context(|| self.path.display().to_string());
                self.content = content;
                Some(net)
            }
            Err(error) => Some(Err(anyhow::Error::new(error).context(self.path.display().to_string()))),
        }
    }
}

/// Reads the file once.
pub(super) fn read(path: &Path) -> anyhow::Result<Net> {
    let content = fs::read(path).with_context(|| path.display().to_string())?;
    parse(&content).with_context(|| path.display().to_string())
}

/// Opens the pod's own nameservers. The operator knows the meta cluster's DNS as pods, and not by which address a pod asks it.
fn with_nameservers(mut net: Net, resolv_conf: &str) -> Net {
    for line in resolv_conf.lines() {
        let mut words = line.split_whitespace();
        let (Some("nameserver"), Some(address)) = (words.next(), words.next()) else { continue };
        let Ok(address) = address.parse::<IpAddr>() else { continue };
        let to = Cidr { address, prefix: if address.is_ipv4() { 32 } else { 128 } };
        let open = |protocol| Open { to, port: Some(53), end_port: None, protocol: Some(protocol) };
        net.open.extend([open(Protocol::Udp), open(Protocol::Tcp)]);
    }
    net
}

fn parse(content: &[u8]) -> anyhow::Result<Net> {
    let net: Net = serde_json::from_slice(content)?;
    // Without one, nothing is asked.
    let net = with_nameservers(net, &fs::read_to_string(RESOLV_CONF).unwrap_or_default());
    let name = &net.interface;
    ensure!(!name.is_empty() && name.len() <= 15 && name != "lo", "interface: {name:?} is no interface of a VPC");
    for open in &net.open {
        let (first, last) = (open.port, open.end_port);
        ensure!(first != Some(0), "open: port 0 to {}", open.to);
        ensure!(
            last.is_none_or(|last| first.is_some_and(|first| first <= last)),
            "open: endPort without port, or below, to {}",
            open.to
        );
    }
    for route in &net.routes {
        ensure!(
            route.dst.address.is_ipv4() && route.via.is_ipv4(),
            "routes: {} via {} is not IPv4",
            route.dst,
            route.via
        );
    }
    let v4 = |address: IpAddr| address.is_ipv4();
    ensure!(
        net.slots.iter().all(|slot| v4(slot.address)) && net.virtual_ip.is_none_or(v4),
        "addresses in a VPC are IPv4"
    );
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameservers_are_open_at_one_port() {
        let text = "# kubelet\nsearch a.svc.cluster.local\nnameserver 10.96.0.10\nnameserver fd00::a\nnameserver dns\noptions ndots:5\n";
        let net = with_nameservers(Net::default(), text);
        let open: Vec<_> = net.open.iter().map(|o| (o.to.to_string(), o.port, o.protocol)).collect();
        let all = ["10.96.0.10/32", "fd00::a/128"];
        let one = |to: &str| [Protocol::Udp, Protocol::Tcp].map(|protocol| (to.to_owned(), Some(53), Some(protocol)));
        assert_eq!(open, all.map(one).concat());
    }

    #[test]
    fn a_file_that_cannot_hold_is_refused_as_a_whole() {
        let said = |text: &str| parse(text.as_bytes()).map_err(|e| e.to_string());
        assert!(said(r#"{"interface": "net1"}"#).is_ok());
        for (wrong, word) in [
            ("", "EOF"),
            ("{}", "interface"),
            (r#"{"interface": ""}"#, "interface"),
            (r#"{"interface": "lo"}"#, "interface"),
            (r#"{"interface": "sixteen-letters-"}"#, "interface"),
            (r#"{"interface": "net1", "closed": ["10.0.0.0"]}"#, "10.0.0.0"),
            (r#"{"interface": "net1", "open": [{"to": "10.0.0.0/8", "port": 0}]}"#, "port 0"),
            (r#"{"interface": "net1", "open": [{"to": "10.0.0.0/8", "endPort": 5}]}"#, "endPort"),
            (r#"{"interface": "net1", "open": [{"to": "10.0.0.0/8", "port": 6, "endPort": 5}]}"#, "endPort"),
            (r#"{"interface": "net1", "open": [{"to": "10.0.0.0/8", "protocol": "ICMP"}]}"#, "ICMP"),
            (r#"{"interface": "net1", "routes": [{"dst": "::/0", "via": "fd00::1"}]}"#, "IPv4"),
            (r#"{"interface": "net1", "virtualIP": "fd00::1"}"#, "IPv4"),
        ] {
            let said = said(wrong).unwrap_err();
            assert!(said.contains(word), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_change_is_seen_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("net.json");
        let mut config = Config::new(&path);
        assert!(config.changed().unwrap().is_err(), "not there yet");
        fs::write(&path, r#"{"interface": "net1"}"#).unwrap();
        assert_eq!(config.changed().unwrap().unwrap().interface, "net1");
        assert!(config.changed().is_none());
        fs::write(&path, "{").unwrap();
        assert!(config.changed().unwrap().is_err());
        assert!(config.changed().is_none());
        // As kubelet does it: the name is a link that leads elsewhere from one moment to the next.
        let new = dir.path().join("new.json");
        fs::write(&new, r#"{"interface": "net2"}"#).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&new, &link).unwrap();
        fs::rename(&link, &path).unwrap();
        assert_eq!(config.changed().unwrap().unwrap().interface, "net2");
    }
}
