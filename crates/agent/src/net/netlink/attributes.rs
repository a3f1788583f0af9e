//! Attributes of netlink's messages: length, kind, value, each at a multiple of four bytes.

use std::net::IpAddr;

/// A message's fixed part, and then its attributes.
#[derive(Debug)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn new(fixed: &[u8]) -> Self {
        Self(fixed.to_vec())
    }

    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        // No value here is longer than a name or a few addresses.
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub(super) fn address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.attribute(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attribute(kind, &v6.octets()),
        }
    }

    /// Adds what is there.
    pub(super) fn with<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The attributes after a fixed part of this length.
pub(super) fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(fixed..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(native_u16(rest, 0)?);
        // The two upper bits say how the value is to be read.
        let kind = native_u16(rest, 2)? & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn native_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn native_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back() {
        let body = Body::new(&[1, 2, 3, 4])
            .attribute(3, b"net1\0")
            .number(6, 7)
            .with(None::<u32>, |body, value| body.number(9, value))
            .address(1, "172.20.0.2".parse().unwrap());
        assert_eq!(body.bytes().len(), 4 + 12 + 8 + 8);
        let read: Vec<_> = attributes(body.bytes(), 4).collect();
        assert_eq!(read, [(3, &b"net1\0"[..]), (6, &7_u32.to_ne_bytes()[..]), (1, &[172, 20, 0, 2][..])]);
        assert_eq!(address(read[2].1), Some("172.20.0.2".parse().unwrap()));
    }

    #[test]
    fn what_is_cut_off_ends_the_list() {
        let body = Body::new(&[]).number(1, 2).number(3, 4);
        let cut = body.bytes().get(..14).unwrap();
        assert_eq!(attributes(cut, 0).count(), 1);
        assert_eq!(attributes(&[0, 0, 0, 0], 0).count(), 0, "a length of nothing is no endless list");
        assert_eq!(attributes(&[], 12).count(), 0);
    }
}
