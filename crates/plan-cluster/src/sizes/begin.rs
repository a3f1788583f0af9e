//! What new pods of a release begin with: what those before had come to. It is part of the pin, so that one release is always rendered alike.

use crate::components::{ALL, Component};
use crate::record::Pin;
use crate::subject::Tenant;
use berth_api::autoscaling::Mode;
use berth_api::common::Resources;
use berth_api::helpers::Amounts;
use berth_api::labels;
use berth_api::revision::PinnedSize;
use berth_plan::sizes::{Size, given, without_size};
use berth_plan::workload;
use std::collections::BTreeMap;

/// The sizes that running pods have come to, for the pin of another version: its rollout makes all pods anew, and they are to begin with these.
pub(crate) fn come_to(t: &Tenant<'_>) -> BTreeMap<String, PinnedSize> {
    let of = |component: &Component| {
        let (name, asked) = (component.name(), (component.asked)(&t.cluster.spec));
        let live = t.workloads(component.binary).first().filter(|_| asked.autoscaling.mode == Mode::InPlace)?;
        let pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, name);
        let size = pods.filter_map(|(_, pod)| given(pod, name)).reduce(Size::max)?;
        let is_other = size != Size::of(&without_size(live, name)?["requests"]);
        let amounts = size.to_json();
        let amount = |of: &str| amounts[of].as_str().unwrap_or_default().to_owned();
        let (cpu, memory) = (amount("cpu"), amount("memory"));
        is_other.then(|| (name.to_owned(), PinnedSize { cpu, memory, resources: amounts_of(asked.resources) }))
    };
    ALL.into_iter().filter_map(of).collect()
}

/// Requests that pods of a component begin with in place of those of `resources`. Other `resources` than when the release was made win.
pub(crate) fn begin_with(pin: &Pin, component: &str, resources: Option<&Resources>) -> BTreeMap<String, String> {
    let size = pin.sizes.get(component).filter(|size| size.resources == amounts_of(resources));
    let all = size.map(|size| [("cpu", &size.cpu), ("memory", &size.memory)]);
    all.into_iter().flatten().map(|(name, amount)| (name.to_owned(), amount.clone())).collect()
}

fn amounts_of(resources: Option<&Resources>) -> Option<Amounts> {
    resources.map(Amounts::from).and_then(Amounts::given)
}
