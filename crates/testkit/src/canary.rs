//! Private keys appear nowhere but in the Secrets that hold them: what to look for.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Bytes of a key that no other text has: short enough to survive being wrapped, long enough not to be there by chance.
const LENGTH: usize = 32;

/// Pieces of every private key, as it is and in base64, with where it is from.
pub fn needles(secrets: &[Value]) -> Vec<(String, String)> {
    let mut all = vec![];
    for secret in secrets {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        for (key, value) in secret["data"].as_object().into_iter().flatten() {
            let text = value.as_str().and_then(|v| STANDARD.decode(v).ok()).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let private = match key.as_str() {
                "value" => after(&text, "client-key-data: "),
                "encryption.yaml" => after(&text, "\"secret\":\"").or_else(|| after(&text, "secret: ")),
                _ if key.strip_suffix(".key").is_some() => text.lines().nth(1).map(str::to_owned),
                _ => None,
            };
            // The beginning of every key of a kind is the same.
            let Some(tail) = private.and_then(|p| Some(p.get(p.len().checked_sub(LENGTH)?..)?.to_owned())) else {
                continue;
            };
            // In base64 of a text around it one of these three stands.
            let encoded = (0..3).map(|skip| STANDARD.encode(&tail[skip..skip + 24]));
            all.extend(encoded.chain([tail.clone()]).map(|needle| (format!("{name}/{key}"), needle)));
        }
    }
    all
}

/// The key that `text` holds a piece of, if it does.
pub fn found<'a>(needles: &'a [(String, String)], text: &str) -> Option<&'a str> {
    needles.iter().find(|(_, needle)| text.contains(needle)).map(|(name, _)| name.as_str())
}

fn after(text: &str, mark: &str) -> Option<String> {
    let rest = text.split_once(mark)?.1;
    Some(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "+/=".contains(*c)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_of_private_key_gives_needles() {
        let of = |key: &str, text: &str| json!({"metadata": {"name": "s"}, "data": {key: STANDARD.encode(text)}});
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", "Q".repeat(64));
        let secrets = [
            of("tls.key", &pem),
            of("tls.crt", &pem),
            of("value", &format!("client-key-data: {}\n", STANDARD.encode(&pem))),
            of(
                "encryption.yaml",
                "{\"keys\":[{\"name\":\"1\",\"secret\":\"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\"}]}",
            ),
        ];
        let names: Vec<String> = needles(&secrets).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 12);
        for name in ["s/tls.key", "s/value", "s/encryption.yaml"] {
            assert_eq!(names.iter().filter(|n| *n == name).count(), 4, "{name}");
        }
        let key = &needles(&secrets[..1]);
        for before in ["", "x", "xy"] {
            let around = STANDARD.encode(format!("{before}{pem}"));
            assert!(key.iter().any(|(_, needle)| around.contains(needle)), "{around}");
        }
    }
}
