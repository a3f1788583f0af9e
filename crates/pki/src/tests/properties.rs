//! For many pseudo-random specs: what is issued is kept, and any other spec is told apart.

use std::net::IpAddr;

use super::{DAY, ca, info, leaf, now, root, spec};
use crate::{CertSpec, Decision, RenewReason, Usage, decide};

/// SplitMix64: a fixed seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn name(&mut self) -> String {
        let label = |random: &mut Self| -> String {
            let letters = b"abcXYZ019";
            (0..=random.below(12)).map(|_| char::from(letters[usize::try_from(random.below(9)).unwrap()])).collect()
        };
        let labels: Vec<_> = (0..=self.below(4)).map(|_| label(self)).collect();
        let prefix = if self.below(5) == 0 { "*." } else { "" };
        // A letter in front: a name of digits only would be an address to some parsers.
        format!("{prefix}n{}", labels.join("."))
    }

    fn address(&mut self) -> IpAddr {
        let bits = u128::from(self.next()) << 64 | u128::from(self.next());
        match self.below(3) {
            0 => IpAddr::from(bits.to_be_bytes()),
            1 => IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, u16::try_from(self.below(4)).unwrap()]),
            _ => IpAddr::from([10, 0, 0, u8::try_from(self.below(4)).unwrap()]),
        }
    }

    fn spec(&mut self) -> CertSpec {
        let usage = [Usage::Server, Usage::Client, Usage::Peer][usize::try_from(self.below(3)).unwrap()];
        let mut made = spec(&format!("leaf-{}", self.below(1000)), usage);
        made.organizations = (0..self.below(3)).map(|_| format!("group {}", self.below(3))).collect();
        made.dns_names = (0..self.below(6)).map(|_| self.name()).collect();
        made.ip_addresses = (0..self.below(6)).map(|_| self.address()).collect();
        if made.dns_names.is_empty() && made.ip_addresses.is_empty() {
            made.dns_names.push("fallback.example".into());
        }
        made
    }
}

#[test]
fn what_is_issued_is_kept_and_every_other_spec_is_told_apart() {
    let ca = ca();
    let issuer = root(&ca);
    let mut random = Random(20_261_120);
    let mut previous: Option<CertSpec> = None;
    for round in 0..150 {
        let spec = random.spec();
        let found = info(&leaf(&spec, &ca));
        let keeps = |spec: &CertSpec| decide(spec, Some(Ok(&found)), &issuer, now() + DAY, "uid");
        assert!(matches!(keeps(&spec), Decision::Keep { .. }), "{round}: {spec:?} {found:?}");
        assert!(matches!(keeps(&spec.normalized()), Decision::Keep { .. }), "{round}: {spec:?}");
        assert_eq!(spec.normalized(), spec.normalized().normalized());

        let mut shuffled = spec.clone();
        shuffled.dns_names.reverse();
        shuffled.ip_addresses.reverse();
        assert!(matches!(keeps(&shuffled), Decision::Keep { .. }), "{round}: {spec:?}");

        let mut more = spec.clone();
        more.dns_names.push("one.more.example".into());
        let missing = vec!["one.more.example".to_owned()];
        let why = RenewReason::SansChanged { missing, extra: vec![] };
        assert_eq!(keeps(&more), Decision::Renew { why }, "{round}");

        if let Some(other) = previous.replace(spec.clone())
            && other.normalized() != spec.normalized()
        {
            assert!(matches!(keeps(&other), Decision::Renew { .. }), "{round}: {other:?} {spec:?}");
        }
    }
}
