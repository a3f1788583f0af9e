//! What kubelet refuses of `spec.kubelet.config` is refused by Berth, and what it takes is taken.
//!
//! kubelet judges its configuration before it connects to anything, and ends without a kubeconfig: nothing of the machine is touched.

mod cases;

use berth_plan_cluster::{kubelet_faults, refused_gates};
use berth_render::values::JoinValues;
use berth_render::{Catalog, TenantSet, render_tenant_set};
use berth_testkit::apiserver::binary;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const VERSION: &str = "v1.36.3";
const MINOR: &str = "1.36";

/// How many run at once.
const AT_ONCE: usize = 4;

/// Where one ends that has taken its configuration: it looks for its kubeconfig afterwards.
const AFTERWARDS: &str = "kubeconfig: stat ";

/// What it says of a field that it drops.
const DROPPED: &str = "unknown field";

struct Kubelet {
    binary: PathBuf,
    dir: tempfile::TempDir,
    count: AtomicUsize,
}

impl Kubelet {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { binary: binary("kubernetes", VERSION, "kubelet").unwrap(), dir, count: AtomicUsize::new(0) }
    }

    /// Why it does not start, or not with all of it.
    fn refuses(&self, config: &Map<String, Value>) -> Option<String> {
        let said = self.said(config);
        let taken = said.contains(AFTERWARDS) && !said.contains(DROPPED);
        (!taken).then_some(said)
    }

    fn said(&self, config: &Map<String, Value>) -> String {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let file = self.dir.path().join(number.to_string());
        std::fs::write(&file, rendered(config)).unwrap();
        let none = self.dir.path().join("none");
        let mut command = Command::new(&self.binary);
        command.stdin(Stdio::null()).arg(format!("--config={}", file.display()));
        command.args(["kubeconfig", "root-dir", "cert-dir"].map(|flag| format!("--{flag}={}", none.display())));
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// What a machine of the tenant would read.
fn rendered(config: &Map<String, Value>) -> String {
    let mut config = config.clone();
    // Whatever this machine has.
    config.insert("failCgroupV1".into(), false.into());
    let values = JoinValues {
        cluster_dns: "10.96.0.10".into(),
        dns_domain: "cluster.local".into(),
        kubelet: config,
        ..JoinValues::default()
    };
    let templates = Catalog::builtin().tenant(MINOR.parse().unwrap()).unwrap();
    let objects = render_tenant_set(templates, &TenantSet::Join(values)).unwrap();
    let map = objects.into_iter().find(|object| object.key().name == "kubelet-config").unwrap();
    map.value()["data"]["kubelet"].as_str().unwrap().to_owned()
}

#[test]
fn kubelet_and_berth_refuse_the_same_configurations() {
    let (kubelet, cases) = (Kubelet::new(), cases::all());
    let next = AtomicUsize::new(0);
    let judge = |(config, at_start): &(Value, bool)| {
        let config = config.as_object().unwrap();
        let ours: Vec<_> = kubelet_faults(config, MINOR.parse().unwrap()).iter().map(ToString::to_string).collect();
        let theirs = kubelet.refuses(config).filter(|_| *at_start);
        match (ours.is_empty(), theirs) {
            (true, Some(why)) => {
                Some(format!("only kubelet refuses {config:?}: {}", why.lines().last().unwrap_or_default()))
            }
            (false, None) if *at_start => Some(format!("only Berth refuses {config:?}: {ours:?}")),
            _ => None,
        }
    };
    let found: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let take = || cases.get(next.fetch_add(1, Ordering::Relaxed));
            std::iter::from_fn(take).filter_map(&judge).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.is_empty(), "{} of {}: {found:#?}", found.len(), cases.len());
}

/// With each it would have started in the minor before.
#[test]
fn kubelet_refuses_the_gates_that_its_minor_gave_up() {
    let kubelet = Kubelet::new();
    let taken = refused_gates(MINOR.parse().unwrap()).filter(|(name, to)| {
        let config = serde_json::json!({"featureGates": {*name: to}});
        kubelet.refuses(config.as_object().unwrap()).is_none()
    });
    assert_eq!(taken.collect::<Vec<_>>(), []);
}

/// What it takes, it takes together, too.
#[test]
fn kubelet_starts_with_what_people_set() {
    let config = cases::usual();
    let config = config.as_object().unwrap();
    assert_eq!(kubelet_faults(config, MINOR.parse().unwrap()), []);
    assert_eq!(Kubelet::new().refuses(config), None);
}
