//! What the spec asks of one component.

use super::{admission, audit, jwt, limits, trusted_ca, writers};
use crate::audit as webhook;
use crate::components::{Component, service_account_issuers};
use crate::revision::goes_on;
use crate::subject::Tenant;
use berth_api::ClusterSpec;
use berth_api::autoscaling::Autoscaling;
use berth_api::cluster::Etcd;
use berth_api::common::{Arg, Images, Resources};
use berth_api::conditions::Reason;
use berth_api::etcd_tuning::timing_fault;
use berth_api::helpers::Helpers;
use berth_api::quantity;
use berth_api::revision::Release;
use berth_api::version::Version;
use berth_plan::model::State;
use berth_plan::settings::Limits;
use berth_plan::workload;
use berth_render::{Binary, FLAGS, values::ExtraArg};

/// Requests that are more than their limit, which no API server takes; `field` is the component's name in the spec.
pub(crate) fn resources(field: &str, asked: Option<&Resources>) -> Result<(), State> {
    beyond_limit(field, asked).map_or(Ok(()), |why| Err(State::blocked(Reason::InvalidSpec, why)))
}

/// Bounds of requests that follow usage: the least is more than the most, or one is more than writers may ask for.
pub(crate) fn autoscaling(field: &str, asked: &Autoscaling, most: &Limits) -> Result<(), State> {
    if let Some(why) = asked.beyond_max() {
        return Err(State::blocked(Reason::InvalidSpec, format!("spec.{field}.autoscaling: {why}")));
    }
    limits::bounds(field, asked, most)
}

/// What is said of such requests.
pub(crate) fn beyond_limit(field: &str, asked: Option<&Resources>) -> Option<String> {
    Some(format!("spec.{field}.resources: {}", quantity::beyond_limit(asked?)?))
}

/// What runs beside components: more than is allowed, or a request that is more than its limit.
pub(crate) fn helpers(asked: &Helpers, most: &Limits) -> Result<(), State> {
    for (field, part) in asked.parts() {
        limits::amounts(field, part, most)?;
        resources(field, part)?;
    }
    Ok(())
}

/// Intervals with which etcd does not start.
pub(crate) fn etcd_timing(etcd: &Etcd) -> Result<(), State> {
    match timing_fault(etcd.heartbeat_interval.as_deref(), etcd.election_timeout.as_deref()) {
        Some(why) => Err(State::blocked(Reason::InvalidSpec, format!("spec.etcd.{why}"))),
        None => Ok(()),
    }
}

/// An image that the spec names for a component, of another version than runs.
pub(crate) fn image(asked: &Images, component: &str, version: Version, field: &str) -> Result<(), State> {
    let why = workload::of_another_version(asked, component, version, field);
    why.map_or(Ok(()), |why| Err(State::blocked(Reason::InvalidSpec, why)))
}

/// What the spec asks of a component: its extra flags, or why something of it is refused.
pub(crate) fn component(t: &Tenant<'_>, component: &Component) -> Result<Vec<ExtraArg>, State> {
    let (spec, field, policy) = (&t.cluster.spec, component.field(), &t.settings.writers);
    let asked = (component.asked)(spec);
    writers::placement(field, asked.placement, policy)?;
    writers::images(&spec.images, policy)?;
    if let Some(version) = spec.asked_version() {
        image(&spec.images, component.name(), version, "spec.version")?;
    }
    let own = format!("{field}.replicas");
    let replicas = asked.replicas.map_or(("replicas", spec.replicas), |replicas| (&*own, replicas));
    limits::component(field, replicas, asked.resources, &policy.limits)?;
    resources(field, asked.resources)?;
    autoscaling(field, asked.autoscaling, &policy.limits)?;
    helpers(&spec.helpers, &policy.limits)?;
    if component.binary == Binary::ApiServer {
        webhook::refusal(t)?;
    }
    let args = extra_args(spec, component).and_then(|args| starts(t, component).map(|()| args));
    args.map_err(|message| State::blocked(Reason::InvalidSpec, message))
}

/// Whether the component starts with it, as far as its own rules tell. What it runs with already is not judged: an earlier build took it.
fn starts(t: &Tenant<'_>, component: &Component) -> Result<(), String> {
    files(&t.cluster.spec, component, |arg| {
        goes_on(t, component.binary, |release| {
            (component.asked)(&release.put_into(t.cluster).spec).extra_args.contains(arg)
        })
    })?;
    audit_policy(&t.cluster.spec, component)?;
    authenticators(&t.cluster.spec, component, || {
        let own = &t.cluster.spec.api_server;
        goes_on(t, component.binary, |Release { api_server: of, .. }| {
            of.authentication == own.authentication && of.service_account_issuers == own.service_account_issuers
        })
    })?;
    if component.binary == Binary::ApiServer {
        let (own, issuers) = (&t.cluster.spec.api_server.authentication.jwt, service_account_issuers(&t.cluster.spec));
        jwt::platform::fit(own, &issuers, &t.release.wanted_pin())?;
    }
    own_files(&t.cluster.spec, component, || {
        let own = &t.cluster.spec.api_server;
        goes_on(t, component.binary, |Release { api_server: of, .. }| {
            of.admission == own.admission && of.trusted_ca == own.trusted_ca
        })
    })
}

/// Refuses an audit policy with which kube-apiserver does not start.
pub(crate) fn audit_policy(spec: &ClusterSpec, component: &Component) -> Result<(), String> {
    let policy = spec.api_server.audit.policy.as_ref().filter(|_| component.binary == Binary::ApiServer);
    policy.and_then(audit::refusal).map_or(Ok(()), Err)
}

/// Refuses what kube-apiserver would read of files of its own and not start with, but what it runs with.
pub(crate) fn own_files(spec: &ClusterSpec, component: &Component, runs: impl FnOnce() -> bool) -> Result<(), String> {
    let asked = &spec.api_server;
    let says_nothing = asked.admission.is_default() && asked.trusted_ca.is_none();
    if component.binary != Binary::ApiServer || says_nothing {
        return Ok(());
    }
    let content = || admission::refusal(&asked.admission).or_else(|| trusted_ca::refusal(asked));
    let why = if runs() { None } else { content() };
    why.or_else(|| admission::conflict(spec)).map_or(Ok(()), Err)
}

/// Refuses JWT authenticators, and issuers of service accounts, with which kube-apiserver does not start, but for those that it runs with.
pub(crate) fn authenticators(
    spec: &ClusterSpec,
    component: &Component,
    runs: impl FnOnce() -> bool,
) -> Result<(), String> {
    let (all, issuers) = (&spec.api_server.authentication.jwt, &spec.api_server.service_account_issuers);
    let says_nothing = all.is_empty() && issuers.is_empty();
    if component.binary != Binary::ApiServer || says_nothing || runs() {
        return Ok(());
    }
    jwt::refusal(all, &service_account_issuers(spec)).map_or(Ok(()), Err)
}

/// Refuses extra flags that name a file, but for those that it runs with.
pub(crate) fn files(spec: &ClusterSpec, component: &Component, runs: impl Fn(&Arg) -> bool) -> Result<(), String> {
    let why = berth_render::file_of(component.binary, (component.asked)(spec).extra_args, runs);
    why.map_or(Ok(()), |why| Err(format!("spec.{}.extraArgs: {why}", component.field())))
}

/// What follows the template's arguments, or which extra flag is refused and why.
pub(crate) fn extra_args(spec: &ClusterSpec, component: &Component) -> Result<Vec<ExtraArg>, String> {
    let own = (component.asked)(spec).extra_args;
    let args = berth_render::extra_args(FLAGS, component.binary, spec, own);
    args.map_err(|why| format!("spec.{}.extraArgs: {why}", component.field()))
}
