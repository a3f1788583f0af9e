//! How the operator is started, from its Deployment: its flags, and where its configuration file is from.

use super::NAME;
use berth_plan::settings::flags::{self, Flag, Flags};
use serde_json::Value;

/// Where the operator's configuration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It has none.
    Nothing,
    /// Under a key of a `ConfigMap` in its namespace.
    ConfigMap { name: String, key: String },
    /// In a file of its pods that is of no `ConfigMap`.
    Elsewhere(String),
}

/// The chart's.
impl Default for Source {
    fn default() -> Self {
        Self::ConfigMap { name: NAME.into(), key: "config.yaml".into() }
    }
}

/// How the operator is started.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) flags: Flags,
    pub(super) source: Source,
    /// What is assumed, since it is not in the Deployment.
    pub(super) notes: Vec<String>,
}

/// Another object has the value, which is not read.
struct Elsewhere;

impl Process {
    /// As the chart has it, where there is no Deployment to read.
    pub(super) fn assumed(namespace: &str) -> Self {
        let said = |flag| match flag {
            flags::NAMESPACE => Some(namespace.to_owned()),
            flags::SERVICE_ACCOUNT => Some(NAME.to_owned()),
            _ => None,
        };
        Self { flags: Flags::read(said).0, source: Source::default(), notes: vec![] }
    }

    /// As the Deployment in that namespace has it.
    pub(super) fn of(deployment: &Value, namespace: &str) -> Self {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = container(pod);
        let text = |flag| said(container, flag, namespace).ok().flatten();
        let (flags, wrong) = Flags::read(text);
        let is_elsewhere = |flag: &&Flag| said(container, **flag, namespace).is_err();
        let elsewhere = flags::ALL.iter().filter(is_elsewhere).map(|flag| {
            format!(
                "the default of the operator's flag --{} is assumed: its Deployment takes {} from another object, which is not read",
                flag.name, flag.variable
            )
        });
        let wrong = wrong.into_iter().map(|(flag, text)| {
            format!("the default of the operator's flag --{} is assumed: it does not take {text}", flag.name)
        });
        let notes = elsewhere.chain(wrong).collect();
        let path = text(flags::CONFIG).filter(|path| !path.is_empty());
        let source = path.map_or(Source::Nothing, |path| mounted(pod, container, &path));
        Self { flags, source, notes }
    }
}

fn list(value: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The operator's own, among those that others may add.
fn container(pod: &Value) -> &Value {
    let all = &pod["containers"];
    list(all).find(|container| container["name"] == "operator").unwrap_or(&all[0])
}

/// As the operator takes it: an argument counts more than a variable.
fn said(container: &Value, flag: Flag, namespace: &str) -> Result<Option<String>, Elsewhere> {
    let mut args = list(&container["args"]).filter_map(Value::as_str).peekable();
    while let Some(arg) = args.next() {
        let Some(rest) = arg.strip_prefix("--").and_then(|arg| arg.strip_prefix(flag.name)) else { continue };
        match (rest.strip_prefix('='), args.peek()) {
            (Some(value), _) => return Ok(Some(value.to_owned())),
            (None, Some(value)) if rest.is_empty() => return Ok(Some((*value).to_owned())),
            _ => {}
        }
    }
    // Of two with a name, the later one counts.
    let Some(variable) = list(&container["env"]).rfind(|variable| variable["name"] == flag.variable) else {
        return Ok(None);
    };
    if variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace" {
        return Ok(Some(namespace.to_owned()));
    }
    if variable["valueFrom"].is_null() {
        return Ok(Some(variable["value"].as_str().unwrap_or_default().to_owned()));
    }
    Err(Elsewhere)
}

/// What is mounted where a file is.
fn mounted(pod: &Value, container: &Value, path: &str) -> Source {
    let found = list(&container["volumeMounts"]).find_map(|mount| {
        let (at, sub) = (mount["mountPath"].as_str()?.trim_end_matches('/'), mount["subPath"].as_str());
        let file = match (path.strip_prefix(at)?, sub) {
            ("", sub) => sub?,
            (below, None) => below.strip_prefix('/')?,
            (_, Some(_)) => return None,
        };
        let map = &list(&pod["volumes"]).find(|volume| volume["name"] == mount["name"])?["configMap"];
        let key = match map["items"].as_array() {
            Some(items) => items.iter().find(|item| item["path"] == file)?["key"].as_str()?,
            None => file,
        };
        Some(Source::ConfigMap { name: map["name"].as_str()?.to_owned(), key: key.to_owned() })
    });
    found.unwrap_or_else(|| Source::Elsewhere(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::common::AgentDelivery;
    use berth_plan::settings::flags::Delivery;
    use serde_json::json;

    fn process(pod: &Value) -> Process {
        Process::of(&json!({"spec": {"template": {"spec": pod}}}), "berth-system")
    }

    #[test]
    fn flags_are_read_as_the_operator_reads_them() {
        let container = json!({
            "name": "operator",
            "args": ["--agent-image=registry/agent:1", "--image-registry", "registry", "--leaf-lifetime-minutes=60", "--x"],
            "env": [{"name": "BERTH_SERVICE_ACCOUNT", "value": "me"}, {"name": "BERTH_AGENT_IMAGE", "value": "old"},
                {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "BERTH_AGENT_DELIVERY", "value": "imagevolume"}, {"name": "POD_NAME", "valueFrom": {}}],
        });
        let other = json!({"name": "mesh", "args": ["--agent-image=other"]});
        let Process { flags, source, notes } = process(&json!({"containers": [other, container]}));
        let wanted = Flags {
            agent_image: "registry/agent:1".into(),
            agent_delivery: Delivery::Always(AgentDelivery::ImageVolume),
            backup_image: String::new(),
            image_registry: "registry".into(),
            namespace: "berth-system".into(),
            service_account: "me".into(),
            leaf_lifetime_minutes: 60,
        };
        assert_eq!((flags, source, notes), (wanted, Source::Nothing, vec![]));
    }

    #[test]
    fn what_is_elsewhere_or_wrong_is_said() {
        let of_secret = json!({"secretKeyRef": {"name": "s", "key": "k"}});
        let container = json!({
            "args": ["--leaf-lifetime-minutes=long"],
            "env": [{"name": "BERTH_IMAGE_REGISTRY", "valueFrom": of_secret}],
        });
        let Process { flags, notes, .. } = process(&json!({"containers": [container]}));
        assert_eq!((&*flags.image_registry, flags.leaf_lifetime_minutes), ("", 129_600));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("--image-registry") && notes[1].contains("does not take long"), "{notes:?}");
    }

    #[test]
    fn the_configuration_is_what_is_mounted_where_the_operator_looks() {
        let source = |path: &str, mount: Value, volume: Value| {
            let mount = json!([{"name": "tmp", "mountPath": "/tmp"}, mount]);
            let container = json!({"args": [format!("--config={path}")], "volumeMounts": mount});
            process(&json!({"containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}, volume]})).source
        };
        let map = |name: &str, key: &str| Source::ConfigMap { name: name.into(), key: key.into() };
        let volume = json!({"name": "c", "configMap": {"name": "mine"}});
        let mount = json!({"name": "c", "mountPath": "/etc/berth"});
        assert_eq!(source("/etc/berth/c.yaml", mount.clone(), volume.clone()), map("mine", "c.yaml"));
        let items = json!({"name": "c", "configMap": {"name": "mine", "items": [{"key": "k", "path": "c.yaml"}]}});
        assert_eq!(source("/etc/berth/c.yaml", mount.clone(), items), map("mine", "k"));
        let one = json!({"name": "c", "mountPath": "/etc/one.yaml", "subPath": "k"});
        assert_eq!(source("/etc/one.yaml", one, volume.clone()), map("mine", "k"));
        for path in ["/etc/berthed/c.yaml", "/tmp/c.yaml", "/c.yaml"] {
            assert_eq!(source(path, mount.clone(), volume.clone()), Source::Elsewhere(path.into()));
        }
        let projected = json!({"name": "c", "projected": {"sources": []}});
        assert_eq!(source("/etc/berth/c", mount, projected), Source::Elsewhere("/etc/berth/c".into()));
    }
}
