//! Address slots: every cluster leases one /16, so that any number of clusters runs side by side.
//!
//! All ranges of a cluster lie in `10.(208 + slot).0.0/16`; one route on the host leads there. The block keeps clear of
//! what tenants use by default (10.112.0.0/16, 10.160.0.0/16, 172.20.0.0/16) and of the usual 10.96.0.0/12 and 10.244.0.0/16.

use std::{fs, net::Ipv4Addr, path::Path, process::Command};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::{files, paths};

const FIRST_OCTET: u8 = 208;
const COUNT: u8 = 16;

/// One of sixteen disjoint sets of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot(u8);

impl Slot {
    /// The slot's number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Everything that the cluster uses.
    pub fn range(self) -> String {
        self.subnet(0, 16)
    }

    /// The first node's address: the API, kubelet and NodePorts.
    pub fn node_address(self) -> Ipv4Addr {
        self.address_of_node(1)
    }

    /// A node's address, by its number from 1 on: kubelet and NodePorts.
    pub fn address_of_node(self, number: u8) -> Ipv4Addr {
        self.address(0, number)
    }

    /// Where the namespace's default route points: nobody is there, nothing leaves the machine.
    pub fn void_address(self) -> Ipv4Addr {
        self.address(0, 254)
    }

    /// The link between the host and the namespace.
    pub(crate) fn host_subnet(self) -> String {
        self.subnet(1, 30)
    }

    /// The host's end of the link into the namespace. What listens on the host is reachable here from pods.
    pub fn host_address(self) -> Ipv4Addr {
        self.address(1, 1)
    }

    /// The namespace's end of that link.
    pub fn uplink_address(self) -> Ipv4Addr {
        self.address(1, 2)
    }

    /// Addresses for Services of type LoadBalancer.
    pub fn load_balancer_addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        (1..=254).map(move |last| self.address(2, last))
    }

    /// The Service CIDR.
    pub fn service_cidr(self) -> String {
        self.subnet(16, 20)
    }

    /// The address of the Service `kubernetes`.
    pub fn kubernetes_service(self) -> Ipv4Addr {
        self.address(16, 1)
    }

    /// The address of the Service `kube-dns`.
    pub fn dns_service(self) -> Ipv4Addr {
        self.address(16, 10)
    }

    /// The pod CIDR of the cluster; each node has a /24 of it.
    pub fn pod_cidr(self) -> String {
        self.subnet(64, 18)
    }

    /// The pod CIDR of a node, by its number from 1 on.
    pub fn pod_cidr_of_node(self, number: u8) -> String {
        self.subnet(63 + number, 24)
    }

    /// The host's end of the link, as an interface name (at most 15 bytes).
    pub(crate) fn link(self) -> String {
        format!("berth{}", self.0)
    }

    fn address(self, third: u8, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, FIRST_OCTET + self.0, third, last)
    }

    fn subnet(self, third: u8, bits: u8) -> String {
        format!("{}/{bits}", self.address(third, 0))
    }
}

/// Leases the lowest free slot for the cluster whose state lies in `owner`, or gives the one it has.
pub(crate) fn lease(owner: &Path) -> Result<Slot> {
    lease_in(&paths::slots(), owner, &occupied_ranges()?)
}

/// Gives a slot back, if `owner` still holds it.
pub(crate) fn release(slot: Slot, owner: &Path) -> Result<()> {
    release_in(&paths::slots(), slot, owner)
}

fn lease_in(register: &Path, owner: &Path, occupied: &[String]) -> Result<Slot> {
    let _lock = files::Lock::acquire(&register.join("lock"), "the register of address slots")?;
    let mut free = None;
    for slot in (0..COUNT).map(Slot) {
        match holder(register, slot)? {
            Some(holder) if holder == owner => return Ok(slot),
            None if free.is_none() && !occupied.contains(&slot.range()) => free = Some(slot),
            _ => {}
        }
    }
    let slot = free.ok_or_else(|| {
        anyhow!("all {COUNT} address slots are leased: `devcluster status` lists clusters, `devcluster down` ends one")
    })?;
    files::write(&entry(register, slot), owner.to_string_lossy().as_bytes())?;
    Ok(slot)
}

fn release_in(register: &Path, slot: Slot, owner: &Path) -> Result<()> {
    let _lock = files::Lock::acquire(&register.join("lock"), "the register of address slots")?;
    if holder(register, slot)?.is_some_and(|holder| holder == owner) {
        files::remove(&entry(register, slot))?;
    }
    Ok(())
}

/// Who holds a slot. A lease whose state directory is gone (removed by hand, or never completed) counts as free.
fn holder(register: &Path, slot: Slot) -> Result<Option<std::path::PathBuf>> {
    let holder = files::read_optional(&entry(register, slot))?.map(std::path::PathBuf::from);
    Ok(holder.filter(|owner| owner.exists()))
}

fn entry(register: &Path, slot: Slot) -> std::path::PathBuf {
    register.join(slot.0.to_string())
}

/// The /16 ranges of ours to which the host already has a route: somebody else's network, or a cluster's.
fn occupied_ranges() -> Result<Vec<String>> {
    let output = Command::new("ip").args(["-4", "-o", "route", "show"]).output().context("cannot run `ip`")?;
    if !output.status.success() {
        bail!("`ip route show` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut ranges: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter_map(|destination| {
            let mut octets = destination.split(['.', '/']);
            (octets.next() == Some("10")).then(|| octets.next().map(|second| format!("10.{second}.0.0/16")))?
        })
        .collect();
    ranges.dedup();
    Ok(ranges)
}

/// Clears leases of state directories that no longer exist; for `devcluster status`.
pub(crate) fn holders() -> Result<Vec<(Slot, std::path::PathBuf)>> {
    let register = paths::slots();
    if fs::metadata(&register).is_err() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for slot in (0..COUNT).map(Slot) {
        all.extend(holder(&register, slot)?.map(|owner| (slot, owner)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_slot_lie_in_it_and_do_not_overlap() {
        let slot = Slot(3);
        assert_eq!(slot.range(), "10.211.0.0/16");
        assert_eq!(slot.host_address().to_string(), "10.211.1.1");
        assert_eq!(slot.load_balancer_addresses().count(), 254);
        assert_eq!(slot.service_cidr(), "10.211.16.0/20");
        assert_eq!(slot.pod_cidr(), "10.211.64.0/18");
        assert_eq!(
            (slot.node_address().to_string(), slot.pod_cidr_of_node(1)),
            ("10.211.0.1".into(), "10.211.64.0/24".into())
        );
        assert_eq!(slot.address_of_node(3).to_string(), "10.211.0.3");
        assert_eq!(slot.pod_cidr_of_node(3), "10.211.66.0/24");
        assert_eq!(Slot(COUNT - 1).range(), "10.223.0.0/16");
    }

    #[test]
    fn a_lease_is_kept_until_released_and_skips_what_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (register, a, b) = (dir.path().join("slots"), dir.path().join("a"), dir.path().join("b"));
        fs::create_dir(&a).unwrap();
        fs::create_dir(&b).unwrap();
        assert_eq!(lease_in(&register, &a, &["10.208.0.0/16".to_owned()]).unwrap(), Slot(1));
        assert_eq!(lease_in(&register, &a, &[]).unwrap(), Slot(1), "the same cluster keeps its slot");
        assert_eq!(lease_in(&register, &b, &[]).unwrap(), Slot(0));
        release_in(&register, Slot(1), &b).unwrap();
        assert_eq!(lease_in(&register, &a, &[]).unwrap(), Slot(1), "only the holder can release");
        fs::remove_dir(&b).unwrap();
        let c = dir.path().join("c");
        fs::create_dir(&c).unwrap();
        assert_eq!(lease_in(&register, &c, &[]).unwrap(), Slot(0), "the lease of a vanished cluster is free");
    }
}
