//! Whether what a tenant does not work without is written there, in dry runs; and if not, what its webhooks are.

use super::pages::{Next, next_page};
use crate::calls::{Io, encode};
use crate::error::{ErrorKind, IoError};
use berth_api::text::TenantText;
use berth_plan::admission::{Admission, Failing, Webhook, Write, is_of_admission};
use futures::future::join_all;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is said of a failure, at the most.
const LONGEST: usize = 300;

/// Configurations that are read at once, and pages: each holds a CA for each of its webhooks.
const PAGE: usize = 20;
const PAGES: usize = 10;

/// Services of webhooks whose endpoints are looked for.
const SERVICES: usize = 5;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Looks. `before`: the look before this one.
pub async fn look_at_admission(tenant: &Io, before: Option<&Admission>, now: Timestamp) -> Admission {
    let tried = join_all(Write::ALL.map(|write| async move { (write, dry_run(tenant, write).await) })).await;
    let failed = |(write, result): (Write, Result<(), IoError>)| {
        let why = result.err()?.to_string();
        is_of_admission(write, &why).then(|| (write, Failing { since: now, why: TenantText::of(&why, LONGEST) }))
    };
    let failing: BTreeMap<_, _> = tried.into_iter().filter_map(failed).collect();
    let (mut webhooks, mut idle) = (Ok(vec![]), BTreeSet::new());
    if !failing.is_empty() {
        webhooks = all_webhooks(tenant).await.map_err(|e| TenantText::of(&e.to_string(), LONGEST));
        idle = idle_services(tenant, webhooks.as_deref().unwrap_or_default(), &failing).await;
    }
    Admission { at: now, failing, webhooks, idle }.since(before)
}

/// Writes nothing.
async fn dry_run(tenant: &Io, write: Write) -> Result<(), IoError> {
    const SYSTEM: &str = "/api/v1/namespaces/kube-system";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let (url, body) = match write {
        Write::Lease => {
            // As its holder renews it; where there is none, as it is made.
            let patch = Some("application/merge-patch+json");
            let url = format!("{LEASES}/kube-controller-manager?dryRun=All");
            let renewed = tenant.call(Method::PATCH, &what(write), &url, Some(&json!({})), patch).await;
            match renewed {
                Err(e) if e.kind == ErrorKind::NotFound => {
                    (LEASES.to_owned(), json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}))
                }
                other => return other.map(drop),
            }
        }
        Write::Node => ("/api/v1/nodes".into(), json!({"apiVersion": "v1", "kind": "Node"})),
        Write::Pod => {
            let container = json!({"name": "a", "image": "a"});
            (format!("{SYSTEM}/pods"), json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}))
        }
        Write::Token => {
            let request =
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
            (format!("{SYSTEM}/serviceaccounts/default/token"), request)
        }
        Write::Own => (format!("{SYSTEM}/configmaps"), json!({"apiVersion": "v1", "kind": "ConfigMap"})),
    };
    let mut body = body;
    if write != Write::Token {
        body["metadata"] = json!({"name": "berth-preflight"});
    }
    tenant.call(Method::POST, &what(write), &format!("{url}?dryRun=All"), Some(&body), None).await.map(drop)
}

fn what(write: Write) -> String {
    format!("write {write} in a dry run")
}

/// The webhooks of both kinds.
pub async fn all_webhooks(tenant: &Io) -> Result<Vec<Webhook>, IoError> {
    let validating = webhooks(tenant, "validatingwebhookconfiguration");
    let mutating = webhooks(tenant, "mutatingwebhookconfiguration");
    let (validating, mutating) = futures::try_join!(validating, mutating)?;
    Ok([validating, mutating].concat())
}

async fn webhooks(tenant: &Io, kind: &'static str) -> Result<Vec<Webhook>, IoError> {
    let (mut found, mut more) = (vec![], String::new());
    for _ in 0..PAGES {
        let list = tenant.raw(&format!("{GROUP}/{kind}s?limit={PAGE}{more}")).await?;
        let items = list["items"].as_array().into_iter().flatten();
        found.extend(items.flat_map(|item| Webhook::of(kind, item)));
        match next_page(&list) {
            Next::None => return Ok(found),
            Next::At(next) => more = next,
            Next::Odd => break,
        }
    }
    Err(IoError::new(ErrorKind::Other, format!("list {kind}s"), format!("there are more than {}", PAGE * PAGES)))
}

/// Of those that take what fails: Services without an endpoint that is ready. What cannot be read is not said to be idle.
async fn idle_services(
    tenant: &Io,
    webhooks: &[Webhook],
    failing: &BTreeMap<Write, Failing>,
) -> BTreeSet<(String, String)> {
    let takes = |webhook: &&Webhook| failing.keys().any(|write| webhook.takes(*write));
    let all: BTreeSet<_> = webhooks.iter().filter(takes).filter_map(Webhook::service).cloned().collect();
    let look = all.into_iter().take(SERVICES).map(|service| async move {
        let (namespace, name) = (encode(&service.0), encode(&service.1));
        let selector = format!("labelSelector=kubernetes.io%2Fservice-name%3D{name}&limit={PAGE}");
        let url = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}");
        let slices = tenant.raw(&url).await.ok()?;
        let slices = slices["items"].as_array()?;
        let endpoints = |slice: &Value| slice["endpoints"].as_array().cloned().unwrap_or_default();
        let ready = |endpoint: Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
        (!slices.iter().flat_map(endpoints).any(ready)).then_some(service)
    });
    join_all(look).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use http::{Request, Response};
    use kube::client::Body;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    /// A tenant in which writes of that resource never end; what it was asked.
    fn tenant(hangs: &'static str) -> (Io, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(vec![]));
        let log = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (method, uri) = (request.method().to_string(), request.uri().to_string());
            log.lock().unwrap().push(format!("{method} {uri}"));
            async move {
                if method != "GET" {
                    assert!(uri.ends_with("?dryRun=All"), "{uri}");
                    if uri.contains(hangs) {
                        std::future::pending::<()>().await;
                    }
                }
                let service = json!({"service": {"namespace": "policy", "name": "engine"}});
                let rules =
                    json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["leases"]}]);
                let one = json!({"name": "slow.example.com", "clientConfig": service, "rules": rules});
                let items = match &uri {
                    uri if uri.contains("validating") => json!([{"metadata": {"name": "slow"}, "webhooks": [one]}]),
                    uri if uri.contains("endpointslices") => json!([{"endpoints": [{"conditions": {"ready": false}}]}]),
                    _ => json!([]),
                };
                let list = json!({"metadata": {}, "items": items}).to_string();
                Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes())))
            }
        });
        let client = FencedClient::new(kube::Client::new(service, "default"), Fence::open());
        (Io::new(client, Arc::default(), super::super::DEADLINE), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn webhooks_are_listed_only_where_a_write_does_not_go_through() {
        let now = Timestamp::UNIX_EPOCH;
        let (io, asked) = tenant("nothing");
        let look = look_at_admission(&io, None, now).await;
        assert!(look.failing.is_empty() && look.in_the_way().is_none());
        assert_eq!(asked.lock().unwrap().len(), Write::ALL.len(), "{:#?}", asked.lock().unwrap());
        let (io, asked) = tenant("/leases");
        let look = look_at_admission(&io, None, now).await;
        assert_eq!(look.failing.keys().collect::<Vec<_>>(), [&Write::Lease]);
        let found = look.in_the_way().unwrap();
        assert_eq!(
            (&*found.webhook.configuration, &*found.webhook.name, found.is_idle),
            ("slow", "slow.example.com", true)
        );
        assert_eq!(&*found.failing.why, "write leases in a dry run: no answer within 5s");
        assert_eq!(asked.lock().unwrap().len(), Write::ALL.len() + 3, "{:#?}", asked.lock().unwrap());
    }
}
