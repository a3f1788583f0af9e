//! Where volumes of etcd's members are, for what no node could hold (ADR 69).

use crate::calls::{Io, encode};
use crate::error::IoError;
use berth_plan::room::{Node, PodThere, Unread, Volume};
use berth_plan_etcd::room::VolumeOf;
use berth_render::{Kind, ObjectKey};
use std::collections::{BTreeMap, HashMap};

/// Reads where these volumes can be used, and what pods ask for on the node of one that is on no other; by member. A volume that does not exist
/// ties nobody; what could not be read is told.
pub async fn read_volumes(io: &Io, asked: &[VolumeOf], nodes: &[Node]) -> BTreeMap<String, Volume> {
    let mut all = BTreeMap::new();
    let mut on: HashMap<String, Result<Vec<PodThere>, Unread>> = HashMap::new();
    for VolumeOf { member, claim, name } in asked {
        let mut volume = Volume { claim: claim.clone(), name: name.clone(), ..Volume::default() };
        match io.get(&ObjectKey::cluster(Kind::PersistentVolume, &**name)).await {
            Ok(Some(mut live)) => volume.affinity = live["spec"]["nodeAffinity"].take(),
            Ok(None) => continue,
            Err(error) => volume.unread = Some(unread(&error)),
        }
        if let Some(node) = volume.node(nodes).filter(|_| volume.unread.is_none()) {
            let found = match on.get(&node.name) {
                Some(known) => known.clone(),
                None => pods(io, &node.name).await,
            };
            on.insert(node.name.clone(), found.clone());
            match found {
                Ok(pods) => volume.pods = pods,
                Err(unread) => volume.unread = Some(unread),
            }
        }
        all.insert(member.clone(), volume);
    }
    all
}

async fn pods(io: &Io, node: &str) -> Result<Vec<PodThere>, Unread> {
    let pods = io.raw(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", encode(node))).await;
    let pods = pods.map_err(|error| unread(&error))?;
    Ok(pods["items"].as_array().into_iter().flatten().filter_map(PodThere::of).collect())
}

fn unread(error: &IoError) -> Unread {
    Unread { is_denied: error.denial().is_some(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::WRITE_DEADLINE;
    use berth_fence::{Fence, FencedClient};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use tower::BoxError;

    /// An API server that answers so to a reading of volumes, and to one of pods.
    fn server(volume: (u16, Value), pods: (u16, Value)) -> Io {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, answer) = if request.uri().path().ends_with("/pods") { pods.clone() } else { volume.clone() };
            async move {
                Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?)
            }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::open());
        Io::new(client, Arc::default(), WRITE_DEADLINE)
    }

    fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
        (code, json!({"status": "Failure", "reason": reason, "message": message, "code": code}))
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_told_apart_from_what_is_not_there() {
        let of_n1 = json!({"required": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}});
        let volume = || (200, json!({"spec": {"nodeAffinity": of_n1}}));
        let pods = || (200, json!({"items": []}));
        let gone = || status(404, "NotFound", "persistentvolumes \"pv-0\" not found");
        let busy = || status(429, "TooManyRequests", "too many requests");
        let denied = || {
            let why = "User \"berth\" cannot get resource \"persistentvolumes\" in API group \"\" at the cluster scope";
            status(403, "Forbidden", &format!("persistentvolumes \"pv-0\" is forbidden: {why}"))
        };
        let nodes = ["n1", "n2"].map(|name| Node::of(&json!({"metadata": {"name": name}})));
        let asked = [VolumeOf { member: "etcd-0".into(), claim: "data-etcd-0".into(), name: "pv-0".into() }];
        for (case, of_volume, of_pods, wanted) in [
            ("all is read", volume(), pods(), Some(None)),
            ("the volume does not exist", gone(), pods(), None),
            ("the volume is not read", busy(), pods(), Some(Some(false))),
            ("the volume may not be read", denied(), pods(), Some(Some(true))),
            ("the pods on its node are not read", volume(), busy(), Some(Some(false))),
        ] {
            let all = read_volumes(&server(of_volume, of_pods), &asked, &nodes).await;
            let unread = all.get("etcd-0").map(|volume| volume.unread.as_ref().map(|unread| unread.is_denied));
            assert_eq!(unread, wanted, "{case}: {all:?}");
        }
    }
}
