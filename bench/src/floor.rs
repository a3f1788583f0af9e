//! The floor: the very objects of a tenant, created raw by one client. The same names and Service addresses, so that its
//! certificates, host aliases and token fit; the same pods, gates and volumes.

use crate::tenant::{ask, cp_namespace, decode, pause};
use anyhow::{Context as _, bail};
use berth_api::labels;
use futures::future::try_join_all;
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Collections that a control-plane namespace holds, in the order of creation.
const COLLECTIONS: [&str; 7] = [
    "/api/v1/namespaces/{}/secrets",
    "/api/v1/namespaces/{}/configmaps",
    "/api/v1/namespaces/{}/services",
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "/apis/apps/v1/namespaces/{}/statefulsets",
    "/apis/apps/v1/namespaces/{}/deployments",
];

/// The objects of one tenant.
#[derive(Clone)]
pub(crate) struct Objects {
    namespace: Value,
    /// (collection, object)
    rest: Vec<(String, Value)>,
    kubeconfig: String,
}

async fn call(client: &Client, method: &str, url: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let request = Request::builder().method(method).uri(url).header("content-type", "application/json").body(bytes)?;
    client.request(request).await.with_context(|| format!("{method} {url}"))
}

/// Writes a ready tenant's objects down.
pub(crate) async fn dump(client: &Client, name: &str) -> anyhow::Result<Objects> {
    let cp_namespace = cp_namespace(name);
    let mut namespace = clean(call(client, "GET", &format!("/api/v1/namespaces/{cp_namespace}"), None).await?);
    namespace["metadata"]["labels"]["berth.dev/bench"] = json!("floor");
    // The chart's policies take it for a tenant's.
    namespace["metadata"]["labels"][labels::ALLOW_DELETION] = json!("true");
    let (mut rest, mut kubeconfig) = (vec![], None);
    for collection in COLLECTIONS {
        let url = collection.replace("{}", &cp_namespace);
        let list = call(client, "GET", &url, None).await?;
        for item in list["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            if name == "kube-root-ca.crt" {
                continue;
            }
            if name == "break-glass-kubeconfig" {
                kubeconfig = item["data"]["value"].as_str().and_then(decode);
            }
            rest.push((url.clone(), clean(item.clone())));
        }
    }
    // The volume is new, so etcd starts anew: its gate must let it.
    for (_, object) in &mut rest {
        if object["metadata"]["name"] == "etcd-bootstrap" {
            let text = object["data"].to_string().replace("Established", "Bootstrapping");
            object["data"] = serde_json::from_str(&text)?;
            if let Some(data) = object["data"].as_object_mut() {
                for (key, value) in data {
                    if key.ends_with("-state") && *value == json!("existing") {
                        *value = json!("new");
                    }
                }
            }
        }
    }
    Ok(Objects { namespace, rest, kubeconfig: kubeconfig.context("no break-glass kubeconfig")? })
}

/// Without what only the API server and controllers write.
fn clean(mut object: Value) -> Value {
    let drop =
        ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences", "finalizers"];
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| !drop.contains(&key.as_str()));
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            // Berth must not take it for its own.
            labels.retain(|key, _| !key.starts_with("berth.dev/cluster"));
        }
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    object
}

impl Objects {
    /// The same in another namespace, with Service addresses of their own: what runs there would not fit together.
    pub(crate) fn in_namespace(&self, name: &str) -> Self {
        let mut copy = self.clone();
        let from = self.namespace["metadata"]["name"].as_str().unwrap_or_default();
        for (url, object) in &mut copy.rest {
            *url = url.replace(from, name);
            object["metadata"]["namespace"] = name.into();
            if let Some(spec) = object["spec"].as_object_mut().filter(|s| s.contains_key("clusterIPs"))
                && spec["clusterIP"] != "None"
            {
                spec.retain(|key, _| !key.starts_with("clusterIP"));
            }
        }
        copy.namespace["metadata"]["name"] = name.into();
        if let Some(labels) = copy.namespace["metadata"]["labels"].as_object_mut() {
            labels.remove("kubernetes.io/metadata.name");
        }
        copy
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.rest.len() + 1
    }

    /// Creates them, one after the other.
    pub(crate) async fn make(&self, client: &Client) -> anyhow::Result<()> {
        call(client, "POST", "/api/v1/namespaces", Some(&self.namespace)).await?;
        for (url, object) in &self.rest {
            call(client, "POST", url, Some(object)).await?;
        }
        Ok(())
    }

    /// Changes what is about to be created.
    pub(crate) fn edit(&mut self, mut change: impl FnMut(&mut Value)) {
        self.rest.iter_mut().for_each(|(_, object)| change(object));
    }
}

/// Creates the objects of all of them at once; seconds until every API answers. Deletes them again.
pub(crate) async fn create(client: &Client, all: &[Objects]) -> anyhow::Result<f64> {
    let seconds = start(client, all).await?;
    remove(client, all).await?;
    Ok(seconds)
}

/// Creates the objects of all of them at once; seconds until every API answers.
pub(crate) async fn start(client: &Client, all: &[Objects]) -> anyhow::Result<f64> {
    let started = Instant::now();
    let times = try_join_all(all.iter().map(|objects| one(client, objects, started, pause(all.len())))).await?;
    Ok(times.into_iter().fold(0.0, f64::max))
}

/// Deletes them and waits until nothing is left.
pub(crate) async fn remove(client: &Client, all: &[Objects]) -> anyhow::Result<()> {
    for objects in all {
        let name = objects.namespace["metadata"]["name"].as_str().unwrap_or_default();
        let url = format!("/api/v1/namespaces/{name}");
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1});
        call(client, "DELETE", &format!("/api/v1/namespaces/{name}/pods"), Some(&now)).await?;
        call(client, "DELETE", &url, None).await?;
        while call(client, "GET", &url, None).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

async fn one(client: &Client, objects: &Objects, started: Instant, pause: Duration) -> anyhow::Result<f64> {
    objects.make(client).await?;
    while ask(&objects.kubeconfig).await.is_err() {
        if started.elapsed() > Duration::from_mins(5) {
            bail!("the floor does not answer");
        }
        tokio::time::sleep(pause).await;
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Deployments that are rolled, in order.
pub(crate) struct Roll<'a> {
    /// Its new pods are all there, and its old ones have ended, before the others change: none of these may be newer than it.
    pub(crate) first: &'a str,
    /// These are rolled at once.
    pub(crate) others: &'a [&'a str],
}

impl Roll<'_> {
    /// Makes what is not there yet, and rolls the Deployments to what they are in `to`.
    pub(crate) async fn to(&self, client: &Client, to: &Objects) -> anyhow::Result<()> {
        for (collection, object) in &to.rest {
            let url = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
            if call(client, "GET", &url, None).await.is_err() {
                call(client, "POST", collection, Some(object)).await?;
            }
        }
        for names in [&[self.first], self.others] {
            let is_one = |object: &Value| names.iter().any(|name| object["metadata"]["name"] == *name);
            let all = to.rest.iter().filter(|(url, object)| url.ends_with("/deployments") && is_one(object));
            let all: Vec<_> = all.collect();
            for (collection, object) in &all {
                let url = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
                call(client, "PUT", &url, Some(object)).await?;
            }
            for (collection, object) in &all {
                let url = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
                rolled_out(client, &url, names == [self.first]).await?;
            }
        }
        Ok(())
    }
}

/// Until the new pods are there and, if that is asked for, no old one is ending.
async fn rolled_out(client: &Client, url: &str, to_the_end: bool) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let live = call(client, "GET", url, None).await?;
        let count = |field: &str| live["status"][field].as_i64().unwrap_or_default();
        let wanted = live["spec"]["replicas"].as_i64().unwrap_or(1);
        let taken_up = live["status"]["observedGeneration"] == live["metadata"]["generation"];
        let is_over = !to_the_end || count("terminatingReplicas") == 0;
        if is_over
            && taken_up
            && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| count(field) == wanted)
        {
            return Ok(());
        }
        if started.elapsed() > Duration::from_mins(5) {
            bail!("{url} is not rolled out: {}", live["status"]);
        }
        tokio::time::sleep(pause(10)).await;
    }
}
