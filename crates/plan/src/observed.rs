//! What was read, as plain data.

use crate::admission::{Admission, Webhook};
use crate::asked::{Answers, ApiVersion, Look};
use crate::backup_jobs::BackupJob;
use crate::fleet::Answer;
use crate::heard::Heard;
use crate::leads::{Leads, Leases};
use crate::meta_cluster::MetaCluster;
use crate::model::EtcdCallResult;
use crate::objects::service_address::RefusedAddress;
use crate::room::Volume;
use crate::secrets::SecretFacts;
use berth_api::cluster::NodesStatus;
use berth_api::gateway::ClusterName;
use berth_api::text::TenantText;
use berth_api::version::Version;
use berth_pki::{CertInfo, KubeconfigInfo, PkiError, Root};
use berth_render::{Kind, Listing, ObjectKey, TemplateSet};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Everything a plan may look at. Secrets appear as facts; their bytes stay with whoever reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The meta cluster as a whole.
    pub meta: Arc<MetaCluster>,
    /// Objects by key. Secrets are here too, without data.
    pub objects: BTreeMap<ObjectKey, Value>,
    /// What the Secrets hold.
    pub secrets: BTreeMap<ObjectKey, Arc<SecretFacts>>,
    /// The template set that the tenant is pinned to, if that is not the built-in one.
    pub pinned: Option<TemplateSet>,
    /// The template set of the minor that the tenant changes to, if that is not the built-in one.
    pub pinned_next: Option<TemplateSet>,
    /// Template sets of recorded releases, as far as they are not built in.
    pub pinned_before: Vec<TemplateSet>,
    /// `ClusterRevision`s could be read: they are among the objects. Otherwise none is looked at or written.
    pub revisions_are_readable: bool,
    /// What the tenant's API said, if it was asked.
    pub api: ApiProbe,
    /// What was found in the tenant that matters to the next minor.
    pub look: Look,
    /// Who leads in the tenant's control plane, as far as was looked. None: not in this life of the operator.
    pub leads: Option<Arc<Leads>>,
    /// What keeps writes in the tenant from going through, if that was looked at.
    pub admission: Option<Arc<Admission>>,
    /// The tenant's webhooks: read where it is about to sleep.
    pub webhooks: Vec<Webhook>,
    /// How the API servers answered their clients, by pod: while a canary serves.
    pub answers: BTreeMap<String, Answers>,
    /// The published kubeconfig: fingerprint of its content.
    pub published: Published,
    /// The Secret by which Argo CD knows the tenant.
    pub registered: Registered,
    /// What is in the namespace could not be read: the operator's rights there are not there (yet).
    pub denied: bool,
    /// Services that asked for an address or a port in vain.
    pub refused_addresses: BTreeMap<ObjectKey, RefusedAddress>,
    /// The namespace that the `Cluster`, or the `AppInstallation`, itself is in is being deleted.
    pub team_namespace_ends: bool,
    /// The UID of that namespace. None: not known.
    pub team_uid: Option<String>,
    /// The NetworkAttachmentDefinition that `spec.vpc` names.
    pub attachment: AttachmentSeen,
    /// Why the operator does not connect to `spec.endpoint.host`: it leads to an address that is no tenant's.
    pub refused_host: Option<TenantText>,
    /// Who else has `spec.endpoint.host` at the platform's gateway.
    pub host_is_of: Option<ClusterName>,
    /// What gateways told of who uses the tenant, and calls it.
    pub heard: Heard,
    /// Whether the meta cluster serves `TLSRoute`s, which are among the objects then.
    pub routes: RoutesSeen,
    /// Why requests of its pods do not follow what they use, as far as that is asked for. None: nobody has looked yet.
    pub sizes: Option<Vec<String>>,
    /// The volumes of etcd's members, by member: read where the spec asks more of their nodes than what runs.
    pub volumes: BTreeMap<String, Volume>,
    /// What etcd's members said, if they were asked.
    pub etcd: Option<EtcdProbe>,
    /// What etcd was told in this reconcile to look after its databases.
    pub told: Vec<EtcdCallResult>,
    /// Whether a change of the version waits for its turn in the fleet.
    pub turns: Turns,
    /// What refuses the pods of members, or of Jobs, that are not there, by the name of the pod or the Job, as far as is known.
    pub refused: BTreeMap<String, String>,
    /// Jobs of `EtcdBackup`s, of all namespaces.
    pub backup_jobs: Arc<Vec<BackupJob>>,
    /// `EtcdBackup`s whose reconciles fail, one after the other.
    pub stuck: BTreeSet<ObjectKey>,
}

/// The order of the fleet, as one tenant sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// There is none: nobody waits.
    #[default]
    None,
    /// Who has no turn waits.
    Ordered {
        /// For whom, as far as is known.
        answer: Option<Answer>,
        /// The turn that is recorded is being taken back.
        revoked: bool,
    },
}

/// The network of a tenant's VPC.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AttachmentSeen {
    /// Not looked at.
    #[default]
    Unknown,
    /// Not there, or the meta cluster does not have the kind.
    Missing,
    /// There.
    Found(Value),
}

/// Whether the meta cluster serves `TLSRoute`s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RoutesSeen {
    /// Not looked at: nothing needs them.
    #[default]
    NotAsked,
    /// In the version that Berth writes.
    Served,
    /// Not in that version, but in these, such as `v1alpha3`. None: not at all.
    Missing(Vec<String>),
    /// Whoever looked may not list them.
    Denied,
}

/// The admin kubeconfig in the `Cluster`'s namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Published {
    /// Not looked at.
    #[default]
    Unknown,
    /// Not there.
    Absent,
    /// There, and ours.
    Ours {
        /// UID.
        uid: String,
        /// SHA-256 of the key `value`.
        value_sha256: String,
        /// Labels.
        labels: BTreeMap<String, String>,
    },
    /// There, and somebody else's; it could not even be read.
    Foreign(String),
}

/// The Secret by which Argo CD knows the tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registered {
    /// Not looked at.
    #[default]
    Unknown,
    /// Not there.
    Absent,
    /// There, and ours.
    Ours(Box<RegisteredSecret>),
    /// There, and somebody else's; it could not even be read.
    Foreign(String),
    /// It could not be looked at, or not be written.
    Failed(String),
}

/// What such a Secret says, and nothing private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredSecret {
    /// UID.
    pub uid: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The name of the cluster in Argo CD.
    pub name: String,
    /// The project that it is for.
    pub project: String,
    /// Finalizers that keep it, while it is being deleted. None: it is not.
    pub ends: Option<Vec<String>>,
    /// How it is reached. None: it is not as Berth writes it.
    pub connection: Option<KubeconfigInfo>,
}

/// What the tenant's API said to the operator's own credential, where the plan of its `Cluster` says that it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ApiProbe {
    /// Not asked: no pod was seen that could answer, or no address to ask at.
    #[default]
    NotAsked,
    /// It answered.
    Answered {
        /// What it runs, if it was asked for that.
        version: Option<ApiVersion>,
        /// What was read inside the tenant in this reconcile.
        read: InsideTenant,
    },
    /// It did not.
    Failed(TenantText),
    /// It was not asked: the host of the spec leads to what is not a tenant's.
    Refused(TenantText),
    /// It could not be asked: the operator has no CA to sign its certificate with.
    Unable(String),
}

/// A tenant's nodes, as `kubectl get nodes -o wide` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// How many there are.
    pub count: NodesStatus,
    /// The newest kubelet.
    pub newest_kubelet: Option<Version>,
    /// Name and internal address of each that says one.
    pub addresses: Vec<(TenantText, IpAddr)>,
}

/// Objects of Berth's inside a tenant, as far as they were read in one reconcile, by their label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InsideTenant {
    /// The tenant's nodes, if they were read.
    pub nodes: Option<Nodes>,
    /// Leases that were asked for, if they were read.
    pub leases: Option<Leases>,
    /// Why pods of add-ons do not serve, as they say, by their label `k8s-app`, if that was asked.
    pub pods: BTreeMap<String, TenantText>,
    listed: BTreeSet<Listing>,
    objects: BTreeMap<ObjectKey, Option<Value>>,
}

impl InsideTenant {
    /// All that there are there.
    pub fn listed(listing: Listing, objects: impl IntoIterator<Item = (ObjectKey, Value)>) -> Self {
        Self { listed: BTreeSet::from([listing]), ..Self::some(objects) }
    }

    /// Some of what there is.
    pub fn some(objects: impl IntoIterator<Item = (ObjectKey, Value)>) -> Self {
        let objects = objects.into_iter().map(|(key, live)| (key, Some(live))).collect();
        Self { objects, ..Self::default() }
    }

    /// What is there under that key. None: it was not read; `Some(None)`: nothing that carries Berth's label.
    pub fn get(&self, key: &ObjectKey) -> Option<Option<&Value>> {
        let known = self.objects.get(key).map(Option::as_ref);
        known.or_else(|| self.is_listed(key).then_some(None))
    }

    /// Takes in what is there under that key. Returns what was known of it.
    pub fn insert(&mut self, key: ObjectKey, live: Option<Value>) -> Option<Option<Value>> {
        let listed = self.is_listed(&key);
        self.objects.insert(key, live).or_else(|| listed.then_some(None))
    }

    /// Takes in what was read elsewhere.
    pub fn extend(&mut self, other: Self) {
        self.nodes = other.nodes.or(self.nodes.take());
        self.leases = other.leases.or(self.leases.take());
        self.pods.extend(other.pods);
        self.listed.extend(other.listed);
        self.objects.extend(other.objects);
    }

    fn is_listed(&self, key: &ObjectKey) -> bool {
        self.listed.iter().any(|listing| listing.holds(key))
    }
}

/// What etcd's members said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdProbe {
    /// By member name.
    pub members: BTreeMap<String, Result<MemberProbe, String>>,
    /// From a linearizable member list. None: no quorum answered.
    pub list: Option<Vec<ListedMember>>,
    /// Raised alarms.
    pub alarms: Vec<RaisedAlarm>,
}

/// An alarm that a member raised. It stays until it is disarmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RaisedAlarm {
    /// What it says: `NOSPACE` or `CORRUPT`.
    pub kind: String,
    /// The member's name; its ID if it has none.
    pub member: String,
    /// The member's ID in hexadecimal.
    pub id: String,
}

impl RaisedAlarm {
    /// A database has reached its quota.
    pub const NOSPACE: &str = "NOSPACE";
    /// A member's data differ from the others'.
    pub const CORRUPT: &str = "CORRUPT";
}

impl std::fmt::Display for RaisedAlarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.kind, self.member)
    }
}

impl EtcdProbe {
    /// Whether both say the same, but for numbers that change with every write to etcd, as long as these call for nothing.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let still = |probe: &Self| {
            let mut probe = probe.clone();
            probe.members.values_mut().flatten().for_each(|member| {
                let is_fragmented = member.progress.is_fragmented();
                member.progress = Progress { revision: is_fragmented.into(), ..Progress::default() };
            });
            probe
        };
        still(self) == still(other)
    }
}

/// A member as etcd lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedMember {
    /// Its name. Empty: it was added and has not started yet.
    pub name: String,
    /// Its ID in hexadecimal.
    pub id: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// It has no vote.
    pub learner: bool,
}

/// How far a member is with etcd's log, and how large its database is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Index of the last entry of its log that is committed.
    pub raft_index: u64,
    /// Index of the last entry that it applied to its database.
    pub applied_index: u64,
    /// Bytes of its database.
    pub db_size: i64,
    /// Bytes of these that hold something; the rest is free since a compaction.
    pub db_size_in_use: i64,
    /// Bytes that its database may have. 0: it does not say, as etcd 3.5.
    pub quota: i64,
    /// Its newest revision.
    pub revision: i64,
}

impl Progress {
    /// A smaller database is not worth the pause.
    const LEAST: i64 = 100 * 1024 * 1024;

    /// Whether to defragment it: half of a large database is free, or it is close to its quota and a fifth is free.
    pub fn is_fragmented(&self) -> bool {
        let (size, used) = (self.db_size, self.db_size_in_use);
        let half_free = size >= Self::LEAST && used < size / 2;
        let nearly_full = self.quota > 0 && size >= self.quota / 5 * 4 && used < size / 5 * 4;
        half_free || nearly_full
    }
}

/// One member's own status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberProbe {
    /// Cluster ID in hexadecimal.
    pub cluster_id: String,
    /// Member ID in hexadecimal.
    pub member_id: String,
    /// Leader's ID in hexadecimal; "0" if there is none.
    pub leader: String,
    /// Version.
    pub version: String,
    /// The version of etcd that its data are of, as `3.6.0`: an older minor does not start with them. Empty: it does not say, as etcd 3.5.
    pub storage_version: String,
    /// It has no vote, and says so itself.
    pub learner: bool,
    /// What it says is wrong with it, such as an alarm.
    pub errors: Vec<String>,
    /// What changes all the time.
    pub progress: Progress,
}

impl Observed {
    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key)
    }
    /// Objects of a kind in a namespace.
    pub fn of_kind<'a>(&'a self, kind: Kind, namespace: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        self.objects.iter().filter(move |(k, _)| k.kind == kind && k.namespace.as_deref() == Some(namespace))
    }
    /// Takes in what the API server answered to a write.
    pub fn put(&mut self, key: ObjectKey, object: Value) {
        self.objects.insert(key, object);
    }
    /// The key pair of that name in a Secret.
    pub fn pair(&self, secret: &ObjectKey, name: &str) -> Option<Result<&CertInfo, &PkiError>> {
        self.secrets.get(secret)?.pair(name)
    }
    /// The CA in a Secret of Cluster API's shape, if it is whole.
    pub fn root(&self, secret: &ObjectKey) -> Option<&Root> {
        self.secrets.get(secret)?.root()?.ok()
    }
}
