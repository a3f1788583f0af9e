//! Reading certificates: everything a decision needs, and nothing private.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::CertificateDer;
use serde::Serialize;
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{PkiError, Usage, pem};

/// What a certificate says. Safe to print, to keep in a report and to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertInfo {
    /// Common name, empty when there is none.
    pub common_name: String,
    /// Organizations, sorted.
    pub organizations: Vec<String>,
    /// The whole subject, for people and for comparison with an issuer.
    pub subject: String,
    /// The whole subject of the certificate that signed this one.
    pub issuer: String,
    /// DNS names, sorted, in lower case.
    pub dns_names: Vec<String>,
    /// IP addresses, sorted.
    pub ip_addresses: Vec<IpAddr>,
    /// Subject alternative names of any other kind (URI, e-mail, …), which Berth never issues.
    pub other_names: Vec<String>,
    /// Whether it may sign other certificates: basic constraints, and key usage if it has one.
    pub is_ca: bool,
    /// Key usages in OpenSSL's words ("Digital Signature"), in the order of RFC 5280.
    pub key_usages: Vec<String>,
    /// Extended key usages as in RFC 5280 ("serverAuth") or as an OID, sorted.
    pub ekus: Vec<String>,
    /// Serial number in hexadecimal.
    pub serial_hex: String,
    /// Subject key identifier in hexadecimal.
    pub ski: Option<String>,
    /// Authority key identifier in hexadecimal: the `ski` of the issuer.
    pub aki: Option<String>,
    /// Start of validity.
    pub not_before: Timestamp,
    /// End of validity.
    pub not_after: Timestamp,
    /// SHA-256 of the public key (SubjectPublicKeyInfo) in hexadecimal.
    pub public_key_sha256: String,
    /// SHA-256 of the whole certificate in hexadecimal.
    pub fingerprint_sha256: String,
}

impl CertInfo {
    /// The usage, when it is exactly one that Berth issues.
    pub fn usage(&self) -> Option<Usage> {
        [Usage::Ca, Usage::Server, Usage::Client, Usage::Peer]
            .into_iter()
            .find(|u| self.is_ca == (*u == Usage::Ca) && self.ekus == u.extended())
    }

    /// Whether it says that this CA issued it: by name, and by key identifier if both have one.
    pub(crate) fn names_as_issuer(&self, ca: &Self) -> bool {
        let other_key = matches!((&self.aki, &ca.ski), (Some(aki), Some(ski)) if aki != ski);
        self.issuer == ca.subject && !other_key
    }

    /// From the moment of issue to the end: the backdate does not count.
    pub fn life(&self) -> SignedDuration {
        self.not_after.duration_since(self.issued_at()).max(SignedDuration::ZERO)
    }

    /// The moment of issue, when Berth issued it: [`crate::BACKDATE`] after the start of validity.
    pub fn issued_at(&self) -> Timestamp {
        self.not_before.saturating_add(crate::BACKDATE).unwrap_or(self.not_before)
    }
}

/// Reads the first certificate of a PEM text. Line ends, text around it and further certificates do not matter.
pub fn inspect(cert_pem: &[u8]) -> Result<CertInfo, PkiError> {
    read(&pem::certificate(cert_pem)?)
}

/// Reads every certificate of a bundle, in its order: what a verifier trusts while a CA is being rotated.
pub fn inspect_bundle(bundle_pem: &[u8]) -> Result<Vec<CertInfo>, PkiError> {
    let certificates = pem::certificates(bundle_pem)?;
    certificates.iter().zip(1..).map(|(der, number)| read(der).map_err(|error| error.numbered(number))).collect()
}

/// Every certificate of a bundle, for clients that take no PEM.
pub fn bundle_der(bundle_pem: &[u8]) -> Result<Vec<Vec<u8>>, PkiError> {
    Ok(pem::certificates(bundle_pem)?.iter().map(|der| der.to_vec()).collect())
}

/// [`inspect`], and [`PkiError::KeyMismatch`] when the private key belongs to something else.
pub fn inspect_pair(cert_pem: &[u8], key_pem: &[u8]) -> Result<CertInfo, PkiError> {
    let info = inspect(cert_pem)?;
    let key = pem::private_key(key_pem)?;
    has_key(info, &key)
}

/// The certificate, unless the private key belongs to something else.
pub(crate) fn has_key(info: CertInfo, key: &KeyPair) -> Result<CertInfo, PkiError> {
    if pem::sha256_hex(&key.subject_public_key_info()) == info.public_key_sha256 {
        Ok(info)
    } else {
        Err(PkiError::KeyMismatch { other_half: format!("the certificate {}", info.subject) })
    }
}

/// Checks that `ca_der` signed `leaf_der`: the names, the key identifiers, that the issuer is a CA, and the signature itself. Validity in
/// time is not looked at.
pub(crate) fn verify_der(leaf_der: &CertificateDer<'_>, ca_der: &CertificateDer<'_>) -> Result<(), PkiError> {
    let (leaf, ca) = (parse(leaf_der)?, parse(ca_der)?);
    let (leaf_info, ca_info) = (read(leaf_der)?, read(ca_der)?);
    if !ca_info.is_ca {
        return Err(PkiError::NotACa { subject: ca_info.subject, problem: "it is not a CA certificate" });
    }
    let problem = if leaf.issuer().as_raw() != ca.subject().as_raw() {
        "its issuer has another name"
    } else if !leaf_info.names_as_issuer(&ca_info) {
        "its authority key identifier is that of another key"
    } else if leaf.verify_signature(Some(ca.public_key())).is_err() {
        "the signature does not verify"
    } else {
        return Ok(());
    };
    Err(PkiError::NotIssuedBy { subject: leaf_info.subject, issuer: ca_info.subject, problem })
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, PkiError> {
    match X509Certificate::from_der(der) {
        Ok(([], cert)) => Ok(cert),
        Ok(_) => Err(PkiError::garbled("certificate", "there is data after its end")),
        Err(_) => Err(PkiError::garbled("certificate", "it is not an X.509 certificate")),
    }
}

pub(crate) fn read(der: &CertificateDer<'_>) -> Result<CertInfo, PkiError> {
    let cert = parse(der)?;
    let mut info = CertInfo {
        common_name: attributes(cert.subject().iter_common_name()).into_iter().next_back().unwrap_or_default(),
        organizations: sorted(attributes(cert.subject().iter_organization())),
        subject: cert.subject().to_string(),
        issuer: cert.issuer().to_string(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        other_names: Vec::new(),
        is_ca: false,
        key_usages: Vec::new(),
        ekus: Vec::new(),
        serial_hex: pem::hex(cert.raw_serial()),
        ski: None,
        aki: None,
        not_before: timestamp(cert.validity().not_before.timestamp())?,
        not_after: timestamp(cert.validity().not_after.timestamp())?,
        public_key_sha256: pem::sha256_hex(cert.public_key().raw),
        fingerprint_sha256: pem::sha256_hex(der),
    };
    let mut may_sign = true;
    for extension in cert.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::BasicConstraints(basic) => info.is_ca = basic.ca,
            ParsedExtension::KeyUsage(usage) => {
                may_sign = usage.key_cert_sign();
                info.key_usages = usage.to_string().split(", ").map(str::to_owned).collect();
            }
            ParsedExtension::ExtendedKeyUsage(usage) => info.ekus = sorted(ekus(usage)),
            ParsedExtension::SubjectKeyIdentifier(id) => info.ski = Some(pem::hex(id.0)),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                info.aki = id.key_identifier.as_ref().map(|id| pem::hex(id.0));
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                names.general_names.iter().for_each(|n| add_name(&mut info, n));
            }
            ParsedExtension::ParseError { .. } => {
                return Err(PkiError::garbled("certificate", format!("extension {} is damaged", extension.oid)));
            }
            _ => {}
        }
    }
    info.is_ca &= may_sign;
    info.dns_names = sorted(info.dns_names);
    info.other_names = sorted(info.other_names);
    info.ip_addresses.sort_unstable();
    Ok(info)
}

fn add_name(info: &mut CertInfo, general_name: &GeneralName<'_>) {
    match general_name {
        GeneralName::DNSName(name) => info.dns_names.push(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(|b| IpAddr::from(b).to_canonical()));
            match address {
                Ok(address) => info.ip_addresses.push(address),
                Err(_) => info.other_names.push(format!("IP {}", pem::hex(bytes))),
            }
        }
        GeneralName::URI(uri) => info.other_names.push(format!("URI {uri}")),
        GeneralName::RFC822Name(address) => info.other_names.push(format!("e-mail {address}")),
        other => info.other_names.push(other.to_string()),
    }
}

fn ekus(usage: &ExtendedKeyUsage<'_>) -> Vec<String> {
    let known = [
        (usage.any, "anyExtendedKeyUsage"),
        (usage.server_auth, "serverAuth"),
        (usage.client_auth, "clientAuth"),
        (usage.code_signing, "codeSigning"),
        (usage.email_protection, "emailProtection"),
        (usage.time_stamping, "timeStamping"),
        (usage.ocsp_signing, "OCSPSigning"),
    ];
    let named = known.into_iter().filter(|(set, _)| *set).map(|(_, n)| n.to_owned());
    named.chain(usage.other.iter().map(ToString::to_string)).collect()
}

fn attributes<'a>(found: impl Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'a>>) -> Vec<String> {
    found.filter_map(|a| a.as_str().ok().map(str::to_owned)).collect()
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort_unstable();
    list
}

fn timestamp(seconds: i64) -> Result<Timestamp, PkiError> {
    Timestamp::from_second(seconds).map_err(|_| PkiError::garbled("certificate", "its validity is out of range"))
}
