//! The operator's own configuration, from its Deployment and its ConfigMap, and what the meta cluster says of itself.

mod process;

use berth_api::common::AgentDelivery;
use berth_kubeio::{Io, IoError, list_nodes, meta_ranges};
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_plan::meta_cluster::nodes::no_image_volumes;
use berth_plan::settings::Config;
use berth_plan::settings::flags::Delivery;
use berth_plan::{MetaCluster, Settings};
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use process::{Process, Source};
use serde_json::Value;
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
        Ok(None) if matches!(unread, Some(Unread::Missing(_))) => {}
        Ok(None) => notes.push(format!(
            "the defaults of the operator's flags are assumed, because namespace {namespace} has no Deployment {NAME}"
        )),
        Err(error) => notes.push(format!("the operator's defaults are assumed: {error}")),
    }
    notes.extend(process.notes);
    notes.extend(unread.map(|unread| unread.note(namespace)));
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
    let ranges = meta_ranges(io, given.clone()).await.map_err(|e| e.to_string());
    if let Err(error) = &ranges {
        notes.push(format!(
            "not all addresses of the meta cluster are known, so networks of new Clusters are not checked against them, and NetworkPolicies that name them are not compared: {error}"
        ));
    }
    let delivery = match process.flags.agent_delivery {
        Delivery::Always(delivery) => delivery,
        Delivery::Auto => match list_nodes(io).await.map(|nodes| no_image_volumes(&nodes)) {
            Ok(None) => AgentDelivery::ImageVolume,
            Ok(Some(_)) => AgentDelivery::InitContainer,
            Err(error) => {
                notes.push(format!("it is assumed that new pods get the agent from an init container: {error}"));
                AgentDelivery::InitContainer
            }
        },
    };
    let settings = Settings::from_chart(process.flags, delivery, config);
    let meta = MetaCluster { addresses: ranges, ..MetaCluster::default() };
    Found { settings, meta: Arc::new(meta), given, notes }
}

/// Why the operator's configuration is not known.
enum Unread {
    /// There is no such ConfigMap.
    Missing(String),
    /// It has no such key.
    NoKey(String, String),
    /// The file is of no ConfigMap.
    Elsewhere(String),
    Failed(IoError),
}

impl Unread {
    fn note(&self, namespace: &str) -> String {
        match self {
            Self::Missing(name) => format!(
                "the operator's defaults are assumed, because namespace {namespace} has no ConfigMap {name}. Set the operator's namespace with --operator-namespace"
            ),
            Self::NoKey(name, key) => {
                format!("the operator's defaults are assumed, because ConfigMap {namespace}/{name} has no key {key}")
            }
            Self::Elsewhere(path) => format!(
                "the operator's defaults are assumed: its configuration {path} is of no ConfigMap that its Deployment mounts"
            ),
            Self::Failed(error) => format!("the operator's defaults are assumed: {error}"),
        }
    }
}

/// The operator's configuration file. None: it has none.
async fn configuration(io: &Io, namespace: &str, source: &Source) -> Result<Option<String>, Unread> {
    let (name, key) = match source {
        Source::Nothing => return Ok(None),
        Source::Elsewhere(path) => return Err(Unread::Elsewhere(path.clone())),
        Source::ConfigMap { name, key } => (name, key),
    };
    let map =
        io.get(&ObjectKey::namespaced(Kind::ConfigMap, namespace, name.as_str())).await.map_err(Unread::Failed)?;
    let map: Value = map.ok_or_else(|| Unread::Missing(name.clone()))?;
    let text = map["data"][key].as_str().ok_or_else(|| Unread::NoKey(name.clone(), key.clone()))?;
    Ok(Some(text.to_owned()))
}

/// How long the operator lets leaf certificates live; None: its Deployment is not there, or may not be read.
pub(crate) async fn leaf_lifetime(io: &Io, namespace: &str) -> Option<SignedDuration> {
    let deployment = io.get(&ObjectKey::namespaced(Kind::Deployment, namespace, NAME)).await.ok()??;
    Some(SignedDuration::from_mins(Process::of(&deployment, namespace).flags.leaf_lifetime_minutes))
}
