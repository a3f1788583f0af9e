//! For which containers of a tenant requests are to follow usage, and what is said of it. Its `EtcdCluster` asks for those of etcd.

mod begin;

pub(crate) use begin::{begin_with, come_to};

use crate::components::{ALL, Component};
use crate::planned::Input;
use crate::subject::Tenant;
use crate::validate::autoscaling;
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::labels;
use berth_plan::sizes::{Asked, Part, part, said_before};
use berth_render::{Kind, ObjectKey};

/// What the one who resizes is asked for. None: nothing; of a paused one, or one that is deleted, nothing is changed.
pub fn sizes(input: Input<'_>) -> Option<Asked> {
    let t = Tenant::new(input);
    if t.cluster.metadata.deletion_timestamp.is_some() || !t.acts() {
        return None;
    }
    let limits = &t.settings.writers.limits;
    let of = |component: &Component| {
        let (asked, field) = ((component.asked)(&t.cluster.spec).autoscaling, component.field());
        autoscaling(field, asked, limits).ok()?;
        let (field, label) = (format!("spec.{field}.autoscaling"), (labels::COMPONENT, component.name()));
        part((&field, label), component.name(), asked, t.workloads(component.binary).first(), limits)
    };
    let parts: Vec<Part> = ALL.into_iter().filter_map(of).collect();
    let of = ObjectKey::namespaced(Kind::Cluster, t.namespace, t.name);
    (!parts.is_empty()).then(|| Asked { of, namespace: t.cp_namespace.clone(), parts })
}

/// What `Ready` says beside that all is well: requests that do not follow usage, those of etcd, too.
pub(crate) fn note(t: &Tenant<'_>) -> Option<(Reason, String)> {
    let Some(own) = &t.observed.sizes else { return said_before(&t.status().conditions) };
    let of_etcd = t.etcd.as_ref().and_then(|etcd| etcd.status.as_ref());
    let of_etcd = of_etcd.and_then(|status| conditions::find(&status.conditions, ConditionType::Ready));
    let of_etcd = of_etcd.filter(|ready| ready.status == "True" && ready.reason == Reason::SizeHeld.as_str());
    let told: Vec<&str> = own.iter().map(|told| &**told).chain(of_etcd.map(|ready| &*ready.message)).collect();
    (!told.is_empty()).then(|| (Reason::SizeHeld, told.join(". ")))
}
