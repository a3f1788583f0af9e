//! The operator's own configuration, from its Deployment and its ConfigMap, and what the meta cluster says of itself.

use berth_api::common::AgentDelivery;
use berth_kubeio::{Io, IoError, list_nodes, meta_ranges};
use berth_pki::Lifetime;
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_plan::meta_cluster::nodes::no_image_volumes;
use berth_plan::settings::Config;
use berth_plan::{MetaCluster, Settings};
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the operator's Deployment and ConfigMap, as in the chart.
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
    let key = |kind| ObjectKey::namespaced(kind, namespace, NAME);
    let deployment = io.get(&key(Kind::Deployment)).await;
    let map = io.get(&key(Kind::ConfigMap)).await;
    if matches!((&deployment, &map), (Ok(None), Ok(None))) {
        notes.push(format!(
            "the operator's defaults are assumed, because namespace {namespace} has no ConfigMap {NAME}. Set the operator's namespace with --operator-namespace"
        ));
    }
    let mut readable = |what: Result<Option<Value>, IoError>| {
        what.unwrap_or_else(|error| {
            notes.push(format!("the operator's defaults are assumed: {error}"));
            None
        })
    };
    let (deployment, map) = (readable(deployment), readable(map));
    let text = map.as_ref().and_then(|m| m["data"]["config.yaml"].as_str());
    let config = match text.map(Config::parse).transpose() {
        Ok(config) => config.unwrap_or_default(),
        Err(error) => {
            notes.push(format!("the operator's defaults are assumed: ConfigMap {namespace}/{NAME}: {error}"));
            Config::default()
        }
    };
    let flags = deployment.as_ref().map(flags).unwrap_or_default();
    let given = config.given.clone();
    let ranges = meta_ranges(io, given.clone()).await.map_err(|e| e.to_string());
    if let Err(error) = &ranges {
        notes.push(format!(
            "not all addresses of the meta cluster are known, so networks of new Clusters are not checked against them, and NetworkPolicies that name them are not compared: {error}"
        ));
    }
    let mut settings = of(&flags, namespace);
    if deployment.is_some() && matches!(flags.get("agent-delivery").map(String::as_str), None | Some("Auto" | "auto")) {
        match list_nodes(io).await.map(|nodes| no_image_volumes(&nodes)) {
            Ok(None) => settings.agent_delivery = AgentDelivery::ImageVolume,
            Ok(Some(_)) => {}
            Err(error) => {
                notes.push(format!("it is assumed that new pods get the agent from an init container: {error}"));
            }
        }
    }
    settings.isolation = config.isolation();
    settings.writers = config.writers;
    settings.vpc = config.vpc;
    let meta = MetaCluster { addresses: ranges, ..MetaCluster::default() };
    Found { settings, meta: Arc::new(meta), given, notes }
}

/// How long the operator lets leaf certificates live; None: its Deployment is not there, or may not be read.
pub(crate) async fn leaf_lifetime(io: &Io, namespace: &str) -> Option<SignedDuration> {
    let deployment = io.get(&ObjectKey::namespaced(Kind::Deployment, namespace, NAME)).await.ok()??;
    Some(of(&flags(&deployment), namespace).leaf_lifetime.total)
}

/// What the operator's flags say.
fn of(flags: &BTreeMap<String, String>, namespace: &str) -> Settings {
    let default = Settings::default();
    let get = |name: &str| flags.get(name).cloned();
    // The chart's service account has this name unless told otherwise; a flag that is empty binds none.
    let account = get("service-account").unwrap_or_else(|| NAME.to_owned());
    let minutes = get("leaf-lifetime-minutes").and_then(|m| m.parse().ok());
    Settings {
        registry: get("image-registry").unwrap_or_default(),
        agent_image: get("agent-image").unwrap_or(default.agent_image.clone()),
        agent_delivery: AgentDelivery::of(get("agent-delivery").as_deref()),
        service_account: (!account.is_empty()).then(|| (namespace.to_owned(), account)),
        leaf_lifetime: minutes.map_or(default.leaf_lifetime, |m| Lifetime::leaf(SignedDuration::from_mins(m))),
        ..default
    }
}

/// Flags of the operator's container by name, with those that come by environment.
fn flags(deployment: &Value) -> BTreeMap<String, String> {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let list = |field: &str| container[field].as_array().cloned().unwrap_or_default();
    let variable = |e: &Value| {
        let name = e["name"].as_str()?.strip_prefix("BERTH_")?.to_lowercase().replace('_', "-");
        Some((name, e["value"].as_str()?.to_owned()))
    };
    let mut all: BTreeMap<String, String> = list("env").iter().filter_map(variable).collect();
    let args: Vec<String> = list("args").iter().filter_map(|a| a.as_str().map(str::to_owned)).collect();
    for (i, arg) in args.iter().enumerate() {
        let Some(flag) = arg.strip_prefix("--") else { continue };
        match (flag.split_once('='), args.get(i + 1)) {
            (Some((name, value)), _) => _ = all.insert(name.to_owned(), value.to_owned()),
            (None, Some(value)) if !value.starts_with("--") => _ = all.insert(flag.to_owned(), value.clone()),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_are_read_as_the_operator_reads_them() {
        let container = json!({
            "args": ["--agent-image=registry/agent:1", "--image-registry", "registry", "--leaf-lifetime-minutes=60", "--x"],
            "env": [{"name": "BERTH_SERVICE_ACCOUNT", "value": "me"}, {"name": "BERTH_AGENT_IMAGE", "value": "old"},
                {"name": "POD_NAME", "valueFrom": {}}],
        });
        let flags = flags(&json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
        let settings = of(&flags, "berth-system");
        assert_eq!((&*settings.agent_image, &*settings.registry), ("registry/agent:1", "registry"));
        assert_eq!(settings.service_account, Some(("berth-system".into(), "me".into())));
        assert_eq!(settings.leaf_lifetime.total, SignedDuration::from_hours(1));
    }
}
