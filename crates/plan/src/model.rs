//! A plan as a value: stages, what each waits for, and the actions that bring the tenant closer.

use crate::objects::additions::Addition;
use crate::observed::uid;
use crate::verdicts::LASTING;
use berth_api::conditions::Reason;
use berth_pki::CertSpec;
use berth_render::{Binary, Object, ObjectKey};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a stage is about. The order is the order in which a tenant comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum StageId {
    /// The spec itself.
    Spec,
    /// The control-plane namespace and the operator's rights in it.
    Namespace,
    /// The record of the release.
    Revision,
    /// The Service of the API and its address.
    Endpoint,
    /// CAs, keys and certificates.
    Pki,
    /// etcd.
    Etcd,
    /// A component of the control plane.
    ControlPlane(Binary),
    /// Kubeconfigs that are handed out.
    Kubeconfig,
    /// Objects inside the tenant.
    Tenant,
    /// A backup of an etcd.
    Backup,
    /// A restore of an etcd.
    Restore,
    /// Taking everything down.
    Deletion,
}

impl StageId {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Namespace => "namespace",
            Self::Revision => "revision",
            Self::Endpoint => "endpoint",
            Self::Pki => "pki",
            Self::Etcd => "etcd",
            Self::ControlPlane(component) => component.name(),
            Self::Kubeconfig => "kubeconfig",
            Self::Tenant => "tenant",
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Deletion => "deletion",
        }
    }
}

/// The state of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum State {
    /// Done; nothing to do.
    Ready,
    /// Something that comes by itself is awaited. Not an error.
    Waiting {
        /// Why, for machines.
        reason: Reason,
        /// What for, for people.
        on: String,
    },
    /// It goes on, and what it waits for is said in words of its own, such as those of another controller. Not an error.
    Reported {
        /// Why, for machines.
        reason: Reason,
        /// The words.
        message: String,
    },
    /// Nothing goes on until a person does something.
    Blocked {
        /// Why, for machines.
        reason: Reason,
        /// What is wrong and the way out.
        message: String,
    },
    /// Not asked for.
    Disabled,
}

impl State {
    /// Waiting for `on`.
    pub fn waiting(on: impl Into<String>) -> Self {
        Self::Waiting { reason: Reason::Waiting, on: on.into() }
    }
    /// Blocked.
    pub fn blocked(reason: Reason, message: impl Into<String>) -> Self {
        Self::Blocked { reason, message: message.into() }
    }
    /// True if done or not asked for.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Ready | Self::Disabled)
    }
    /// True if what is awaited comes by itself.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Reported { .. })
    }
    /// Reason and text, if not done.
    pub fn problem(&self) -> Option<(Reason, &str)> {
        match self {
            Self::Waiting { reason, on } => Some((*reason, on)),
            Self::Reported { reason, message } | Self::Blocked { reason, message } => Some((*reason, message)),
            Self::Ready | Self::Disabled => None,
        }
    }
    /// [`State::problem`] as a sentence for people.
    pub fn sentence(&self) -> Option<(Reason, String)> {
        let (reason, text) = self.problem()?;
        let waits = matches!(self, Self::Waiting { .. });
        Some((reason, if waits { format!("waiting for {text}") } else { text.to_owned() }))
    }
}

/// One write. What a plan holds is safe to print: private keys are made when the action is carried out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Action {
    /// Server-side apply.
    Apply(Object),
    /// Create; if something of that name is there by then, look again.
    Create(Object),
    /// Make or complete a Secret.
    Secret(SecretPlan),
    /// Delete, if it is still the object that was observed.
    Delete {
        /// Which object.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// Seconds that pods get to end; None: what the object says.
        grace: Option<i64>,
    },
    /// Take away owner references, which Berth never sets: with the owner, Kubernetes would delete the object.
    ClearOwnerReferences {
        /// Which object.
        key: ObjectKey,
        /// The UID that was observed.
        uid: String,
    },
    /// Take away what others added to the spec of a workload, if it is still as it was observed: Berth takes the fields over as its own,
    /// and applies the workload without them.
    RemoveAdditions {
        /// The workload.
        object: Object,
        /// The UID that was observed.
        uid: String,
        /// The version that was observed.
        resource_version: String,
        /// `metadata.managedFields` with the additions as Berth's.
        managed_fields: Value,
        /// What goes.
        additions: Vec<Addition>,
    },
    /// Set `spec.replicas`, if it is still the object that was observed.
    Scale {
        /// Which workload.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// Pods.
        replicas: i32,
    },
    /// Write that a backup is damaged, if its status is still the one that was observed. Nothing else writes it, and nothing takes it back.
    MarkDamaged {
        /// The `EtcdBackup`.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// Its version when it was observed.
        resource_version: String,
        /// Its new status.
        status: Value,
    },
    /// Have a volume grow: set what its claim asks for, if it is still the claim that was observed.
    GrowVolume {
        /// The claim.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// A quantity.
        size: String,
    },
    /// Server-side apply inside the tenant.
    TenantApply(Object),
    /// Delete inside the tenant, if it is still the object that was observed.
    TenantDelete {
        /// Which object.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
    },
    /// Publish the admin kubeconfig into the `Cluster`'s namespace, under its own name.
    PublishKubeconfig {
        /// The Secret to make.
        key: ObjectKey,
        /// Where its content comes from, key `value`.
        source: ObjectKey,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A call to etcd that changes its members. It is on record before it is made, and whatever is answered, the members are asked anew.
    ChangeMembers {
        /// The `EtcdCluster`.
        etcd: ObjectKey,
        /// Name of the member that is told: the leader.
        via: String,
        /// What changes.
        change: MemberChange,
    },
    /// A call to etcd that looks after its databases.
    Maintain {
        /// The `EtcdCluster`.
        etcd: ObjectKey,
        /// Name of the member that is told.
        via: String,
        /// What is done.
        what: Maintenance,
    },
}

/// A call to an etcd.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EtcdCall {
    /// Changes its members.
    Change(MemberChange),
    /// Looks after its databases.
    Maintain(Maintenance),
}

impl EtcdCall {
    /// What a person reads.
    pub fn describe(&self) -> String {
        match self {
            Self::Change(change) => change.describe(),
            Self::Maintain(what) => what.describe(),
        }
    }
}

/// What is done to an etcd's databases. Each can be done twice without harm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Maintenance {
    /// The member that is told gives back what is free in its database. It answers nothing else meanwhile.
    Defragment,
    /// Revisions before this one are forgotten, by all members.
    Compact {
        /// A revision that there is.
        revision: i64,
    },
    /// An alarm is over.
    Disarm {
        /// Which alarm, such as `NOSPACE`.
        alarm: String,
        /// ID of the member that raised it, in hexadecimal.
        id: String,
    },
    /// One key of Berth's own is written, to see whether etcd takes writes.
    Put,
    /// Every member is asked for the hash of its data. It reads the whole database, and changes nothing.
    CompareHashes {
        /// At a revision that all of them have.
        revision: i64,
    },
}

/// What an etcd answered to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdAnswer {
    /// It did as it was told.
    Done,
    /// To [`Maintenance::CompareHashes`], from each member.
    Hashes(Vec<KvHash>),
}

/// A member, and the hash of its data at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvHash {
    /// Its name.
    pub member: String,
    /// Hash, and the revision that it was compacted at: only hashes with the same one can be compared. Err: why there is none.
    pub said: Result<(u32, i64), String>,
}

impl Maintenance {
    /// What a person reads.
    pub fn describe(&self) -> String {
        match self {
            Self::Defragment => "defragment".to_owned(),
            Self::Compact { revision } => format!("compact at revision {revision}"),
            Self::Disarm { alarm, id } => format!("disarm alarm {alarm} on {id}"),
            Self::Put => "write a key".to_owned(),
            Self::CompareHashes { revision } => format!("compare hashes at revision {revision}"),
        }
    }
}

/// A change of an etcd's members. IDs are etcd's, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum MemberChange {
    /// A member without a vote, which copies the data first.
    AddLearner {
        /// Where its peers reach it.
        peer_url: String,
    },
    /// The learner gets a vote.
    Promote {
        /// Its ID.
        id: String,
    },
    /// It is no member any more, for ever: another of its name has another ID.
    Remove {
        /// Its ID.
        id: String,
    },
    /// Another member leads.
    MoveLeader {
        /// The ID of the one that is to lead.
        id: String,
    },
}

impl MemberChange {
    /// What a person reads.
    pub fn describe(&self) -> String {
        match self {
            Self::AddLearner { peer_url } => format!("add learner {peer_url}"),
            Self::Promote { id } => format!("promote member {id}"),
            Self::Remove { id } => format!("remove member {id}"),
            Self::MoveLeader { id } => format!("move leadership to member {id}"),
        }
    }
}

impl Action {
    /// Deletes what was observed and nothing else of that name. `grace`: seconds for pods; None: what the object says.
    pub(crate) fn delete(key: &ObjectKey, observed: &Value, grace: Option<i64>) -> Self {
        Self::Delete { key: key.clone(), uid: uid(observed).to_owned(), grace }
    }

    /// Ends the pods of the workload that was observed.
    pub(crate) fn scale_to_zero(key: &ObjectKey, observed: &Value) -> Self {
        Self::Scale { key: key.clone(), uid: uid(observed).to_owned(), replicas: 0 }
    }

    /// Takes away all owner references of what was observed.
    pub(crate) fn clear_owner_references(key: &ObjectKey, observed: &Value) -> Self {
        Self::ClearOwnerReferences { key: key.clone(), uid: uid(observed).to_owned() }
    }

    /// Deletes what was observed inside the tenant.
    pub(crate) fn tenant_delete(key: &ObjectKey, observed: &Value) -> Self {
        Self::TenantDelete { key: key.clone(), uid: uid(observed).to_owned() }
    }

    /// Whether what it does shows only when everything is observed again: it is answered before it is done. No other plan is made from
    /// the same observation after it.
    pub fn shows_later(&self) -> bool {
        matches!(self, Self::Delete { .. } | Self::Scale { .. } | Self::ChangeMembers { .. } | Self::Maintain { .. })
    }

    /// What a person reads in a plan.
    pub fn describe(&self) -> String {
        match self {
            Self::Apply(o) => format!("apply {}", o.key()),
            Self::Create(o) => format!("create {}", o.key()),
            Self::Secret(s) => {
                let why: Vec<_> = s.entries.iter().map(SecretEntry::describe).collect();
                format!("{} {}: {}", if s.existing.is_some() { "update" } else { "create" }, s.key, why.join(", "))
            }
            Self::Delete { key, .. } => format!("delete {key}"),
            Self::Scale { key, replicas, .. } => format!("scale {key} to {replicas}"),
            Self::MarkDamaged { key, .. } => format!("mark {key} as damaged"),
            Self::GrowVolume { key, size, .. } => format!("have {key} grow to {size}"),
            Self::ClearOwnerReferences { key, .. } => format!("remove ownerReferences from {key}"),
            Self::RemoveAdditions { object, additions, .. } => {
                format!("remove from {}: {}", object.key(), Addition::list(additions))
            }
            Self::TenantApply(o) => format!("apply {} in the tenant", o.key()),
            Self::TenantDelete { key, .. } => format!("delete {key} in the tenant"),
            Self::PublishKubeconfig { key, .. } => format!("publish {key}"),
            Self::ChangeMembers { etcd, via, change } => format!("{} of {etcd} through {via}", change.describe()),
            Self::Maintain { etcd, via, what } => format!("{} of {etcd} by {via}", what.describe()),
        }
    }
}

/// How to make or complete a Secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SecretPlan {
    /// Which Secret.
    pub key: ObjectKey,
    /// Its type.
    pub type_: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// UID and resourceVersion of what is there; None: it is created, and never overwritten.
    pub existing: Option<(String, String)>,
    /// What to make; the rest of the Secret stays.
    pub entries: Vec<SecretEntry>,
}

/// One thing to make inside a Secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum SecretEntry {
    /// A CA, in `tls.crt` and `tls.key`.
    Ca(CertSpec),
    /// A certificate, in `<name>.crt` and `<name>.key`.
    Leaf {
        /// Name of the two keys.
        name: String,
        /// What it says.
        spec: CertSpec,
        /// Secret of the CA.
        issuer: ObjectKey,
        /// Why it is made.
        why: String,
    },
    /// A copy of the CA's certificate.
    CaCopy {
        /// Key in the Secret.
        name: String,
        /// Secret of the CA.
        issuer: ObjectKey,
    },
    /// A copy of one key of another Secret, under the same name.
    Copy {
        /// Key in both.
        name: String,
        /// The other Secret.
        source: ObjectKey,
    },
    /// A service-account key pair: `tls.crt` public, `tls.key` private.
    ServiceAccountKey,
    /// An `EncryptionConfiguration` with a new secretbox key, in `encryption.yaml`.
    EncryptionConfig,
    /// A kubeconfig with a certificate of its own, in `value`.
    Kubeconfig {
        /// Name of the cluster entry.
        cluster: String,
        /// `https://host:port`.
        server: String,
        /// The user's certificate.
        spec: CertSpec,
        /// Secret of the CA that issues and that is trusted.
        issuer: ObjectKey,
        /// Why it is made.
        why: String,
    },
}

impl SecretEntry {
    fn describe(&self) -> String {
        match self {
            Self::Ca(spec) => format!("CA {}", spec.common_name),
            Self::Leaf { name, why, .. } => format!("certificate {name} ({why})"),
            Self::CaCopy { name, .. } => format!("copy of the CA in {name}"),
            Self::Copy { name, source } => format!("copy of {name} of {source}"),
            Self::ServiceAccountKey => "service-account key".into(),
            Self::EncryptionConfig => "encryption key".into(),
            Self::Kubeconfig { why, .. } => format!("kubeconfig ({why})"),
        }
    }
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// What it is about.
    pub id: StageId,
    /// Its state.
    pub state: State,
    /// What belongs to it, also while it waits; nothing here is an orphan.
    pub owns: Vec<ObjectKey>,
    /// What to do now.
    pub actions: Vec<Action>,
    /// What is wrong with objects of it, and holds up nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Stage {
    /// A stage without actions.
    pub fn new(id: StageId, state: State) -> Self {
        Self { id, state, owns: vec![], actions: vec![], notes: vec![] }
    }
    /// What is not done, with the stage's name, unless the text begins with it.
    pub fn sentence(&self) -> Option<(Reason, String)> {
        let (reason, text) = self.state.sentence()?;
        let name = self.id.name();
        Some((reason, if text.starts_with(name) { text } else { format!("{name}: {text}") }))
    }
}

/// What to do for one tenant now, and why not more.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// In the order of coming up.
    pub stages: Vec<Stage>,
    /// Orphans to delete, once everything else is settled.
    pub prune: Vec<Action>,
    /// The finalizer may go.
    pub finished: bool,
}

impl Plan {
    /// That stage.
    pub fn stage(&self, id: StageId) -> Option<&Stage> {
        self.stages.iter().find(|s| s.id == id)
    }
    /// All actions in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.stages.iter().flat_map(|s| &s.actions).chain(&self.prune)
    }
    /// What is wrong with single objects, and holds up nothing; as one text, if anything is.
    pub fn notes(&self) -> Option<String> {
        let all: Vec<_> = self.stages.iter().flat_map(|s| &s.notes).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.actions().next().is_none()
    }
    /// The first blocked stage.
    pub fn blocked(&self) -> Option<(&Stage, Reason, &str)> {
        self.stages.iter().find_map(|s| match &s.state {
            State::Blocked { reason, message } => Some((s, *reason, message.as_str())),
            _ => None,
        })
    }
    /// The first of the worst, as a sentence: a stage that is blocked; or else one that waits for what does not come by waiting; or
    /// else one that waits.
    pub fn first_problem(&self) -> Option<(Reason, String)> {
        let first = self.blocked().map(|(stage, ..)| stage).or_else(|| self.lasting());
        first.or_else(|| self.stages.iter().find(|s| !s.state.is_done())).and_then(Stage::sentence)
    }
    /// The first stage that waits for what does not come by waiting.
    pub(crate) fn lasting(&self) -> Option<&Stage> {
        self.stages.iter().find(|s| s.state.problem().is_some_and(|(reason, _)| LASTING.contains(&reason)))
    }
}
