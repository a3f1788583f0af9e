//! Reading `TLSRoute`s, a kind that not every meta cluster has.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use crate::observe::Snapshot;
use berth_api::cluster::EndpointType;
use berth_api::{Cluster, labels, names};
use berth_plan::Settings;
use berth_plan::object_meta::annotation;
use berth_plan::observed::RoutesSeen;
use berth_plan::settings::Engine;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Reads `TLSRoute`s, where there are, or are to be, some. Whether the meta cluster has the kind is said by its answer.
pub(crate) async fn read_routes(
    io: &Io,
    cluster: &Cluster,
    settings: &Settings,
    home: &str,
    snapshot: &mut Snapshot,
) -> Result<(), IoError> {
    let is_to_be = cluster.spec.endpoint.type_ == EndpointType::Gateway
        && settings.gateway.as_ref().is_some_and(|gateway| gateway.has(Engine::GatewayAPI));
    let service = ObjectKey::namespaced(Kind::Service, home, names::APISERVER);
    let was = || snapshot.observed.get(&service).is_some_and(|s| annotation(s, labels::TLS_ROUTE).is_some());
    if !is_to_be && !was() {
        return Ok(());
    }
    snapshot.observed.routes = match io.list(Kind::TLSRoute, home, None).await {
        Ok(routes) => {
            snapshot.put_all(Kind::TLSRoute, routes);
            RoutesSeen::Served
        }
        Err(e) if e.kind == ErrorKind::NotFound => RoutesSeen::Missing(versions_with_routes(io).await?),
        Err(e) if e.kind == ErrorKind::Forbidden => RoutesSeen::Denied,
        Err(e) => return Err(e),
    };
    Ok(())
}

/// The versions in which the meta cluster has `TLSRoute`s.
async fn versions_with_routes(io: &Io) -> Result<Vec<String>, IoError> {
    let (group, plural) = (Kind::TLSRoute.group(), Kind::TLSRoute.plural());
    let answer = |answer: Result<Value, IoError>| match answer {
        Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::Forbidden) => Ok(Value::Null),
        answer => answer,
    };
    let known = answer(io.raw(&format!("/apis/{group}")).await)?;
    let mut all = vec![];
    for version in known["versions"].as_array().into_iter().flatten().filter_map(|v| v["version"].as_str()) {
        let list = answer(io.raw(&format!("/apis/{group}/{version}")).await)?;
        if list["resources"].as_array().is_some_and(|all| all.iter().any(|resource| resource["name"] == plural)) {
            all.push(version.to_owned());
        }
    }
    Ok(all)
}
