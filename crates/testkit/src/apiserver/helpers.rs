//! What nearly every test asks of the server first.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::Discovery;
use kube::{Api, ResourceExt as _};

use super::ApiServer;

impl ApiServer {
    /// A name that nothing else on this server has: `<prefix>-<number>`.
    pub fn unique(&self, prefix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates a namespace with a unique name.
    pub async fn namespace(&self, prefix: &str) -> String {
        let name = self.unique(prefix);
        let namespace = Namespace {
            metadata: kube::core::ObjectMeta { name: Some(name.clone()), ..Default::default() },
            ..Default::default()
        };
        let created = Api::<Namespace>::all(self.client()).create(&PostParams::default(), &namespace).await;
        created.unwrap_or_else(|e| panic!("creating namespace {name}: {e}"));
        name
    }

    /// The store's present resourceVersion, for [`FaultPlan::time_travel`](crate::FaultPlan::time_travel).
    pub async fn resource_version(&self) -> Result<String> {
        // A quorum read of a list carries the revision of the whole store, not that of the last namespace.
        let list = Api::<Namespace>::all(self.client()).list_metadata(&ListParams::default()).await?;
        list.metadata.resource_version.context("a list without resourceVersion")
    }

    /// Applies CRDs (or replaces them) and waits until the server serves them and discovery lists them.
    pub async fn install_crds(&self, crds: &[CustomResourceDefinition]) -> Result<()> {
        let api = Api::<CustomResourceDefinition>::all(self.client());
        for crd in crds {
            let name = crd.name_any();
            api.patch(&name, &PatchParams::apply("berth-testkit").force(), &Patch::Apply(crd)).await?;
        }
        for crd in crds {
            let established = kube::runtime::conditions::is_crd_established();
            let name = crd.name_any();
            let wait = kube::runtime::wait::await_condition(api.clone(), &name, established);
            tokio::time::timeout(Duration::from_secs(30), wait).await.context("a CRD was not established")??;
        }
        // Established comes a moment before the new path is served and listed.
        for crd in crds {
            let (group, names) = (&crd.spec.group, &crd.spec.names);
            for version in crd.spec.versions.iter().filter(|v| v.served) {
                let path = format!("/apis/{group}/{}/{}?limit=1", version.name, names.plural);
                let served = async || {
                    self.client().request_text(http::Request::get(&path).body(Vec::new())?).await?;
                    let discovery = Discovery::new(self.client()).filter(&[group]).run_aggregated().await?;
                    let kind = GroupVersionKind::gvk(group, &version.name, &names.kind);
                    discovery.resolve_gvk(&kind).context("not in discovery")
                };
                crate::fixtures::eventually(Duration::from_secs(30), &path, served).await?;
            }
        }
        Ok(())
    }
}
