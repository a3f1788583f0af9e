//! The requests that nobody has decided, and when each is looked at next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::watcher::Event;
use serde_json::Value;

use crate::request::{self, Asked, Request, Signer};

/// More than this many are not remembered; the watch tells of them again when it begins anew.
const MOST: usize = 1000;
/// Of one who asks, the newest. A kubelet waits for one at a time; one that was taken over must not crowd out the others'.
const MOST_OF_ONE: usize = 20;
/// Between two looks at a request that waits: half of how long it has, within these.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_mins(1);
/// A node may ask before it has told its addresses: this long nobody is told that its request waits.
const QUIET: Duration = Duration::from_secs(15);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) conditions: Vec<Value>,
    /// What is asked for, or why nobody can be given that.
    pub(crate) asked: Result<Request, String>,
    signer: Signer,
    since: Instant,
    /// Who asked, and when as the API server has it.
    by: String,
    created: Option<Time>,
    /// When it is looked at next; never, if nothing can change the decision.
    due: Option<Instant>,
    told: Option<String>,
}

/// All of them, by name.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: BTreeMap<String, Open>,
    /// While a watch lists what is there: the names so far, by signer.
    listed: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Requests {
    /// What the watch of that signer's requests tells.
    pub(crate) fn see(&mut self, signer: Signer, event: Event<CertificateSigningRequest>, now: Instant) {
        match event {
            Event::Init => drop(self.listed.remove(signer.name())),
            Event::InitApply(csr) => {
                self.listed.entry(signer.name()).or_default().extend(csr.metadata.name.clone());
                self.apply(signer, &csr, now);
            }
            Event::InitDone => {
                let listed = self.listed.remove(signer.name()).unwrap_or_default();
                self.all.retain(|name, open| open.signer != signer || listed.contains(name));
            }
            Event::Apply(csr) => self.apply(signer, &csr, now),
            Event::Delete(csr) => self.forget(&csr.metadata.name.unwrap_or_default()),
        }
    }

    fn apply(&mut self, signer: Signer, csr: &CertificateSigningRequest, now: Instant) {
        let name = csr.metadata.name.clone().unwrap_or_default();
        if !is_plain(&name) {
            return;
        }
        let uid = csr.metadata.uid.clone().unwrap_or_default();
        if is_decided(csr) {
            return self.forget(&name);
        }
        let version = csr.metadata.resource_version.clone().unwrap_or_default();
        let conditions = csr.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let conditions = conditions.filter_map(|condition| serde_json::to_value(condition).ok()).collect();
        if let Some(open) = self.all.get_mut(&name).filter(|open| open.uid == uid) {
            (open.version, open.conditions) = (version, conditions);
        } else if self.all.len() < MOST || self.all.contains_key(&name) {
            let asked = read(csr);
            let user = csr.spec.username.as_deref().unwrap_or_default();
            // All machines that join by one line are one user: each counts for itself.
            let by = match &asked {
                Ok(Request::Client(client)) => format!("{user} {}", client.node),
                _ => user.to_owned(),
            };
            let (created, due) = (csr.metadata.creation_timestamp.clone(), Some(now));
            let open = Open { uid, version, conditions, asked, signer, since: now, by, created, due, told: None };
            let by = open.by.clone();
            self.all.insert(name, open);
            self.drop_oldest_of(&by);
        }
    }

    fn drop_oldest_of(&mut self, by: &str) {
        let theirs = || self.all.iter().filter(|(_, open)| open.by == by);
        if theirs().count() > MOST_OF_ONE {
            let oldest = theirs().min_by_key(|(name, open)| (&open.created, *name)).map(|(name, _)| name.clone());
            self.forget(&oldest.unwrap_or_default());
        }
    }

    /// Of what is due, the name of the first.
    pub(crate) fn due(&self, now: Instant) -> Option<String> {
        let due = self.all.iter().filter_map(|(name, open)| Some((open.due?, name)));
        due.min().filter(|(due, _)| *due <= now).map(|(_, name)| name.clone())
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.all.values().filter_map(|open| open.due).min()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Open> {
        self.all.get(name)
    }

    /// It is decided, or gone.
    pub(crate) fn forget(&mut self, name: &str) {
        self.all.remove(name);
    }

    /// It is looked at again after a while.
    pub(crate) fn again(&mut self, name: &str, after: Duration, now: Instant) {
        if let Some(open) = self.all.get_mut(name) {
            open.due = Some(now + after);
        }
    }

    /// It waits for the nodes to change. True: this is to be told.
    pub(crate) fn wait(&mut self, name: &str, why: &str, now: Instant) -> bool {
        let Some(open) = self.all.get_mut(name) else { return false };
        let waited = now.saturating_duration_since(open.since);
        open.due = Some(now + (waited / 2).clamp(SOONEST, LATEST));
        let news = waited >= QUIET && open.told.as_deref() != Some(why);
        if news {
            open.told = Some(why.to_owned());
        }
        news
    }

    /// It stays as it is. True: this is to be told.
    pub(crate) fn leave(&mut self, name: &str) -> bool {
        self.all.get_mut(name).is_some_and(|open| open.due.take().is_some())
    }
}

/// API servers take nearly any text as the name of a request: what could be another path, or another line of a log, no kubelet uses.
fn is_plain(name: &str) -> bool {
    (1..=253).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
}

fn is_decided(csr: &CertificateSigningRequest) -> bool {
    let Some(status) = &csr.status else { return false };
    let final_ = |type_: &str| ["Approved", "Denied", "Failed"].contains(&type_);
    status.certificate.as_ref().is_some_and(|certificate| !certificate.0.is_empty())
        || status.conditions.iter().flatten().any(|condition| final_(&condition.type_))
}

fn read(csr: &CertificateSigningRequest) -> Result<Request, String> {
    let spec = &csr.spec;
    request::read(Asked {
        signer: &spec.signer_name,
        username: spec.username.as_deref().unwrap_or_default(),
        groups: spec.groups.as_deref().unwrap_or_default(),
        usages: spec.usages.as_deref().unwrap_or_default(),
        pem: &spec.request.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn csr(name: &str, uid: &str, conditions: &Value) -> CertificateSigningRequest {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": uid, "resourceVersion": "1"},
            "spec": {"request": "", "signerName": Signer::Serving.name(), "usages": []},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_decided_or_gone_is_forgotten() {
        let now = Instant::now();
        let mut all = Requests::default();
        let none = json!([]);
        all.see(Signer::Serving, Event::Apply(csr("a", "1", &none)), now);
        all.see(Signer::Serving, Event::Apply(csr("b", "2", &none)), now);
        assert_eq!(all.due(now).as_deref(), Some("a"));
        for type_ in ["Approved", "Denied", "Failed"] {
            all.see(Signer::Serving, Event::Apply(csr("a", "1", &none)), now);
            all.see(Signer::Serving, Event::Apply(csr("a", "1", &json!([{"type": type_, "status": "True"}]))), now);
            assert_eq!(all.due(now).as_deref(), Some("b"), "{type_}");
        }
        all.see(Signer::Serving, Event::Apply(csr("c", "3", &json!([{"type": "Odd", "status": "True"}]))), now);
        all.see(Signer::Serving, Event::Init, now);
        all.see(Signer::Serving, Event::InitApply(csr("c", "3", &none)), now);
        assert!(all.get("b").is_some(), "until all is listed");
        all.see(Signer::Serving, Event::InitDone, now);
        assert!(all.get("b").is_none() && all.get("c").is_some());
        all.see(Signer::Serving, Event::Delete(csr("c", "3", &none)), now);
        assert_eq!(all.next(), None);
    }

    #[test]
    fn who_waits_is_looked_at_less_and_less_often_and_told_of_once() {
        let start = Instant::now();
        let mut all = Requests::default();
        all.see(Signer::Serving, Event::Apply(csr("a", "1", &json!([]))), start);
        let (mut now, mut told, mut looks) = (start, vec![], 0);
        while now < start + Duration::from_mins(10) {
            assert_eq!(all.due(now).as_deref(), Some("a"));
            if all.wait("a", "no address", now) {
                told.push(now - start);
            }
            looks += 1;
            let next = all.next().unwrap();
            let gap = next - now;
            assert!(now - start > Duration::from_secs(10) || gap <= Duration::from_secs(5), "{gap:?}");
            assert!(gap <= LATEST);
            now = next;
        }
        assert!(looks < 25, "{looks}");
        assert!(told.len() == 1 && told[0] >= QUIET && told[0] < QUIET * 2, "{told:?}");
        assert!(all.wait("a", "another reason", now));
    }

    #[test]
    fn what_is_left_is_told_once_and_not_looked_at_again_but_as_another_object() {
        let now = Instant::now();
        let mut all = Requests::default();
        all.see(Signer::Serving, Event::Apply(csr("a", "1", &json!([]))), now);
        assert!(all.leave("a") && !all.leave("a"));
        all.see(Signer::Serving, Event::Apply(csr("a", "1", &json!([]))), now);
        assert_eq!(all.next(), None);
        all.see(Signer::Serving, Event::Apply(csr("a", "2", &json!([]))), now);
        assert_eq!(all.due(now).as_deref(), Some("a"));
    }

    #[test]
    fn no_more_are_remembered_than_fit() {
        let now = Instant::now();
        let mut all = Requests::default();
        for n in 0..=MOST {
            let mut one = csr(&n.to_string(), "1", &json!([]));
            one.spec.username = Some(n.to_string());
            all.see(Signer::Serving, Event::Apply(one), now);
        }
        assert_eq!(all.all.len(), MOST);
    }

    #[test]
    fn of_one_who_asks_again_and_again_the_newest_are_remembered() {
        let now = Instant::now();
        let mut all = Requests::default();
        let ask = |by: &str, second: usize| {
            let mut one = csr(&format!("{by}-{second}"), "1", &json!([]));
            one.spec.username = Some(by.to_owned());
            let created = format!("2026-01-01T00:00:{second:02}Z");
            one.metadata.creation_timestamp = Some(serde_json::from_value(json!(created)).unwrap());
            Event::Apply(one)
        };
        all.see(Signer::Serving, ask("quiet", 0), now);
        for second in 1..=MOST_OF_ONE + 2 {
            all.see(Signer::Serving, ask("loud", second), now);
        }
        // As a list after a lost watch has it: the old ones again.
        all.see(Signer::Serving, ask("loud", 1), now);
        assert_eq!(all.all.len(), MOST_OF_ONE + 1);
        assert!(all.get("quiet-0").is_some() && all.get("loud-3").is_some());
        assert!(all.get("loud-1").is_none() && all.get("loud-2").is_none());
    }

    #[test]
    fn a_list_of_one_signers_says_nothing_of_the_others() {
        let now = Instant::now();
        let mut all = Requests::default();
        all.see(Signer::Serving, Event::Apply(csr("a", "1", &json!([]))), now);
        all.see(Signer::Serving, Event::Init, now);
        all.see(Signer::Client, Event::Init, now);
        all.see(Signer::Client, Event::InitApply(csr("b", "2", &json!([]))), now);
        all.see(Signer::Client, Event::InitDone, now);
        assert!(all.get("a").is_some() && all.get("b").is_some());
        all.see(Signer::Serving, Event::InitDone, now);
        assert!(all.get("a").is_none() && all.get("b").is_some());
    }

    #[test]
    fn names_that_no_path_and_no_line_of_a_log_takes_are_not_looked_at() {
        let now = Instant::now();
        for name in ["a\nb", "a\u{1b}[8m", "a?b", "a;b", "a b", "", &"a".repeat(1 << 20)] {
            let mut all = Requests::default();
            all.see(Signer::Serving, Event::Apply(csr(name, "1", &json!([]))), now);
            assert_eq!(all.due(now), None, "{name:.20?}");
        }
        let mut all = Requests::default();
        for name in ["csr-x7k2p", "node-csr-Zm9v_YmFy-b2R", "system:x"] {
            all.see(Signer::Serving, Event::Apply(csr(name, "1", &json!([]))), now);
            assert!(all.get(name).is_some(), "{name}");
        }
    }
}
