//! The file that the operator writes. Kubelet replaces it in place while the pod runs.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use berth_contract::vpc::Net;

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

fn parse(content: &[u8]) -> anyhow::Result<Net> {
    let net: Net = serde_json::from_slice(content)?;
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
