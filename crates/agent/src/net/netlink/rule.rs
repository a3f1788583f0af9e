//! Rules of the kernel's policy routing: which table leads where, for whom.

use std::{fmt, io, net::IpAddr};

use berth_contract::vpc::Cidr;
use nix::libc::{EAFNOSUPPORT, EOPNOTSUPP};

use super::{
    Family, Netlink, OURS,
    attributes::{Body, address, attributes, native_u16, native_u32},
    flags,
};

const NEW: u16 = 32;
const DELETE: u16 = 33;
const GET: u16 = 34;
/// Length of `struct fib_rule_hdr`.
const FIXED: usize = 12;
const INVERT: u32 = 2;

/// Attributes, from linux/fib_rules.h.
const DST: u16 = 1;
const SRC: u16 = 2;
const IIF: u16 = 3;
const PREFERENCE: u16 = 6;
const TABLE: u16 = 15;
const UIDS: u16 = 20;
const OWNER: u16 = 21;
const IP_PROTOCOL: u16 = 22;
const SOURCE_PORTS: u16 = 23;
const PORTS: u16 = 24;

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::net) enum Action {
    /// Takes the route of this table, if there is one; else the next rule is asked.
    Lookup(u32),
    /// Refuses, with an error that says so.
    Prohibit,
}

/// A rule. What is not there matches everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::net) struct Rule {
    pub(in crate::net) family: Family,
    /// Rules are asked from low to high.
    pub(in crate::net) preference: u32,
    /// Matches what all the rest does not match.
    pub(in crate::net) not: bool,
    /// Where a packet came in. `lo` is what this machine sends itself.
    pub(in crate::net) iif: Option<String>,
    pub(in crate::net) from: Option<Cidr>,
    pub(in crate::net) to: Option<Cidr>,
    /// Number of the protocol.
    pub(in crate::net) protocol: Option<u8>,
    /// First and last.
    pub(in crate::net) source_ports: Option<(u16, u16)>,
    pub(in crate::net) ports: Option<(u16, u16)>,
    /// Whose socket it is.
    pub(in crate::net) uid: Option<u32>,
    pub(in crate::net) action: Action,
}

impl Rule {
    pub(in crate::net) fn new(family: Family, preference: u32, action: Action) -> Self {
        Self {
            family,
            preference,
            not: false,
            iif: None,
            from: None,
            to: None,
            protocol: None,
            source_ports: None,
            ports: None,
            uid: None,
            action,
        }
    }

    fn encode(&self) -> Body {
        let length = |cidr: Option<Cidr>| cidr.map_or(0, |cidr| cidr.prefix);
        let action = match self.action {
            Action::Lookup(_) => 1,
            Action::Prohibit => 8,
        };
        let mut fixed = vec![self.family.number(), length(self.to), length(self.from), 0, 0, 0, 0, action];
        fixed.extend(if self.not { INVERT } else { 0 }.to_ne_bytes());
        let range = |(first, last): (u16, u16)| [first.to_ne_bytes(), last.to_ne_bytes()].concat();
        let table = match self.action {
            Action::Lookup(table) => Some(table),
            Action::Prohibit => None,
        };
        Body::new(&fixed)
            .number(PREFERENCE, self.preference)
            .attribute(OWNER, &[OURS])
            .with(table, |body, table| body.number(TABLE, table))
            .with(self.iif.as_ref(), |body, name| body.attribute(IIF, format!("{name}\0").as_bytes()))
            .with(self.from, |body, from| body.address(SRC, from.address))
            .with(self.to, |body, to| body.address(DST, to.address))
            .with(self.protocol, |body, protocol| body.attribute(IP_PROTOCOL, &[protocol]))
            .with(self.source_ports, |body, ports| body.attribute(SOURCE_PORTS, &range(ports)))
            .with(self.ports, |body, ports| body.attribute(PORTS, &range(ports)))
            .with(self.uid, |body, uid| body.attribute(UIDS, &[uid.to_ne_bytes(), uid.to_ne_bytes()].concat()))
    }

    /// A rule of ours. None: it is somebody else's.
    fn decode(body: &[u8]) -> Option<Self> {
        let family = Family::from_number(*body.first()?)?;
        let (to_length, from_length) = (*body.get(1)?, *body.get(2)?);
        let mut rule = Self::new(family, 0, Action::Prohibit);
        rule.not = native_u32(body, 8)? & INVERT != 0;
        let mut table = u32::from(*body.get(4)?);
        let mut ours = false;
        let range = |value| Some((native_u16(value, 0)?, native_u16(value, 2)?));
        for (kind, value) in attributes(body, FIXED) {
            let network = |prefix| Some(Cidr { address: address(value)?, prefix });
            match kind {
                DST => rule.to = network(to_length),
                SRC => rule.from = network(from_length),
                IIF => rule.iif = Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()),
                PREFERENCE => rule.preference = native_u32(value, 0)?,
                TABLE => table = native_u32(value, 0)?,
                UIDS => rule.uid = native_u32(value, 0),
                OWNER => ours = value == [OURS],
                IP_PROTOCOL => rule.protocol = value.first().copied(),
                SOURCE_PORTS => rule.source_ports = range(value),
                PORTS => rule.ports = range(value),
                _ => {}
            }
        }
        if *body.get(7)? == 1 {
            rule.action = Action::Lookup(table);
        }
        ours.then_some(rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.preference)?;
        if self.not {
            f.write_str(" not")?;
        }
        let any = match self.family {
            Family::V4 => IpAddr::from([0; 4]),
            Family::V6 => IpAddr::from([0; 16]),
        };
        write!(f, " from {}", self.from.unwrap_or(Cidr { address: any, prefix: 0 }))?;
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        if let Some(name) = &self.iif {
            write!(f, " iif {name}")?;
        }
        if let Some(protocol) = self.protocol {
            write!(f, " ipproto {protocol}")?;
        }
        for (word, ports) in [("sport", self.source_ports), ("dport", self.ports)] {
            match ports {
                Some((first, last)) if first == last => write!(f, " {word} {first}")?,
                Some((first, last)) => write!(f, " {word} {first}-{last}")?,
                None => {}
            }
        }
        if let Some(uid) = self.uid {
            write!(f, " uid {uid}")?;
        }
        match self.action {
            Action::Lookup(table) => write!(f, " lookup {table}"),
            Action::Prohibit => f.write_str(" prohibit"),
        }
    }
}

impl Netlink {
    /// Our rules of a family. None: the kernel has no rules for it, so it has no such addresses either.
    pub(in crate::net) fn rules(&mut self, family: Family) -> io::Result<Option<Vec<Rule>>> {
        let fixed = [family.number(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let answers = match self.dump(GET, &fixed) {
            Ok(answers) => answers,
            Err(error) if matches!(error.raw_os_error(), Some(EAFNOSUPPORT | EOPNOTSUPP)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let rules = answers.iter().filter(|m| m.kind == NEW).filter_map(|m| Rule::decode(&m.body));
        Ok(Some(rules.filter(|rule| rule.family == family).collect()))
    }

    pub(in crate::net) fn add_rule(&mut self, rule: &Rule) -> io::Result<()> {
        match self.change(NEW, flags::CREATE | flags::EXCL, rule.encode().bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }

    /// The kernel deletes the first rule that has what is named here, and possibly more: so rules of one preference all have the
    /// same parts.
    pub(in crate::net) fn delete_rule(&mut self, rule: &Rule) -> io::Result<()> {
        match self.change(DELETE, 0, rule.encode().bytes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Rule {
        Rule {
            not: true,
            iif: Some("net1".to_owned()),
            from: Some("172.20.0.2/32".parse().unwrap()),
            to: Some("10.96.0.0/12".parse().unwrap()),
            protocol: Some(6),
            source_ports: Some((6443, 6443)),
            ports: Some((8000, 8999)),
            uid: Some(0),
            ..Rule::new(Family::V4, 1000, Action::Lookup(26443))
        }
    }

    #[test]
    fn rules_come_back() {
        let v6 = Rule { to: Some("fd00::/8".parse().unwrap()), ..Rule::new(Family::V6, 3001, Action::Prohibit) };
        for rule in [full(), v6, Rule::new(Family::V4, 1, Action::Lookup(7))] {
            assert_eq!(Rule::decode(rule.encode().bytes()), Some(rule));
        }
    }

    #[test]
    fn rules_of_others_are_left_alone() {
        let mut bytes = full().encode().bytes().to_vec();
        let owner = bytes.windows(5).position(|w| w == [5, 0, 21, 0, OURS]).unwrap();
        bytes[owner + 4] = 2;
        assert_eq!(Rule::decode(&bytes), None);
    }

    #[test]
    fn rules_are_written_as_ip_rule_writes_them() {
        assert_eq!(
            full().to_string(),
            "1000: not from 172.20.0.2/32 to 10.96.0.0/12 iif net1 ipproto 6 sport 6443 dport 8000-8999 uid 0 lookup 26443"
        );
        assert_eq!(Rule::new(Family::V6, 1, Action::Prohibit).to_string(), "1: from ::/0 prohibit");
    }
}
