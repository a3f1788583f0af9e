//! `AppsReady`: whether the tenant has the Apps that it is required to have, and what `Ready` says of those that it lacks.
//!
//! It is judged by what Apps and their installations say, and only said: no stage, no release and no sleep waits for it, since an App waits for the tenant.

use crate::apps::installations;
use crate::subject::Tenant;
use berth_api::app::AppState;
use berth_api::conditions::{ConditionType, Reason, Verdict, find, shortened};
use berth_api::{App, AppInstallation, names};
use berth_plan::apps::{has_failed, is_for, is_newest, is_observed, refusal, state};
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use kube_core::ResourceExt as _;

/// What is quoted of one, at the most, in bytes.
const LONGEST: usize = 400;
/// So many are told of.
const TOLD: usize = 3;
/// What one waits for may become another thing, which nobody announces to the `Cluster`.
const AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// What is said of the Apps that are required.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// `AppsReady`.
    pub(crate) verdict: Verdict,
    /// One of those that lack has failed.
    pub(crate) failed: bool,
}

impl Judged {
    /// What `Ready` says of it. None: nothing lacks.
    pub(crate) fn lacks(&self) -> Option<(Reason, String)> {
        (self.verdict.status != Some(true)).then(|| (self.verdict.reason, self.verdict.message.clone()))
    }
}

/// How a required App is.
enum Had {
    /// It is deployed as it says.
    Whole,
    /// It was deployed, and a change of it is on its way.
    Before(String),
    /// It is not deployed.
    Not { failed: bool, text: String },
}

/// Of the tenant. None: it is required to have none.
pub(crate) fn judge(t: &Tenant<'_>) -> Option<Judged> {
    let all: Vec<Had> = required(t).map(|(key, app)| had(t, &key, &app)).collect();
    if all.is_empty() {
        return None;
    }
    let (mut lacks, mut notes, mut failed) = (vec![], vec![], false);
    for one in all {
        match one {
            Had::Whole => {}
            Had::Before(note) => notes.push(note),
            Had::Not { failed: fails, text } => {
                failed |= fails;
                lacks.push(text);
            }
        }
    }
    let of = |status, reason, message| Verdict::new(ConditionType::AppsReady, Some(status), reason, message);
    let verdict = if lacks.is_empty() {
        let notes = if notes.is_empty() { String::new() } else { format!("; {}", some(&notes)) };
        of(true, Reason::AsExpected, format!("all Apps that are required are deployed{notes}"))
    } else {
        of(false, Reason::AppsNotReady, some(&lacks))
    };
    Some(Judged { verdict, failed })
}

/// When it is to be read again, if nothing is announced. None: nothing lacks.
pub(crate) fn looks_again(t: &Tenant<'_>) -> Option<SignedDuration> {
    judge(t)?.lacks().map(|_| AGAIN)
}

/// The first of them.
fn some(all: &[String]) -> String {
    let more = all.len().saturating_sub(TOLD);
    let told = all.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join(". ");
    if more == 0 { told } else { format!("{told}. And {more} more") }
}

/// Those that it is required to have.
fn required<'a>(t: &Tenant<'a>) -> impl Iterator<Item = (ObjectKey, App)> + 'a {
    let cluster = ObjectKey::namespaced(Kind::Cluster, t.namespace, t.name);
    let labels = t.cluster.metadata.labels.clone().unwrap_or_default();
    let (observed, apps) = (t.observed, &t.settings.apps);
    let all = observed.objects.iter().filter(|(key, _)| apps.are_enabled() && key.kind == Kind::App);
    let all = all.filter_map(|(key, live)| Some((key.clone(), serde_json::from_value::<App>(live.clone()).ok()?)));
    all.filter(move |(_, app)| app.spec.required && is_for(app, &cluster, &labels, &apps.namespace))
}

/// What of an App is in the tenant.
fn there(t: &Tenant<'_>, app: &App) -> Option<AppInstallation> {
    let name = names::app_installation(&app.namespace().unwrap_or_default(), &app.name_any(), t.name);
    let uid = app.uid().unwrap_or_default();
    installations(t).find(|it| it.name_any() == name && it.spec.app.uid == uid && it.spec.cluster.uid == t.uid)
}

/// Why an App has not come to it, in the App's own words.
fn why_not(t: &Tenant<'_>, app: &App) -> String {
    if let Some(refusal) = refusal(app) {
        return refusal.to_owned();
    }
    let status = app.status.as_ref().filter(|s| s.observed_generation == app.metadata.generation);
    let (namespace, name) = (t.namespace, t.name);
    let told = status.and_then(|s| s.clusters.iter().find(|of| (&*of.namespace, &*of.name) == (namespace, name)));
    if let Some(told) = told {
        return told.message.clone();
    }
    let turn = "its turn has not come, or it comes after another App";
    // The App tells of a few Clusters only: then what it says of itself.
    let ready = status.and_then(|s| find(&s.conditions, ConditionType::Ready)).filter(|ready| ready.status != "True");
    ready.map_or_else(|| turn.to_owned(), |ready| format!("{turn}. The App says: {}", ready.message))
}

fn had(t: &Tenant<'_>, key: &ObjectKey, app: &App) -> Had {
    let not = |failed, text: String| Had::Not { failed, text };
    let there = there(t, app);
    if let Some(it) = there.as_ref().filter(|it| it.metadata.deletion_timestamp.is_some()) {
        let text = format!(
            "{key} is being uninstalled, and is installed anew after that: AppInstallation {}/{} says how far that is",
            t.namespace,
            it.name_any()
        );
        return not(false, text);
    }
    let Some(it) = there else {
        return not(false, format!("{key} is not installed yet: {}", shortened(&why_not(t, app), LONGEST)));
    };
    let status = it.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, ConditionType::Ready).filter(|ready| ready.status != "True");
    let since = ready.map_or(String::new(), |ready| {
        format!(" since {}", ready.last_transition_time.0.strftime("%Y-%m-%dT%H:%M:%SZ"))
    });
    if has_failed(&it) {
        let why = shortened(status.message.as_deref().unwrap_or_default(), LONGEST);
        return not(true, format!("{key} has failed{since}: {why}"));
    }
    let is_whole = is_newest(app, &it) && state(&it) == AppState::Deployed;
    match (status.release.is_some(), is_whole) {
        (_, true) => Had::Whole,
        (true, false) => Had::Before(format!("a change of {key} is on its way")),
        (false, false) => {
            let said = ready.filter(|_| is_observed(&it)).map(|ready| shortened(&ready.message, LONGEST));
            let why = said.unwrap_or_else(|| "it is about to begin".to_owned());
            not(false, format!("{key} is not deployed yet{since}: {why}"))
        }
    }
}
