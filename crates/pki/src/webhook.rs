//! Kubeconfigs of webhooks that others write, for a component that runs in a pod of ours.
//!
//! Nothing but what is listed here is taken, and what is taken is written anew: so no other reading of the same text makes the component
//! read a file of its pod and send it somewhere, or run a program, and it starts with what was checked.

use std::net::Ipv6Addr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::{SecretString, inspect_bundle, inspect_pair};

/// The most that is read, in bytes.
const LONGEST: usize = 64 << 10;

const FILE: &str = "names a file, and the pod has none of yours";
const PROGRAM: &str =
    "runs a program, and the pod has none of yours. Use token, or client-certificate-data and client-key-data";

/// Fields that kubectl knows and a webhook may not have, with why. Any other field that is not taken is not repeated: it may be a secret in
/// the wrong place.
const REFUSED: &[(&str, &str)] = &[
    ("certificate-authority", FILE),
    ("client-certificate", FILE),
    ("client-key", FILE),
    ("tokenFile", FILE),
    ("exec", PROGRAM),
    ("auth-provider", PROGRAM),
    ("proxy-url", "is not supported"),
    ("disable-compression", "is not supported"),
    ("extensions", "is not supported"),
    ("as", "is not supported"),
    ("as-uid", "is not supported"),
    ("as-groups", "is not supported"),
    ("as-user-extra", "is not supported"),
];

/// The kubeconfig as the component gets it: JSON with one cluster, at most one user and one context, in which nothing is read from a file.
///
/// # Errors
/// What is wrong with it, by the field: a sentence without its end, and nothing of what it holds.
pub fn webhook_kubeconfig(text: &[u8]) -> Result<SecretString, String> {
    if text.len() > LONGEST {
        return Err(format!("has {} bytes, and may have {LONGEST}", text.len()));
    }
    let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())?;
    // The parser's message quotes the text.
    let file: Value = serde_saphyr::from_str(text).map_err(|_| "is no kubeconfig in YAML or JSON".to_owned())?;
    let file =
        fields(&file, "", &["apiVersion", "kind", "clusters", "users", "contexts", "current-context", "preferences"])?;
    is_or_absent(file, "apiVersion", "v1")?;
    is_or_absent(file, "kind", "Config")?;
    let (cluster_name, cluster) = only(file, "clusters", "cluster")?.ok_or("has no entry in clusters")?;
    let (context_name, context) = only(file, "contexts", "context")?.ok_or("has no entry in contexts")?;
    let user = only(file, "users", "user")?;
    let context = fields(context, "contexts[0].context", &["cluster", "user", "namespace"])?;
    if text_of(file, "", "current-context")? != Some(context_name) {
        return Err("current-context: has to be the name of the entry in contexts".into());
    }
    if text_of(context, "contexts[0].context", "cluster")? != Some(cluster_name) {
        return Err("contexts[0].context.cluster: has to be the name of the entry in clusters".into());
    }
    if text_of(context, "contexts[0].context", "user")?.filter(|name| !name.is_empty()) != user.map(|(name, _)| name) {
        return Err("contexts[0].context.user: has to be the name of the entry in users".into());
    }
    let cluster = server(cluster)?;
    let user = user.map_or(Ok(Map::new()), |(_, user)| credentials(user))?;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "webhook",
        "clusters": [{"name": "webhook", "cluster": cluster}],
        "users": [{"name": "webhook", "user": user}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "webhook"}}],
    });
    Ok(kubeconfig.to_string().into())
}

/// The cluster, as far as it is taken.
fn server(cluster: &Value) -> Result<Map<String, Value>, String> {
    const AT: &str = "clusters[0].cluster";
    let known = ["server", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name"];
    let cluster = fields(cluster, AT, &known)?;
    let server = text_of(cluster, AT, "server")?.unwrap_or_default();
    if let Some(why) = url_fault(server) {
        return Err(format!("{AT}.server: {why}"));
    }
    let mut taken = Map::from_iter([("server".to_owned(), server.into())]);
    let insecure = match cluster.get("insecure-skip-tls-verify") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(insecure)) => *insecure,
        Some(_) => return Err(format!("{AT}.insecure-skip-tls-verify: has to be true or false")),
    };
    if let Some((name, text, pem)) = data(cluster, AT, "certificate-authority-data")? {
        if inspect_bundle(&pem).is_err() {
            return Err(format!("{AT}.{name}: has to be certificates as PEM, in base64"));
        }
        if insecure {
            return Err(format!("{AT}.insecure-skip-tls-verify: is of no use with {name}. Remove one of the two"));
        }
        taken.insert(name.into(), text.into());
    }
    if insecure {
        taken.insert("insecure-skip-tls-verify".into(), true.into());
    }
    if let Some(name) = text_of(cluster, AT, "tls-server-name")?.filter(|name| !name.is_empty()) {
        if !is_host(name) {
            return Err(format!("{AT}.tls-server-name: has to be the name of a host"));
        }
        taken.insert("tls-server-name".into(), name.into());
    }
    Ok(taken)
}

/// The user, as far as it is taken: by at most one way to say who asks, beside a certificate.
fn credentials(user: &Value) -> Result<Map<String, Value>, String> {
    const AT: &str = "users[0].user";
    let known = ["token", "username", "password", "client-certificate-data", "client-key-data"];
    let user = fields(user, AT, &known)?;
    let mut taken = Map::new();
    for name in ["token", "username", "password"] {
        if let Some(text) = text_of(user, AT, name)?.filter(|text| !text.is_empty()) {
            // It becomes a header of a request.
            if !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
                return Err(format!("{AT}.{name}: may have no control characters and no line ends, and only ASCII"));
            }
            taken.insert(name.into(), text.into());
        }
    }
    let has = |name| taken.contains_key(name);
    if has("token") && (has("username") || has("password")) {
        return Err(format!("{AT}: has both token and username. Remove one of the two"));
    }
    if has("username") != has("password") {
        return Err(format!("{AT}: username and password go together"));
    }
    let certificate = data(user, AT, "client-certificate-data")?;
    let key = data(user, AT, "client-key-data")?;
    match (certificate, key) {
        (None, None) => {}
        (Some((name, text, certificate)), Some((key_name, key_text, key))) => {
            if inspect_pair(&certificate, &key).is_err() {
                return Err(format!(
                    "{AT}: {name} and {key_name} have to be a certificate and its key as PEM, in base64"
                ));
            }
            taken.extend([(name.to_owned(), text.into()), (key_name.to_owned(), key_text.into())]);
        }
        _ => return Err(format!("{AT}: client-certificate-data and client-key-data go together")),
    }
    Ok(taken)
}

/// An object of which every field is known.
fn fields<'a>(value: &'a Value, at: &str, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let Value::Object(all) = value else { return Err(sentence(at, "has to be an object")) };
    let Some(name) = all.keys().find(|name| !known.contains(&&***name)) else { return Ok(all) };
    match REFUSED.iter().find(|(refused, _)| refused == name) {
        Some((name, why)) if *why == FILE && *name == "tokenFile" => {
            Err(sentence(&below(at, name), &format!("{why}. Use token")))
        }
        Some((name, why)) if *why == FILE => Err(sentence(&below(at, name), &format!("{why}. Use {name}-data"))),
        Some((name, why)) => Err(sentence(&below(at, name), why)),
        None => Err(sentence(at, &format!("has a field that is not supported. Supported are {}", known.join(", ")))),
    }
}

/// The entry of a list that has at most one: its name, and what it names.
fn only<'a>(file: &'a Map<String, Value>, list: &str, entry: &str) -> Result<Option<(&'a str, &'a Value)>, String> {
    let all = match file.get(list) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(all)) => all,
        Some(_) => return Err(format!("{list}: has to be a list")),
    };
    match &all[..] {
        [] => Ok(None),
        [one] => {
            let at = format!("{list}[0]");
            let one = fields(one, &at, &["name", entry])?;
            let name = text_of(one, &at, "name")?.filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| format!("{at}.name: has to be set"))?;
            Ok(Some((name, one.get(entry).ok_or_else(|| format!("{at}.{entry}: has to be set"))?)))
        }
        more => Err(format!("{list}: has {} entries, and may have one", more.len())),
    }
}

fn is_or_absent(file: &Map<String, Value>, field: &str, wanted: &str) -> Result<(), String> {
    match text_of(file, "", field)? {
        None => Ok(()),
        Some(text) if text == wanted => Ok(()),
        Some(_) => Err(format!("{field}: has to be {wanted}")),
    }
}

fn text_of<'a>(of: &'a Map<String, Value>, at: &str, field: &str) -> Result<Option<&'a str>, String> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(sentence(&below(at, field), "has to be a string. Put it into quotes")),
    }
}

/// A field with base64: its name, its text, and what that stands for.
type Data = (&'static str, String, Vec<u8>);

fn data(of: &Map<String, Value>, at: &str, field: &'static str) -> Result<Option<Data>, String> {
    let Some(text) = text_of(of, at, field)?.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    let bytes = STANDARD.decode(text).map_err(|_| format!("{at}.{field}: is not base64"))?;
    Ok(Some((field, text.to_owned(), bytes)))
}

fn below(at: &str, field: &str) -> String {
    if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") }
}

fn sentence(at: &str, why: &str) -> String {
    if at.is_empty() { why.to_owned() } else { format!("{at}: {why}") }
}

/// What keeps it from being the URL of a webhook. What Go reads otherwise than others is not taken.
fn url_fault(url: &str) -> Option<&'static str> {
    const NONE: &str = "has to be a URL such as https://audit.example.com:8443/events";
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else { return Some(NONE) };
    if rest.contains('#') {
        return Some("may have no fragment. Remove what begins with #");
    }
    if rest.contains('?') {
        return Some("may have no query, which kube-apiserver leaves out. Remove what begins with ?");
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Some("may have no user and no password. Use username and password, or token, in users[0].user");
    }
    (!is_authority(authority) || !is_path(path)).then_some(NONE)
}

fn is_authority(authority: &str) -> bool {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        (address.parse::<Ipv6Addr>().is_ok(), port)
    } else {
        let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        (is_host(host), port)
    };
    let digits =
        |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    host && (port.is_empty() || port.strip_prefix(':').is_some_and(digits))
}

fn is_host(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty() && label.len() <= 63 && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    name.len() <= 253 && name.strip_suffix('.').unwrap_or(name).split('.').all(label)
}

fn is_path(path: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&b);
    let escape = |part: &str| part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    path.bytes().all(plain) && path.split('%').skip(1).all(escape)
}

#[cfg(test)]
mod tests;
