//! One kubeconfig into another: pure, and nothing else in it is touched.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeOptions<'a> {
    /// Name of the context, the cluster and the user.
    pub(super) name: &'a str,
    /// Overwrite what points elsewhere.
    pub(super) force: bool,
    /// Make it the current context.
    pub(super) make_current: bool,
}

/// Puts the current context of `tenant` into `config`. False: it is there already.
pub(super) fn merge(config: &mut Value, tenant: &Value, options: MergeOptions<'_>) -> anyhow::Result<bool> {
    if !config.is_object() {
        bail!("it is not a kubeconfig");
    }
    let context = named(tenant, "contexts", tenant["current-context"].as_str().unwrap_or_default())
        .context("the tenant's kubeconfig has no current context")?["context"]
        .clone();
    let part = |list: &str, field: &str| {
        let name = context[field].as_str().unwrap_or_default();
        named(tenant, list, name)
            .map(|e| e[field].clone())
            .with_context(|| format!("the tenant's kubeconfig has no {field} {name}"))
    };
    let (cluster, user) = (part("clusters", "cluster")?, part("users", "user")?);
    let name = options.name;
    let elsewhere = elsewhere(config, name, &cluster);
    if let (Some(why), false) = (&elsewhere, options.force) {
        bail!("{why}. Overwrite it with --force, or choose another name with --context-name");
    }
    // What belonged to something else goes as a whole: its token, say, is not for this tenant's API server.
    let same = elsewhere.is_none() && named(config, "clusters", name).is_some();
    let before = config.clone();
    put(config, "clusters", "cluster", name, &cluster, same)?;
    put(config, "users", "user", name, &user, same)?;
    put(config, "contexts", "context", name, &json!({"cluster": name, "user": name}), true)?;
    if options.make_current {
        config["current-context"] = name.into();
    }
    Ok(*config != before)
}

/// What is called so and is not this tenant.
fn elsewhere(config: &Value, name: &str, wanted: &Value) -> Option<String> {
    let cluster = named(config, "clusters", name).map(|c| &c["cluster"]);
    if let Some(cluster) = cluster {
        let (is, should) = (text(cluster, "server"), text(wanted, "server"));
        if is != should {
            return Some(format!("cluster {name} exists and points to {is}, not to {should}"));
        }
        let ca = "certificate-authority-data";
        if cluster[ca] != wanted[ca] {
            return Some(format!("cluster {name} exists and trusts another CA for {is}"));
        }
    }
    if let Some(context) = named(config, "contexts", name).map(|c| &c["context"]) {
        for field in ["cluster", "user"] {
            if context[field] != name {
                return Some(format!("context {name} exists with {field} {}", text(context, field)));
            }
        }
    } else if cluster.is_none() && named(config, "users", name).is_some() {
        return Some(format!("user {name} exists and belongs to something else"));
    }
    None
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("nothing")
}

fn named<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    config[list].as_array()?.iter().find(|e| e["name"] == name)
}

/// Sets these fields of an entry. Others that somebody added stay if the entry is to be kept.
fn put(config: &mut Value, list: &str, field: &str, name: &str, fields: &Value, keep: bool) -> anyhow::Result<()> {
    if config[list].is_null() {
        config[list] = json!([]);
    }
    let entries = config[list].as_array_mut().with_context(|| format!("{list}: it is not a list"))?;
    let entry = match entries.iter().position(|e| e["name"] == name) {
        Some(at) => &mut entries[at],
        None => entries.push_mut(json!({"name": name})),
    };
    if !keep || !entry[field].is_object() {
        entry[field] = json!({});
    }
    for (key, value) in fields.as_object().into_iter().flatten() {
        entry[field][key] = value.clone();
    }
    Ok(())
}

/// Names of the contexts in the text of a file, if it is a kubeconfig, other than the current one of `tenant`.
pub(super) fn others(file: &str, tenant: &str) -> Vec<String> {
    let parse = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap_or_default();
    let (file, tenant) = (parse(file), parse(tenant));
    let names = file["contexts"].as_array().into_iter().flatten().map(|c| &c["name"]);
    names.filter(|n| **n != tenant["current-context"]).filter_map(|n| n.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "team-a/acme";

    fn tenant(server: &str, key: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "admin@acme",
            "clusters": [{"name": "acme", "cluster": {"server": server, "certificate-authority-data": "ca"}}],
            "users": [{"name": "admin", "user": {"client-key-data": key}}],
            "contexts": [{"name": "admin@acme", "context": {"cluster": "acme", "user": "admin"}}],
        })
    }

    fn others() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "work", "preferences": {"colors": true},
            "clusters": [{"name": "work", "cluster": {"server": "https://work", "extensions": [{"name": "x"}]}}],
            "users": [{"name": "me", "user": {"exec": {"command": "login"}}}],
            "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me", "namespace": "n"}}],
        })
    }

    fn options() -> MergeOptions<'static> {
        MergeOptions { name: NAME, force: false, make_current: false }
    }

    #[test]
    fn others_stay_and_a_second_time_changes_nothing() {
        let mut config = others();
        assert!(merge(&mut config, &tenant("https://a", "k"), options()).unwrap());
        for list in ["clusters", "users", "contexts"] {
            assert_eq!(config[list][0], others()[list][0]);
            assert_eq!(config[list][1]["name"], NAME);
        }
        assert_eq!(config["current-context"], "work");
        assert_eq!(config["preferences"], others()["preferences"]);
        assert_eq!(config["contexts"][1]["context"], json!({"cluster": NAME, "user": NAME}));
        assert!(!merge(&mut config, &tenant("https://a", "k"), options()).unwrap());
    }

    #[test]
    fn a_renewed_certificate_takes_its_place_and_a_chosen_namespace_stays() {
        let mut config = others();
        merge(&mut config, &tenant("https://a", "k"), options()).unwrap();
        config["contexts"][1]["context"]["namespace"] = "mine".into();
        assert!(merge(&mut config, &tenant("https://a", "renewed"), options()).unwrap());
        assert_eq!(config["users"][1]["user"]["client-key-data"], "renewed");
        assert_eq!(config["contexts"][1]["context"]["namespace"], "mine");
        assert_eq!(config["users"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_somebody_added_to_an_entry_stays() {
        let mut config = others();
        merge(&mut config, &tenant("https://a", "k"), options()).unwrap();
        config["clusters"][1]["cluster"]["proxy-url"] = "socks5://mine".into();
        config["clusters"][1]["cluster"]["tls-server-name"] = "mine".into();
        config["users"][1]["user"]["extensions"] = json!([{"name": "mine"}]);
        config["contexts"][1]["context"]["namespace"] = "mine".into();
        let mut wanted = config.clone();
        assert!(!merge(&mut config, &tenant("https://a", "k"), options()).unwrap());
        assert_eq!(config, wanted);
        assert!(merge(&mut config, &tenant("https://a", "renewed"), options()).unwrap());
        wanted["users"][1]["user"]["client-key-data"] = "renewed".into();
        assert_eq!(config, wanted);
    }

    #[test]
    fn credentials_for_something_else_are_not_kept_for_this_tenant() {
        let forced = MergeOptions { force: true, ..options() };
        let elsewhere = json!({"name": NAME, "cluster": {"server": "https://b", "tls-server-name": "b"}});
        for clusters in [json!([elsewhere]), json!([])] {
            let user = json!({"name": NAME, "user": {"token": "of-another", "client-key-data": "old"}});
            let mut config = json!({"clusters": clusters, "users": [user]});
            config["contexts"] = json!([{"name": NAME, "context": {"cluster": NAME, "user": NAME}}]);
            merge(&mut config, &tenant("https://a", "k"), forced).unwrap();
            assert_eq!(config["users"], json!([{"name": NAME, "user": {"client-key-data": "k"}}]));
            assert_eq!(config["clusters"][0]["cluster"], tenant("https://a", "k")["clusters"][0]["cluster"]);
        }
    }

    #[test]
    fn what_points_elsewhere_is_refused_unless_forced() {
        let mut config = others();
        merge(&mut config, &tenant("https://a", "k"), options()).unwrap();
        let before = config.clone();
        let refused = |config: &mut Value, tenant: &Value| merge(config, tenant, options()).unwrap_err().to_string();
        let why = refused(&mut config, &tenant("https://b", "k"));
        assert!(why.contains("points to https://a, not to https://b") && why.contains("--force"), "{why}");
        let mut other_ca = tenant("https://a", "k");
        other_ca["clusters"][0]["cluster"]["certificate-authority-data"] = "another".into();
        assert!(refused(&mut config, &other_ca).contains("another CA"));
        assert_eq!(config, before);
        let forced = MergeOptions { force: true, ..options() };
        assert!(merge(&mut config, &tenant("https://b", "k"), forced).unwrap());
        assert_eq!(config["clusters"][1]["cluster"]["server"], "https://b");

        let mut config = json!({"users": [{"name": NAME, "user": {}}]});
        assert!(refused(&mut config, &tenant("https://a", "k")).contains("user team-a/acme exists"));
        let mut config = json!({"contexts": [{"name": NAME, "context": {"cluster": "work", "user": "me"}}]});
        assert!(refused(&mut config, &tenant("https://a", "k")).contains("with cluster work"));
    }

    #[test]
    fn an_empty_one_is_filled_and_the_current_context_is_set_on_demand() {
        let mut config = json!({"apiVersion": "v1", "kind": "Config", "clusters": null});
        let options = MergeOptions { make_current: true, ..options() };
        assert!(merge(&mut config, &tenant("https://a", "k"), options).unwrap());
        assert_eq!(config["current-context"], NAME);
        assert!(merge(&mut json!([]), &tenant("https://a", "k"), options).is_err());
        assert!(merge(&mut json!({}), &json!({}), options).is_err());
    }

    #[test]
    fn no_message_holds_a_key() {
        let mut config = others();
        merge(&mut config, &tenant("https://a", "very-secret"), options()).unwrap();
        let error = merge(&mut config, &tenant("https://b", "very-secret"), options()).unwrap_err();
        assert!(!format!("{error:#} {error:?}").contains("very-secret"));
    }
}
