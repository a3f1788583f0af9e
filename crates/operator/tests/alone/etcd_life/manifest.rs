//! What a pod's manifest says, on this machine.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::Value;
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// What is read of the API server.
pub(crate) struct Seen {
    pub(crate) claims: Vec<PersistentVolumeClaim>,
    services: Vec<Service>,
    secrets: Vec<Secret>,
    maps: Vec<ConfigMap>,
}

impl Seen {
    pub(crate) async fn read(client: &Client, namespace: &str) -> Result<Self> {
        Ok(Self {
            claims: list(client, namespace).await?,
            services: list(client, namespace).await?,
            secrets: list(client, namespace).await?,
            maps: list(client, namespace).await?,
        })
    }

    /// The Service's address.
    pub(crate) fn address(&self, member: &str) -> Option<IpAddr> {
        let service = self.services.iter().find(|s| s.name_any() == member)?;
        service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
    }

    /// What a projection or a ConfigMap puts into a folder.
    pub(crate) fn files(&self, volume: &Value) -> Option<Vec<(String, Vec<u8>)>> {
        if let Some(name) = volume["configMap"]["name"].as_str() {
            let data = self.maps.iter().find(|m| m.name_any() == name)?.data.clone().unwrap_or_default();
            return Some(data.into_iter().map(|(key, text)| (key, text.into_bytes())).collect());
        }
        let mut files = vec![];
        for source in volume["projected"]["sources"].as_array()? {
            let name = source["secret"]["name"].as_str()?;
            let data = self.secrets.iter().find(|s| s.name_any() == name)?.data.clone()?;
            for item in source["secret"]["items"].as_array()? {
                let bytes = data.get(item["key"].as_str()?)?.0.clone();
                files.push((item["path"].as_str()?.to_owned(), bytes));
            }
        }
        Some(files)
    }

    fn map(&self, name: &str, key: &str) -> Option<String> {
        self.maps.iter().find(|m| m.name_any() == name)?.data.as_ref()?.get(key).cloned()
    }
}

/// A pod's files and its address.
pub(crate) struct Here<'a> {
    /// Of all pods.
    pub(crate) dir: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) volume: &'a Path,
    pub(crate) address: IpAddr,
    /// Programs.
    pub(crate) agent: &'a Path,
    pub(crate) etcd: &'a Path,
}

/// A file of a pod, such as what its process said when it ended.
pub(crate) fn file(dir: &Path, pod: &str, what: &str) -> PathBuf {
    dir.join(format!("{pod}.{what}"))
}

/// `$1` is what it knows of hosts.
const POD: &str = r#"mount --bind "$1" /etc/hosts && shift && exec env "$@""#;

impl Here<'_> {
    /// Arguments of `unshare`.
    pub(crate) fn command(&self, pod: &Value, seen: &Seen) -> Result<Vec<String>> {
        let (container, mounts) = (&pod["spec"]["containers"][0], self.mounts(pod)?);
        let text = |arg: &Value| {
            let arg = arg.as_str().unwrap_or_default().replace("$(POD_NAME)", self.name);
            here(&arg.replace("0.0.0.0", &self.address.to_string()), &mounts)
        };
        let message = file(self.dir, self.name, "message");
        let _ = fs::remove_file(&message);
        let mut command: Vec<String> = container["command"].as_array().into_iter().flatten().map(text).collect();
        let guard = command.iter().position(|a| a == "guard").context("the guard comes first")?;
        command.insert(guard + 1, format!("--termination-log={}", message.display()));
        let etcd = command.iter().position(|a| a == "etcd").context("then etcd")?;
        command[etcd] = self.etcd.display().to_string();
        command.extend(container["args"].as_array().into_iter().flatten().map(text));
        command.extend(["--unsafe-no-fsync", "--log-level=warn"].map(str::to_owned));
        let env = container["env"].as_array().into_iter().flatten().filter_map(|e| {
            let from = &e["valueFrom"]["configMapKeyRef"];
            let value = seen.map(from["name"].as_str()?, from["key"].as_str()?)?;
            Some(format!("{}={value}", e["name"].as_str()?))
        });
        let is_root = rustix::process::getuid().is_root();
        let mut args: Vec<String> = if is_root { vec![] } else { vec!["--map-root-user".into()] };
        let hosts = self.hosts(pod)?.display().to_string();
        args.extend(["--mount", "sh", "-c", POD, "sh", &hosts].map(str::to_owned));
        args.extend(env.chain(command));
        Ok(args)
    }

    /// Where the folders of its container are, the innermost first.
    fn mounts(&self, pod: &Value) -> Result<Vec<(String, PathBuf)>> {
        let agent = self.agent.parent().context("a folder")?;
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().context("it has volumes")?;
        let place = |mount: &Value| {
            let path = match mount["name"].as_str().unwrap_or_default() {
                "data" => self.volume.to_owned(),
                "agent" => agent.to_owned(),
                volume => file(self.dir, self.name, volume),
            };
            (mount["mountPath"].as_str().unwrap_or_default().to_owned(), path)
        };
        let mut mounts: Vec<_> = mounts.iter().map(place).collect();
        mounts.sort_by_key(|(path, _)| Reverse(path.len()));
        Ok(mounts)
    }

    /// The names that its pod knows.
    fn hosts(&self, pod: &Value) -> Result<PathBuf> {
        let mut text = "127.0.0.1 localhost\n".to_owned();
        for alias in pod["spec"]["hostAliases"].as_array().into_iter().flatten() {
            let names: Vec<_> = alias["hostnames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            writeln!(text, "{} {}", alias["ip"].as_str().unwrap_or_default(), names.join(" "))?;
        }
        let path = file(self.dir, self.name, "hosts");
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// An argument whose path is where the file is on this machine.
fn here(arg: &str, mounts: &[(String, PathBuf)]) -> String {
    let at = if arg.starts_with('/') { 0 } else { arg.find("=/").map_or(arg.len(), |at| at + 1) };
    let (flag, path) = arg.split_at(at);
    let inside = |mount: &str| path.strip_prefix(mount).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let found = mounts.iter().find_map(|(mount, dir)| Some(format!("{flag}{}{}", dir.display(), inside(mount)?)));
    found.unwrap_or_else(|| arg.to_owned())
}

pub(crate) async fn list<K>(client: &Client, namespace: &str) -> Result<Vec<K>>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    Ok(Api::<K>::namespaced(client.clone(), namespace).list(&ListParams::default()).await?.items)
}
