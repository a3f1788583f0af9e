//! Stages 5 and 6: kube-apiserver, kube-controller-manager, kube-scheduler.
//!
//! Gates hold back changes to what runs, never the first creation: pods wait for what they need by themselves.

use super::{Tenant, endpoint, ensure, etcd, is_ours, validate, writers};
use crate::model::{Component, Stage, State};
use crate::workload;
use berth_api::common::{Arg, Placement, Resources};
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_render::values::{
    ApiAccess, ApiServerSecrets, ApiServerValues, ControllerManagerSecrets, ControllerManagerValues, EtcdAccess,
    HostAlias, SchedulerSecrets, SchedulerValues, Workload,
};
use berth_render::{Component as Binary, Kind, Object, ObjectKey, RenderError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// UID of the control plane's processes: from the hash in the namespace's name, so that tenants differ.
pub(crate) fn run_as_user(home: &str) -> i64 {
    let hash = home.rsplit('-').next().and_then(|h| i64::from_str_radix(h, 16).ok()).unwrap_or_default();
    100_000 + hash % 1_000_000
}

/// What the spec says of one component.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// Its field in the spec.
    field: &'static str,
    binary: Binary,
    replicas: Option<i32>,
    resources: Option<&'a Resources>,
    placement: &'a Placement,
    args: &'a [Arg],
}

impl<'a> Asked<'a> {
    fn of(field: &'static str, binary: Binary, spec: &'a berth_api::cluster::Component) -> Self {
        Self {
            field,
            binary,
            replicas: spec.replicas,
            resources: spec.resources.as_ref(),
            placement: &spec.placement,
            args: &spec.extra_args,
        }
    }
}

/// The values that all components have, or why the spec is refused.
fn workload(t: &Tenant<'_>, asked: Asked<'_>) -> Result<Workload, State> {
    let Asked { field, binary, replicas, resources, placement, args } = asked;
    writers::placement(field, placement, &t.settings.writers)?;
    let asked = &t.cluster.spec.images;
    writers::images(asked, &t.settings.writers)?;
    let args = validate::extra_args(field, binary, args).map_err(|m| State::blocked(Reason::InvalidSpec, m))?;
    let pods = workload::pods_of(t.observed, &t.home, labels::COMPONENT, binary.name());
    let live = t.get(Kind::Deployment, binary.name()).filter(|live| !workload::lacks_its_image(live, pods));
    let component = (binary, &*t.pin.version);
    let (image, agent_image) = workload::images(live, asked, &t.settings.registry, component, &t.pin.agent_image);
    Ok(Workload {
        replicas: replicas.unwrap_or(t.cluster.spec.replicas),
        version: t.pin.version.clone(),
        image,
        agent_image,
        image_pull_secrets: asked.pull_secrets.clone(),
        agent_delivery: t.pin.agent_delivery,
        run_as_user: run_as_user(&t.home),
        resources: resources.cloned(),
        placement: placement.clone(),
        extra_args: args,
        ..Workload::default()
    })
}

/// Digests of what the processes read only when they start: CAs and the service-account key. Certificates are read
/// again when they change.
fn checksums(t: &Tenant<'_>, secrets: &[(&str, String, &str)]) -> Option<BTreeMap<String, String>> {
    secrets
        .iter()
        .map(|(name, secret, key)| {
            let digest = t.observed.secrets.get(&t.secret(secret.clone()))?.digests.get(*key)?;
            Some(((*name).to_owned(), digest.chars().take(16).collect()))
        })
        .collect()
}

/// What a component's Deployment is to be made from, or what is missing for it.
type Prepared = Result<Result<Vec<Object>, RenderError>, State>;

/// `--advertise-address`. Another IP address rolls the pods, one after the other: those show the new certificate at once, and the ones that
/// run only minutes later. Where there is none any more, nothing is to be shown.
fn advertise(t: &Tenant<'_>) -> Option<String> {
    let live = || {
        let containers = t.get(Kind::Deployment, names::APISERVER)?.pointer("/spec/template/spec/containers")?;
        let words =
            |c: &Value| ["command", "args"].map(|list| c[list].as_array().cloned().unwrap_or_default()).concat();
        let mut flags = containers.as_array()?.iter().flat_map(words);
        flags.find_map(|w| w.as_str()?.strip_prefix("--advertise-address=")?.parse::<IpAddr>().ok())
    };
    let published = endpoint::advertised(t).map(|(address, _)| address);
    Some(published.or_else(live).or_else(|| endpoint::cluster_ip(t))?.to_string())
}

/// kube-apiserver.
pub(super) fn apiserver(t: &Tenant<'_>, pki: Option<&Stage>) -> Stage {
    let prepared = || -> Prepared {
        let templates = t.templates().ok_or_else(|| State::waiting("the template set"))?;
        let spec = &t.cluster.spec.api_server;
        let advertise = advertise(t).ok_or_else(|| State::waiting("an address for the API"))?;
        let (access, aliases) = etcd_access(t)?;
        let client = access.client_secret.clone();
        let mut workload = workload(
            t,
            Asked {
                field: "apiServer",
                binary: Binary::ApiServer,
                replicas: spec.replicas,
                resources: spec.resources.as_ref(),
                placement: &spec.placement,
                args: &spec.extra_args,
            },
        )?;
        workload.host_aliases = aliases;
        workload.checksums = checksums(
            t,
            &[
                ("ca", names::ca(t.name), "tls.crt"),
                ("front-proxy-ca", names::proxy_ca(t.name), "tls.crt"),
                ("service-account", names::service_account(t.name), "tls.crt"),
                ("etcd-ca", client, "ca.crt"),
            ],
        )
        .ok_or_else(|| State::waiting("CAs and keys"))?;
        let network = &t.cluster.spec.network;
        let issuers = match spec.service_account_issuers.as_slice() {
            [] => vec![format!("https://kubernetes.default.svc.{}", network.dns_domain)],
            given => given.to_vec(),
        };
        let values = ApiServerValues {
            meta: t.meta(),
            workload,
            slot: None,
            advertise_address: advertise,
            service_cidrs: network.service_cidrs.clone(),
            dns_domain: network.dns_domain.clone(),
            etcd: access,
            secrets: ApiServerSecrets {
                ca: names::ca(t.name),
                front_proxy_ca: names::proxy_ca(t.name),
                service_account: names::service_account(t.name),
                pki: names::APISERVER_PKI.into(),
                encryption: names::APISERVER_ENCRYPTION.into(),
            },
            service_account_issuers: issuers,
            jwt: spec.authentication.jwt.clone(),
        };
        Ok(berth_render::render_apiserver(templates, &values))
    };
    stage(t, Component::ApiServer, names::APISERVER, pki, true, prepared())
}

/// The tenant's etcd, once its addresses and the client certificate are known.
fn etcd_access(t: &Tenant<'_>) -> Result<(EtcdAccess, Vec<HostAlias>), State> {
    let status = etcd::observed(t).and_then(|e| e.status).unwrap_or_default();
    let client = status.clients.iter().find(|c| c.name == etcd::CLIENT).map(|c| c.secret_ref.name.clone());
    match client {
        Some(client_secret) if !status.endpoints.is_empty() => {
            let aliases =
                status.endpoints.iter().map(|e| HostAlias { ip: e.address.clone(), hostnames: vec![e.host.clone()] });
            let endpoints = status.endpoints.iter().map(|e| e.url.clone()).collect();
            Ok((EtcdAccess { endpoints, client_secret }, aliases.collect()))
        }
        _ => Err(State::waiting("etcd's addresses and client certificate")),
    }
}

/// kube-controller-manager.
pub(super) fn controller_manager(t: &Tenant<'_>, pki: Option<&Stage>, api_settled: bool) -> Stage {
    let prepared = || -> Prepared {
        let templates = t.templates().ok_or_else(|| State::waiting("the template set"))?;
        let spec = &t.cluster.spec.controller_manager;
        let mut workload = workload(t, Asked::of("controllerManager", Binary::ControllerManager, spec))?;
        let api = reach_api(t, &mut workload, true)?;
        let values = ControllerManagerValues {
            meta: t.meta(),
            workload,
            cluster_name: t.name.into(),
            api,
            service_cidrs: t.cluster.spec.network.service_cidrs.clone(),
            pod_cidrs: t.cluster.spec.network.pod_cidrs.clone(),
            secrets: ControllerManagerSecrets {
                ca: names::ca(t.name),
                front_proxy_ca: names::proxy_ca(t.name),
                service_account: names::service_account(t.name),
                pki: names::CONTROLLER_MANAGER_PKI.into(),
            },
        };
        Ok(berth_render::render_controller_manager(templates, &values))
    };
    stage(t, Component::ControllerManager, names::CONTROLLER_MANAGER, pki, api_settled, prepared())
}

/// kube-scheduler.
pub(super) fn scheduler(t: &Tenant<'_>, pki: Option<&Stage>, api_settled: bool) -> Stage {
    let prepared = || -> Prepared {
        let templates = t.templates().ok_or_else(|| State::waiting("the template set"))?;
        let spec = &t.cluster.spec.scheduler;
        let mut workload = workload(t, Asked::of("scheduler", Binary::Scheduler, spec))?;
        let api = reach_api(t, &mut workload, false)?;
        let values = SchedulerValues {
            meta: t.meta(),
            workload,
            api,
            secrets: SchedulerSecrets {
                ca: names::ca(t.name),
                front_proxy_ca: names::proxy_ca(t.name),
                pki: names::SCHEDULER_PKI.into(),
            },
        };
        Ok(berth_render::render_scheduler(templates, &values))
    };
    stage(t, Component::Scheduler, names::SCHEDULER, pki, api_settled, prepared())
}

fn reach_api(t: &Tenant<'_>, workload: &mut Workload, signs_tokens: bool) -> Result<ApiAccess, State> {
    let (ip, server) = endpoint::inside(t).ok_or_else(|| State::waiting("an address for the API"))?;
    let host = format!("{}.{}.svc", names::APISERVER, t.home);
    workload.host_aliases = vec![HostAlias { ip: ip.to_string(), hostnames: vec![host] }];
    let mut sums = vec![("ca", names::ca(t.name), "tls.crt"), ("front-proxy-ca", names::proxy_ca(t.name), "tls.crt")];
    if signs_tokens {
        sums.push(("service-account", names::service_account(t.name), "tls.crt"));
    }
    workload.checksums = checksums(t, &sums).ok_or_else(|| State::waiting("CAs and keys"))?;
    Ok(ApiAccess { server })
}

/// What all three have in common: create at once, change only when the gate is open, and say how it goes.
fn stage(
    t: &Tenant<'_>,
    component: Component,
    name: &str,
    pki: Option<&Stage>,
    open: bool,
    prepared: Prepared,
) -> Stage {
    let mut stage = Stage::new(component, State::Ready);
    let deployment = t.key(Kind::Deployment, name);
    let live = t.observed.get(&deployment).filter(|d| is_ours(d));
    match prepared {
        Err(state) => stage.state = state,
        Ok(Err(bug)) => stage.state = State::blocked(Reason::Error, bug.to_string()),
        Ok(Ok(objects)) => {
            for o in objects {
                ensure(&mut stage, t.observed, workload::noted(o, &t.cluster.spec.images));
            }
            if let Some(on) = held_back(live.is_some(), pki, open, &stage) {
                stage.actions.clear();
                stage.state = on;
            }
        }
    }
    // Whatever could not be rendered now is still ours.
    let rest: Vec<ObjectKey> = owned(t, name).filter(|k| !stage.owns.contains(k)).collect();
    stage.owns.extend(rest);
    if stage.state.is_done() || (matches!(stage.state, State::Waiting { .. }) && stage.actions.is_empty()) {
        let progress = live.map(|live| progress(t, name, live)).filter(|p| !p.is_done());
        if let Some(progress) = progress {
            stage.state = progress;
        }
    }
    stage
}

/// Why changes are not made now. A missing key must not roll what still runs with it.
fn held_back(running: bool, pki: Option<&Stage>, open: bool, stage: &Stage) -> Option<State> {
    if stage.actions.is_empty() || matches!(stage.state, State::Blocked { .. }) {
        return None;
    }
    let pki_problem = pki.filter(|p| !p.state.is_done()).and_then(|p| p.state.problem());
    if let Some((_, why)) = pki_problem {
        return Some(State::waiting(format!("keys and certificates: {why}")));
    }
    (running && !open).then(|| State::waiting("kube-apiserver, which changes first"))
}

/// Objects of this component in the control-plane namespace, by label.
fn owned<'a>(t: &'a Tenant<'_>, name: &'a str) -> impl Iterator<Item = ObjectKey> + 'a {
    let of_component = move |o: &serde_json::Value| crate::observed::label(o, labels::COMPONENT) == Some(name);
    [Kind::Deployment, Kind::ConfigMap]
        .into_iter()
        .flat_map(|kind| t.observed.of_kind(kind, &t.home))
        .filter(move |(k, o)| k.name.starts_with(name) && of_component(o))
        .map(|(k, _)| k.clone())
}

fn progress(t: &Tenant<'_>, name: &str, live: &serde_json::Value) -> State {
    let rollout = workload::deployment(live);
    if rollout.settled {
        return State::Ready;
    }
    let problem =
        workload::pods_of(t.observed, &t.home, labels::COMPONENT, name).find_map(|(_, p)| workload::pod_problem(p));
    if let Some((reason, on)) = problem {
        return State::Waiting { reason, on };
    }
    if let Some(message) = workload::replica_failure(live) {
        return State::Waiting { reason: Reason::Rejected, on: format!("pods of {name} are refused: {message}") };
    }
    State::Waiting {
        reason: if rollout.serving { Reason::RollingOut } else { Reason::PodsNotReady },
        on: format!("its pods: {} of {} are up to date and ready", rollout.ready, rollout.desired),
    }
}
