//! `login`: one kubeconfig for all tenants that somebody may use, by the platform's own login.

use crate::args::Login;
use crate::confirm::confirmed_by;
use crate::kubeconfig::{config, write_unless};
use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

/// What the platform says.
#[derive(Deserialize)]
struct Clusters {
    clusters: Vec<Name>,
}

/// A tenant.
#[derive(Deserialize)]
struct Name {
    namespace: String,
    name: String,
}

/// Asks the platform how to log in and which tenants there are, and writes the kubeconfig.
pub(crate) async fn run(args: &Login) -> anyhow::Result<Outcome> {
    let (server, host) = server(&args.url)?;
    let ca = args.certificate_authority.as_deref().map(output::read).transpose()?;
    let user = match &args.token_file {
        Some(file) => {
            let file = std::path::absolute(file).context("--token-file")?;
            json!({ "tokenFile": file })
        }
        None => match by_command(&server, &host, ca.as_deref(), args.yes).await? {
            Some(user) => user,
            None => return Ok(Outcome::Done),
        },
    };
    let all: Clusters = ask(&file(&server, &host, ca.as_deref(), &user, &[])?, "/clusters").await?;
    if all.clusters.is_empty() {
        output::note(&format!(
            "{host} knows no tenant that you may use. Whoever grants roles in a team's namespace of the platform has to grant you clusters/api of \
             group berth.dev there"
        ));
        return Ok(Outcome::NotYet);
    }
    let text = file(&server, &host, ca.as_deref(), &user, &all.clusters)?;
    match &args.out {
        Some(path) => {
            let why_not = |there: &str| {
                let is_other = !args.force && !is_of(there, &host);
                is_other.then(|| {
                    format!(
                        "{} exists and is not of {host} alone. Choose another file, or overwrite it with --force",
                        path.display()
                    )
                })
            };
            write_unless(path, &text, why_not)?;
            let (path, count) = (path.display(), all.clusters.len());
            output::note(&format!(
                "written to {path}: contexts for {count} tenants; try: kubectl --kubeconfig {path} config get-contexts"
            ));
        }
        None => output::print(&text)?,
    }
    Ok(Outcome::Done)
}

/// The server without a slash at its end, and its host.
fn server(url: &str) -> anyhow::Result<(String, String)> {
    let server = url.trim_end_matches('/');
    let host = server.strip_prefix("https://").with_context(|| format!("{url}: it has to begin with https://"))?;
    if host.is_empty() || host.contains(['/', '?', '#', '@']) {
        bail!("{url}: it has to be a host, with a port if that is not 443, such as https://access.example.com");
    }
    Ok((server.to_owned(), host.to_owned()))
}

/// The user whose token a command gets that the platform names. kubectl runs it from then on, so somebody has to want that. None: they do not.
async fn by_command(server: &str, host: &str, ca: Option<&str>, yes: bool) -> anyhow::Result<Option<Value>> {
    let told: Value = ask(&file(server, host, ca, &json!({}), &[])?, "/login").await?;
    let exec = &told["exec"];
    if exec["command"].as_str().unwrap_or_default().is_empty() {
        bail!(
            "{host} names no command that gets a token (chart value access.login): pass --token-file with one of yours"
        );
    }
    let api_version = match exec["apiVersion"].as_str() {
        None | Some("client.authentication.k8s.io/v1") => "client.authentication.k8s.io/v1",
        Some("client.authentication.k8s.io/v1beta1") => "client.authentication.k8s.io/v1beta1",
        Some(_) => bail!(
            "{host} names a command of a kind that kubectl does not know: pass --token-file with a token of yours"
        ),
    };
    let words = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let command = [vec![exec["command"].as_str().unwrap_or_default().to_owned()], words(&exec["args"])].concat();
    output::note(&format!(
        "{host} asks kubectl to run, on this machine, each time it needs a token: {}",
        shown(&command)
    ));
    let env: Vec<[String; 2]> = exec["env"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|variable| Some([variable["name"].as_str()?.to_owned(), variable["value"].as_str()?.to_owned()]))
        .collect();
    for [name, value] in &env {
        output::note(&format!("with {}={}", shown(std::slice::from_ref(name)), shown(std::slice::from_ref(value))));
    }
    if !yes && !confirmed_by("host", host, "let it")? {
        output::note("nothing was run or written");
        return Ok(None);
    }
    // Of what it sends, nothing is written that was not shown.
    let mut entry = json!({
        "apiVersion": api_version, "command": exec["command"], "args": words(&exec["args"]), "interactiveMode": "IfAvailable",
    });
    if !env.is_empty() {
        entry["env"] = env.iter().map(|[name, value]| json!({"name": name, "value": value})).collect();
    }
    Ok(Some(json!({ "exec": entry })))
}

/// As one would type it; nothing of it moves the cursor.
fn shown(words: &[String]) -> String {
    let one = |word: &String| {
        let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c));
        if is_plain { word.clone() } else { format!("{word:?}") }
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// A kubeconfig with a context for each tenant; without any, for the platform itself.
fn file(server: &str, host: &str, ca: Option<&str>, user: &Value, tenants: &[Name]) -> anyhow::Result<String> {
    let cluster = |server: String| {
        let mut cluster = json!({ "server": server });
        if let Some(ca) = ca {
            cluster["certificate-authority-data"] = STANDARD.encode(ca).into();
        }
        cluster
    };
    let mut all: Vec<_> = tenants
        .iter()
        .map(|Name { namespace, name }| {
            (format!("{namespace}/{name}"), format!("{server}/clusters/{namespace}/{name}"))
        })
        .collect();
    if all.is_empty() {
        all.push((host.to_owned(), server.to_owned()));
    }
    let clusters: Vec<_> =
        all.iter().map(|(name, server)| json!({"name": name, "cluster": cluster(server.clone())})).collect();
    let contexts: Vec<_> =
        all.iter().map(|(name, _)| json!({"name": name, "context": {"cluster": name, "user": host}})).collect();
    let current = all.first().filter(|_| all.len() == 1).map(|(name, _)| name.as_str()).unwrap_or_default();
    output::yaml(&json!({
        "apiVersion": "v1", "kind": "Config", "current-context": current,
        "clusters": clusters, "contexts": contexts, "users": [{"name": host, "user": user}],
    }))
}

/// Whether a kubeconfig has contexts of that platform alone, so that all of it can be written anew.
fn is_of(kubeconfig: &str, host: &str) -> bool {
    let file: Value = serde_saphyr::from_str(kubeconfig).unwrap_or_default();
    let contexts = file["contexts"].as_array();
    contexts.is_some_and(|all| !all.is_empty() && all.iter().all(|context| context["context"]["user"] == host))
}

async fn ask<T: serde::de::DeserializeOwned>(kubeconfig: &str, path: &str) -> anyhow::Result<T> {
    let client = Client::try_from(config(kubeconfig).await?)?;
    let request = http::Request::get(path).body(vec![])?;
    client.request(request).await.with_context(|| format!("the platform does not answer {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(namespace: &str, name: &str) -> Name {
        Name { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn each_tenant_has_a_context_and_all_have_one_user() {
        let user = json!({"exec": {"command": "get-token"}});
        let of = |tenants: &[Name]| {
            let text = file("https://access.example.com", "access.example.com", Some("PEM"), &user, tenants).unwrap();
            serde_saphyr::from_str::<Value>(&text).unwrap()
        };
        let two = of(&[name("team-a", "acme"), name("team-b", "acme")]);
        assert_eq!(two["clusters"][1]["name"], "team-b/acme");
        assert_eq!(two["clusters"][1]["cluster"]["server"], "https://access.example.com/clusters/team-b/acme");
        assert_eq!(two["clusters"][1]["cluster"]["certificate-authority-data"], "UEVN");
        assert_eq!(two["contexts"][1]["context"], json!({"cluster": "team-b/acme", "user": "access.example.com"}));
        assert_eq!(
            (&two["users"], &two["current-context"]),
            (&json!([{"name": "access.example.com", "user": user}]), &json!(""))
        );
        assert_eq!(of(&[name("team-a", "acme")])["current-context"], "team-a/acme");
        let text = file("https://a", "a", None, &user, &[name("team-a", "acme"), name("team-b", "x")]).unwrap();
        assert!(is_of(&text, "a") && !is_of(&text, "b"));
        for other in ["", "not: [yaml", "{contexts: []}", &text.replace("user: a", "user: me")] {
            assert!(!is_of(other, "a"), "{other}");
        }
    }

    #[test]
    fn only_a_host_is_a_platform() {
        let (url, host) = server("https://access.example.com:8443/").unwrap();
        assert_eq!((&*url, &*host), ("https://access.example.com:8443", "access.example.com:8443"));
        for wrong in ["http://a", "a.example", "https://", "https://a/b", "https://a?b", "https://me@a"] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_command_has_is_shown_as_it_is() {
        let words = ["get-token", "--url=https://a", "a b", "\u{1b}[2K", ""].map(str::to_owned);
        assert_eq!(shown(&words), "get-token --url=https://a \"a b\" \"\\u{1b}[2K\" \"\"");
    }
}
