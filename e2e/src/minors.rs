//! What tests of new minor versions look at: each API server, objects of every kind, and which versions are beside which.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use berth_api::{
    labels, names,
    version::{Minor, Version},
};
use berth_testkit::kinds;
use serde_json::Value;

use crate::{
    Kube, Tenant, core,
    kube_client::{self, status_of},
    tenant::{condition, name_of},
    until,
};

/// The components of which a release consists.
pub const COMPONENTS: [&str; 3] = [names::APISERVER, "kube-controller-manager", "kube-scheduler"];

/// What [`Objects`] are called.
const KEPT: &str = "kept";

/// How long nobody writes to an object that controllers have seen.
const QUIET: Duration = Duration::from_secs(3);

/// How often [`Watch`] looks.
const PACE: Duration = Duration::from_millis(250);

/// An object of every kind in a tenant, and a custom resource, as they were at first.
#[derive(Debug)]
pub struct Objects(Vec<(String, Value)>);

impl Objects {
    /// Creates them, and waits until controllers have written what they have to. Whatever is served and can be created has to have one.
    pub fn keep(tenant: &Tenant<'_>) -> Result<Self> {
        let api = tenant.api()?;
        every_kind_has_one(&api)?;
        let account = format!("{}/default", core("default", "serviceaccounts"));
        until("the service account of the namespace default", || api.get(&account))?;
        for sample in samples() {
            // A quota is counted before it lets anything in, and a new kind is served a little later.
            until(&format!("{} to be created", sample.path), || {
                match api.create(&sample.collection, &sample.object) {
                    Err(e) if matches!(status_of(&e), Some(403 | 404)) => Err(e),
                    made => Ok(made),
                }
            })??;
        }
        let objects = until("controllers to have seen all objects", || {
            let before = read(&api)?;
            thread::sleep(QUIET);
            let now = read(&api)?;
            for ((path, before), (_, now)) in before.iter().zip(&now) {
                ensure!(before == now, "{path} was {before}, and is {now}");
            }
            Ok(now)
        })?;
        println!("    {} kinds of objects, one of them custom", objects.len());
        Ok(Self(objects))
    }

    /// All read back equal.
    pub fn are_the_same(&self, tenant: &Tenant<'_>) -> Result<()> {
        let now = read(&tenant.api()?)?;
        let differ = |((path, before), (_, now)): (&(String, Value), &(String, Value))| {
            kinds::difference(before, now).map(|how| format!("{path}: {how}"))
        };
        let differ: Vec<String> = self.0.iter().zip(&now).filter_map(differ).collect();
        ensure!(differ.is_empty(), "{differ:#?}");
        Ok(())
    }
}

fn read(api: &Kube) -> Result<Vec<(String, Value)>> {
    let one = |sample: kinds::Sample| Ok((sample.path.clone(), api.get(&sample.path)?));
    samples().into_iter().map(one).collect()
}

/// The custom resource comes after its kind.
fn samples() -> Vec<kinds::Sample> {
    kinds::samples(KEPT).into_iter().chain([kinds::custom(KEPT)]).collect()
}

fn every_kind_has_one(api: &Kube) -> Result<()> {
    let groups = api.get("/apis")?["groups"].as_array().cloned().unwrap_or_default();
    let versions = groups.iter().flat_map(|group| group["versions"].as_array().cloned().unwrap_or_default());
    let versions = versions.filter_map(|version| Some(format!("/apis/{}", version["groupVersion"].as_str()?)));
    for version in std::iter::once("/api/v1".to_owned()).chain(versions) {
        let without = kinds::without_sample(&api.get(&version)?);
        ensure!(without.is_empty(), "{version}: nothing is created of {without:?}");
    }
    Ok(())
}

/// Each of so many API servers, asked at its own address, runs that version and serves that minor; the other components run it, too.
pub fn serves(tenant: &Tenant<'_>, servers: usize, version: &str, minor: &str) -> Result<()> {
    let kubeconfig =
        kube_client::under_name(&tenant.kubeconfig()?, &format!("{}.{}.svc", names::APISERVER, tenant.cp_namespace))?;
    let mut pods = tenant.pods(Some(names::APISERVER))?;
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    ensure!(pods.len() == servers, "{} pods of kube-apiserver, not {servers}", pods.len());
    for pod in &pods {
        let address = pod["status"]["podIP"].as_str().with_context(|| format!("{} has no address", name_of(pod)))?;
        let told = Kube::new(&kube_client::at(&kubeconfig, &format!("https://{address}:6443"))?)?.get("/version")?;
        let is = |field: &str, value: String| told[field] == value;
        let right = is("gitVersion", format!("v{version}")) && is("emulationMinor", minor.to_owned());
        ensure!(right, "{}, at {address}: {told}", name_of(pod));
    }
    for component in COMPONENTS {
        let live = tenant.deployment(component)?;
        let image = live["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        ensure!(image.ends_with(&format!(":v{version}")), "{component} runs {image}");
    }
    Ok(())
}

/// Waits until it is `Ready` by that reason; the message.
pub fn ready(tenant: &Tenant<'_>, reason: &str) -> Result<String> {
    until(&format!("Ready, {reason}"), || {
        let cluster = tenant.wait_ready()?;
        let found = condition(&cluster, "Ready")?;
        ensure!(found["reason"] == reason, "{found}");
        Ok(found["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// Looks at a tenant's pods all the time: its API servers are never more than one minor apart, and no controller-manager or scheduler is
/// of a newer minor than the oldest of them.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    looks: u32,
    versions: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Watch {
    /// Begins to look.
    pub fn start(meta: &Kube, tenant: &Tenant<'_>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, meta, pods) = (stop.clone(), meta.clone(), core(&tenant.cp_namespace, "pods"));
        let thread = thread::spawn(move || {
            let mut seen = Seen::default();
            while !asked.load(Ordering::Relaxed) {
                if let Ok(pods) = meta.list(&pods) {
                    seen.look(&pods);
                }
                thread::sleep(PACE);
            }
            seen
        });
        Self { stop, thread }
    }

    /// Ends it. Each of these versions was seen, of an API server.
    pub fn end(self, versions: &[&str]) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().map_err(|_| anyhow!("the watch panicked"))?;
        println!("    looked at pods {} times; API servers were of {:?}", seen.looks, seen.versions);
        ensure!(seen.wrong.is_empty(), "{} times; at first {}", seen.wrong.len(), seen.wrong[0]);
        let missing: Vec<_> = versions.iter().filter(|version| !seen.versions.contains(**version)).collect();
        ensure!(missing.is_empty(), "no API server was ever of {missing:?}");
        Ok(())
    }
}

impl Seen {
    fn look(&mut self, pods: &[Value]) {
        self.looks += 1;
        let label = |pod: &Value, name: &str| pod["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
        let running = |pod: &&Value| !["Failed", "Succeeded"].contains(&pod["status"]["phase"].as_str().unwrap_or(""));
        let all: Vec<(String, String)> = pods
            .iter()
            .filter(running)
            .map(|pod| (label(pod, labels::COMPONENT), label(pod, labels::VERSION)))
            .filter(|(component, _)| COMPONENTS.contains(&component.as_str()))
            .collect();
        let of = |is_server: bool| all.iter().filter(move |(name, _)| (name == names::APISERVER) == is_server);
        self.versions.extend(of(true).map(|(_, version)| version.clone()));
        let (servers, others): (Vec<Minor>, Vec<Minor>) = (minors(of(true)), minors(of(false)));
        let (Some(oldest), Some(newest)) = (servers.iter().min(), servers.iter().max()) else { return };
        let apart = newest.since(*oldest).is_none_or(|minors| minors > 1);
        if apart || others.iter().any(|other| other > oldest) {
            self.wrong.push(format!("{all:?}"));
        }
    }
}

fn minors<'a>(all: impl Iterator<Item = &'a (String, String)>) -> Vec<Minor> {
    all.filter_map(|(_, version)| Some(version.parse::<Version>().ok()?.minor())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(all: &[(&str, &str)]) -> usize {
        let pod = |(component, version): &(&str, &str)| json!({"metadata": {"labels": {labels::COMPONENT: component, labels::VERSION: version}}});
        let mut seen = Seen::default();
        seen.look(&all.iter().map(pod).collect::<Vec<_>>());
        assert_eq!(seen.looks, 1);
        seen.wrong.len()
    }

    #[test]
    fn what_is_too_far_apart_is_seen() {
        let [api, manager, scheduler] = COMPONENTS;
        assert_eq!(wrong(&[(api, "1.35.4"), (api, "1.36.3"), (manager, "1.35.4")]), 0);
        assert_eq!(wrong(&[(api, "1.35.4"), (api, "1.36.3"), (manager, "1.36.3")]), 1);
        assert_eq!(wrong(&[(api, "1.35.4"), (api, "1.36.3"), (scheduler, "1.36.3")]), 1);
        assert_eq!(wrong(&[(api, "1.34.4"), (api, "1.36.3"), (scheduler, "1.34.4")]), 1);
        assert_eq!(wrong(&[(manager, "1.36.3"), ("etcd", "3.6.16")]), 0, "without an API server it is not asked");
    }
}
