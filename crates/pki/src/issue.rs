//! Making certificates. Nothing is left to rcgen's defaults, which are valid until 4096 and repeat serial numbers.

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PublicKeyData, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::{BACKDATE, CertSpec, Clocks, PkiError, SecretString, Usage, inspect, pem};

/// A certificate and its private key, as a Secret of type `kubernetes.io/tls` holds them.
#[derive(Debug, Clone)]
pub struct KeyPairPem {
    /// One PEM block.
    pub cert_pem: String,
    /// PKCS#8, ECDSA P-256. Not printed by `Debug`, wiped when dropped.
    pub key_pem: SecretString,
}

/// Makes a self-signed CA with a new key: path length 0, and it may only sign certificates and CRLs.
///
/// Call it when [`crate::decide_ca`] says `Issue` *and* no record says that there was a CA before.
pub fn issue_ca(spec: &CertSpec, clocks: impl Into<Clocks>) -> Result<KeyPairPem, PkiError> {
    spec.validate()?;
    if spec.usage != Usage::Ca {
        return Err(PkiError::spec(spec, "a self-signed certificate must be a CA"));
    }
    let spec = spec.normalized();
    let (earlier, later) = span(&spec, clocks.into())?;
    let mut params = params(&spec, earlier, end(&spec, later)?)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // A root is its own issuer; RFC 5280 lets it omit the authority key identifier, as Go and OpenSSL do.
    params.use_authority_key_identifier_extension = false;
    let key = generate_key()?;
    let cert = params.self_signed(&*key).map_err(|e| PkiError::crypto("sign the CA certificate", e))?;
    Ok(pair(&cert, &key))
}

/// Makes a leaf certificate with a new key, signed by the CA.
///
/// The certificate is valid from 5 minutes before the earlier of the clocks to the end of the spec's lifetime, by the later one, or of the CA,
/// whichever comes first. The result was verified against the CA before it is returned.
pub fn issue(
    spec: &CertSpec,
    ca_cert_pem: &[u8],
    ca_key_pem: &[u8],
    clocks: impl Into<Clocks>,
) -> Result<KeyPairPem, PkiError> {
    let key = generate_key()?;
    let cert = sign(spec, &*key, ca_cert_pem, ca_key_pem, clocks.into())?;
    Ok(pair(&cert, &key))
}

/// Makes a leaf certificate for the key of a certificate signing request (PKCS #10, PEM), as one PEM block. Names and all else of the request count
/// for nothing: they are the spec's. Validity as with [`issue`].
///
/// # Errors
/// If the request cannot be read, or was not signed with its own key; and as with [`issue`].
pub fn issue_for(
    request_pem: &str,
    spec: &CertSpec,
    ca_cert_pem: &[u8],
    ca_key_pem: &[u8],
    clocks: impl Into<Clocks>,
) -> Result<String, PkiError> {
    let request = CertificateSigningRequestParams::from_pem(request_pem);
    let request =
        request.map_err(|e| PkiError::Garbled { what: "certificate signing request", problem: e.to_string() })?;
    let cert = sign(spec, &request.public_key, ca_cert_pem, ca_key_pem, clocks.into())?;
    Ok(pem::encode("CERTIFICATE", cert.der()).to_string())
}

fn sign(
    spec: &CertSpec,
    key: &impl PublicKeyData,
    ca_cert_pem: &[u8],
    ca_key_pem: &[u8],
    clocks: Clocks,
) -> Result<Certificate, PkiError> {
    spec.validate()?;
    if spec.usage == Usage::Ca {
        return Err(PkiError::spec(spec, "CAs are self-signed, there are no intermediate ones"));
    }
    let spec = spec.normalized();
    let (earlier, later) = span(&spec, clocks)?;
    let now = clocks.now;

    let ca_der = pem::certificate(ca_cert_pem)?;
    let ca_key = pem::private_key(ca_key_pem)?;
    let ca = inspect::has_key(inspect::read(&ca_der)?, &ca_key)?;
    if !ca.is_ca {
        return Err(PkiError::NotACa { subject: ca.subject, problem: "it is not a CA certificate" });
    }
    if later < ca.not_before || earlier >= ca.not_after {
        let (not_before, not_after) = (ca.not_before, ca.not_after);
        return Err(PkiError::IssuerNotValid { subject: ca.subject, not_before, not_after, now });
    }
    if spec.common_name == ca.common_name {
        return Err(PkiError::spec(&spec, "it has the common name of its CA, so it would look self-signed"));
    }

    let mut params = params(&spec, earlier, end(&spec, later)?.min(ca.not_after))?;
    params.not_before = params.not_before.max(date_time(ca.not_before)?);
    // Explicitly "no CA": rcgen writes the subject key identifier only together with basic constraints.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = extended_key_usages(spec.usage);
    params.use_authority_key_identifier_extension = true;

    let issuer = Issuer::from_ca_cert_der(&ca_der, &*ca_key).map_err(|e| PkiError::crypto("use the CA", e))?;
    let cert = params.signed_by(key, &issuer).map_err(|e| PkiError::crypto("sign the certificate", e))?;
    // rcgen copies the CA's name attribute by attribute; names that it cannot express would break the chain.
    inspect::verify_der(cert.der(), &ca_der)?;
    Ok(cert)
}

fn params(spec: &CertSpec, now: Timestamp, not_after: Timestamp) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    params.not_before = date_time(now.saturating_sub(BACKDATE).map_err(|e| PkiError::crypto("compute a date", e))?)?;
    params.not_after = date_time(not_after)?;
    params.serial_number = Some(random_serial()?);
    params.distinguished_name = subject(spec);
    params.subject_alt_names = alternative_names(spec)?;
    params.key_identifier_method = KeyIdMethod::Sha256;
    Ok(params)
}

/// Organizations first, as Go orders them. rcgen keeps one value per attribute type, but takes the same OID under its
/// generic name as another type: hence at most two, which [`CertSpec::validate`] has checked.
fn subject(spec: &CertSpec) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (kind, organization) in types.into_iter().zip(&spec.organizations) {
        name.push(kind, organization.as_str());
    }
    name.push(DnType::CommonName, spec.common_name.as_str());
    name
}

fn alternative_names(spec: &CertSpec) -> Result<Vec<SanType>, PkiError> {
    let names = spec.dns_names.iter().map(|name| {
        let ascii =
            name.as_str().try_into().map_err(|_| PkiError::spec(spec, format!("\"{name}\" is not a DNS name")))?;
        Ok(SanType::DnsName(ascii))
    });
    names.chain(spec.ip_addresses.iter().map(|ip| Ok(SanType::IpAddress(*ip)))).collect()
}

fn extended_key_usages(usage: Usage) -> Vec<ExtendedKeyUsagePurpose> {
    match usage {
        Usage::Ca => Vec::new(),
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Peer => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
    }
}

/// 128 bits: positive, never zero, always 16 bytes long.
fn random_serial() -> Result<SerialNumber, PkiError> {
    let mut bytes = [0u8; 16];
    fill_random(&mut bytes)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), PkiError> {
    SystemRandom::new().fill(bytes).map_err(|_| PkiError::crypto("get random bytes", "the system gave none"))
}

pub(crate) fn generate_key() -> Result<Zeroizing<KeyPair>, PkiError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
        .map(Zeroizing::new)
        .map_err(|e| PkiError::crypto("generate a private key", e))
}

fn pair(cert: &Certificate, key: &KeyPair) -> KeyPairPem {
    KeyPairPem {
        cert_pem: pem::encode("CERTIFICATE", cert.der()).to_string(),
        key_pem: pem::encode("PRIVATE KEY", key.serialized_der()).into(),
    }
}

fn end(spec: &CertSpec, now: Timestamp) -> Result<Timestamp, PkiError> {
    now.checked_add(spec.lifetime).map_err(|_| PkiError::spec(spec, "the lifetime ends after the year 9999"))
}

fn span(spec: &CertSpec, clocks: Clocks) -> Result<(Timestamp, Timestamp), PkiError> {
    let (earlier, later) = clocks.span(spec.lifetime);
    Ok((whole_second(earlier)?, whole_second(later)?))
}

/// X.509 knows no fractions of a second.
fn whole_second(now: Timestamp) -> Result<Timestamp, PkiError> {
    Timestamp::from_second(now.as_second()).map_err(|e| PkiError::crypto("compute a date", e))
}

fn date_time(at: Timestamp) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|e| PkiError::crypto("compute a date", e))
}
