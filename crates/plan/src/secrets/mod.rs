//! Secrets: which to make, which entries to renew, and which to leave to a person.

mod facts;

pub use facts::{Read, SecretFacts};

use crate::model::{Action, SecretEntry, SecretPlan, Stage, State};
use crate::object_meta::{label, version_of};
use crate::objects::usable;
use crate::observed::Observed;
use berth_api::cluster::AUDIT_KUBECONFIG;
use berth_api::conditions::Reason;
use berth_pki::{CertInfo, Decision, RenewReason, Root, decide, decide_ca, decide_kubeconfig};
use berth_render::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a Secret should hold.
#[derive(Clone, Debug)]
pub struct SecretSpec {
    /// Which Secret.
    pub key: ObjectKey,
    /// Its type. Default `Opaque`.
    pub type_: &'static str,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its entries.
    pub entries: Vec<SecretEntry>,
}

/// What the certificates of a plan come to.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// When the first expires.
    pub next_expiry: Option<Timestamp>,
    /// After this long time alone changes the plan: one is due for renewal.
    pub due: Option<SignedDuration>,
    /// CAs that expire soon.
    pub warnings: Vec<String>,
}

impl Certificates {
    /// Compares one Secret with what it should hold, as part of a stage, which is in the state of the first that is blocked, or else
    /// that waits. `roots_in_use`: something that trusts or needs the roots is there, so a missing root is lost and not new.
    pub fn judge(
        &mut self,
        stage: &mut Stage,
        observed: &Observed,
        spec: &SecretSpec,
        roots_in_use: Option<&str>,
        ours: impl Fn(&Value) -> bool,
        renewal: Renewal<'_>,
    ) {
        stage.owns.push(spec.key.clone());
        let judged = usable(observed, &spec.key, ours).and_then(|live| match (live, roots_in_use) {
            (None, Some(user)) if spec.entries.iter().any(SecretEntry::is_root) => Err(lost(&spec.key, user)),
            _ => {
                let facts = observed.secrets.get(&spec.key).map(AsRef::as_ref);
                Judge { observed, spec, facts, renewal, certificates: self }.plan(live)
            }
        });
        let state = match judged {
            Ok(None) => return,
            Ok(Some(plan)) => {
                stage.actions.push(Action::Secret(plan));
                State::waiting(format!("{} to be written", spec.key))
            }
            Err(state) => state,
        };
        let blocked = |state: &State| matches!(state, State::Blocked { .. });
        if stage.state.is_done() || (blocked(&state) && !blocked(&stage.state)) {
            stage.state = state;
        }
    }

    /// A certificate expires, whether or not the CA is there that would issue the next one.
    fn expires(&mut self, found: Option<&CertInfo>) {
        self.next_expiry = self.next_expiry.into_iter().chain(found.map(|info| info.not_after)).min();
    }

    fn due_at(&mut self, at: Timestamp, now: Timestamp) {
        let wait = at.duration_since(now).max(SignedDuration::from_secs(1));
        self.due = Some(self.due.map_or(wait, |due| due.min(wait)));
    }
}

/// How soon the clocks are compared again.
const CLOCKS: SignedDuration = SignedDuration::from_mins(5);

/// When certificates are renewed.
#[derive(Clone, Copy, Debug)]
pub struct Renewal<'a> {
    /// The time.
    pub now: Timestamp,
    /// So that not all are due at once: the owner's name.
    pub seed: &'a str,
    /// Two clocks are so far apart that what is issued by one is not valid by the other. A certificate that is there is good for a third of its
    /// life from when it is due.
    pub held: bool,
}

impl Renewal<'_> {
    fn unless_held(self, decision: Decision) -> Decision {
        use RenewReason::{Age, LifetimeChanged, NotYetValid};
        match decision {
            Decision::Renew { why: Age { .. } | LifetimeChanged { .. } | NotYetValid { .. } } if self.held => {
                Decision::Keep { renew_at: self.now.saturating_add(CLOCKS).unwrap_or(Timestamp::MAX) }
            }
            other => other,
        }
    }
}

/// One Secret that is compared with what it should hold.
struct Judge<'a> {
    observed: &'a Observed,
    spec: &'a SecretSpec,
    facts: Option<&'a SecretFacts>,
    renewal: Renewal<'a>,
    certificates: &'a mut Certificates,
}

impl<'a> Judge<'a> {
    /// How to make or complete it. One damaged or missing root says nothing about the other entries, but a Secret is written as a whole.
    fn plan(mut self, live: Option<&Value>) -> Result<Option<SecretPlan>, State> {
        let mut entries = vec![];
        for wanted in &self.spec.entries {
            entries.extend(self.entry(wanted)?);
        }
        let SecretSpec { key, type_, labels, .. } = self.spec;
        let relabel = live.is_some_and(|l| labels.iter().any(|(k, v)| label(l, k) != Some(v)));
        Ok((relabel || !entries.is_empty()).then(|| SecretPlan {
            key: key.clone(),
            type_: (*type_).into(),
            labels: labels.clone(),
            existing: live.map(version_of),
            entries,
        }))
    }

    /// The entry, if it is to be made.
    fn entry(&mut self, wanted: &SecretEntry) -> Result<Option<SecretEntry>, State> {
        let Renewal { now, seed, .. } = self.renewal;
        let why = match wanted {
            SecretEntry::Ca(_) => return Ok(self.lacks_ca()?.then(|| wanted.clone())),
            SecretEntry::ServiceAccountKey => match self.facts.map(|f| &f.service_account) {
                None => return Ok(Some(wanted.clone())),
                Some(Some(Ok(_))) => return Ok(None),
                Some(Some(Err(e))) => return Err(self.invalid(&e.to_string())),
                Some(None) => return Err(self.invalid("it has no key pair in tls.crt and tls.key")),
            },
            SecretEntry::EncryptionConfig => match self.facts {
                None => return Ok(Some(wanted.clone())),
                Some(f) if f.encryption_ok => return Ok(None),
                Some(_) => return Err(self.invalid("encryption.yaml has no valid secretbox key")),
            },
            SecretEntry::CaCopy { name, issuer } => {
                self.root_in(issuer)?;
                return Ok((!self.is_copy(name, issuer, "tls.crt")).then(|| wanted.clone()));
            }
            SecretEntry::Copy { name, source, of } => {
                return Ok((!self.is_copy(name, source, of)).then(|| wanted.clone()));
            }
            SecretEntry::AuditWebhook { source } => {
                let asked = self.observed.secrets.get(source).and_then(|f| f.audit_webhook.as_ref()?.as_ref().ok());
                let held = self.facts.and_then(|f| f.digests.get(AUDIT_KUBECONFIG));
                return Ok((held != asked).then(|| wanted.clone()));
            }
            SecretEntry::Leaf { name, spec, issuer, .. } => {
                let found = self.facts.and_then(|f| f.pair(name));
                self.certificates.expires(found.and_then(Result::ok));
                self.renews(decide(spec, found, self.root_in(issuer)?, now, seed))
            }
            SecretEntry::Kubeconfig { server, spec, issuer, .. } => {
                let found = self.facts.and_then(SecretFacts::kubeconfig);
                self.certificates.expires(found.and_then(Result::ok).map(|info| &info.client));
                self.renews(decide_kubeconfig(spec, server, found, self.root_in(issuer)?, now, seed))
            }
        };
        Ok(why.map(|why| wanted.clone().because(why)))
    }

    fn lacks_ca(&mut self) -> Result<bool, State> {
        let found = self.facts.map(SecretFacts::root);
        if let Some(None) = found {
            return Err(self.invalid("it has no tls.crt with tls.key"));
        }
        let now = self.renewal.now;
        match decide_ca(found.flatten(), now) {
            Decision::Hold { why: RenewReason::Age { not_after, .. } } => Err(State::blocked(
                Reason::CertificateAuthorityInvalid,
                format!(
                    "{}: the CA expired at {not_after}, and Berth cannot rotate CAs yet. Check the clocks; if they are right, create a new Cluster",
                    self.spec.key
                ),
            )),
            Decision::Hold { why } => Err(self.invalid(&why.to_string())),
            Decision::Issue => Ok(true),
            Decision::Keep { .. } | Decision::Renew { .. } => {
                // A former one may end: nothing is issued by it any more.
                let root = found.flatten().and_then(Result::ok);
                for ca in root.into_iter().flat_map(|root| std::iter::once(&root.current).chain(&root.next)) {
                    self.certificates.expires(Some(ca));
                    let warning = berth_pki::ca_expiry_warning(ca, now);
                    self.certificates.warnings.extend(warning.map(|w| format!("{}: {w}", self.spec.key)));
                }
                Ok(false)
            }
        }
    }

    /// Why it is made, if it is.
    fn renews(&mut self, decision: Decision) -> Option<String> {
        match self.renewal.unless_held(decision) {
            Decision::Keep { renew_at } => {
                self.certificates.due_at(renew_at, self.renewal.now);
                None
            }
            Decision::Hold { .. } => None,
            Decision::Issue => Some("there is none".into()),
            Decision::Renew { why } => Some(why.to_string()),
        }
    }

    fn root_in(&self, issuer: &ObjectKey) -> Result<&'a Root, State> {
        self.observed.root(issuer).ok_or_else(|| State::waiting(format!("the CA in {issuer}")))
    }

    fn is_copy(&self, name: &str, source: &ObjectKey, of: &str) -> bool {
        let wanted = self.observed.secrets.get(source).and_then(|f| f.digests.get(of));
        self.facts.is_some_and(|f| f.digests.get(name) == wanted)
    }

    fn invalid(&self, why: &str) -> State {
        State::blocked(
            Reason::CertificateAuthorityInvalid,
            format!(
                "{}: {why}. Restore it from a backup. Berth does not replace it, because everything that trusts it would break",
                self.spec.key
            ),
        )
    }
}

fn lost(key: &ObjectKey, user: &str) -> State {
    State::blocked(
        Reason::CertificateAuthorityLost,
        format!(
            "{key} is gone, and {user} depends on it. Restore it from a backup. Berth creates no new one: whatever trusts the old one would refuse it"
        ),
    )
}
