//! Reads a request for a certificate of a kubelet, and nothing that a kubelet would not send.
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

use crate::client::{By, Client};
use crate::decide::Serving;
use crate::text::printable;

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
/// Who has a bootstrap token: that is its name, and kubeadm's tokens for nodes have this group.
const TOKEN_PREFIX: &str = "system:bootstrap:";
const BOOTSTRAPPERS: &str = "system:bootstrappers:kubeadm:default-node-token";
/// Only keys for RSA have a use for it.
const OPTIONAL_USAGE: &str = "key encipherment";

/// The signers whose requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signer {
    /// Certificates that kubelets serve with.
    Serving,
    /// Those by which a machine is a node.
    Client,
}

impl Signer {
    /// `spec.signerName`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serving => "kubernetes.io/kubelet-serving",
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Serving, Self::Client].into_iter().find(|signer| signer.name() == name)
    }

    fn usages(self) -> [&'static str; 2] {
        let purpose = match self {
            Self::Serving => "server auth",
            Self::Client => "client auth",
        };
        ["digital signature", purpose]
    }
}

/// What is asked for: a request that is well-formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Serving(Serving),
    Client(Client),
}

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

/// What is asked for, or why nobody can be given that: the text may be logged, whatever those who ask wrote.
pub(crate) fn read(asked: Asked<'_>) -> Result<Request, String> {
    inspect(asked).map_err(|why| printable(&why))
}

fn inspect(asked: Asked<'_>) -> Result<Request, String> {
    let signer = Signer::of(asked.signer).ok_or_else(|| format!("its signer is {}", asked.signer))?;
    let is_in = |wanted: &str| asked.groups.iter().any(|group| group == wanted);
    let node = asked.username.strip_prefix(NODE_PREFIX).filter(|node| is_name(node) && is_in(NODES));
    let has_token =
        signer == Signer::Client && asked.username.starts_with(TOKEN_PREFIX) && is_in(BOOTSTRAPPERS) && node.is_none();
    if node.is_none() && !has_token {
        let neither = if signer == Signer::Client { ", and has no bootstrap token for nodes" } else { "" };
        return Err(format!("{} is no node{neither}", asked.username));
    }
    let usages: BTreeSet<&str> = asked.usages.iter().map(String::as_str).collect();
    let required = signer.usages();
    let known = |usage: &&str| required.contains(usage) || *usage == OPTIONAL_USAGE;
    if !usages.iter().all(known) || !required.iter().all(|usage| usages.contains(usage)) {
        return Err(format!("its usages are {}", asked.usages.join(", ")));
    }
    let der = der(asked.pem)?;
    let (rest, csr) = X509CertificationRequest::from_der(&der).map_err(|_| "it holds no certificate request")?;
    if !rest.is_empty() {
        return Err("something follows its certificate request".to_owned());
    }
    csr.verify_signature().map_err(|_| "its signature is not by its key")?;
    let named = subject(&csr.certification_request_info.subject, node)?;
    match signer {
        Signer::Serving => {
            let (names, addresses) = alternative_names(&csr)?;
            Ok(Request::Serving(Serving { node: named, names, addresses }))
        }
        Signer::Client if csr.certification_request_info.attributes().is_empty() => {
            let by = if node.is_some() { By::Itself } else { By::Token };
            Ok(Request::Client(Client { node: named, by }))
        }
        Signer::Client => Err("it asks for extensions, which a client certificate of a node has none of".to_owned()),
    }
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

/// `O = system:nodes, CN = system:node:<name>`, and nothing else: the name, which is that of the node that asks, if one does.
fn subject(subject: &X509Name<'_>, node: Option<&str>) -> Result<String, String> {
    let texts = |all: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue<'_>>| -> Vec<String> {
        all.map(|attribute| attribute.as_str().unwrap_or_default().to_owned()).collect()
    };
    let names = texts(&mut subject.iter_common_name());
    let organizations = texts(&mut subject.iter_organization());
    let named = match &names[..] {
        [name] => name.strip_prefix(NODE_PREFIX).filter(|name| is_name(name)),
        _ => None,
    };
    match named {
        Some(named)
            if node.is_none_or(|node| node == named)
                && organizations == [NODES]
                && subject.iter_attributes().count() == 2 =>
        {
            Ok(named.to_owned())
        }
        _ => {
            let wanted = node.unwrap_or("<name>");
            Err(format!("its subject is \"{subject}\" and not \"O={NODES}, CN={NODE_PREFIX}{wanted}\""))
        }
    }
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
