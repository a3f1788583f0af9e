//! A kubeconfig for users of an OIDC issuer: nobody's credential is in it, so it may be handed to everybody.

use crate::output;
use anyhow::{Context as _, bail};
use berth_api::Cluster;
use serde_json::{Value, json};

/// The same server, with a user who logs in at the issuer by kubelogin (`kubectl oidc-login`).
pub(super) fn kubeconfig(
    published: &str,
    cluster: &Cluster,
    (issuer, client): (Option<&str>, Option<&str>),
) -> anyhow::Result<String> {
    let (url, client) = issuer_of(cluster, issuer, client)?;
    let mut file = super::parsed(published)?;
    let arguments =
        ["oidc-login", "get-token", &format!("--oidc-issuer-url={url}"), &format!("--oidc-client-id={client}")];
    file["users"] = json!([{"name": "oidc", "user": {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "kubectl", "args": arguments,
        "interactiveMode": "IfAvailable",
        "installHint": "install kubelogin: kubectl krew install oidc-login, see https://github.com/int128/kubelogin",
    }}}]);
    let context = file["contexts"][0]["context"].as_object_mut().context("the kubeconfig has no context")?;
    context.insert("user".into(), "oidc".into());
    output::yaml(&file)
}

/// The issuer's URL, and the audience of its tokens, which is the client's ID. Who names both may mean one of the platform's, which the `Cluster`
/// does not have.
fn issuer_of(cluster: &Cluster, wanted: Option<&str>, client: Option<&str>) -> anyhow::Result<(String, String)> {
    const FIELD: &str = "spec.apiServer.authentication.jwt";
    const PLATFORMS: &str =
        "one of the platform's (chart value authentication.jwt) is named by --oidc=<URL> --oidc-client=<ID>";
    if let (Some(url), Some(client)) = (wanted, client) {
        return Ok((url.to_owned(), client.to_owned()));
    }
    let all = &cluster.spec.api_server.authentication.jwt;
    let url = |jwt: &Value| jwt["issuer"]["url"].as_str().unwrap_or_default().to_owned();
    let urls = || all.iter().map(url).collect::<Vec<_>>().join(", ");
    let jwt = match (wanted, all.as_slice()) {
        (_, []) => bail!("the Cluster has no OIDC issuer of its own. Set {FIELD}; {PLATFORMS}"),
        (Some(wanted), all) => all.iter().find(|jwt| url(jwt) == wanted).with_context(|| {
            format!("{FIELD} has no issuer {wanted}. Choose one with --oidc=<URL>: {}; {PLATFORMS}", urls())
        })?,
        (None, [jwt]) => jwt,
        (None, _) => bail!("{FIELD} has several issuers. Choose one with --oidc=<URL>: {}", urls()),
    };
    if let Some(client) = client {
        return Ok((url(jwt), client.to_owned()));
    }
    let client = jwt["issuer"]["audiences"][0].as_str().with_context(|| {
        format!("{FIELD}: issuer {} has no audiences, of which the first is the client's ID", url(jwt))
    })?;
    Ok((url(jwt), client.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(issuers: &[&str]) -> Cluster {
        let jwt: Vec<Value> = issuers
            .iter()
            .map(|name| json!({"issuer": {"url": format!("https://{name}.example.com"), "audiences": ["berth", "x"]}}))
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme"},
            "spec": {"version": "1.36.3", "apiServer": {"authentication": {"jwt": jwt}}},
        }))
        .unwrap()
    }

    const PUBLISHED: &str = "{apiVersion: v1, kind: Config, current-context: acme, contexts: [{name: acme, context: {cluster: acme, user: admin}}],
        clusters: [{name: acme, cluster: {server: 'https://10.96.0.7:6443', certificate-authority-data: Y2E=}}],
        users: [{name: admin, user: {client-certificate-data: Y2VydA==, client-key-data: c2VjcmV0}}]}";

    #[test]
    fn it_holds_no_credential_and_names_the_issuer() {
        let text = kubeconfig(PUBLISHED, &cluster(&["idp"]), (None, None)).unwrap();
        assert!(!text.contains("c2VjcmV0") && !text.contains("Y2VydA"), "{text}");
        let file: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(file["clusters"][0]["cluster"]["server"], "https://10.96.0.7:6443");
        assert_eq!(file["contexts"][0]["context"], json!({"cluster": "acme", "user": "oidc"}));
        let user = &file["users"][0];
        assert_eq!(user["name"], "oidc");
        let arguments = &user["user"]["exec"]["args"];
        assert_eq!(arguments[2], "--oidc-issuer-url=https://idp.example.com");
        assert_eq!(arguments[3], "--oidc-client-id=berth");
    }

    #[test]
    fn an_issuer_is_chosen_by_its_url() {
        let of = |all: &[&str], wanted| issuer_of(&cluster(all), wanted, None);
        let named = issuer_of(&cluster(&[]), Some("https://login.example.com"), Some("kubernetes")).unwrap();
        assert_eq!(named, ("https://login.example.com".to_owned(), "kubernetes".to_owned()), "one of the platform's");
        let other = issuer_of(&cluster(&["a"]), None, Some("kubernetes")).unwrap();
        assert_eq!(other, ("https://a.example.com".to_owned(), "kubernetes".to_owned()));
        assert_eq!(of(&["a", "b"], Some("https://b.example.com")).unwrap().0, "https://b.example.com");
        for (all, wanted, why) in [
            (&[][..], None, "has no OIDC issuer"),
            (
                &["a", "b"],
                None,
                "several issuers. Choose one with --oidc=<URL>: https://a.example.com, https://b.example.com",
            ),
            (&["a"], Some("https://c.example.com"), "has no issuer https://c.example.com"),
        ] {
            let error = of(all, wanted).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
