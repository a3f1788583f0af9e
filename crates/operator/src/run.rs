//! The life of an operator process.

use crate::context::Context;
use crate::{access, calls, controllers, fleet_tasks, visits};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs all controllers until `stop`. Reconciles that are under way end first.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let controllers = futures::future::join_all(controllers::ALL.iter().map(|c| c.run(ctx.clone(), stop.clone())));
    // Until the controllers have ended: without reconciles turns are of no use.
    let tasks = async {
        tokio::join!(
            fleet_tasks::run_all(&ctx, &stop),
            access::run(&ctx, &stop),
            calls::run(&ctx, &stop),
            visits::run(&ctx, &stop)
        );
        std::future::pending::<()>().await;
    };
    tokio::select! { _ = controllers => (), () = tasks => () }
}

/// Waits until the meta cluster answers and Berth's resources are there, and says what is missing meanwhile.
pub async fn wait_for_crds(ctx: &Context) {
    let crds = Api::all((**ctx.io.client()).clone());
    let mut said = String::new();
    while let Some(text) = missing(&crds).await {
        if said != text {
            tracing::warn!("waiting: {text}");
            said = text;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn missing(crds: &Api<CustomResourceDefinition>) -> Option<String> {
    for built in berth_api::crds::all() {
        let name = built.name_any();
        let why = match tokio::time::timeout(Duration::from_secs(5), crds.get_opt(&name)).await {
            Ok(Ok(Some(live))) => match berth_api::crds::lacking(&live, &built) {
                None => continue,
                Some(field) => {
                    format!(
                        " has no {field}: it is of an older release than this operator; upgrade the chart berth-crds"
                    )
                }
            },
            Ok(Ok(None)) => " is not there; install the chart berth-crds".to_owned(),
            Ok(Err(e)) => format!(": {e}"),
            Err(_) => return Some("the API server does not answer".into()),
        };
        return Some(format!("CustomResourceDefinition {name}{why}"));
    }
    None
}
