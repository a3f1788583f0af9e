//! Public certificate authorities, for registries whose own is not named: nothing else is in the image.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Those that Mozilla trusts for servers, as of this build, in PEM.
pub(crate) fn public() -> String {
    let one = |der: &[u8]| {
        let text = STANDARD.encode(der);
        let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| one(der)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_certificate() {
        let text = public();
        let all: Vec<_> = text.split("-----END CERTIFICATE-----\n").filter(|rest| !rest.is_empty()).collect();
        assert!(all.len() > 50, "{}", all.len());
        for one in all {
            let body = one.strip_prefix("-----BEGIN CERTIFICATE-----\n").expect("where it begins");
            assert!(body.lines().all(|line| line.len() <= 64), "{body}");
            let der = STANDARD.decode(body.replace('\n', "")).expect("base64");
            assert_eq!(der[0], 0x30, "a sequence of ASN.1");
        }
    }
}
