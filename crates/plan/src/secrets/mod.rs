//! Secrets: which to make, which entries to renew, and which to leave to a person.

mod facts;

pub use facts::{Read, SecretFacts};

use crate::model::{Action, SecretEntry, SecretPlan, Stage, State};
use crate::observed::{self, Observed};
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_pki::{CertInfo, CertSpec, Decision, KubeconfigTarget, RenewReason, decide, decide_ca, decide_kubeconfig};
use berth_render::ObjectKey;
use jiff::{SignedDuration, Timestamp};
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
    pub contents: Vec<Content>,
}

/// One wanted entry. Roots are made once and never replaced; everything else follows its specification.
#[derive(Clone, Debug)]
pub enum Content {
    /// Root: a CA in `tls.crt` and `tls.key`.
    Ca(CertSpec),
    /// Root: a service-account key pair.
    ServiceAccountKey,
    /// Root: the encryption key of what lies in etcd.
    EncryptionConfig,
    /// A certificate in `<name>.crt` and `<name>.key`.
    Leaf(String, CertSpec, ObjectKey),
    /// A copy of a CA's certificate, under that name.
    CaCopy(String, ObjectKey),
    /// A kubeconfig in `value`: cluster name, server, certificate, CA.
    Kubeconfig(String, String, CertSpec, ObjectKey),
}

impl Content {
    fn is_root(&self) -> bool {
        matches!(self, Self::Ca(_) | Self::ServiceAccountKey | Self::EncryptionConfig)
    }
}

/// What is to be done about a Secret.
#[derive(Debug)]
pub struct Judged {
    /// Its state.
    pub state: State,
    /// What to do.
    pub action: Option<Action>,
    /// When to reconcile again, at the latest.
    pub requeue_at: Option<Timestamp>,
    /// When the first of its certificates expires.
    pub expiry: Option<Timestamp>,
    /// A CA that expires soon.
    pub warning: Option<String>,
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
    /// Takes in one Secret as part of a stage, which is in the state of the first that is blocked, or else that waits.
    pub fn add(&mut self, stage: &mut Stage, judged: Judged, now: Timestamp) {
        let blocked = |state: &State| matches!(state, State::Blocked { .. });
        if !judged.state.is_done() && (stage.state.is_done() || (blocked(&judged.state) && !blocked(&stage.state))) {
            stage.state = judged.state;
        }
        stage.actions.extend(judged.action);
        self.warnings.extend(judged.warning);
        self.next_expiry = [self.next_expiry, judged.expiry].into_iter().flatten().min();
        let wait = judged.requeue_at.map(|at| at.duration_since(now).max(SignedDuration::from_secs(1)));
        self.due = [self.due, wait].into_iter().flatten().min();
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

/// Compares one Secret with what it should hold. `roots_in_use`: something that trusts or needs the roots is there, so a
/// missing root is lost and not new.
pub fn judge(
    observed: &Observed,
    spec: &SecretSpec,
    roots_in_use: Option<&str>,
    ours: impl Fn(&serde_json::Value) -> bool,
    renewal: Renewal<'_>,
) -> Judged {
    let mut out = Judged { state: State::Ready, action: None, requeue_at: None, expiry: None, warning: None };
    let live = observed.get(&spec.key);
    let facts = observed.secrets.get(&spec.key).map(AsRef::as_ref);
    if let Some(live) = live {
        if !ours(live) {
            out.state = foreign(&spec.key);
            return out;
        }
        if observed::deleting(live) {
            out.state = State::waiting(format!(
                "{}, which is being deleted, to be gone; if that lasts, see its metadata.finalizers",
                spec.key
            ));
            return out;
        }
    } else if let (Some(user), true) = (roots_in_use, spec.contents.iter().any(Content::is_root)) {
        out.state = State::blocked(
            Reason::CertificateAuthorityLost,
            format!(
                "{} is gone, and {user} depends on it. Restore it from a backup. Berth creates no new one, because nothing that trusts the old one would accept it",
                spec.key
            ),
        );
        return out;
    }
    let mut entries = vec![];
    for content in &spec.contents {
        match judge_content(observed, spec, content, facts, renewal, &mut out) {
            Ok(entry) => entries.extend(entry),
            Err(state) => {
                out.state = state;
                // One damaged or missing root says nothing about the other entries, but a Secret is written as a whole.
                return out;
            }
        }
    }
    let relabel = live.is_some_and(|l| spec.labels.iter().any(|(k, v)| observed::label(l, k) != Some(v)));
    if !entries.is_empty() || relabel {
        let existing = live.map(|l| {
            let rv = l.pointer("/metadata/resourceVersion").and_then(serde_json::Value::as_str).unwrap_or_default();
            (observed::uid(l).to_owned(), rv.to_owned())
        });
        out.state = State::waiting(format!("{} to be written", spec.key));
        out.action = Some(Action::Secret(SecretPlan {
            key: spec.key.clone(),
            type_: spec.type_.into(),
            labels: spec.labels.clone(),
            existing,
            entries,
        }));
    }
    out
}

/// Somebody else's object under our name.
pub fn foreign(key: &ObjectKey) -> State {
    State::blocked(
        Reason::ForeignObject,
        format!(
            "{key} exists and does not belong to this cluster, so Berth leaves it alone. If nobody needs it, delete it; otherwise create this cluster under another name; if Berth created it, set its label {}={} again",
            labels::MANAGED_BY,
            labels::MANAGED_BY_VALUE
        ),
    )
}

fn judge_content(
    observed: &Observed,
    spec: &SecretSpec,
    content: &Content,
    facts: Option<&SecretFacts>,
    renewal: Renewal<'_>,
    out: &mut Judged,
) -> Result<Option<SecretEntry>, State> {
    let Renewal { now, seed, .. } = renewal;
    let invalid = |why: String| {
        State::blocked(
            Reason::CertificateAuthorityInvalid,
            format!(
                "{}: {why}. Restore it from a backup. Berth does not replace it, because everything that trusts it would break",
                spec.key
            ),
        )
    };
    match content {
        Content::Ca(ca) => {
            let found = facts.map(|f| f.pair("tls"));
            if let Some(None) = found {
                return Err(invalid("it has no tls.crt with tls.key".into()));
            }
            match decide_ca(found.flatten(), now) {
                Decision::Hold { why: RenewReason::Age { not_after, .. } } => Err(State::blocked(
                    Reason::CertificateAuthorityInvalid,
                    format!(
                        "{}: the CA expired at {not_after}, and Berth cannot rotate CAs yet. Check the clocks; if they are right, create a new Cluster",
                        spec.key
                    ),
                )),
                Decision::Hold { why } => Err(invalid(why.to_string())),
                Decision::Issue => Ok(Some(SecretEntry::Ca(ca.clone()))),
                Decision::Keep { .. } | Decision::Renew { .. } => {
                    if let Some(Some(Ok(info))) = found {
                        earliest(&mut out.expiry, info.not_after);
                        out.warning = berth_pki::ca_expiry_warning(info, now).map(|w| format!("{}: {w}", spec.key));
                    }
                    Ok(None)
                }
            }
        }
        Content::ServiceAccountKey => match facts {
            None => Ok(Some(SecretEntry::ServiceAccountKey)),
            Some(f) => match &f.service_account {
                Some(Ok(_)) => Ok(None),
                Some(Err(e)) => Err(invalid(e.to_string())),
                None => Err(invalid("it has no key pair in tls.crt and tls.key".into())),
            },
        },
        Content::EncryptionConfig => match facts {
            None => Ok(Some(SecretEntry::EncryptionConfig)),
            Some(f) if f.encryption_ok => Ok(None),
            Some(_) => Err(invalid("encryption.yaml has no valid secretbox key".into())),
        },
        Content::Leaf(name, cert, issuer) => {
            let found = facts.and_then(|f| f.pair(name));
            ends(out, found.and_then(Result::ok));
            let ca = issuer_of(observed, issuer)?;
            let decision = renewal.unless_held(decide(cert, found, ca, now, seed));
            renews(out, &decision);
            Ok(why(decision).map(|why| SecretEntry::Leaf {
                name: name.clone(),
                spec: cert.clone(),
                issuer: issuer.clone(),
                why,
            }))
        }
        Content::CaCopy(name, issuer) => {
            issuer_of(observed, issuer)?;
            let wanted = observed.secrets.get(issuer).and_then(|f| f.digests.get("tls.crt"));
            let same = facts.is_some_and(|f| f.digests.get(name) == wanted);
            Ok((!same).then(|| SecretEntry::CaCopy { name: name.clone(), issuer: issuer.clone() }))
        }
        Content::Kubeconfig(cluster, server, cert, issuer) => {
            let found = facts.and_then(SecretFacts::kubeconfig);
            ends(out, found.and_then(Result::ok).map(|i| &i.client));
            let ca = issuer_of(observed, issuer)?;
            let target = KubeconfigTarget { server, trust: std::slice::from_ref(ca) };
            let decision = renewal.unless_held(decide_kubeconfig(cert, target, found, ca, now, seed));
            renews(out, &decision);
            Ok(why(decision).map(|why| SecretEntry::Kubeconfig {
                cluster: cluster.clone(),
                server: server.clone(),
                spec: cert.clone(),
                issuer: issuer.clone(),
                why,
            }))
        }
    }
}

fn issuer_of<'a>(observed: &'a Observed, issuer: &ObjectKey) -> Result<&'a CertInfo, State> {
    observed.ca(issuer).ok_or_else(|| State::waiting(format!("the CA in {issuer}")))
}

fn why(decision: Decision) -> Option<String> {
    match decision {
        Decision::Keep { .. } | Decision::Hold { .. } => None,
        Decision::Issue => Some("there is none".into()),
        Decision::Renew { why } => Some(why.to_string()),
    }
}

fn renews(out: &mut Judged, decision: &Decision) {
    if let Decision::Keep { renew_at } = decision {
        earliest(&mut out.requeue_at, *renew_at);
    }
}

/// A certificate expires, whether or not the CA is there that would issue the next one.
fn ends(out: &mut Judged, found: Option<&CertInfo>) {
    if let Some(info) = found {
        earliest(&mut out.expiry, info.not_after);
    }
}

fn earliest(slot: &mut Option<Timestamp>, at: Timestamp) {
    *slot = Some(slot.map_or(at, |s| s.min(at)));
}
