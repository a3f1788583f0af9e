//! Tenants' APIs: one real server, on which every tenant has names of its own.
//!
//! What Berth keeps inside a tenant has fixed names (`default/kubernetes`, `berth:…`, `kubeadm:…`) and is listed by a label. On the way
//! in, they are turned into ones of this tenant, on the way back again into those that Berth knows.

use berth_api::labels;
use berth_fence::{Fence, FencedClient};
use berth_kubeio::{Connect, TenantTarget};
use http::{Request, Response, Uri};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use tower::BoxError;

/// The tenant's namespace on the server, by its CA: it is the same as long as the tenant is.
pub(crate) fn id(ca_cert: &[u8]) -> String {
    format!("tenant-{}", &berth_plan::digest::sha256(ca_cert)[..10])
}

/// A tenant's namespaces, as they are called there and on the server.
pub(crate) fn namespaces(id: &str) -> [(&'static str, String); 3] {
    [("default", id.to_owned()), ("kube-system", format!("{id}-system")), ("kube-public", format!("{id}-public"))]
}

/// Connects to the tenant of a target: `admin` makes its namespaces, `client` is what the operator's calls go through.
pub(crate) fn connect(admin: Client, client: Client) -> Connect {
    let known = Arc::new(Mutex::new(BTreeSet::new()));
    Arc::new(move |target: TenantTarget| {
        let (admin, client, known) = (admin.clone(), client.clone(), known.clone());
        Box::pin(async move {
            let id = id(&target.ca_cert);
            if !known.lock().unwrap().contains(&id) {
                for (_, name) in namespaces(&id) {
                    let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
                    let namespace = Namespace { metadata, ..Namespace::default() };
                    match Api::all(admin.clone()).create(&PostParams::default(), &namespace).await {
                        Err(kube::Error::Api(e)) if e.code == 409 => {}
                        other => drop(other.map_err(|e| e.to_string())?),
                    }
                }
                known.lock().unwrap().insert(id.clone());
            }
            let version = match &target.server_name {
                Some(_) => version_of(&admin, &target.server).await,
                None => None,
            };
            Ok(FencedClient::new(rename(client, Leases { admin, id: id.clone() }, id, version), Fence::open()))
        })
    })
}

/// What the API server in the pod at that address says of its version: the shared server is of one version only.
async fn version_of(admin: &Client, server: &str) -> Option<String> {
    let address = server.strip_prefix("https://")?.rsplit_once(':')?.0;
    let pods =
        Api::<Pod>::all(admin.clone()).list(&ListParams::default().fields(&format!("status.podIP={address}"))).await;
    let pod = pods.ok()?.items.into_iter().next()?;
    let version = pod.metadata.labels?.get(labels::VERSION)?.clone();
    let args = pod.spec?.containers.into_iter().next()?.args.unwrap_or_default();
    let emulates = args.iter().find_map(|arg| Some(arg.strip_prefix("--emulated-version=")?.to_owned()));
    let of = |text: &str| {
        let mut words = text.split('.').map(str::to_owned);
        (words.next(), words.next())
    };
    let ((major, minor), (old_major, old_minor)) = (of(&version), of(emulates.as_deref().unwrap_or(&version)));
    let told = json!({
        "gitVersion": format!("v{version}"), "major": major, "minor": minor,
        "emulationMajor": old_major, "emulationMinor": old_minor,
    });
    Some(told.to_string())
}

/// Gives the tenant's `kube-dns` an address of the shared server's range, and tells what stands for what.
fn dns_address(text: &mut String, id: &str) -> Option<(String, String)> {
    static ASKED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut all = ASKED.lock().unwrap();
    let field = "\"clusterIP\":\"";
    if text.contains("\"name\":\"kube-dns\"")
        && let Some((_, rest)) = text.split_once(field)
        && let Some((asked, _)) = rest.split_once('"')
    {
        all.insert(id.to_owned(), asked.to_owned());
    }
    let asked = all.get(id)?;
    let mut state = DefaultHasher::new();
    id.hash(&mut state);
    let [a, b, ..] = state.finish().to_be_bytes();
    let (from, to) = (format!("{field}{asked}\""), format!("{field}10.96.{}.{}\"", a.max(2), b.clamp(1, 254)));
    *text = text.replace(&from, &to);
    Some((from, to))
}

/// The leases of a tenant's control plane, of which no program runs: somebody always leads, unless a test made leases of its own.
#[derive(Clone)]
struct Leases {
    admin: Client,
    id: String,
}

impl Leases {
    /// The list, if it is the world that renews them.
    async fn list(&self) -> Option<String> {
        let [_, (_, system), _] = namespaces(&self.id);
        let own = Api::<Lease>::namespaced(self.admin.clone(), &system).list(&ListParams::default()).await.ok()?;
        let now = jiff::Timestamp::now().to_string();
        let lease =
            |name: &str| json!({"metadata": {"name": name}, "spec": {"renewTime": now, "leaseDurationSeconds": 20}});
        let all = ["kube-controller-manager", "kube-scheduler"].map(lease);
        own.items.is_empty().then(|| json!({"metadata": {}, "items": all}).to_string())
    }
}

fn rename(inner: Client, leases: Leases, id: String, version: Option<String>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, leases, id, version) = (inner.clone(), leases.clone(), id.clone(), version.clone());
        async move {
            if let Some(told) = version.filter(|_| request.uri().path() == "/version") {
                return Ok(Response::new(Body::from(told.into_bytes())));
            }
            let looks = request.method() == http::Method::GET && request.uri().path().ends_with("/kube-system/leases");
            if looks && let Some(told) = leases.list().await {
                return Ok(Response::new(Body::from(told.into_bytes())));
            }
            let (mut parts, body) = request.into_parts();
            let (mut uri, mut there) = (parts.uri.to_string(), vec![]);
            for word in ["berth", "kubeadm"] {
                uri = uri.replace(&format!("{word}%3A"), &format!("{word}%3A{id}%3A"));
                there.push((format!("\"{word}:"), format!("\"{word}:{id}:")));
            }
            uri = uri.replace("system%3Acoredns", &format!("system%3A{id}%3Acoredns"));
            there.push(("\"system:coredns\"".into(), format!("\"system:{id}:coredns\"")));
            for (from, to) in namespaces(&id) {
                uri = uri.replace(&format!("/namespaces/{from}/"), &format!("/namespaces/{to}/"));
                there.push((format!("\"namespace\":\"{from}\""), format!("\"namespace\":\"{to}\"")));
            }
            uri = uri.replace("berth.dev%2Ftenant-set", &format!("berth.dev%2Ftenant-set-{id}"));
            there.push(("\"berth.dev/tenant-set\"".into(), format!("\"berth.dev/tenant-set-{id}\"")));
            parts.uri = uri.parse::<Uri>()?;
            let mut text = String::from_utf8(body.collect_bytes().await?.to_vec())?;
            for (from, to) in &there {
                text = text.replace(&**from, to);
            }
            there.extend(dns_address(&mut text, &id));
            let reply = inner.send(Request::from_parts(parts, Body::from(text.into_bytes()))).await?;
            let (mut parts, body) = reply.into_parts();
            parts.headers.remove(http::header::CONTENT_LENGTH);
            let mut text = String::from_utf8(body.collect_bytes().await?.to_vec())?;
            for (to, from) in &there {
                text = text.replace(&**from, to);
            }
            Ok::<Response<Body>, BoxError>(Response::from_parts(parts, Body::from(text.into_bytes())))
        }
    });
    Client::new(service, "default")
}
