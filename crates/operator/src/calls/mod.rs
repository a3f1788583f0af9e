//! Hears from each replica of `berth-gateway` who uses tenants, and calls those that sleep. Who calls is told within a moment, over a stream that the
//! operator opens: a gateway finds nobody, and has no right to anything of a tenant.

mod listen;

use crate::context::Context;
use crate::heard::Pods;
use crate::link::{self, Program};
use berth_api::calls::{ADDRESS, CERTIFICATE, GATEWAY, LABEL, LONGEST, OPERATOR};
use berth_edge::link::Names;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use std::pin::pin;
use tokio_util::sync::CancellationToken;

/// By what they find each other.
const NAMES: Names = Names {
    program: GATEWAY,
    label: LABEL,
    address: ADDRESS,
    certificate: CERTIFICATE,
    operator: OPERATOR,
    longest: LONGEST,
};

/// Labels of the gateway's pods, as the chart gives them.
const PODS: &str = "app.kubernetes.io/name=berth,app.kubernetes.io/component=gateway";

/// For as long as this process leads. Without a gateway that tells, it has nothing to do.
pub(crate) async fn run(ctx: &Context, stop: &CancellationToken) {
    let Some(namespace) = ctx.settings.gateway.as_ref().and_then(|gateway| gateway.namespace.clone()) else { return };
    ctx.heard.begins(ctx.now());
    let program = Program { names: NAMES, name: GATEWAY, namespace: namespace.clone() };
    let hears = link::run(ctx, stop, program, |ctx, replica, lines| async move {
        listen::listen(&ctx.heard, (&replica.name, lines), || ctx.now(), |all| ctx.rouse(all)).await
    });
    let counts = async {
        tokio::select! { () = pods(ctx, &namespace) => (), () = stop.cancelled() => () }
    };
    tokio::join!(hears, counts);
}

/// Which pods of the gateway run: use is known once each of them tells it.
async fn pods(ctx: &Context, namespace: &str) {
    let api = Api::<Pod>::namespaced((**ctx.io.client()).clone(), namespace);
    let all = watcher(api, watcher::Config::default().labels(PODS)).backoff(watcher::DefaultBackoff::default());
    let mut all = pin!(all);
    let (mut now, mut listed) = (Pods::new(), Pods::new());
    while let Some(event) = all.next().await {
        match event {
            Ok(Event::Init) => listed = Pods::new(),
            Ok(Event::InitApply(pod)) => put(&mut listed, &pod),
            Ok(Event::InitDone) => now = std::mem::take(&mut listed),
            Ok(Event::Apply(pod)) => put(&mut now, &pod),
            Ok(Event::Delete(pod)) => drop(now.remove(&pod.name_any())),
            Err(error) => {
                let error = berth_kubeio::IoError::from_watch(&error);
                ctx.failed(&error);
                tracing::warn!(%error, namespace, "cannot watch the pods of berth-gateway");
                continue;
            }
        }
        if listed.is_empty() {
            ctx.heard.pods(ctx.now(), now.clone());
        }
    }
}

/// One that does not run takes no connections.
fn put(all: &mut Pods, pod: &Pod) {
    let status = pod.status.as_ref();
    let runs = status.and_then(|status| status.phase.as_deref()) == Some("Running");
    let mut containers = status.into_iter().flat_map(|status| status.container_statuses.iter().flatten());
    if runs {
        all.insert(pod.name_any(), containers.any(|container| container.restart_count > 0));
    } else {
        all.remove(&pod.name_any());
    }
}
