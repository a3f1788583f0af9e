//! What all tenants together reserve and use, for metrics.

use berth_api::labels;
use berth_plan::sizes::{Metrics, Size, SizedPod};
use berth_render::Binary;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// Sums of the last look, by container of a component.
#[derive(Debug, Default)]
pub struct FleetSizes(Mutex<BTreeMap<String, [Option<Size>; 2]>>);

/// Labels of a sum.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// `kube-apiserver`, `kube-controller-manager`, `kube-scheduler` or `etcd`.
    component: String,
}

/// Others' pods may be of such components, too.
const OWN: [&str; 2] = [labels::CLUSTER_NAME, labels::ETCD_CLUSTER];

impl FleetSizes {
    /// Takes in a look. Names of containers are a closed list: nobody else's pods add a time series.
    pub fn see(&self, pods: &[SizedPod], metrics: &Metrics) {
        let mut sums: BTreeMap<String, [Option<Size>; 2]> = BTreeMap::new();
        let is_berths = |pod: &&SizedPod| OWN.iter().any(|label| pod.labels.contains_key(*label));
        let components = Binary::ALL.map(Binary::name);
        for pod in pods.iter().filter(is_berths) {
            let used = metrics.usage().and_then(|usage| usage.get(&pod.key()));
            for (name, container) in pod.containers.iter().filter(|(name, _)| components.contains(&&***name)) {
                let sum = sums.entry(name.clone()).or_default();
                sum[0] = add(sum[0], Some(container.requests));
                sum[1] = add(sum[1], used.and_then(|used| used.get(name)).copied());
            }
        }
        *self.0.lock() = sums;
    }

    /// Adds what was seen last to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let sums = self.0.lock();
        let names = ["requested", "used"];
        for (n, name) in names.into_iter().enumerate() {
            let (cpu, memory): (Family<Labels, Gauge<f64, AtomicU64>>, Family<Labels, Gauge>) = Default::default();
            for (component, sum) in sums.iter() {
                let Some(sum) = sum[n] else { continue };
                let labels = Labels { component: component.clone() };
                #[expect(clippy::cast_precision_loss, reason = "thousandths of CPUs of a fleet are few")]
                cpu.get_or_create(&labels).set(sum.cpu as f64 / 1000.0);
                memory.get_or_create(&labels).set(sum.memory);
            }
            let of = format!("by tenants' containers that run, by component; while somebody has autoscaling: {name}");
            registry.register(format!("fleet_{name}_cpu_cores"), format!("CPU {of}"), cpu);
            registry.register(format!("fleet_{name}_memory_bytes"), format!("Memory {of}"), memory);
        }
    }
}

fn add(sum: Option<Size>, more: Option<Size>) -> Option<Size> {
    let (Some(sum), Some(more)) = (sum, more) else { return sum.or(more) };
    Some(sum.plus(more))
}
