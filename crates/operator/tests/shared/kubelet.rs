//! What kubelets of a tenant are told, and whoever edits in the tenant what is Berth's.

use crate::common::{SOON, Team, shared_operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType;
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

struct Inside {
    maps: Api<ConfigMap>,
    events: Api<Event>,
}

impl Inside {
    async fn of(team: &Team) -> Self {
        let (client, system) = (team.client.clone(), format!("{}-system", team.tenant().await.unwrap()));
        Self { maps: Api::namespaced(client.clone(), &system), events: Api::namespaced(client, &system) }
    }

    async fn kubelet(&self) -> Result<Value> {
        let data = self.maps.get("kubelet-config").await?.data.context("data")?;
        Ok(serde_saphyr::from_str(data.get("kubelet").context("kubelet")?)?)
    }

    /// What is said of the object of that name: the note, and how often. Each hour has an Event of its own.
    async fn told(&self, name: &str) -> Vec<(String, i32)> {
        let all = self.events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let about = all.filter(|event| event.regarding.as_ref().is_some_and(|of| of.name.as_deref() == Some(name)));
        about
            .map(|event| {
                assert_eq!(event.reporting_controller.as_deref(), Some("berth.dev"));
                (event.note.unwrap_or_default(), event.series.map_or(1, |series| series.count))
            })
            .collect()
    }

    /// Waits until the same is told so often, in whatever hours.
    async fn is_told(&self, team: &Team, name: &str, count: i32) -> String {
        let attempt = async || {
            team.touch().await;
            let told = self.told(name).await;
            let (note, _) = told.first().context("nothing is told")?;
            let (same, times) =
                (told.iter().all(|(other, _)| other == note), told.iter().map(|(_, times)| times).sum::<i32>());
            ensure!(same && times == count, "{told:?}");
            Ok(note.clone())
        };
        eventually(SOON, "an Event in the tenant", attempt).await.unwrap_or_else(|e| panic!("{e:#}"))
    }

    /// ConfigMaps there are read in each reconcile.
    async fn edit(&self, name: &str, key: &str) {
        let patch = json!({"data": {(key): "maxPods: 99\n"}});
        self.maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

#[tokio::test]
async fn kubelet_config_is_merged_and_whoever_edits_it_in_the_tenant_is_told() {
    let team = Team::new(shared_operator().await).await;
    let config = |config: Value| json!({"kubelet": {"config": config}});
    team.create(config(json!({"maxPods": 30, "authentication": {"webhook": {"cacheTTL": "1m"}}}))).await.unwrap();
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let inside = Inside::of(&team).await;
    let kubelet = inside.kubelet().await.unwrap();
    assert_eq!((&kubelet["maxPods"], &kubelet["serverTLSBootstrap"]), (&json!(30), &json!(true)));
    assert_eq!(kubelet["authentication"]["webhook"], json!({"enabled": true, "cacheTTL": "1m"}));

    team.spec(config(json!({"maxPods": null, "maxpods": 40}))).await.unwrap();
    let says = team.says_of(ConditionType::Ready, "InvalidSpec", "spec.kubelet.config.maxpods").await;
    assert!(says.contains("Did you mean maxPods?"), "{says}");
    assert_eq!(inside.kubelet().await.unwrap()["maxPods"], 30, "what is refused leaves what is there");
    inside.edit("coredns", "Corefile").await;
    let note = inside.is_told(&team, "coredns", 1).await;
    assert!(note.contains("/data/Corefile") && note.contains("ConfigMap coredns-custom"), "{note}");
    inside.edit("coredns", "Corefile").await;
    inside.is_told(&team, "coredns", 2).await;

    team.spec(config(json!({"maxPods": 40, "maxpods": null}))).await.unwrap();
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(inside.kubelet().await.unwrap()["maxPods"], 40);
    assert_eq!(inside.told("kubelet-config").await, [], "Berth's own changes are nobody's edits");
    inside.edit("kubelet-config", "kubelet").await;
    let note = inside.is_told(&team, "kubelet-config", 1).await;
    assert!(note.contains("/data/kubelet") && note.contains("spec.kubelet.config of Cluster acme"), "{note}");
    assert!(!note.contains("99"), "{note}");
    assert_eq!(inside.kubelet().await.unwrap()["maxPods"], 40);
}
