//! The tenant's kubeconfig, rebuilt from the values that Berth writes into it, and from no other: kubectl runs the commands, reads the
//! files and takes the ways that a kubeconfig names, and whoever may write Secrets beside the `Cluster` may have written this one.

use crate::paint::safe;
use anyhow::{Context as _, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_pki::Kubeconfig;
use serde_json::Value;

/// What Berth writes, beside the entries and their names.
const FILE: &[&str] = &["apiVersion", "kind", "clusters", "users", "contexts", "current-context"];
const CLUSTER: &[&str] = &["server", "certificate-authority-data"];
const USER: &[&str] = &["client-certificate-data", "client-key-data"];
const CONTEXT: &[&str] = &["cluster", "user"];

/// The same text, if Berth wrote it. The error names the field that it did not write so.
pub(super) fn rebuilt(text: &str) -> anyhow::Result<String> {
    // Errors of the parser quote what they read, which is secret.
    let file: Value = serde_saphyr::from_str(text).map_err(|_| anyhow!("it is not YAML"))?;
    only("", &file, FILE)?;
    let (cluster_name, cluster) = single(&file, "clusters", "cluster", CLUSTER)?;
    let (user_name, user) = single(&file, "users", "user", USER)?;
    let (context_name, context) = single(&file, "contexts", "context", CONTEXT)?;
    for (path, named, there) in [
        ("contexts[0].context.cluster", &context["cluster"], &cluster_name),
        ("contexts[0].context.user", &context["user"], &user_name),
        ("current-context", &file["current-context"], &context_name),
    ] {
        if named != there {
            bail!("{path}: it names another entry than the list has");
        }
    }
    let kubeconfig = Kubeconfig {
        cluster_name,
        server: server(cluster)?,
        ca_pem: pem(cluster, "clusters[0].cluster", "certificate-authority-data")?,
        user: user_name,
        cert_pem: pem(user, "users[0].user", "client-certificate-data")?,
        key_pem: pem(user, "users[0].user", "client-key-data")?.into(),
    };
    Ok(kubeconfig.to_yaml())
}

/// The only entry of a list: its name, and what it holds.
fn single<'a>(file: &'a Value, list: &str, field: &str, fields: &[&str]) -> anyhow::Result<(String, &'a Value)> {
    let Some([entry]) = file[list].as_array().map(Vec::as_slice) else {
        bail!("{list}: it is not a list with one entry");
    };
    let path = format!("{list}[0]");
    only(&path, entry, &["name", field])?;
    only(&format!("{path}.{field}"), &entry[field], fields)?;
    Ok((string(entry, &path, "name")?.to_owned(), &entry[field]))
}

/// A mapping with no other fields than these.
fn only(path: &str, value: &Value, fields: &[&str]) -> anyhow::Result<()> {
    let of = if path.is_empty() { "the file" } else { path };
    let map = value.as_object().with_context(|| format!("{of}: it is not a mapping"))?;
    match map.keys().find(|k| !fields.contains(&k.as_str())) {
        Some(other) => bail!("{}: Berth does not write that field", safe(&below(path, other))),
        None => Ok(()),
    }
}

fn server(cluster: &Value) -> anyhow::Result<String> {
    let server = string(cluster, "clusters[0].cluster", "server")?;
    if !server.starts_with("https://") {
        bail!("clusters[0].cluster.server: it does not start with https://");
    }
    Ok(server.to_owned())
}

fn pem(value: &Value, path: &str, field: &str) -> anyhow::Result<String> {
    let bytes = STANDARD.decode(string(value, path, field)?).ok();
    let pem = bytes.and_then(|b| String::from_utf8(b).ok());
    pem.with_context(|| format!("{}: it is not text in base64", below(path, field)))
}

/// A text that no terminal obeys.
fn string<'a>(value: &'a Value, path: &str, field: &str) -> anyhow::Result<&'a str> {
    let text = value[field].as_str().filter(|t| !t.is_empty() && !t.chars().any(char::is_control));
    text.with_context(|| format!("{}: it is not one line of text", below(path, field)))
}

fn below(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written() -> String {
        Kubeconfig {
            cluster_name: "acme".into(),
            server: "https://[fd00::1]:6443".into(),
            ca_pem: "ca".into(),
            user: "admin".into(),
            cert_pem: "certificate".into(),
            key_pem: "key".to_owned().into(),
        }
        .to_yaml()
    }

    /// Why it is refused with this value there.
    #[track_caller]
    fn refused(pointer: &str, field: &str, value: Value) -> String {
        let mut file: Value = serde_saphyr::from_str(&written()).unwrap();
        file.pointer_mut(pointer).unwrap()[field] = value;
        rebuilt(&crate::output::yaml(&file).unwrap()).expect_err(field).to_string()
    }

    #[test]
    fn what_berth_writes_stays_as_it_is() {
        assert_eq!(rebuilt(&written()).unwrap(), written());
    }

    #[test]
    fn what_berth_does_not_write_is_refused_by_name() {
        let (cluster, user, context) = ("/clusters/0/cluster", "/users/0/user", "/contexts/0/context");
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"});
        for (pointer, field, value, named) in [
            (user, "exec", exec.clone(), "users[0].user.exec"),
            (user, "exec", Value::Null, "users[0].user.exec"),
            (user, "auth-provider", json!({"name": "x"}), "users[0].user.auth-provider"),
            (user, "client-certificate", json!("/etc/x"), "users[0].user.client-certificate"),
            (user, "client-key", json!("/etc/x"), "users[0].user.client-key"),
            (user, "token", json!("x"), "users[0].user.token"),
            (user, "tokenFile", json!("/etc/x"), "users[0].user.tokenFile"),
            (user, "as", json!("x"), "users[0].user.as"),
            (cluster, "certificate-authority", json!("/etc/x"), "clusters[0].cluster.certificate-authority"),
            (cluster, "proxy-url", json!("http://x"), "clusters[0].cluster.proxy-url"),
            (cluster, "insecure-skip-tls-verify", json!(true), "clusters[0].cluster.insecure-skip-tls-verify"),
            (cluster, "tls-server-name", json!("x"), "clusters[0].cluster.tls-server-name"),
            (context, "namespace", json!("x"), "contexts[0].context.namespace"),
            ("/users/0", "exec", exec.clone(), "users[0].exec"),
            ("", "extensions", json!([]), "extensions"),
            (user, "\u{1b}]0;", json!("x"), "users[0].user. ]0;"),
        ] {
            assert_eq!(refused(pointer, field, value), format!("{named}: Berth does not write that field"));
        }
        // A merge key of YAML is no way around it.
        let merged = written().replace("  user:\n", "  user:\n    <<: {exec: {command: sh}}\n");
        assert_ne!(merged, written());
        assert!(rebuilt(&merged).is_err());
    }

    #[test]
    fn there_is_one_entry_of_each_and_they_name_each_other() {
        for list in ["clusters", "users", "contexts"] {
            let file: Value = serde_saphyr::from_str(&written()).unwrap();
            let twice = json!([file[list][0], file[list][0]]);
            for entries in [twice, json!([]), Value::Null, json!("x")] {
                assert!(refused("", list, entries).starts_with(list));
            }
        }
        for (pointer, field) in
            [("/contexts/0/context", "cluster"), ("/contexts/0/context", "user"), ("", "current-context")]
        {
            assert!(refused(pointer, field, json!("another")).contains("another entry"));
        }
    }

    #[test]
    fn values_are_what_they_should_be_and_no_message_holds_them() {
        for (pointer, field, value) in [
            ("/clusters/0/cluster", "server", json!("http://secret")),
            ("/clusters/0/cluster", "server", json!("https://secret\u{9b}2J")),
            ("/clusters/0/cluster", "certificate-authority-data", json!("secret!")),
            ("/users/0/user", "client-certificate-data", Value::Null),
            ("/users/0/user", "client-key-data", json!(["secret"])),
            ("/users/0", "name", json!("secret\u{1b}]0;")),
        ] {
            let why = refused(pointer, field, value);
            assert!(why.contains(field) && !why.contains("secret"), "{why}");
        }
        assert!(!rebuilt("\"secret: [").unwrap_err().to_string().contains("secret"));
        assert_eq!(rebuilt("overwritten").unwrap_err().to_string(), "the file: it is not a mapping");
    }
}
