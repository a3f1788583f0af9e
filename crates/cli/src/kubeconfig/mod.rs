//! `kubeconfig`: the tenant's kubeconfig, printed, written or merged.

mod file;
mod merge;
mod oidc;
mod tenant;

pub(crate) use file::PrivateFile;

use crate::access::{Access, parse};
use crate::args::{Kubeconfig, Meta};
use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context as _, anyhow, bail};
use base64::Engine;
use berth_api::conditions::{ConditionType, find};
use berth_api::{Cluster, labels, names};
use berth_kubeio::ErrorKind;
use berth_render::{Kind, ObjectKey};
use kube::config::KubeConfigOptions;
use std::path::{Path, PathBuf};

/// Reads the Secret, and does with it as asked.
pub(crate) async fn run(meta: &Meta, args: &Kubeconfig) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let Some(text) = published(&access, &args.name).await? else { return Ok(Outcome::NotYet) };
    let text = match &args.oidc {
        Some(issuer) => {
            let (_, _, cluster) = access.read_cluster(&args.name).await?;
            let issuer = Some(&**issuer).filter(|url| !url.is_empty());
            oidc::kubeconfig(&text, &cluster, (issuer, args.oidc_client.as_deref()))?
        }
        None => text,
    };
    if args.merge {
        let path = match &args.into {
            Some(path) => path.clone(),
            None => default_file(std::env::var("KUBECONFIG").ok().as_deref(), std::env::home_dir().as_deref())?,
        };
        let context = args.context_name.clone().unwrap_or_else(|| format!("{}/{}", access.namespace, args.name));
        merge_into(&path, &text, &context, args)?;
    } else if let Some(path) = &args.out {
        write_out(path, &text, args.force)?;
        let path = path.display();
        output::note(&format!("written to {path}; try: kubectl --kubeconfig {path} get namespaces"));
    } else {
        output::print(&text)?;
    }
    Ok(Outcome::Done)
}

/// A kubeconfig as a value. Errors of the parser quote what they read, which is secret.
pub(crate) fn parsed(text: &str) -> anyhow::Result<serde_json::Value> {
    serde_saphyr::from_str(text).map_err(|_| anyhow!("it is not a kubeconfig in YAML"))
}

/// The configuration of a client with that kubeconfig.
pub(crate) async fn config(text: &str) -> anyhow::Result<kube::Config> {
    let file = kube::config::Kubeconfig::from_yaml(text).map_err(|_| anyhow!("it is not a kubeconfig in YAML"))?;
    Ok(kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

/// The published kubeconfig. None: there is none yet, and a note says why.
pub(crate) async fn published(access: &Access, name: &str) -> anyhow::Result<Option<String>> {
    Ok(read(access, name).await?.inspect_err(|why| output::note(why)).ok())
}

/// The published kubeconfig, if it has no other field than those that Berth writes. The error inside: there is none yet, and why. It comes
/// by itself, so whoever polls has to tell that from other errors.
async fn read(access: &Access, name: &str) -> anyhow::Result<Result<String, String>> {
    let key = ObjectKey::namespaced(Kind::Secret, &access.namespace, names::kubeconfig(name));
    let Some(secret) = access.get(&key).await? else {
        let (_, _, cluster) = access.read_cluster(name).await?;
        return Ok(Err(format!("{key} does not exist yet; {}", not_yet(access, name, cluster, "Ready"))));
    };
    if secret["type"] != labels::CAPI_SECRET_TYPE {
        bail!("{key} is not Berth's: its type is not {}", labels::CAPI_SECRET_TYPE);
    }
    let value = secret["data"]["value"].as_str().with_context(|| format!("{key} has no key `value`"))?;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(value)
        .map_err(|_| anyhow!("{key}: the key `value` is not base64"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{key}: the key `value` is not text"))?;
    let text = tenant::rebuilt(&text).map_err(|why| strange(access, name, &key, &why))?;
    Ok(unanswered(access, name, &key).await?.map_or(Ok(text), Err))
}

/// Berth publishes a kubeconfig before the API answers: with it, a new tenant's owner would only be refused. None: it has answered, or
/// who asks may read no `Cluster`.
async fn unanswered(access: &Access, name: &str, key: &ObjectKey) -> anyhow::Result<Option<String>> {
    let of = ObjectKey::namespaced(Kind::Cluster, &access.namespace, name);
    let cluster: Cluster = match access.io.get(&of).await {
        Err(error) if error.kind == ErrorKind::Forbidden => return Ok(None),
        Err(error) => return Err(access.explain(error)),
        Ok(Some(cluster)) => parse(cluster, name)?,
        Ok(None) => access.read_cluster(name).await?.2,
    };
    // What the API itself said once, and what stays when it is down.
    if cluster.status.as_ref().is_some_and(|s| s.version.is_some()) {
        return Ok(None);
    }
    Ok(Some(format!(
        "{key} exists, and the API has not answered yet, so it would not work; {}",
        not_yet(access, name, cluster, "Available")
    )))
}

/// It is there, and not as Berth writes it.
fn strange(access: &Access, name: &str, key: &ObjectKey, why: &anyhow::Error) -> anyhow::Error {
    let ns = &access.namespace;
    anyhow!(
        "{key}, key `value`: {why}. Berth did not write it, and kubectl would run what it says, so it was not used. Berth writes its own again within 15 minutes; otherwise `kubectl berth status {name} -n {ns}` says why not. Find out who wrote this one"
    )
}

/// What a `Cluster` waits for, and how to wait for that.
fn not_yet(access: &Access, name: &str, cluster: Cluster, condition: &str) -> String {
    let status = cluster.status.unwrap_or_default();
    let why = match find(&status.conditions, ConditionType::Ready) {
        Some(c) if c.status != "True" => format!("the Cluster is not ready: {}", c.message),
        Some(_) => "the Cluster is ready, so Berth creates it again within 15 minutes, or at once after any change of the Cluster".to_owned(),
        None => "the operator has not reconciled the Cluster yet".to_owned(),
    };
    let ns = &access.namespace;
    format!("{why}. Wait with: kubectl -n {ns} wait clusters.berth.dev {name} --for=condition={condition} --timeout=5m")
}

/// Where kubectl writes to.
fn default_file(variable: Option<&str>, home: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(first) = variable.and_then(|v| v.split(':').find(|p| !p.is_empty())) {
        return Ok(first.into());
    }
    let home = home.context("there is no home directory; name the file with --kubeconfig-file")?;
    Ok(home.join(".kube").join("config"))
}

/// Writes it as a file of its own, which is no place for a file that others' contexts are in.
fn write_out(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    write_unless(path, text, |there| {
        let others = if force { vec![] } else { merge::others(there, text) };
        (!others.is_empty()).then(|| {
            let path = path.display();
            format!(
                "{path} exists and has other contexts: {}. Add this one to them with --merge --kubeconfig-file {path}, or overwrite the file with --force",
                others.join(", ")
            )
        })
    })
}

/// Writes a file, unless the text that is there says why not.
pub(crate) fn write_unless(
    path: &Path,
    text: &str,
    why_not: impl FnOnce(&str) -> Option<String>,
) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    if let Some(folder) = folder {
        let folder = folder.display();
        bail!("{}: {folder} does not exist. Create it first: mkdir -p {folder}", path.display());
    }
    if path.is_file()
        && let Some(why) = why_not(&file::read(path)?.unwrap_or_default())
    {
        bail!(why);
    }
    file::write(path, text)
}

fn merge_into(path: &Path, text: &str, context: &str, args: &Kubeconfig) -> anyhow::Result<()> {
    let shown = path.display();
    let _lock = file::lock(path)?;
    // Errors of the parser quote what they read, which is secret.
    let tenant = serde_saphyr::from_str(text).map_err(|_| anyhow!("the tenant's kubeconfig is not YAML"))?;
    let old = file::read(path)?;
    let mut config = match old.as_deref().map(str::trim) {
        None | Some("") => serde_json::json!({"apiVersion": "v1", "kind": "Config"}),
        Some(text) => serde_saphyr::from_str(text).map_err(|_| anyhow!("{shown}: it is not a kubeconfig in YAML"))?,
    };
    let options = merge::MergeOptions { name: context, force: args.force, make_current: args.use_context };
    let changed = merge::merge(&mut config, &tenant, options).with_context(|| shown.to_string())?;
    if changed {
        file::write(path, &output::yaml(&config)?)?;
        let file = args.into.as_ref().map(|_| format!(" --kubeconfig {shown}")).unwrap_or_default();
        output::note(&format!(
            "context {context} is in {shown}; try: kubectl{file} --context {context} get namespaces"
        ));
    } else {
        output::note(&format!("context {context} in {shown} is up to date"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_where_kubectl_would_write() {
        let home = Some(Path::new("/home/me"));
        let file = |variable| default_file(variable, home).unwrap();
        assert_eq!(file(Some("/a:/b")), Path::new("/a"));
        assert_eq!(file(Some(":/b")), Path::new("/b"));
        assert_eq!(file(Some("")), Path::new("/home/me/.kube/config"));
        assert_eq!(file(None), Path::new("/home/me/.kube/config"));
        assert!(default_file(None, None).is_err());
    }

    #[test]
    fn no_folder_is_made_for_a_file_that_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nodir");
        let why = write_out(&folder.join("x"), "text", true).unwrap_err().to_string();
        assert!(why.contains("nodir does not exist. Create it first: mkdir -p "), "{why}");
        assert!(!folder.exists());
    }

    #[test]
    fn a_file_with_other_contexts_is_overwritten_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let of = |names: &[&str]| {
            let contexts: Vec<_> = names.iter().map(|n| serde_json::json!({"name": n})).collect();
            serde_json::json!({"contexts": contexts, "current-context": names[0]}).to_string()
        };
        let mine = of(&["mine"]);
        for old in [&mine, "no kubeconfig", "{unfinished", ""] {
            std::fs::write(&path, old).unwrap();
            write_out(&path, &mine, false).unwrap();
            assert_eq!(file::read(&path).unwrap().as_ref(), Some(&mine));
        }
        let others = of(&["mine", "work", "home"]);
        std::fs::write(&path, &others).unwrap();
        let why = write_out(&path, &mine, false).unwrap_err().to_string();
        assert!(why.contains("other contexts: work, home.") && why.contains("--merge --kubeconfig-file"), "{why}");
        assert_eq!(file::read(&path).unwrap(), Some(others));
        write_out(&path, &mine, true).unwrap();
        assert_eq!(file::read(&path).unwrap(), Some(mine));
    }
}
