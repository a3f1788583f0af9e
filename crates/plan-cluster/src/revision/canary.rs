//! The canary: the first new API server of a release, which serves alone among the old ones for `spec.upgrade.soak`.
//!
//! Of a Deployment that is `minReadySeconds`, which is no part of the pod template: its controller takes no old pod away, and makes no second
//! new one, before the first was ready for so long without a break. Slots are held back by [`crate::components`].

use crate::release::Canary;
use crate::subject::Tenant;
use berth_api::cluster::CanaryStatus;
use berth_api::{labels, names};
use berth_plan::asked::Answers;
use berth_plan::object_meta::{deleting, label};
use berth_plan::workload::{condition, ready_since};
use berth_render::Kind;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use std::collections::BTreeMap;

/// Labels by which controllers tell pods of one template from those of another.
const HASHES: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// API servers tell whole seconds of when a pod was made.
const ROUNDED: SignedDuration = SignedDuration::from_secs(1);

impl Canary {
    /// API servers of the release: of all templates of which no pod is older, that of the youngest. One of the old that was made anew
    /// meanwhile has elder siblings.
    fn pods<'a>(self, t: &'a Tenant<'_>) -> Vec<&'a Value> {
        let all = t.observed.of_kind(Kind::Pod, &t.cp_namespace).map(|(_, pod)| pod);
        let mut groups = BTreeMap::<&str, Vec<(Option<Timestamp>, &Value)>>::new();
        for pod in all.filter(|pod| label(pod, labels::COMPONENT) == Some(names::APISERVER)) {
            let made = pod.pointer("/metadata/creationTimestamp").and_then(|at| at.as_str()?.parse().ok());
            let hash = HASHES.into_iter().find_map(|hash| label(pod, hash)).unwrap_or_default();
            groups.entry(hash).or_default().push((made, pod));
        }
        let begins = |group: &[(Option<Timestamp>, &Value)]| group.iter().map(|(made, _)| *made).min().flatten();
        let new = groups.into_values().filter(|group| begins(group).is_some_and(|made| made + ROUNDED > self.started));
        let youngest = new.max_by_key(|group| begins(group)).unwrap_or_default();
        youngest.into_iter().map(|(_, pod)| pod).filter(|pod| !deleting(pod)).collect()
    }

    /// Whether it has served long enough.
    pub(crate) fn is_proven(self, t: &Tenant<'_>) -> bool {
        self.serving(t).is_some_and(|(_, since)| t.now.duration_since(since) >= self.soak)
    }

    /// The pod that serves the longest, and since when.
    fn serving<'a>(self, t: &'a Tenant<'_>) -> Option<(&'a Value, Timestamp)> {
        let ready = self.pods(t).into_iter().filter_map(|pod| Some((pod, ready_since(pod)?)));
        ready.min_by_key(|(pod, since)| (*since, name(pod)))
    }

    /// What is recorded of it while it is to serve alone.
    pub(super) fn status(self, t: &Tenant<'_>) -> Option<CanaryStatus> {
        let (pod, since) = self.serving(t).filter(|_| self.until(t).is_some())?;
        Some(CanaryStatus { pod: name(pod)?.to_owned(), uid: uid(pod).map(str::to_owned), since: Some(Time(since)) })
    }

    /// Whether that pod has served for long enough.
    pub(crate) fn is_proven_by(self, pod: &Value, now: Timestamp) -> bool {
        ready_since(pod).is_some_and(|since| now.duration_since(since) >= self.soak)
    }

    /// Until when it is to serve before the second starts. None: it does not serve, or has done so.
    pub(crate) fn until(self, t: &Tenant<'_>) -> Option<Timestamp> {
        let (_, since) = self.serving(t)?;
        Some(since + self.soak).filter(|until| *until > t.now)
    }

    /// How the pod that serves fails its clients, if it does more than the old ones. Once it has served for long enough, that is not asked.
    pub(super) fn answers_badly(self, t: &Tenant<'_>) -> Option<String> {
        self.until(t)?;
        let pod = name(self.serving(t)?.0)?;
        let of_release: Vec<&str> = self.pods(t).into_iter().filter_map(name).collect();
        let new = t.observed.answers.get(pod)?;
        let old = t.observed.answers.iter().filter(|(name, _)| !of_release.contains(&&***name));
        let old: Answers = old.map(|(_, answers)| *answers).sum();
        new.are_worse_than(old).then(|| {
            format!(
                "pod {pod}, the first new kube-apiserver, answered {} of {} requests with 5xx or 429, the old ones {} of {}",
                new.failed, new.all, old.failed, old.all
            )
        })
    }

    /// Whether the pod that was ready then, and did not serve for long enough, was lost by its own doing: it restarted, or is not ready any
    /// more. One that somebody deleted, its node evicted or another change replaced, is made anew; in a slot under the same name.
    pub(super) fn has_failed(self, t: &Tenant<'_>, recorded: &CanaryStatus) -> bool {
        let Some(Time(since)) = recorded.since else { return false };
        let same = |pod: &Value| {
            name(pod) == Some(&recorded.pod)
                && recorded.uid.as_deref().is_none_or(|recorded| uid(pod) == Some(recorded))
        };
        let Some(live) = self.pods(t).into_iter().find(|pod| same(pod)) else { return false };
        // A pod that always restarts ends only where its node ends it.
        if live["status"]["phase"] == "Failed" {
            return false;
        }
        match ready_since(live) {
            Some(now) => now > since && now.duration_since(since) < self.soak,
            None => lost_at(live).is_some_and(|lost| lost < since + self.soak),
        }
    }
}

/// When it was not ready any more.
fn lost_at(pod: &Value) -> Option<Timestamp> {
    condition(pod, "Ready")?["lastTransitionTime"].as_str()?.parse().ok()
}

fn name(pod: &Value) -> Option<&str> {
    pod.pointer("/metadata/name")?.as_str()
}

fn uid(pod: &Value) -> Option<&str> {
    pod.pointer("/metadata/uid")?.as_str()
}
