//! Private keys appear nowhere but in the Secrets that hold them: what to look for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Bytes of a key that no other text has: short enough to survive being wrapped, long enough not to be there by chance.
const LENGTH: usize = 32;

/// Pieces of every private key, as it is, in base64 and as numbers, with where it is from.
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
            // In base64 of a text around it one of these three occurs.
            let encoded = (0..3).map(|skip| STANDARD.encode(&tail[skip..skip + 24]));
            // So does Rust print bytes, of the text and of what it stands for.
            let bytes = [Some(tail.clone().into_bytes()), STANDARD.decode(&tail).ok()];
            let numbers = bytes.into_iter().flatten().map(|b| format!("{b:?}").replace(['[', ']'], ""));
            let kinds = encoded.chain(numbers).chain([tail.clone()]);
            all.extend(kinds.map(|needle| (format!("{name}/{key}"), needle)));
        }
    }
    all
}

/// The key that `text` holds a piece of, if it does. Logs are long and needles many: only what can hold one is looked through.
pub fn found<'a>(needles: &'a [(String, String)], text: &str) -> Option<&'a str> {
    let places = |of: fn(u8) -> bool| -> Vec<&str> {
        let all = text.as_bytes().split(move |byte| !of(*byte)).filter(|place| place.len() >= LENGTH);
        all.filter_map(|place| std::str::from_utf8(place).ok()).collect()
    };
    let places = [places(is_base64), places(is_list)];
    let there = |needle: &String| places.iter().flatten().any(|place| place.contains(needle));
    needles.iter().find(|(_, needle)| there(needle)).map(|(name, _)| name.as_str())
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

fn is_list(byte: u8) -> bool {
    byte.is_ascii_digit() || b", ".contains(&byte)
}

fn after(text: &str, mark: &str) -> Option<String> {
    let rest = text.split_once(mark)?.1;
    Some(rest.chars().take_while(|c| u8::try_from(*c).is_ok_and(is_base64)).collect())
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
        assert_eq!(names.len(), 18);
        // What `found` counts on.
        let whole = |n: &str| n.len() >= LENGTH && (n.bytes().all(is_base64) || n.bytes().all(is_list));
        assert!(needles(&secrets).iter().all(|(_, needle)| whole(needle)));
        for name in ["s/tls.key", "s/value", "s/encryption.yaml"] {
            assert_eq!(names.iter().filter(|n| *n == name).count(), 6, "{name}");
        }
        let key = &needles(&secrets[..1]);
        for before in ["", "x", "xy"] {
            let around = STANDARD.encode(format!("{before}{pem}"));
            assert_eq!(found(key, &format!("a log line: {around}, and on")), Some("s/tls.key"), "{around}");
        }
        for text in [pem.clone(), format!("a line: {:?}", pem.as_bytes()), format!("{:?}", [65, 4, 16].repeat(20))] {
            assert_eq!(found(key, &text), Some("s/tls.key"), "{text}");
        }
        assert_eq!(found(key, &"A log without keys, /apis/berth.dev/v1alpha1. ".repeat(10)), None);
    }
}
