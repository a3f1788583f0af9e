//! Private keys of a team are nowhere but in the Secrets that hold them, whatever happened to these.

use super::{SOON, Team, log::Log};
use anyhow::ensure;
use berth_testkit::canary::{found, needles};
use berth_testkit::fixtures::eventually;
use serde_json::Value;
use std::collections::BTreeSet;

/// What a team's Secrets held at any time since the beginning, and the log in which it must not be.
pub(crate) struct Canary {
    team: Team,
    log: Log,
    needles: Vec<(String, String)>,
}

impl Canary {
    /// Of a tenant that is up. The log is one at level debug.
    pub(crate) async fn of(team: &Team, log: &Log) -> Self {
        let mut all = Self { team: team.clone(), log: log.clone(), needles: vec![] };
        all.note().await;
        let keys: BTreeSet<_> = all.needles.iter().map(|(key, _)| key).collect();
        assert!(keys.len() > 15, "a tenant has more private keys than {keys:?}");
        all
    }

    /// Adds what is in the Secrets now: it may be gone when it is reported.
    pub(crate) async fn note(&mut self) {
        for namespace in [&self.team.ns, &self.team.cp_namespace] {
            self.needles.extend(needles(&self.list(&format!("/api/v1/namespaces/{namespace}/secrets")).await));
        }
        self.needles.sort();
        self.needles.dedup();
    }

    /// Waits until an Event has this reason: Events come after conditions.
    pub(crate) async fn reported(&self, reason: &str) {
        let told = async || {
            let mut all = vec![];
            for namespace in [&self.team.ns, &self.team.cp_namespace] {
                all.extend(self.list(&events(namespace)).await);
            }
            ensure!(all.iter().any(|e| e["reason"] == reason), "{} Events", all.len());
            Ok(())
        };
        eventually(SOON, &format!("an Event with reason {reason}"), told).await.unwrap_or_else(|e| panic!("{e:#}"));
    }

    /// Nothing of what is in the Secrets, or ever was, is in Events or in what people read of the team's objects.
    pub(crate) async fn silent(&mut self, when: &str) {
        self.note().await;
        let mut texts = vec![];
        for namespace in [&self.team.ns, &self.team.cp_namespace] {
            let berth = format!("/apis/berth.dev/v1alpha1/namespaces/{namespace}");
            for path in [
                events(namespace),
                format!("{berth}/clusters"),
                format!("{berth}/etcdclusters"),
                format!("/api/v1/namespaces/{namespace}/configmaps"),
            ] {
                let all = Value::from(self.list(&path).await).to_string();
                texts.push((path, all));
            }
        }
        let statuses = texts.iter().filter(|(_, text)| text.contains("\"conditions\"")).count();
        assert!(statuses >= 2, "{when}: no status of a Cluster and its EtcdCluster");
        for (place, text) in &texts {
            assert_eq!(found(&self.needles, text), None, "{when}: {place} holds bytes of it");
        }
    }

    /// Nor is it in the log: that keeps everything, so once is enough.
    pub(crate) async fn silent_to_the_end(mut self) {
        self.silent("at the end").await;
        let log = self.log.text();
        assert!(log.contains("DEBUG") && log.contains(&self.team.cp_namespace), "the log is of another operator");
        assert_eq!(found(&self.needles, &log), None, "the operator's log holds bytes of it");
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let request = http::Request::get(path).body(vec![]).unwrap();
        let mut list: Value = self.team.client.request(request).await.expect("list");
        serde_json::from_value(list["items"].take()).expect("items")
    }
}

fn events(namespace: &str) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
}
