//! The operator's own configuration, from its Deployment and its ConfigMap, and what the meta cluster says of itself.

mod process;

use berth_kubeio::{Io, agent_delivery, meta_nodes, meta_ranges, read_pull_secrets};
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_plan::settings::{Config, Flags};
use berth_plan::{MetaCluster, Settings};
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use process::{Process, Source};
use std::sync::Arc;

/// Name of the operator's Deployment, ConfigMap and ServiceAccount, as in the chart.
const NAME: &str = "berth-operator";

/// What was found out.
#[derive(Debug)]
pub(super) struct Found {
    /// What plans depend on.
    pub(super) settings: Settings,
    /// What was found out of the meta cluster.
    pub(super) meta: Arc<MetaCluster>,
    /// What the configuration says of the meta cluster's addresses.
    pub(super) given: MetaRanges,
    /// What was assumed.
    pub(super) notes: Vec<String>,
}

/// Reads what is readable; the rest is assumed, and said.
pub(super) async fn settings(io: &Io, namespace: &str) -> Found {
    let mut notes = vec![];
    let deployment = io.get(&ObjectKey::namespaced(Kind::Deployment, namespace, NAME)).await;
    let process = match &deployment {
        Ok(Some(deployment)) => Process::of(deployment, namespace),
        _ => Process::assumed(namespace),
    };
    let (text, unread) = match configuration(io, namespace, &process.source).await {
        Ok(text) => (text, None),
        Err(why) => (None, Some(why)),
    };
    match deployment {
        Ok(Some(_)) => {}
        // That there is no ConfigMap either says it all.
        Ok(None) if unread.as_ref().is_some_and(|unread| unread.is_missing) => {}
        Ok(None) => notes.push(format!(
            "the defaults of the operator's flags are assumed, because namespace {namespace} has no Deployment {NAME}"
        )),
        Err(error) => notes.push(format!("the operator's defaults are assumed: {error}")),
    }
    notes.extend(process.notes);
    notes.extend(unread.map(|unread| unread.note));
    let config = match text.as_deref().map(Config::parse).transpose() {
        Ok(config) => config.unwrap_or_default(),
        Err(error) => {
            notes.push(format!("the operator's defaults are assumed: its configuration: {error}"));
            Config::default()
        }
    };
    if !config.unknown.is_empty() {
        notes.push(format!(
            "this version of kubectl-berth does not know {} of the operator's configuration and leaves it out: use the kubectl-berth of the operator's version",
            config.unknown.join(", ")
        ));
    }
    let given = config.given.clone();
    let nodes = meta_nodes(io).await;
    let ranges = meta_ranges(io, given.clone(), &nodes).await.map_err(|e| e.to_string());
    if let Err(error) = &ranges {
        notes.push(format!(
            "not all addresses of the meta cluster are known, so networks of new Clusters are not checked against them, and NetworkPolicies that name them are not compared: {error}"
        ));
    }
    let (delivery, why) = agent_delivery(io, process.flags.agent_delivery).await;
    if let Err(error) = why {
        notes.push(format!("it is assumed that new pods get the agent from an init container: {error}"));
    }
    let settings = Settings::from_chart(process.flags, delivery, config);
    // Of what this user may not read nothing is planned.
    let (pull_secrets, _) = read_pull_secrets(io, &settings.backups.namespace, &settings.pull_secrets).await;
    let room = nodes.ok().map(|nodes| Arc::new(nodes.room));
    let meta = MetaCluster { pull_secrets, room, ..MetaCluster::new(ranges, &settings) };
    Found { settings, meta: Arc::new(meta), given, notes }
}

/// Why the configuration is not known.
struct Unread {
    /// Its ConfigMap is not there.
    is_missing: bool,
    note: String,
}

/// The operator's configuration file. None: it has none.
async fn configuration(io: &Io, namespace: &str, source: &Source) -> Result<Option<String>, Unread> {
    let unread =
        |note: String| Unread { is_missing: false, note: format!("the operator's defaults are assumed{note}") };
    let (name, key) = match source {
        Source::Nothing => return Ok(None),
        Source::Elsewhere(path) => {
            let why = format!(": its configuration {path} is of no ConfigMap that its Deployment mounts");
            return Err(unread(why));
        }
        Source::ConfigMap { name, key } => (name, key),
    };
    let map = io.get(&ObjectKey::namespaced(Kind::ConfigMap, namespace, name.as_str())).await;
    let Some(map) = map.map_err(|error| unread(format!(": {error}")))? else {
        let way_out = "Set the operator's namespace with --operator-namespace";
        let why = format!(", because namespace {namespace} has no ConfigMap {name}. {way_out}");
        return Err(Unread { is_missing: true, ..unread(why) });
    };
    let text = map["data"][key].as_str().map(str::to_owned);
    let unkeyed = || unread(format!(", because ConfigMap {namespace}/{name} has no key {key}"));
    text.ok_or_else(unkeyed).map(Some)
}

/// How long the operator lets leaf certificates live; None: its Deployment is not there, or may not be read.
pub(crate) async fn leaf_lifetime(io: &Io, namespace: &str) -> Option<SignedDuration> {
    Some(SignedDuration::from_mins(flags(io, namespace).await?.leaf_lifetime_minutes))
}

/// Where the operator takes upstream's images from, likewise. Empty: from upstream.
pub(crate) async fn image_registry(io: &Io, namespace: &str) -> Option<String> {
    Some(flags(io, namespace).await?.image_registry)
}

async fn flags(io: &Io, namespace: &str) -> Option<Flags> {
    let deployment = io.get(&ObjectKey::namespaced(Kind::Deployment, namespace, NAME)).await.ok()??;
    Some(Process::of(&deployment, namespace).flags)
}
