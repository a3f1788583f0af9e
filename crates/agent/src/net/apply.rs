//! Brings the kernel from the rules and routes that it has to those that it is to have, without a moment in which anything is open
//! that neither the former nor the new ones open: what is new is added before what is old is taken away.

use std::{fmt, io};

use anyhow::{Context, ensure};
use berth_contract::vpc::{Cidr, Net};
use nix::net::if_::if_nametoindex;

use super::{
    netlink::{Action, Address, Family, Netlink, Route, Rule},
    wanted::{Kernel, MAIN, OTHERS, VPC, Wanted, wanted},
};

/// What is not as it should be.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    pub(super) missing: Wanted,
    pub(super) surplus: Wanted,
}

impl Difference {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missing, surplus) = (&self.missing, &self.surplus);
        let count = |wanted: &Wanted| format!("{} rules and {} routes", wanted.rules.len(), wanted.routes.len());
        write!(f, "{} are missing, {} are too much", count(missing), count(surplus))?;
        match missing.rules.first() {
            Some(rule) => write!(f, "; the first one missing is {rule}"),
            None => Ok(()),
        }
    }
}

/// Index of the VPC's interface.
pub(super) fn index(net: &Net) -> anyhow::Result<u32> {
    if_nametoindex(net.interface.as_str()).with_context(|| format!("there is no interface {}", net.interface))
}

/// Asks the kernel what it has.
pub(super) fn look(netlink: &mut Netlink, net: &Net) -> anyhow::Result<Kernel> {
    let addresses = netlink.addresses().context("cannot list addresses")?;
    let (mut rules, mut families) = (vec![], vec![]);
    for family in Family::ALL {
        match netlink.rules(family).context("cannot list rules")? {
            Some(some) => {
                families.push(family);
                rules.extend(some);
            }
            None => ensure!(
                !is_used(family, &addresses),
                "the kernel has no policy routing for {family:?}, so nothing can be held"
            ),
        }
    }
    Ok(Kernel {
        interface: index(net)?,
        addresses,
        routes: netlink.routes(&[MAIN, VPC, OTHERS]).context("cannot list routes")?,
        rules,
        families,
    })
}

/// Whether packets of the family come and go: only then is it no harm that there are no rules for it.
fn is_used(family: Family, addresses: &[Address]) -> bool {
    let mut all = addresses.iter().map(|one| one.address.address).filter(|address| !address.is_loopback());
    family == Family::V4 || all.any(|address| Family::of(address) == family)
}

/// What it has too little and too much.
pub(super) fn difference(net: &Net, own: Cidr, kernel: &Kernel) -> Difference {
    let wanted = wanted(net, own, kernel);
    let has: Vec<&Route> = kernel.routes.iter().filter(|route| route.table != MAIN).collect();
    let too_much = has.iter().filter(|route| !wanted.routes.iter().any(|one| one.same_place(route)));
    let surplus = Wanted {
        rules: kernel.rules.iter().filter(|rule| !wanted.rules.contains(rule)).cloned().collect(),
        routes: too_much.map(|route| (*route).clone()).collect(),
    };
    let missing = Wanted {
        rules: wanted.rules.into_iter().filter(|rule| !kernel.rules.contains(rule)).collect(),
        routes: wanted.routes.into_iter().filter(|route| !has.contains(&route)).collect(),
    };
    Difference { missing, surplus }
}

/// Carries it out. What fails does not hold up the rest; the error is the first.
pub(super) fn apply(netlink: &mut Netlink, difference: &Difference) -> anyhow::Result<()> {
    let Difference { missing, surplus } = difference;
    let mut first = None;
    let mut note = |done: io::Result<()>, what: &dyn Fn() -> String| {
        if let Err(error) = done {
            first.get_or_insert_with(|| anyhow::Error::new(error).context(what()));
        }
    };
    let (closing, leading): (Vec<&Rule>, Vec<&Rule>) = missing.rules.iter().partition(|r| r.action == Action::Prohibit);
    for rule in &closing {
        // Without the new ones that close, the old ones stay.
        netlink.add_rule(rule).with_context(|| format!("cannot add the rule {rule}"))?;
    }
    for route in &missing.routes {
        note(netlink.put_route(route), &|| format!("cannot add the route to {} in table {}", route.dst, route.table));
    }
    for rule in &leading {
        note(netlink.add_rule(rule), &|| format!("cannot add the rule {rule}"));
    }
    for rule in &surplus.rules {
        note(netlink.delete_rule(rule), &|| format!("cannot delete the rule {rule}"));
    }
    for route in &surplus.routes {
        note(netlink.delete_route(route), &|| format!("cannot delete the route to {}", route.dst));
    }
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_without_rules_must_not_be_used() {
        let address = |text: &str| Address { interface: 2, address: text.parse().unwrap() };
        let (v4, v6) = ([address("10.244.1.5/24"), address("::1/128")], [address("fe80::1/64")]);
        assert!(is_used(Family::V4, &v4) && is_used(Family::V4, &[]), "IPv4 always");
        assert!(!is_used(Family::V6, &v4) && is_used(Family::V6, &v6));
    }
}
