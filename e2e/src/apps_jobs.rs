//! The Jobs of an `AppInstallation`: how many there were, who is at work, and how one dies.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use berth_api::{labels, names};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{Kube, Tenant, World, core, network::processes_of, operator::operator_writes, tenant::name_of, until};

const CONTAINER: &str = "apps";
const PACE: Duration = Duration::from_millis(100);

/// Those of one installation.
#[derive(Clone, Debug)]
pub struct Jobs<'w> {
    world: &'w World,
    /// The control-plane namespace.
    home: String,
    installation: String,
}

impl<'w> Jobs<'w> {
    /// Of an installation in a tenant.
    pub fn of(tenant: &Tenant<'w>, installation: &str) -> Self {
        Self { world: tenant.world, home: tenant.cp_namespace.clone(), installation: installation.to_owned() }
    }

    /// Path of the Job.
    pub fn path(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs/{}", self.home, names::app_job(&self.installation))
    }

    /// How many the operator made since the audit log had that length.
    pub fn made_since(&self, mark: u64) -> Result<usize> {
        let name = names::app_job(&self.installation);
        let is_it = |event: &&Value| {
            let of = &event["objectRef"];
            event["verb"] == "create"
                && of["resource"] == "jobs"
                && of["namespace"] == self.home.as_str()
                && of["name"] == name.as_str()
                && event["responseStatus"]["code"] == 201
        };
        Ok(operator_writes(&self.world.cluster.audit_log(), mark)?.iter().filter(is_it).count())
    }

    /// The pod whose program runs.
    pub fn at_work(&self) -> Result<Value> {
        until("a pod of its Job to work", || {
            let all = self.world.kube.list(&selector(&self.home, &self.installation))?;
            let runs = |pod: &&Value| {
                pod["metadata"]["deletionTimestamp"].is_null()
                    && pod["status"]["containerStatuses"][0]["state"]["running"].is_object()
            };
            let pod = all.iter().find(runs).with_context(|| format!("none of {} works", all.len()))?;
            // What the kubelet says of it may be of before it ended.
            programs(pod)?.first().context("its program is not there")?;
            Ok(pod.clone())
        })
    }

    /// The program is stopped, and Helm, which it called, goes on.
    pub fn freeze(&self) -> Result<()> {
        signal(&self.at_work()?, Signal::SIGSTOP)
    }

    /// SIGKILL for who is at work, and with it for Helm, as when memory runs out.
    pub fn kill(&self) -> Result<()> {
        let pod = self.at_work()?;
        signal(&pod, Signal::SIGKILL)?;
        self.has_ended(&pod)
    }

    /// The pod is deleted, as when its node is drained.
    pub fn evict(&self) -> Result<()> {
        let pod = self.at_work()?;
        self.world.kube.delete(&format!("{}/{}", core(&self.home, "pods"), name_of(&pod)))?;
        self.has_ended(&pod)
    }

    /// The Job is deleted, and its pods with it.
    pub fn delete(&self) -> Result<()> {
        let pod = self.at_work()?;
        let delete = ["-n", &self.home, "delete", "job", &names::app_job(&self.installation), "--wait=false"];
        self.world.kubectl(&delete)?;
        self.has_ended(&pod)
    }

    /// Waits until none is there: the outcome of the last one is on record.
    pub fn are_gone(&self) -> Result<()> {
        until("its Job to be gone", || {
            let left = self.world.kube.find(&self.path())?;
            ensure!(left.is_none(), "{left:?}");
            Ok(())
        })
    }

    /// Waits until its Job is through, and deletes the pods that would say how it ended.
    pub fn lose_the_result(&self) -> Result<()> {
        until("its Job to be complete", || {
            let job = self.world.kube.get(&self.path())?;
            let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
            ensure!(conditions.iter().any(|c| c["type"] == "Complete" && c["status"] == "True"), "{}", job["status"]);
            Ok(())
        })?;
        until("its pods to be gone", || {
            let all = self.world.kube.list(&selector(&self.home, &self.installation))?;
            for pod in &all {
                self.world.kube.delete(&format!("{}/{}", core(&self.home, "pods"), name_of(pod)))?;
            }
            ensure!(all.is_empty(), "{} are there", all.len());
            Ok(())
        })
    }

    /// Waits until that pod is gone, or through.
    pub fn has_ended(&self, pod: &Value) -> Result<()> {
        let path = format!("{}/{}", core(&self.home, "pods"), name_of(pod));
        until("the pod to have ended", || {
            let live = self.world.kube.find(&path)?;
            let live = live.filter(|live| live["metadata"]["uid"] == pod["metadata"]["uid"]);
            ensure!(live.as_ref().is_none_or(|pod| !works(pod)), "{:?}", live.map(|pod| pod["status"].clone()));
            Ok(())
        })
    }

    /// Looks from now on how many work at once.
    pub fn watch(&self) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let (kube, path, asked) = (self.world.kube.clone(), selector(&self.home, &self.installation), stop.clone());
        Watch { stop, thread: thread::spawn(move || look(&kube, &path, &asked)) }
    }
}

/// Counts who works, until [`Watch::end`].
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Watch {
    /// Ends. Err: there was a moment at which more than one worked, or nobody ever did.
    pub fn end(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let most = self.thread.join().map_err(|_| anyhow!("the watch panicked"))?;
        ensure!(most.len() == 1, "at one moment these worked: {most:?}");
        Ok(())
    }
}

/// The pods of the moment at which most worked.
fn look(kube: &Kube, path: &str, stop: &AtomicBool) -> Vec<String> {
    let mut most = vec![];
    while !stop.load(Ordering::Relaxed) {
        // The meta cluster's API may be busy.
        let now: Vec<String> =
            kube.list(path).unwrap_or_default().iter().filter(|pod| works(pod)).map(name_of).collect();
        if now.len() > most.len() {
            most = now;
        }
        thread::sleep(PACE);
    }
    most
}

/// How many pods of any installation are at work, in all tenants.
pub fn at_work_everywhere(world: &World) -> Result<usize> {
    let all = world.kube.list(&format!("{}?labelSelector={}={}", core("", "pods"), labels::COMPONENT, names::APPS))?;
    Ok(all.iter().filter(|pod| works(pod)).count())
}

fn selector(home: &str, installation: &str) -> String {
    format!("{}?labelSelector={}={installation}", core(home, "pods"), labels::APP_INSTALLATION)
}

/// A kubelet says of a container that it has ended before it says so of the pod, and Berth goes by the container.
fn works(pod: &Value) -> bool {
    let status = &pod["status"];
    let has_ended = status["containerStatuses"][0]["state"]["terminated"].is_object();
    !has_ended && ["Succeeded", "Failed"].iter().all(|ended| status["phase"] != *ended)
}

/// Processes of `berth-apps` in a pod, without Helm.
fn programs(pod: &Value) -> Result<Vec<Pid>> {
    let is_it = |process: &i32| {
        fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "berth-apps")
    };
    Ok(processes_of(pod, CONTAINER)?.into_iter().filter(is_it).map(Pid::from_raw).collect())
}

fn signal(pod: &Value, signal: Signal) -> Result<()> {
    let all = programs(pod)?;
    ensure!(!all.is_empty(), "nothing runs in {}", name_of(pod));
    Ok(all.into_iter().try_for_each(|process| kill(process, signal))?)
}
