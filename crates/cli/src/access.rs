//! The meta cluster: which one, and what is read there.

use crate::args::Meta;
use crate::output;
use anyhow::{Context as _, anyhow, bail};
use berth_api::{Cluster, names};
use berth_fence::{Fence, FencedClient};
use berth_kubeio::{Calls, ErrorKind, Io, IoError};
use berth_render::{Kind, ObjectKey};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Patience with one call.
const DEADLINE: Duration = Duration::from_secs(20);

/// Access to the meta cluster.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Calls. Whether they may write is the fence's to say.
    pub(crate) io: Io,
    /// The namespace that is meant.
    pub(crate) namespace: String,
    /// Which server it is, and who said so.
    pub(crate) origin: String,
}

impl Access {
    /// For reading: writes are impossible.
    pub(crate) async fn to_read(meta: &Meta) -> anyhow::Result<Self> {
        Self::new(meta, Fence::closed()).await
    }

    /// For writing, too.
    pub(crate) async fn to_write(meta: &Meta) -> anyhow::Result<Self> {
        Self::new(meta, Fence::open()).await
    }

    async fn new(meta: &Meta, fence: Fence) -> anyhow::Result<Self> {
        let (config, source) = config(meta).await?;
        let origin = format!("{} ({source})", config.cluster_url.to_string().trim_end_matches('/'));
        let namespace = meta.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = FencedClient::connect(config, fence).context("the kubeconfig of the meta cluster")?;
        Ok(Self { io: Io::new(client, Arc::new(Calls::default()), DEADLINE), namespace, origin })
    }

    /// The object, if it is there.
    pub(crate) async fn get(&self, key: &ObjectKey) -> anyhow::Result<Option<Value>> {
        self.io.get(key).await.map_err(|e| self.explain(e))
    }

    /// The `Cluster` of that name, as stored.
    pub(crate) async fn cluster(&self, name: &str) -> anyhow::Result<Value> {
        let key = ObjectKey::namespaced(Kind::Cluster, &self.namespace, name);
        if let Some(value) = self.get(&key).await? {
            return Ok(value);
        }
        self.installed().await?;
        if let Some((namespace, name)) = name.split_once('/') {
            bail!("{namespace}/{name}: pass the namespace with -n: {name} -n {namespace}");
        }
        Err(anyhow!("{key} does not exist. List all Clusters with: kubectl berth status -A"))
    }

    /// What messages call the `Cluster` of that name, and the `Cluster` as stored and as it is read.
    pub(crate) async fn read_cluster(&self, name: &str) -> anyhow::Result<(String, Value, Cluster)> {
        let value = self.cluster(name).await?;
        let of = format!("Cluster {}/{name}", self.namespace);
        let cluster = parse(value.clone(), &of)?;
        Ok((of, value, cluster))
    }

    /// All `Cluster`s, those of a namespace, or those with labels, and how many this version cannot read: each is complained of, and is no
    /// reason to hide the others.
    pub(crate) async fn clusters(
        &self,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> anyhow::Result<(Vec<Cluster>, usize)> {
        let items = match self.io.list(Kind::Cluster, namespace, selector).await {
            Ok(items) => items,
            Err(error) => {
                self.installed().await?;
                return Err(self.explain(error));
            }
        };
        let asked = items.len();
        let read = |item: Value| {
            let of = ObjectKey::of(Kind::Cluster, &item).to_string();
            parse(item, &of).inspect_err(output::complain).ok()
        };
        let all: Vec<Cluster> = items.into_iter().filter_map(read).collect();
        let unreadable = asked - all.len();
        Ok((all, unreadable))
    }

    /// Where the control plane of that `Cluster` is, or will be.
    pub(crate) fn control_plane_namespace(&self, cluster: &Cluster, name: &str) -> String {
        let recorded = cluster.status.as_ref().and_then(|s| s.control_plane_namespace.as_ref());
        recorded.map_or_else(|| names::control_plane_namespace(&self.namespace, name), |n| n.name.clone())
    }

    /// The error of a call, with the way out where there is one.
    pub(crate) fn explain(&self, error: IoError) -> anyhow::Error {
        match error.kind {
            ErrorKind::Forbidden => {
                anyhow!("{error}. You lack that right: have it granted, or use another context (--context)")
            }
            ErrorKind::Transient => {
                anyhow!("{error}. The server is {}. Choose another with --context or --kubeconfig", self.origin)
            }
            _ => anyhow::Error::new(error),
        }
    }

    /// An error if the meta cluster does not know Berth's resources.
    pub(crate) async fn installed(&self) -> anyhow::Result<()> {
        match self.io.raw("/apis/berth.dev/v1alpha1").await {
            Err(e) if e.kind == ErrorKind::NotFound => Err(anyhow!(
                "this cluster has no resource clusters.berth.dev. Install the chart berth-crds, or choose another cluster with --context"
            )),
            _ => Ok(()),
        }
    }
}

/// The configuration, and where it is from.
async fn config(meta: &Meta) -> anyhow::Result<(Config, String)> {
    let options = KubeConfigOptions { context: meta.context.clone(), ..KubeConfigOptions::default() };
    let file = match &meta.kubeconfig {
        Some(path) => {
            Kubeconfig::read_from(path).map_err(discreet).with_context(|| format!("kubeconfig {}", path.display()))?
        }
        None => match Kubeconfig::read() {
            Ok(file) => file,
            Err(error @ KubeconfigError::Parse(_)) => return Err(discreet(error)),
            // In a pod there is no file.
            Err(error) => {
                let config = Config::incluster()
                    .map_err(|_| anyhow::Error::new(error))
                    .context("no access to a meta cluster: name its kubeconfig with --kubeconfig, or set KUBECONFIG")?;
                return Ok((config, "the service account of this pod".to_owned()));
            }
        },
    };
    let contexts: Vec<_> = file.contexts.iter().map(|c| c.name.clone()).collect();
    let context = meta.context.clone().or_else(|| file.current_context.clone()).unwrap_or_default();
    let variable = std::env::var("KUBECONFIG").ok().filter(|v| !v.is_empty());
    let path = meta.kubeconfig.as_ref().map(|path| path.display().to_string());
    let path = path.or(variable).unwrap_or_else(|| "~/.kube/config".to_owned());
    let config = Config::from_custom_kubeconfig(file, &options).await.with_context(|| match &meta.context {
        Some(context) => format!("context {context}; the kubeconfig has: {}", contexts.join(", ")),
        None => "the kubeconfig's current context; choose one with --context".to_owned(),
    })?;
    Ok((config, format!("context {context} in {path}")))
}

/// Errors of the parser quote what they read, which is secret.
fn discreet(error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::Parse(_) => anyhow!("it is not a kubeconfig in YAML"),
        // Its own text has the path and the cause, which come with the error's context.
        KubeconfigError::ReadConfig(cause, _) => anyhow::Error::new(cause),
        error => anyhow::Error::new(error),
    }
}

/// A `Cluster` from what is stored or written in a file.
pub(crate) fn parse<T: DeserializeOwned>(value: Value, of: &str) -> anyhow::Result<T> {
    serde_json::from_value(value).with_context(|| {
        format!(
            "{of}: this version of kubectl-berth cannot read it. Correct that field, or use the kubectl-berth of the operator's version"
        )
    })
}

/// The namespace that a file and the command line name.
pub(crate) fn namespace_of<'a>(said: Option<&'a str>, asked: Option<&'a str>) -> anyhow::Result<Option<&'a str>> {
    match (said, asked) {
        (Some(said), Some(asked)) if said != asked => {
            bail!("the file says namespace {said}, and -n says {asked}; leave one of them out")
        }
        (said, asked) => Ok(said.or(asked)),
    }
}

/// The `Cluster` in a file.
pub(crate) fn cluster_in(path: &Path) -> anyhow::Result<Cluster> {
    object_in(path, "Cluster")
}

/// The object of that kind in a file.
pub(crate) fn object_in<T: DeserializeOwned>(path: &Path, kind: &str) -> anyhow::Result<T> {
    let text = output::read(path)?;
    let file = path.display();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(|| format!("{file}: not YAML"))?;
    let mut found = documents
        .into_iter()
        .filter(|d| d["kind"] == kind && d["apiVersion"] == format!("{}/{}", berth_api::GROUP, berth_api::VERSION));
    let (first, second) = (found.next(), found.next());
    let object = match (first, second) {
        (Some(object), None) => object,
        (None, _) => bail!("{file}: it has no {kind} of berth.dev/v1alpha1"),
        (Some(_), Some(_)) => bail!("{file}: it has more than one {kind}; pass one at a time"),
    };
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        bail!("{file}: metadata.name is missing");
    }
    parse(object, &file.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn read(text: &str) -> Result<Cluster, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        cluster_in(file.path()).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn a_file_holds_one_cluster_and_a_wrong_one_says_where() {
        let cluster =
            "apiVersion: berth.dev/v1alpha1\nkind: Cluster\nmetadata: {name: acme}\nspec: {version: 1.36.3}\n";
        assert_eq!(read(cluster).unwrap().spec.version, "1.36.3");
        let beside = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-a}}\n---\n{cluster}");
        assert!(read(&beside).is_ok());
        assert!(read(&format!("{cluster}---\n{cluster}")).unwrap_err().contains("more than one"));
        assert!(read("kind: Pod").unwrap_err().contains("no Cluster"));
        assert!(read(&cluster.replace("name: acme", "")).unwrap_err().contains("metadata.name"));
        assert!(read(&cluster.replace("version:", "versoin:")).unwrap_err().contains("versoin"));
    }
}
