//! Certificates that kube-apiserver trusts as a client of others.

use berth_api::cluster::ApiServer;

/// The most that goes into the ConfigMap, in bytes.
const LARGEST: usize = 64 * 1024;

const BEGIN: &str = "-----BEGIN ";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// Why these are refused: Go passes over what it cannot read, so a damaged one would only be missed. Nothing of the text is quoted.
pub(super) fn refusal(asked: &ApiServer) -> Option<String> {
    let text = asked.trusted_ca.as_ref()?;
    let why = fault(text)?;
    Some(format!("spec.apiServer.trustedCA: {why}"))
}

fn fault(text: &str) -> Option<String> {
    if text.len() > LARGEST {
        return Some("is larger than 64 KiB. Leave out certificates that the image trusts anyway".to_owned());
    }
    if text.contains("PRIVATE KEY") {
        return Some(
            "has a private key, which is now known to whoever reads this Cluster. Remove and replace it".to_owned(),
        );
    }
    let other = |line: &&str| line.trim_start().starts_with(BEGIN) && line.trim_end() != CERTIFICATE;
    if text.lines().any(|line| other(&line)) {
        return Some(format!("has a PEM block that does not begin with {CERTIFICATE}. Remove it"));
    }
    let why = berth_pki::inspect_bundle(text.as_bytes()).err()?;
    Some(format!("{why}. Set certificates in PEM"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_pki::{CertSpec, Usage, issue_ca};
    use jiff::{SignedDuration, Timestamp};

    fn certificate(name: &str) -> String {
        issue_ca(&CertSpec::new(name, Usage::Ca, SignedDuration::from_hours(1)), Timestamp::UNIX_EPOCH)
            .unwrap()
            .cert_pem
    }

    #[test]
    fn nothing_but_certificates_is_taken() {
        let (one, two) = (certificate("one"), certificate("two"));
        let key =
            issue_ca(&CertSpec::new("k", Usage::Ca, SignedDuration::from_hours(1)), Timestamp::UNIX_EPOCH).unwrap();
        let damaged = two.replacen("MII", "M!I", 1);
        let cut = two.replace("-----END CERTIFICATE-----", "");
        for (text, said) in [
            (one.clone(), ""),
            (format!("# ours\r\n{one}\n{two}"), ""),
            (String::new(), "there is no such PEM block"),
            ("certificate".to_owned(), "there is no such PEM block"),
            (format!("{one}{damaged}"), "2"),
            (format!("{one}{cut}"), "no end"),
            (
                format!("{one}-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"),
                "not an X.509 certificate",
            ),
            (format!("{one}{}", key.key_pem.expose()), "has a private key"),
            (format!("{one}-----BEGIN PUBLIC KEY-----\nMA==\n-----END PUBLIC KEY-----\n"), "has a PEM block that"),
            (format!("{one}-----BEGIN TRUSTED CERTIFICATE-----\nMA==\n"), "has a PEM block that"),
            (format!("{one}{}", " ".repeat(LARGEST)), "larger than 64 KiB"),
        ] {
            let found = fault(&text).unwrap_or_default();
            assert!(found.contains(said) && found.is_empty() == said.is_empty(), "{said}: {found}");
            let body = text.lines().find(|line| line.starts_with("MII")).unwrap_or("never");
            assert!(!found.contains(body), "{found}");
        }
    }
}
