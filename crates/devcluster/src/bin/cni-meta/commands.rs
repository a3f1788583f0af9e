//! ADD, CHECK and DEL.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    api::{Api, PodRef},
    attachment::{self, Attachment},
    config::Config,
    delegate::Environment,
    env,
    error::{Code, Error, Result},
    kubeconfig,
    network::{self, Network},
    selection::{self, Selection},
    status,
    store::Store,
};

/// One call of the runtime.
pub(crate) struct Call {
    config: Config,
    environment: Environment,
    interface: String,
    /// None where the runtime names no pod.
    pod: Option<PodRef>,
    store: Store,
}

impl Call {
    pub(crate) fn from_env(config: Config) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let environment = Environment {
            container: env("CNI_CONTAINERID")?,
            netns: variable("CNI_NETNS"),
            args: variable("CNI_ARGS"),
            path: env("CNI_PATH")?,
        };
        let interface = env("CNI_IFNAME")?;
        let store = Store::new(&config.cni_dir, &environment.container, &interface)?;
        let pod = pod_of(&environment.args);
        Ok(Self { config, environment, interface, pod, store })
    }

    /// Attaches to all networks, or to none; gives the result of the cluster's network.
    pub(crate) fn add(&self) -> Result<Value> {
        let pod = self.pod.as_ref().map(|pod| -> Result<_> {
            let api = Api::new(kubeconfig::read(&self.config.kubeconfig)?)?;
            let object = api.pod(pod)?;
            Ok((pod, api, object))
        });
        let pod = pod.transpose()?;
        let selected = match &pod {
            Some((pod, api, object)) => selected(&self.config, pod, api, object)?,
            None => Vec::new(),
        };
        let mut all = attachment::plan(&self.interface, self.delegates()?, selected)?;
        self.environment.check_programs(&all)?;
        let attached = self.attach(&mut all).and_then(|()| match &pod {
            Some((pod, api, object)) => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                api.write_status(pod, uid, &status::of(&all))
            }
            None => Ok(()),
        });
        if let Err(error) = attached {
            // Should this fail, the file is still there for the runtime's DEL.
            let _ = self.del();
            return Err(error);
        }
        Ok(all.swap_remove(0).result.unwrap_or_default())
    }

    /// Detaches from whatever ADD may have attached to. Neither pod nor API server are asked.
    pub(crate) fn del(&self) -> Result<()> {
        let all = match self.store.read()? {
            Some(all) => all,
            // Nothing is known: the cluster's network may still hold something, and DEL does no harm.
            None => attachment::plan(&self.interface, self.delegates()?, Vec::new())?,
        };
        self.detach(all)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let all = self.store.read()?.ok_or_else(|| {
            Error::new(Code::Io, format!("sandbox {} was never attached by this plugin", self.environment.container))
        })?;
        all.iter().try_for_each(|attachment| self.environment.check(attachment))
    }

    /// One after the other. Each is written down before it begins: whatever comes, DEL finds what may have been attached, and no more.
    fn attach(&self, all: &mut [Attachment]) -> Result<()> {
        for number in 0..all.len() {
            self.store.write(&all[..=number])?;
            all[number].result = Some(self.environment.add(&all[number])?);
            if let Some(missing) = status::missing(&all[number]) {
                return Err(Error::selection(format!("{}: {missing}", all[number].origin)));
            }
        }
        self.store.write(all)
    }

    /// The last one first. One that fails keeps no other from going, and is kept for the next DEL.
    fn detach(&self, all: Vec<Attachment>) -> Result<()> {
        let mut failed = Vec::new();
        let mut left = Vec::new();
        for attachment in all.into_iter().rev() {
            if let Err(error) = self.environment.del(&attachment) {
                failed.push(error);
                left.insert(0, attachment);
            }
        }
        let Some(first) = failed.first() else { return self.store.remove() };
        self.store.write(&left)?;
        let messages: Vec<_> = failed.iter().map(|error| &*error.message).collect();
        Err(Error::new(first.code, messages.join("; ")))
    }

    /// The cluster's network, and those that every pod has.
    fn delegates(&self) -> Result<Vec<Network>> {
        let parse = |(number, conf): (usize, &Value)| {
            network::parse(conf, "default")
                .map_err(|e| Error::new(Code::Config, format!("the plugin's configuration: delegates[{number}].{e}")))
        };
        self.config.delegates.iter().enumerate().map(parse).collect()
    }
}

/// What the pod asks for, each with its network.
fn selected(config: &Config, pod: &PodRef, api: &Api, object: &Value) -> Result<Vec<(Selection, Network)>> {
    let Some(asked) = object["metadata"]["annotations"][selection::ANNOTATION].as_str() else { return Ok(Vec::new()) };
    let asked = selection::parse(asked, &pod.namespace)
        .map_err(|error| Error { message: format!("{pod}: {}", error.message), ..error })?;
    let with_network = |selection: Selection| {
        if !config.allows(&pod.namespace, &selection.namespace) {
            return Err(Error::selection(format!(
                "{pod}: namespaceIsolation is on, and it asks for {}",
                attachment::definition(&selection)
            )));
        }
        let definition = api.definition(&selection)?;
        let network = network_of(config, &selection, &definition)?;
        Ok((selection, network))
    };
    asked.into_iter().map(with_network).collect()
}

/// The network that a definition describes: `spec.config`, or a file on the node that has the definition's name.
fn network_of(config: &Config, selection: &Selection, definition: &Value) -> Result<Network> {
    let origin = attachment::definition(selection);
    let wrong = |why: String| Error::selection(format!("{origin}: {why}"));
    let text = definition["spec"]["config"].as_str().unwrap_or_default();
    if text.trim().is_empty() {
        let conf = on_disk(&config.conf_dir, &selection.name).ok_or_else(|| {
            let directory = config.conf_dir.display();
            wrong(format!("spec.config is empty, and no file in {directory} has the name {}", selection.name))
        })?;
        return network::parse(&conf, &selection.name).map_err(|e| wrong(format!("the file on the node: {e}")));
    }
    let conf: Value = serde_json::from_str(text).map_err(|e| wrong(format!("spec.config is no JSON: {e}")))?;
    network::parse(&conf, &selection.name).map_err(|e| wrong(format!("spec.config: {e}")))
}

/// A configuration file with that name; lists of plugins first.
fn on_disk(directory: &Path, name: &str) -> Option<Value> {
    let mut files: Vec<_> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let of = |extensions: &[&str]| {
        let kind = |file: &&std::path::PathBuf| file.extension().is_some_and(|e| extensions.iter().any(|x| e == *x));
        let parsed =
            files.iter().filter(kind).filter_map(|file| serde_json::from_slice::<Value>(&fs::read(file).ok()?).ok());
        parsed.into_iter().find(|conf| conf["name"] == name)
    };
    of(&["conflist"]).or_else(|| of(&["conf", "json"]))
}

/// The pod in CNI_ARGS.
fn pod_of(args: &str) -> Option<PodRef> {
    let find = |name: &str| {
        let mut pairs = args.split(';').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty())
    };
    Some(PodRef {
        namespace: find("K8S_POD_NAMESPACE")?,
        name: find("K8S_POD_NAME")?,
        uid: find("K8S_POD_UID").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_runtime_names_the_pod() {
        let args =
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=acme;K8S_POD_NAME=api-0;K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID=u";
        let pod = PodRef { namespace: "acme".to_owned(), name: "api-0".to_owned(), uid: "u".to_owned() };
        assert_eq!(pod_of(args), Some(pod));
        assert_eq!(pod_of("IgnoreUnknown=1"), None);
    }

    #[test]
    fn a_definition_that_cannot_be_used_says_so() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("10-x.conf"), r#"{"name": "on-disk", "type": "bridge"}"#).unwrap();
        let config = Config {
            kubeconfig: "/k".into(),
            delegates: vec![],
            cni_dir: "/x".into(),
            conf_dir: dir.path().to_owned(),
            namespace_isolation: false,
            global_namespaces: String::new(),
        };
        let of = |name: &str, config_text: Option<&str>| {
            let selection = Selection { name: name.to_owned(), namespace: "acme".to_owned(), ..Selection::default() };
            network_of(&config, &selection, &json!({"spec": {"config": config_text}}))
        };
        assert_eq!(of("on-disk", None).unwrap().name, "on-disk");
        assert_eq!(of("a", Some(r#"{"type": "macvlan"}"#)).unwrap().name, "a");
        let said = |text: Option<&str>| of("a", text).unwrap_err().message;
        assert!(said(Some("{")).starts_with("NetworkAttachmentDefinition acme/a: spec.config is no JSON: "));
        assert_eq!(said(Some("{}")), "NetworkAttachmentDefinition acme/a: spec.config: type: it is missing");
        assert!(said(None).starts_with("NetworkAttachmentDefinition acme/a: spec.config is empty"));
    }
}
