//! Tells the operator where this replica is, and who: as a Lease, which goes with the pod.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::PostParams;
use std::collections::BTreeMap;
use std::time::Duration;

use super::names::Names;

/// How often it is looked whether the Lease is still there.
const LOOK: Duration = Duration::from_mins(1);
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// This pod.
#[derive(Clone, Debug)]
pub struct Replica {
    pub name: String,
    /// Empty: it runs outside of a pod, and nothing takes its Lease away.
    pub uid: String,
    /// Where the operator reaches it.
    pub address: String,
    /// Its certificate as PEM.
    pub certificate: String,
}

/// Keeps this replica's Lease as it has to be, for ever. `published`: called each time that it was found or written so.
pub async fn publish(names: Names, leases: Api<Lease>, replica: Replica, published: impl Fn()) {
    let mut said = String::new();
    loop {
        match write(names, &leases, &replica).await {
            Ok(()) => {
                published();
                said.clear();
                tokio::time::sleep(LOOK).await;
            }
            Err(error) => {
                let text = format!("{error:#}");
                if said != text {
                    eprintln!(
                        "{}: the operator does not learn of this replica, cannot write Lease {}: {text}",
                        names.program, replica.name
                    );
                    said = text;
                }
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn write(names: Names, leases: &Api<Lease>, replica: &Replica) -> Result<()> {
    let wanted = lease(names, replica);
    match leases.get_opt(&replica.name).await? {
        None => drop(leases.create(&PostParams::default(), &wanted).await?),
        Some(live) if live.metadata.annotations == wanted.metadata.annotations => {}
        Some(live) => {
            let mut lease = wanted;
            lease.metadata.resource_version = live.metadata.resource_version;
            leases.replace(&replica.name, &PostParams::default(), &lease).await?;
        }
    }
    Ok(())
}

fn lease(names: Names, replica: &Replica) -> Lease {
    let pod = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: replica.name.clone(),
        uid: replica.uid.clone(),
        ..OwnerReference::default()
    };
    let annotations = [(names.certificate, &replica.certificate), (names.address, &replica.address)];
    let metadata = ObjectMeta {
        name: Some(replica.name.clone()),
        labels: Some(BTreeMap::from([(names.label.to_owned(), "true".to_owned())])),
        annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value.clone())).into()),
        owner_references: (!replica.uid.is_empty()).then(|| vec![pod]),
        ..ObjectMeta::default()
    };
    Lease { metadata, ..Lease::default() }
}
