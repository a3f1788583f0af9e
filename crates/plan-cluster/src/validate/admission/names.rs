//! Names of objects, as Kubernetes judges them.

/// A label of DNS (RFC 1123), such as the name of a namespace.
pub(super) fn is_label(name: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// A subdomain of DNS (RFC 1123), such as the name of a RuntimeClass. Its parts may be longer than a label.
pub(super) fn is_subdomain(name: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-');
    name.len() <= 253 && name.split('.').all(is_part)
}
