//! The operator's own configuration, from its Deployment and its ConfigMap, and what the meta cluster says of itself.

use crate::settings::OperatorConfig;
use berth_api::common::AgentDelivery;
use berth_kubeio::{Io, IoError};
use berth_pki::Lifetime;
use berth_plan::Settings;
use berth_plan::meta::{MetaRanges, network};
use berth_render::{Kind, ObjectKey};
use ipnet::IpNet;
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeMap;

/// Name of the operator's Deployment and ConfigMap, as in the chart.
const NAME: &str = "berth-operator";
/// Nodes in one answer.
const PAGE: u32 = 50;

/// What was found out.
#[derive(Debug)]
pub(super) struct Found {
    /// What plans depend on.
    pub(super) settings: Settings,
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
            "the operator's defaults were assumed: there is no {NAME} in namespace {namespace}. Name its namespace with --operator-namespace"
        ));
    }
    let mut readable = |what: Result<Option<Value>, IoError>| {
        what.unwrap_or_else(|error| {
            notes.push(format!("the operator's defaults were assumed: {error}"));
            None
        })
    };
    let (deployment, map) = (readable(deployment), readable(map));
    let text = map.as_ref().and_then(|m| m["data"]["config.yaml"].as_str());
    let config = match text.map(OperatorConfig::parse).transpose() {
        Ok(config) => config.unwrap_or_default(),
        Err(error) => {
            notes.push(format!("the operator's defaults were assumed: ConfigMap {namespace}/{NAME}: {error:#}"));
            OperatorConfig::default()
        }
    };
    let flags = deployment.as_ref().map(flags).unwrap_or_default();
    let nodes = items(io, "/api/v1/nodes").await;
    let ranges = ranges(io, config.ranges(), nodes.as_ref()).await;
    if let Err(error) = &ranges {
        notes.push(format!("NetworkPolicies that name the meta cluster's addresses are not compared: {error}"));
    }
    let mut settings = of(&flags, namespace);
    if deployment.is_some() && matches!(flags.get("agent-delivery").map(String::as_str), None | Some("Auto" | "auto")) {
        match &nodes {
            Ok(nodes) if !nodes.is_empty() && nodes.iter().all(has_image_volumes) => {
                settings.agent_delivery = AgentDelivery::ImageVolume;
            }
            Ok(_) => {}
            Err(error) => notes.push(format!("new pods are assumed to get the agent by an init container: {error}")),
        }
    }
    settings.isolation = config.isolation(ranges);
    settings.writers = config.writers();
    Found { settings, notes }
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

/// What is given, and the rest from the meta cluster, as the operator does it.
async fn ranges(io: &Io, given: MetaRanges, nodes: Result<&Vec<Value>, &IoError>) -> Result<MetaRanges, String> {
    let mut all = given;
    if all.services.is_empty() {
        let found = items(io, "/apis/networking.k8s.io/v1/servicecidrs").await.map_err(|e| e.to_string())?;
        all.services = nets(found.iter().flat_map(|o| strings(&o["spec"]["cidrs"])));
    }
    if all.api_servers.is_empty() {
        let url = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        let slice = io.raw(url).await.map_err(|e| e.to_string())?;
        let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        all.api_servers = nets(endpoints.iter().flat_map(|e| strings(&e["addresses"])));
    }
    if all.pods.is_empty() || all.nodes.is_empty() {
        let nodes = nodes.map_err(ToString::to_string)?;
        if all.pods.is_empty() {
            all.pods = nets(nodes.iter().flat_map(|n| strings(&n["spec"]["podCIDRs"])));
        }
        if all.nodes.is_empty() {
            let addresses = nodes.iter().flat_map(|n| n["status"]["addresses"].as_array().into_iter().flatten());
            let of_ip = addresses.filter(|a| matches!(a["type"].as_str(), Some("InternalIP" | "ExternalIP")));
            all.nodes = nets(of_ip.filter_map(|a| a["address"].as_str()));
        }
    }
    Ok(all)
}

fn nets<'a>(all: impl Iterator<Item = &'a str>) -> Vec<IpNet> {
    let mut merged = IpNet::aggregate(&all.filter_map(network).collect());
    merged.sort_unstable();
    merged
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

async fn items(io: &Io, url: &str) -> Result<Vec<Value>, IoError> {
    let mut all = vec![];
    let mut next = String::new();
    loop {
        let mut page = io.raw(&format!("{url}?limit={PAGE}&continue={next}")).await?;
        if let Value::Array(items) = page["items"].take() {
            all.extend(items);
        }
        match page["metadata"]["continue"].as_str().filter(|c| !c.is_empty()) {
            Some(token) => token.clone_into(&mut next),
            None => return Ok(all),
        }
    }
}

/// As the operator judges it: kubelet 1.35, with containerd 2.1 or CRI-O 1.35.
fn has_image_volumes(node: &Value) -> bool {
    let field = |name: &str| node["status"]["nodeInfo"][name].as_str().unwrap_or_default();
    let runtime = match field("containerRuntimeVersion").split_once("://") {
        Some(("containerd", version)) => at_least(version, (2, 1)),
        Some(("cri-o", version)) => at_least(version, (1, 35)),
        _ => false,
    };
    runtime && at_least(field("kubeletVersion"), (1, 35)) && field("operatingSystem") == "linux"
}

fn at_least(version: &str, minor: (u64, u64)) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map(str::parse::<u64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(found))) => (major, found) >= minor,
        _ => false,
    }
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

    #[test]
    fn nodes_that_have_image_volumes() {
        let node = |kubelet: &str, runtime: &str| json!({"status": {"nodeInfo": {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime, "operatingSystem": "linux"}}});
        assert!(has_image_volumes(&node("v1.36.3", "containerd://2.1.0")));
        assert!(!has_image_volumes(&node("v1.34.9", "containerd://2.4.2")));
        assert!(!has_image_volumes(&node("v1.36.3", "docker://29.0.0")));
    }
}
