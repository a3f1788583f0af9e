//! What pods use and request, and resizing them.

use crate::calls::{Io, encode, other};
use crate::error::{ErrorKind, IoError};
use berth_api::labels;
use berth_plan::sizes::{Metrics, ReadPod, Resize, SizedPod, usage_of};
use berth_render::{Binary, Kind, ObjectKey};
use http::Method;
use serde::Deserialize;
use serde_json::json;

/// Pods in one answer.
const PAGE: usize = 500;

/// Field manager of resizes.
const MANAGER: &str = "berth-sizes";

/// What Berth's pods use, in one namespace or in all, and the failure if that is not known.
pub async fn read_usage(io: &Io, namespace: Option<&str>) -> (Metrics, Option<IoError>) {
    let url = format!("/apis/metrics.k8s.io/v1beta1{}?labelSelector={}", pods(namespace), encode(&selector()));
    match io.call(Method::GET, "list pods of metrics.k8s.io", &url, None, None).await {
        Ok(answer) => {
            let items = answer["items"].as_array().into_iter().flatten();
            (Metrics::Answered(items.filter_map(usage_of).collect()), None)
        }
        Err(error) => {
            let metrics = match error.kind {
                ErrorKind::NotFound => Metrics::Missing,
                ErrorKind::Forbidden => Metrics::Denied,
                _ => Metrics::Failed,
            };
            (metrics, Some(error))
        }
    }
}

/// Berth's pods that run, in one namespace or in all. Of each page only that is kept.
pub async fn read_sized_pods(io: &Io, namespace: Option<&str>) -> Result<Vec<SizedPod>, IoError> {
    let what = "list pods for their sizes";
    let url = format!("/api/v1{}?labelSelector={}&limit={PAGE}", pods(namespace), encode(&selector()));
    let (mut all, mut next) = (vec![], url.clone());
    loop {
        let text = io.text(Method::GET, what, &next, None, None).await?;
        let page: Page = serde_json::from_str(&text).map_err(|error| other(what, &error))?;
        all.extend(page.items.into_iter().filter_map(ReadPod::sized));
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => next = format!("{url}&continue={}", encode(&token)),
            None => return Ok(all),
        }
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: More,
    #[serde(default)]
    items: Vec<ReadPod>,
}

#[derive(Default, Deserialize)]
struct More {
    #[serde(rename = "continue")]
    next: Option<String>,
}

fn pods(namespace: Option<&str>) -> String {
    namespace.map_or("/pods".to_owned(), |namespace| format!("/namespaces/{}/pods", encode(namespace)))
}

/// Members of etcd have no other label in common with the pods of components.
fn selector() -> String {
    format!("{} in ({})", labels::COMPONENT, Binary::ALL.map(Binary::name).join(","))
}

/// How a resize went.
#[derive(Clone, Debug, PartialEq)]
pub enum Resized {
    /// It was taken; kubelet makes it, or says why not.
    Taken,
    /// It was not, and why, for people.
    Refused(String),
    /// The pod is gone, or is another one.
    Gone,
}

/// Changes the requests of a running pod's container.
///
/// # Errors
///
/// Nobody knows how it went: it is tried again.
pub async fn resize(io: &Io, resize: &Resize) -> Result<Resized, IoError> {
    let Resize { namespace, pod, uid, container, size } = resize;
    let key = ObjectKey::namespaced(Kind::Pod, namespace.clone(), pod.clone());
    let patch = json!({
        "metadata": {"uid": uid},
        "spec": {"containers": [{"name": container, "resources": {"requests": size.to_json()}}]},
    });
    let url = format!("{}/resize?fieldManager={MANAGER}", crate::calls::path(&key));
    let content = Some("application/strategic-merge-patch+json");
    match io.call(Method::PATCH, &format!("resize {key}"), &url, Some(&patch), content).await {
        Ok(_) => Ok(Resized::Taken),
        Err(error) => match error.kind {
            ErrorKind::Conflict => Ok(Resized::Gone),
            // Another pod has the name by now.
            ErrorKind::Rejected if error.message.contains("metadata.uid: ") => Ok(Resized::Gone),
            // Of a pod that is gone it says its name.
            ErrorKind::NotFound if error.message.contains(&format!("\"{pod}\"")) => Ok(Resized::Gone),
            ErrorKind::NotFound => Ok(Resized::Refused(
                "it does not know pods/resize. Run Kubernetes 1.34 or newer there, or 1.33 with the feature gate InPlacePodVerticalScaling"
                    .to_owned(),
            )),
            ErrorKind::Rejected => Ok(Resized::Refused(error.message)),
            ErrorKind::Forbidden => Ok(Resized::Refused(format!(
                "{}. Restore the chart's rights with helm upgrade and the same values",
                error.message
            ))),
            ErrorKind::Transient | ErrorKind::Fenced | ErrorKind::Refused | ErrorKind::Other => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use berth_plan::sizes::Size;
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::Value;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    /// An API server that answers all so.
    fn answers(code: u16, answer: Value) -> Io {
        let service = tower::service_fn(move |_: Request<Body>| {
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = code.try_into().unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::open());
        Io::new(client, Arc::default(), Duration::from_secs(1))
    }

    fn refusal(code: u16, message: &str) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "", "code": code})
    }

    #[tokio::test]
    async fn how_a_resize_went_is_told_apart() {
        let asked = Resize {
            namespace: "acme-1".into(),
            pod: "etcd-0".into(),
            uid: "u".into(),
            container: "etcd".into(),
            size: Size { cpu: 50, memory: 1 << 20 },
        };
        let of = async |code, message| resize(&answers(code, refusal(code, message)), &asked).await;
        assert_eq!(of(404, "pods \"etcd-0\" not found").await.unwrap(), Resized::Gone);
        assert_eq!(of(409, "the UID in the precondition is not that of the object").await.unwrap(), Resized::Gone);
        let other = "Pod \"etcd-0\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable";
        assert_eq!(of(422, other).await.unwrap(), Resized::Gone);
        let Resized::Refused(why) = of(404, "the server could not find the requested resource").await.unwrap() else {
            panic!("not refused")
        };
        assert!(why.contains("pods/resize"), "{why}");
        let quota = "pods \"etcd-0\" is forbidden: exceeded quota: q";
        assert_eq!(of(403, quota).await.unwrap(), Resized::Refused(quota.into()));
        let class = "Pod \"etcd-0\" is invalid: spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing";
        assert_eq!(of(422, class).await.unwrap(), Resized::Refused(class.into()));
        let right = r#"pods "etcd-0" is forbidden: User "x" cannot patch resource "pods/resize" in API group "" in the namespace "a""#;
        assert!(matches!(of(403, right).await.unwrap(), Resized::Refused(why) if why.contains("helm upgrade")));
        assert_eq!(of(500, "").await.unwrap_err().kind, ErrorKind::Transient);
        assert_eq!(resize(&answers(200, json!({})), &asked).await.unwrap(), Resized::Taken);
    }

    #[tokio::test]
    async fn what_metrics_answer_is_told_apart() {
        let of = async |code| read_usage(&answers(code, refusal(code, "x")), None).await.0;
        assert_eq!((of(404).await, of(503).await), (Metrics::Missing, Metrics::Failed));
        assert_eq!(of(401).await, Metrics::Denied);
        let one = json!({"items": [{"metadata": {"namespace": "a", "name": "b"}, "containers": [{"name": "c", "usage": {"cpu": "1234567n", "memory": "2048Ki"}}]}]});
        let Metrics::Answered(usage) = read_usage(&answers(200, one), None).await.0 else { panic!("no usage") };
        assert_eq!(usage[&("a".to_owned(), "b".to_owned())]["c"], Size { cpu: 2, memory: 2 << 20 });
    }
}
