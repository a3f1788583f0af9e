//! Reading `TLSRoute`s, a kind that not every meta cluster has.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use berth_api::cluster::EndpointType;
use berth_api::{Cluster, labels};
use berth_plan::Settings;
use berth_plan::object_meta::annotation;
use berth_plan::observed::RoutesSeen;
use berth_plan::settings::Engine;
use berth_render::Kind;
use serde_json::Value;

/// Reads `TLSRoute`s, where there are, or are to be, some. Whether the meta cluster has the kind is said by its answer. `service`: that of the
/// tenant's API.
pub(crate) async fn read_routes(
    io: &Io,
    cluster: &Cluster,
    settings: &Settings,
    home: &str,
    service: Option<&Value>,
) -> Result<(RoutesSeen, Vec<Value>), IoError> {
    let is_to_be = cluster.spec.endpoint.type_ == EndpointType::Gateway
        && settings.gateway.as_ref().is_some_and(|gateway| gateway.has(Engine::GatewayAPI));
    let was = service.is_some_and(|service| annotation(service, labels::TLS_ROUTE).is_some());
    if !is_to_be && !was {
        return Ok((RoutesSeen::NotAsked, vec![]));
    }
    match io.list(Kind::TLSRoute, home, None).await {
        Ok(routes) => Ok((RoutesSeen::Served, routes)),
        Err(e) if e.kind == ErrorKind::NotFound => Ok((RoutesSeen::Missing(versions_with_routes(io).await?), vec![])),
        Err(e) if e.kind == ErrorKind::Forbidden => Ok((RoutesSeen::Denied, vec![])),
        Err(e) => Err(e),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use berth_plan::settings::{Gateway, Parent};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    const HOME: &str = "acme-1";

    /// What is found, how many of them, and in how many calls, at an API server that has `TLSRoute` in these versions, or answers with that code. `engine`: the chart's
    /// values have it; `mark`: the Service has it.
    async fn found(
        versions: &'static [&'static str],
        code: u16,
        engine: bool,
        mark: bool,
    ) -> (RoutesSeen, usize, usize) {
        let asked = Arc::new(Mutex::new(vec![]));
        let seen = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let group = "/apis/gateway.networking.k8s.io";
            let (code, answer) = match path.strip_prefix(group).expect("nothing else") {
                "" if code == 200 => {
                    let all: Vec<_> = ["v1", "v1beta1", "v1alpha3"].map(|version| json!({"version": version})).into();
                    (200, json!({"versions": all}))
                }
                "/v1/namespaces/acme-1/tlsroutes" if code != 200 => (code, json!({})),
                "/v1/namespaces/acme-1/tlsroutes" if versions.contains(&"v1") => {
                    (200, json!({"items": [{"metadata": {"name": "kube-apiserver", "namespace": HOME}}]}))
                }
                version if versions.contains(&version.trim_start_matches('/')) => {
                    (200, json!({"resources": [{"name": "httproutes"}, {"name": "tlsroutes"}]}))
                }
                "/v1" | "/v1beta1" | "/v1alpha3" => (200, json!({"resources": [{"name": "httproutes"}]})),
                _ => (404, json!({})),
            };
            seen.lock().unwrap().push(path);
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "message": "tlsroutes.gateway.networking.k8s.io is forbidden: User \"x\" cannot list resource \"tlsroutes\" in API group \"gateway.networking.k8s.io\" in the namespace \"acme-1\"", "reason": "Forbidden"});
            let body = if code == 200 { answer } else { status };
            let response =
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).expect("it");
            async move { Ok::<_, Infallible>(response) }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::closed());
        let io = Io::new(client, Arc::default(), Duration::from_secs(5));
        let cluster = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme", "namespace": "team-a"},
            "spec": {"version": "1.36.3", "endpoint": {"type": "Gateway"}},
        });
        let parents = vec![Parent { namespace: "edge".into(), name: "tls".into(), section_name: None }];
        let gateway = Gateway { engines: vec![Engine::GatewayAPI], parents, ..Gateway::default() };
        let settings = Settings { gateway: engine.then_some(gateway), ..Settings::default() };
        let service = json!({"metadata": {"annotations": {labels::TLS_ROUTE: "true"}}});
        let cluster = serde_json::from_value(cluster).unwrap();
        let (seen, routes) = read_routes(&io, &cluster, &settings, HOME, mark.then_some(&service)).await.unwrap();
        let asked = asked.lock().unwrap().len();
        (seen, routes.len(), asked)
    }

    #[tokio::test]
    async fn they_are_read_where_there_may_be_some_and_their_versions_where_there_are_none() {
        for (engine, mark) in [(true, false), (false, true)] {
            assert_eq!(found(&["v1"], 200, engine, mark).await, (RoutesSeen::Served, 1, 1));
        }
        assert_eq!(found(&["v1"], 200, false, false).await, (RoutesSeen::NotAsked, 0, 0));
        let missing = |all: &[&str]| RoutesSeen::Missing(all.iter().map(|version| (*version).to_owned()).collect());
        assert_eq!(found(&["v1alpha3"], 200, true, false).await.0, missing(&["v1alpha3"]));
        assert_eq!(found(&[], 200, true, false).await.0, missing(&[]), "the group has other kinds");
        assert_eq!(found(&[], 404, true, false).await.0, missing(&[]));
        assert_eq!(found(&["v1"], 403, true, true).await.0, RoutesSeen::Denied);
    }
}
