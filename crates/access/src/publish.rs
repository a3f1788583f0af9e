//! Tells the operator where this replica is, and who: as a Lease, which goes with the pod.

use anyhow::Result;
use berth_contract::access::{ADDRESS, CERTIFICATE, LABEL};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::PostParams;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often it is looked whether the Lease is still there.
const LOOK: Duration = Duration::from_mins(1);
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// This pod.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    /// Empty: it runs outside of a pod, and nothing takes its Lease away.
    pub(crate) uid: String,
    /// Where the operator reaches it.
    pub(crate) address: String,
    /// Its certificate as PEM.
    pub(crate) certificate: String,
}

/// For ever.
pub(crate) async fn publish(leases: Api<Lease>, replica: Replica) {
    let mut said = String::new();
    loop {
        match write(&leases, &replica).await {
            Ok(()) => {
                said.clear();
                tokio::time::sleep(LOOK).await;
            }
            Err(error) => {
                let text = format!("{error:#}");
                if said != text {
                    eprintln!(
                        "berth-access: the operator does not learn of this replica, cannot write Lease {}: {text}",
                        replica.name
                    );
                    said = text;
                }
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn write(leases: &Api<Lease>, replica: &Replica) -> Result<()> {
    let wanted = lease(replica);
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

fn lease(replica: &Replica) -> Lease {
    let pod = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: replica.name.clone(),
        uid: replica.uid.clone(),
        ..OwnerReference::default()
    };
    let annotations = [(CERTIFICATE, &replica.certificate), (ADDRESS, &replica.address)];
    let metadata = ObjectMeta {
        name: Some(replica.name.clone()),
        labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
        annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value.clone())).into()),
        owner_references: (!replica.uid.is_empty()).then(|| vec![pod]),
        ..ObjectMeta::default()
    };
    Lease { metadata, ..Lease::default() }
}
