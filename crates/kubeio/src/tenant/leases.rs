//! Who leads in a tenant, by the leases of its control plane.

use super::pages::{Next, next_page};
use crate::calls::Io;
use crate::error::IoError;
use berth_plan::leads::{Lease, Leases};
use serde_json::Value;

/// Leases that are read at once. One has about a KiB, and a tenant's `kube-system` a handful.
const PAGE: usize = 100;

/// Pages that are read until all are found.
const PAGES: usize = 4;

/// Those of these names. None: there are more others than anybody reads.
pub(super) async fn read(tenant: &Io, names: &[String]) -> Result<Option<Leases>, IoError> {
    let (mut found, mut more) = (Leases::new(), String::new());
    for _ in 0..PAGES {
        let url = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?limit={PAGE}{more}");
        let list = tenant.raw(&url).await?;
        let items = list["items"].as_array().into_iter().flatten();
        found.extend(items.filter_map(|item| Some((wanted(item, names)?, lease(item)))));
        match next_page(&list) {
            _ if found.len() == names.len() => return Ok(Some(found)),
            Next::None => return Ok(Some(found)),
            Next::At(next) => more = next,
            Next::Odd => return Ok(None),
        }
    }
    Ok(None)
}

fn wanted(item: &Value, names: &[String]) -> Option<String> {
    let name = item.pointer("/metadata/name")?.as_str()?;
    names.iter().find(|wanted| *wanted == name).cloned()
}

/// Nothing of it is text: a time, and a number.
fn lease(item: &Value) -> Lease {
    let spec = &item["spec"];
    Lease {
        renewed: spec["renewTime"].as_str().and_then(|at| at.parse().ok()),
        duration: spec["leaseDurationSeconds"].as_i64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::Arc;

    fn names() -> Vec<String> {
        ["kube-controller-manager", "kube-scheduler"].map(str::to_owned).into()
    }

    /// Pages in their order, the last without a next one.
    async fn read_of(pages: Vec<Value>) -> Option<Leases> {
        let last = pages.len() - 1;
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let at: usize = query.rsplit_once("continue=").map_or(0, |(_, at)| at.parse().unwrap());
            let next = if at < last { (at + 1).to_string() } else { String::new() };
            let list = json!({"metadata": {"continue": next}, "items": pages[at]}).to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes()))) }
        });
        let client = FencedClient::new(kube::Client::new(service, "default"), Fence::open());
        read(&Io::new(client, Arc::default(), super::super::DEADLINE), &names()).await.unwrap()
    }

    #[tokio::test]
    async fn leases_are_read_by_name_and_nothing_of_them_is_text() {
        let manager = json!({"metadata": {"name": "kube-controller-manager"},
            "spec": {"renewTime": "2026-11-28T12:00:00.123456Z", "leaseDurationSeconds": 20, "holderIdentity": "\u{1b}[8m"}});
        let scheduler =
            json!({"metadata": {"name": "kube-scheduler"}, "spec": {"renewTime": ";id", "leaseDurationSeconds": "x"}});
        let other = json!({"metadata": {"name": "apiserver-abc"}, "spec": {"renewTime": "2026-11-28T12:00:00Z"}});
        let renewed = Lease { renewed: "2026-11-28T12:00:00.123456Z".parse().ok(), duration: Some(20) };
        let all = Leases::from([(names()[0].clone(), renewed), (names()[1].clone(), Lease::default())]);
        for pages in [
            vec![json!([other, manager, scheduler])],
            vec![json!([other]), json!([manager]), json!([scheduler])],
            vec![json!([manager, scheduler]), json!([other])],
        ] {
            assert_eq!(read_of(pages).await.as_ref(), Some(&all));
        }
        assert_eq!(read_of(vec![json!([other])]).await, Some(Leases::new()), "none of them is there");
        assert_eq!(read_of(vec![json!([other]); 5]).await, None, "nobody knows");
        assert_eq!(read_of(vec![json!(null)]).await, Some(Leases::new()));
    }
}
