//! Time travel: reads are answered as of an older resourceVersion, from the real store.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

use super::service::{Reply, boxed, full, refusal};
use super::{Call, FaultPlan, Predicate, Verb};

/// Where reads are at.
pub(super) struct Travel {
    version: String,
    matches: Predicate<Call>,
}

impl Travel {
    pub(super) fn takes(&self, call: &Call) -> bool {
        (self.matches)(call)
    }
}

impl FaultPlan {
    /// From now on GETs and LISTs that match are answered as of `version` (see
    /// [`ApiServer::resource_version`](crate::ApiServer::resource_version)), and watches that match deliver nothing: a
    /// server frozen in the past. Writes go to the present. The store keeps about five minutes of history.
    pub fn time_travel(&self, version: &str, matches: impl Fn(&Call) -> bool + Send + Sync + 'static) {
        self.lock().travel = Some(Travel { version: version.to_owned(), matches: std::sync::Arc::new(matches) });
    }

    /// Ends [`FaultPlan::time_travel`]; watches deliver what happened meanwhile.
    pub fn return_to_present(&self) {
        self.lock().travel = None;
        self.kick.send_modify(|n| *n += 1);
    }

    pub(super) fn past_for(&self, call: &Call) -> Option<String> {
        let read = matches!(call.verb, Verb::Get | Verb::List) && !call.resource.is_empty();
        let state = self.lock();
        let travel = state.travel.as_ref().filter(|t| read && t.takes(call))?;
        Some(travel.version.clone())
    }
}

/// A list at `version`; a get is a list of one name, since only lists can be asked for an exact version.
pub(super) async fn read(
    inner: &Client,
    call: &Call,
    request: Request<Body>,
    version: &str,
) -> Result<Reply, BoxError> {
    let single = call.verb == Verb::Get;
    let mut query: Vec<String> = call
        .query
        .split('&')
        .filter(|p| !p.is_empty() && !p.starts_with("resourceVersion") && !p.starts_with("continue="))
        .map(str::to_owned)
        .collect();
    query.push(format!("resourceVersion={version}&resourceVersionMatch=Exact"));
    let mut path = call.path.clone();
    if single {
        query.push(format!("fieldSelector=metadata.name%3D{}", call.name));
        let end = path.rfind(&format!("/{}", call.name)).expect("the path holds the name");
        path.truncate(end);
    }
    let mut past = Request::new(Body::empty());
    *past.uri_mut() = format!("{path}?{}", query.join("&")).parse()?;
    *past.headers_mut() = request.headers().clone();
    // A get's Accept names the object's form; lists have theirs.
    if let Some(accept) = past.headers_mut().get_mut(http::header::ACCEPT) {
        let list = accept.to_str()?.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;");
        *accept = list.parse()?;
    }
    let reply = inner.send(past).await?;
    if !single || !reply.status().is_success() {
        return Ok(reply.map(boxed));
    }
    let mut list: Value = serde_json::from_slice(&reply.into_body().collect_bytes().await?)?;
    let Some(mut object) = list["items"].as_array_mut().and_then(Vec::pop) else { return Ok(refusal(404, None)) };
    object["apiVersion"] = list["apiVersion"].take();
    object["kind"] = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").into();
    Ok(Response::new(full(object.to_string())))
}
