//! Reads a request for a serving certificate, and nothing that a kubelet would not send.
//!
//! What is signed is what Go's parsers read. So whatever another parser could read differently is refused: more than one PEM block or
//! attribute, other extensions, bytes that are not the one way to write what was read.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

use crate::decide::Request;

/// The signer whose requests are decided.
pub(crate) const SIGNER: &str = "kubernetes.io/kubelet-serving";

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const REQUIRED_USAGES: [&str; 2] = ["digital signature", "server auth"];
/// Only keys for RSA have a use for it.
const OPTIONAL_USAGE: &str = "key encipherment";

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";
/// A kubelet's has less than one KiB.
const LONGEST: usize = 16 << 10;

/// The `spec` of a `CertificateSigningRequest`. All but `pem` and `usages` is written by the API server, from who asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) signer: &'a str,
    pub(crate) username: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) usages: &'a [String],
    pub(crate) pem: &'a [u8],
}

/// What is asked for, or why nobody can be given that.
pub(crate) fn read(asked: Asked<'_>) -> Result<Request, String> {
    if asked.signer != SIGNER {
        return Err(format!("its signer is {}", asked.signer));
    }
    let node = asked.username.strip_prefix(NODE_PREFIX).filter(|node| is_name(node));
    let node = node.filter(|_| asked.groups.iter().any(|group| group == NODES));
    let node = node.ok_or_else(|| format!("{} is no node", asked.username))?;
    let usages: BTreeSet<&str> = asked.usages.iter().map(String::as_str).collect();
    let known = |usage: &&str| REQUIRED_USAGES.contains(usage) || *usage == OPTIONAL_USAGE;
    if !usages.iter().all(known) || !REQUIRED_USAGES.iter().all(|usage| usages.contains(usage)) {
        return Err(format!("its usages are {}", asked.usages.join(", ")));
    }
    let der = der(asked.pem)?;
    let (rest, csr) = X509CertificationRequest::from_der(&der).map_err(|_| "it holds no certificate request")?;
    if !rest.is_empty() {
        return Err("something follows its certificate request".to_owned());
    }
    csr.verify_signature().map_err(|_| "its signature is not by its key")?;
    subject(&csr.certification_request_info.subject, asked.username)?;
    let (names, addresses) = alternative_names(&csr)?;
    Ok(Request { node: node.to_owned(), names, addresses })
}

/// The one block of a PEM text.
fn der(pem: &[u8]) -> Result<Vec<u8>, String> {
    let odd = "its request is not one PEM block with a certificate request";
    if pem.len() > LONGEST {
        return Err(format!("its request is longer than {LONGEST} bytes"));
    }
    let text = std::str::from_utf8(pem).map_err(|_| odd)?.trim();
    let body = text.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)).ok_or(odd)?;
    STANDARD.decode(body.lines().map(str::trim_end).collect::<String>()).map_err(|_| odd.to_owned())
}

/// `O = system:nodes, CN = <who asked>`, and nothing else.
fn subject(subject: &X509Name<'_>, username: &str) -> Result<(), String> {
    let texts = |all: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue<'_>>| -> Vec<String> {
        all.map(|attribute| attribute.as_str().unwrap_or_default().to_owned()).collect()
    };
    let names = texts(&mut subject.iter_common_name());
    let organizations = texts(&mut subject.iter_organization());
    if names != [username] || organizations != [NODES] || subject.iter_attributes().count() != 2 {
        return Err(format!("its subject is \"{subject}\" and not \"O={NODES}, CN={username}\""));
    }
    Ok(())
}

/// Names and addresses of the only attribute's only extension.
fn alternative_names(csr: &X509CertificationRequest<'_>) -> Result<(Vec<String>, Vec<IpAddr>), String> {
    let odd = || "it asks for other extensions than the alternative names of a server".to_owned();
    let [attribute] = csr.certification_request_info.attributes() else { return Err(odd()) };
    let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else { return Err(odd()) };
    let [extension] = requested.extensions.as_slice() else { return Err(odd()) };
    let ParsedExtension::SubjectAlternativeName(all) = extension.parsed_extension() else { return Err(odd()) };
    let (mut names, mut addresses, mut written) = (vec![], vec![], vec![]);
    for name in &all.general_names {
        match name {
            GeneralName::DNSName(name) => {
                written.extend(encode(0x82, name.as_bytes()));
                let lower = name.to_ascii_lowercase();
                if !is_name(&lower) || lower.parse::<IpAddr>().is_ok() {
                    return Err(format!("it asks for {name:?}, which is no DNS name of a machine"));
                }
                names.push(lower);
            }
            GeneralName::IPAddress(bytes) => {
                written.extend(encode(0x87, bytes));
                addresses
                    .push(address(bytes).ok_or_else(|| format!("it asks for an address of {} bytes", bytes.len()))?);
            }
            other => return Err(format!("it asks for {other}, which is neither DNS name nor address")),
        }
    }
    if names.is_empty() && addresses.is_empty() {
        return Err("it asks for no name and no address".to_owned());
    }
    // SET { SEQUENCE OF { SEQUENCE { subjectAltName, OCTET STRING { SEQUENCE of names } } } }
    let value = encode(0x04, &encode(0x30, &written));
    let extension = encode(0x30, &[&[0x06, 0x03, 0x55, 0x1d, 0x11], value.as_slice()].concat());
    if attribute.value != encode(0x31, &encode(0x30, &extension)) {
        return Err("its alternative names are written in another way than kubelets do".to_owned());
    }
    Ok((names, addresses))
}

/// DER.
fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut out = vec![tag];
    match content.len() {
        0 => out.push(0),
        1..128 => out.extend(length),
        _ => {
            out.push(0x80 | u8::try_from(length.len()).unwrap_or_default());
            out.extend(length);
        }
    }
    out.extend(content);
    out
}

/// IPv4 in IPv6 is IPv4.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|v6| IpAddr::from(v6).to_canonical())).ok()
}

/// A DNS subdomain (RFC 1123) in lower case: no wildcard, no dot at the end.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        let plain = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        (1..=63).contains(&label.len()) && plain && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests;
