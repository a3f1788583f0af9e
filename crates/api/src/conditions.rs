//! Condition types and reasons. Every type is published from the first reconcile on (`Unknown` until judged), but for `Reconciling` and
//! `Stalled`, which are published only while they are `True`, as kstatus has it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::text::printable;

macro_rules! string_enum {
    ($(#[$m:meta])* $name:ident { $($(#[doc = $doc:literal])+ $v:ident),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[doc = $doc])+ $v),+ }
        impl $name {
            /// All values, for docs and tests.
            pub const ALL: &[Self] = &[$(Self::$v),+];
            /// The string as it appears in the API.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$v => stringify!($v)),+ }
            }
            /// What it means: the text of this documentation, which is that of docs/reference, too.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$v => concat!($($doc),+).trim()),+ }
            }
        }
        impl std::str::FromStr for $name {
            type Err = UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or(UnknownValue)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// No value of that type is written so: a newer build may know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownValue;

impl std::fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value that this build does not know")
    }
}

impl std::error::Error for UnknownValue {}

/// Reasons, each with what to do; nothing where the message says it.
macro_rules! reasons {
    ($(#[$m:meta])* $name:ident { $($(#[doc = $doc:literal])+ $v:ident => $todo:literal),+ $(,)? }) => {
        string_enum! { $(#[$m])* $name { $($(#[doc = $doc])+ $v),+ } }
        impl $name {
            /// What a person does about it, in sentences. Empty where the condition's message says it.
            pub fn what_to_do(self) -> &'static str {
                match self { $(Self::$v => $todo),+ }
            }
        }
    };
}

string_enum! {
    /// Types of conditions. [`ConditionType::CLUSTER`] and [`ConditionType::ETCD_CLUSTER`] say which kind publishes which.
    ConditionType {
        /// Everything in the spec is applied and works; of an `EtcdBackup`: it is proven, and not damaged since; of an `EtcdRestore`: etcd serves what was restored. `kubectl wait`, and tools that use kstatus (Flux, and Helm 4 with `--wait`), read
        /// it. Helm 3 does not wait for it, and Argo CD needs a health check, which `examples/gitops` has.
        Ready,
        /// It serves now. `Cluster`: the API answered the operator at its endpoint, and etcd has quorum. With
        /// `loadBalancerSourceRanges`, and while a published endpoint has no address, the operator asks the Service inside the meta
        /// cluster instead. `EtcdCluster`: a quorum of members answers, and none is corrupt.
        Available,
        /// A change is in progress; the message says what it waits for.
        Progressing,
        /// Something is wrong that does not resolve by itself, whether or not it serves; or what served is away: etcd has no quorum or is
        /// being restored, or the API has not answered for two minutes.
        Degraded,
        /// CAs, keys and certificates exist, are valid and match.
        PKIReady,
        /// The tenant's etcd is `Available`.
        EtcdAvailable,
        /// kube-apiserver, kube-controller-manager and kube-scheduler each have a ready pod, and of the latter two one leads: it renews its Lease
        /// in the tenant, which is a write through admission of Leases into etcd. That its controllers do their work well is not shown by it.
        ControlPlaneAvailable,
        /// The tenant's Service `kubernetes` leads to an address that its nodes reach, as far as the spec and the meta cluster tell: nobody dials
        /// it from a node. It is part of `Ready` once the tenant has a node, or is to have some: with `spec.vpc` or `spec.network.nodeCIDRs`.
        PodsReachAPI,
        /// Every pod of CoreDNS and kube-proxy that is to run on the tenant's nodes serves, and is made from what Berth wrote last; the message
        /// has how many of how many, and why not. It is part of `Ready` where none of an add-on serves for five minutes though a node is ready. Published only
        /// where Berth keeps an add-on in the tenant; it may be a quarter of an hour late.
        AddonsReady,
        /// Every App that is for this `Cluster` and has `required: true` was deployed in it, and has not failed since; if not, the message has
        /// which, since when and why. It is part of `Ready`, and no release, sleep or other work waits for it. Published only where there is such an App.
        AppsReady,
        /// Every API server has its address in the tenant's VPC. Published only with `spec.vpc`.
        VPCReady,
        /// The platform's own `Gateway` (Gateway API) says that it leads to the tenant by its `TLSRoute`; if not, the message says why. It is part of
        /// `Ready` where that is the only way to the tenant. Published only with `endpoint.type: Gateway` on platforms whose
        /// `gateway.engines` have `GatewayAPI`.
        RouteAccepted,
        /// The platform's Argo CD is told of the tenant as `spec.registration.argoCD` asks; if not, the message says why. It is no part of `Ready`.
        /// Published only with that field, and until what was registered is taken back.
        Registered,
        /// Every member is ready.
        MembersReady,
        /// The newest proven backup is as young as an `EtcdBackupSchedule` of it asks for. Published only where there is such a schedule, of
        /// a `Cluster` or of an `EtcdCluster` that belongs to none; it may be a quarter of an hour late.
        BackupReady,
        /// The snapshot was proven: read back from the store, restored, and compared with the etcd that it is of. Published only of an
        /// `EtcdBackup` that was proven once; when it became `True` is when the snapshot had been taken for certain, by the API server's clock.
        Verified,
        /// What the store gives back of an `EtcdBackup` that was proven is another snapshot, so it cannot be restored. Published only where
        /// a restore found that, and never taken back.
        Damaged,
        /// What Helm left in the tenant of an app was changed or deleted since, and was not set back; the message says what. Published only of an
        /// `AppInstallation` where that was looked for; it may be as late as `spec.drift.intervalSeconds` of the `App` says.
        Drifted,
        /// Nothing that Berth looks at stands in the way of the next minor version: what it would say before it changes anything. It looks
        /// about once an hour. Published only where there is a next one, and none is being taken.
        UpgradeReady,
        /// The operator has other templates for the version that runs than the tenant is rendered with. Published only while it is `True`.
        UpdateAvailable,
        /// It is not `Ready`, and Berth is working on it. Published only while it is `True`, for tools that use kstatus.
        Reconciling,
        /// It is not `Ready`, and will not become so by itself: a person has to act. Published only while it is `True`, for tools that use
        /// kstatus, which then stop waiting.
        Stalled,
    }
}

impl ConditionType {
    /// What a `Cluster` publishes.
    pub const CLUSTER: &[Self] = &[
        Self::Ready,
        Self::Available,
        Self::Progressing,
        Self::Degraded,
        Self::PKIReady,
        Self::EtcdAvailable,
        Self::ControlPlaneAvailable,
        Self::PodsReachAPI,
        Self::AddonsReady,
        Self::AppsReady,
        Self::VPCReady,
        Self::RouteAccepted,
        Self::Registered,
        Self::BackupReady,
        Self::UpgradeReady,
        Self::UpdateAvailable,
        Self::Reconciling,
        Self::Stalled,
    ];
    /// What an `EtcdCluster` publishes.
    pub const ETCD_CLUSTER: &[Self] = &[
        Self::Ready,
        Self::Available,
        Self::Progressing,
        Self::Degraded,
        Self::PKIReady,
        Self::MembersReady,
        Self::BackupReady,
        Self::Reconciling,
        Self::Stalled,
    ];
    /// What an `EtcdBackup` publishes.
    pub const ETCD_BACKUP: &[Self] =
        &[Self::Ready, Self::Degraded, Self::Verified, Self::Damaged, Self::Reconciling, Self::Stalled];
    /// What an `EtcdBackupSchedule`, an `EtcdRestore`, a `ClusterAccess` and an `App` publish.
    pub const ETCD_RESTORE: &[Self] = &[Self::Ready, Self::Degraded, Self::Reconciling, Self::Stalled];
    /// What an `AppInstallation` publishes.
    pub const APP_INSTALLATION: &[Self] =
        &[Self::Ready, Self::Degraded, Self::Drifted, Self::Reconciling, Self::Stalled];
    /// Published only while they are `True`.
    pub const TRUE_OR_ABSENT: &[Self] = &[Self::Reconciling, Self::Stalled];
    /// Published only where there is something to judge.
    pub const OPTIONAL: &[Self] = &[
        Self::AddonsReady,
        Self::AppsReady,
        Self::VPCReady,
        Self::RouteAccepted,
        Self::Registered,
        Self::BackupReady,
        Self::Verified,
        Self::Damaged,
        Self::Drifted,
        Self::UpgradeReady,
        Self::UpdateAvailable,
    ];
}

reasons! {
    /// Reasons of conditions, and of Events.
    Reason {
        /// The operator has not checked this yet.
        NotYetObserved => "Nothing. If it stays: `kubectl -n berth-system get pods` shows whether the operator runs.",
        /// Everything is as the spec asks for.
        AsExpected => "Nothing.",
        /// It waits for something that comes by itself; the message names it.
        Waiting => "Nothing, unless the message names a step or `spec.paused` is true. If it lasts: check the finalizers of what is being deleted, DNS for `endpoint.host`, and the load balancer controller.",
        /// A rollout is in progress.
        RollingOut => "Nothing, unless `Degraded` is `True` or `spec.paused` is true.",
        /// Nothing is changing.
        Settled => "Nothing.",
        /// Pods are missing or not ready.
        PodsNotReady => "Nothing at first. If it stays: describe the pod that the message names, and read its log.",
        /// Not all pods of CoreDNS or kube-proxy serve on the tenant's nodes, or a change of theirs does not come up: it has stopped at the first pod.
        AddonsNotReady => "What the message names: they run on the tenant's nodes, where the tenant's kubeconfig shows them. A change that does not come up: set the field back.",
        /// An App that the tenant is required to have was never deployed in it, or failed in it; the message has which, and why.
        AppsNotReady => "What the message says. `kubectl berth apps --cluster NAME` shows all Apps of the tenant.",
        /// Pods of kube-controller-manager or kube-scheduler are ready, and none of them leads: nobody renews the Lease in the tenant, so no
        /// controller works, or no pod is scheduled.
        NotLeading => "If the message names a webhook: narrow its rules or delete it, with the command in the message. Otherwise read the log that the message names.",
        /// A webhook of the tenant's own keeps leases, nodes, pods, tokens or what Berth writes in the tenant from being written: it hangs,
        /// fails or refuses. The message names it, its rule, since when, and the command that removes it.
        WebhookInTheWay => "Narrow the webhook's rules, or delete it with the command in the message: webhooks are asked about no change of webhooks. A release that meets it waits, and goes on by itself.",
        /// An image cannot be pulled.
        ImageUnavailable => "Check `spec.version`, `spec.images`, the chart's values `imageRegistry` and `agent.image`, and access to the registry. After a fix in the chart's values run `helm upgrade`: pods that never started use it at once, running ones with the next `spec.version`.",
        /// A Secret that images are to be pulled with is missing, of the wrong type, or somebody else's; the message names it. What runs stays.
        PullSecretUnavailable => "Do what the message says. Pods that wait for an image then go on by themselves.",
        /// The Secret of `spec.apiServer.audit.webhook` is missing, of another type, or has no kubeconfig that Berth takes; the message says which.
        /// API servers that have a copy go on with it; where there is none, what runs stays as it is.
        AuditWebhookUnavailable => "Do what the message says. Berth looks at the Secret every five minutes.",
        /// A container keeps failing, or cannot be created.
        ContainerFailing => "Read the container's log. After a change of `extraArgs` or `authentication`: revert it.",
        /// No node fits a pod.
        Unschedulable => "The message says what the pod lacks: ask for less, add a volume or a toleration, or ask the platform team for a node. Which nodes there are, only they see: in the pod, and in the operator's log.",
        /// The spec is not valid, or this operator version cannot read the object.
        InvalidSpec => "",
        /// The spec asks for something (an annotation, a class, a node, a registry) that the platform team does not allow writers of a
        /// `Cluster`.
        NotAllowed => "Remove it, or have it added to `writers`, or to what the message names, in the values of Berth's chart. What runs stays as it is.",
        /// No templates for that Kubernetes or etcd version, or a pinned template set that this operator version cannot read.
        VersionUnsupported => "Set a version that the message lists, or run an operator version that has it. What runs stays as it is.",
        /// The spec asks for a minor version that is more than one away from the one that runs.
        MinorChangeUnsupported => "Set a patch version of the next minor version first. What runs stays as it is.",
        /// The spec asks for an older minor version than one that the tenant has served: etcd may hold what the older one cannot read.
        DowngradeUnsafe => "Set a patch version of the minor version that runs. What runs stays as it is.",
        /// Checks for the next minor version fail, whether it is asked for or not (`UpgradeReady`); the message lists them. Nothing was changed.
        UpgradeBlocked => "Do what the message says; Berth then begins by itself. Or set `spec.version` back. `spec.upgrade.skipChecks` takes a check out that does not matter; each finding begins with the name of its check.",
        /// The operator has other templates for the version that runs than the tenant is rendered with.
        OtherTemplates => "Nothing. To take them up at once, set `spec.upgrade.templates` to `Newest`.",
        /// The new minor version runs and emulates the one before until `spec.upgrade.finalizeAfter` has passed. The tenant is `Ready`.
        Emulating => "Nothing. To go back, set `spec.version` to the version in the message before that time.",
        /// Another version is asked for, and other tenants of the fleet come first; the message says who. The tenant is `Ready`.
        WaitingForTurn => "Nothing. It begins by itself. `kubectl berth rollouts` shows the fleet.",
        /// A change of what runs is asked for, and begins in the next window (`spec.upgrade.window`). The tenant is `Ready`.
        WaitingForWindow => "Nothing. To begin at once: `kubectl berth upgrade --now`, or the annotation `berth.dev/roll` with the `metadata.generation`.",
        /// The version that is asked for failed for too many tenants, which the message names, so no other one changes to it. The tenant is `Ready`.
        FleetStopped => "Find out what is wrong with the version. Set back those that failed, or correct them; or raise `rollouts.maxFailed` in the values of Berth's chart.",
        /// A new release failed, and Berth rolled back to the last one that succeeded. The spec is left alone.
        RolledBack => "Correct what the message names in the spec; or set the release that runs, with `kubectl berth rollback`; or ask for it once more with the annotation `berth.dev/roll`.",
        /// A new release failed, and Berth does not roll back; the message says why. What runs stays.
        Held => "Correct what the message names. If a pod comes up after all, it goes on by itself.",
        /// The pinned templates do not use a field that is set; the message names it. Everything else is applied.
        NotInTemplates => "Set `spec.version` to another patch version of its minor version, or `spec.upgrade.templates` to `Newest`, which brings newer templates; or remove the field. For etcd that is the version of etcd.",
        /// `replicas` asks for more members, or a restore is for several, of an etcd that an earlier Berth made; or its StorageClass does not let
        /// volumes grow.
        EtcdChangeUnsupported => "Set it back to what the message says. What runs stays as it is.",
        /// A workload, a pod or a Service has something that Berth did not set, and that Berth leaves; the message says what, who added it and
        /// why it stays, or what admission made of a field that the chart's `admission.mayChange` leaves to it. Nothing waits for it.
        ForeignFields => "",
        /// The NetworkPolicies of the control plane keep API servers from nodes of the tenant, so `kubectl logs`, `exec` and `port-forward`
        /// fail there, and webhooks and aggregated APIs on them. Nothing waits for it.
        NodesNotReachable => "Name the network of the nodes in `spec.network.nodeCIDRs`. Nodes in the networks of the meta cluster are never reached: use machines in other networks.",
        /// An object with that name exists and does not belong to this cluster. Berth does not change it.
        ForeignObject => "If nobody needs the object, delete it; otherwise create the `Cluster` under another name.",
        /// The control-plane namespace belongs to an earlier `Cluster` of this name, such as before a restore.
        AdoptionRequired => "If this is the same tenant: `kubectl berth adopt`, or set the annotation `berth.dev/adopt` to the UID in the message. Keys and data stay. If the team's namespace is another one of the same name, a cluster administrator first runs the command in the message.",
        /// The recorded control-plane namespace is gone, is being deleted, or was replaced.
        ControlPlaneLost => "While it is being deleted: save keys and data at once, with the commands in the message. Then restore it from a backup and set the annotation as the message says; or delete the `Cluster`.",
        /// A CA, the service-account key or the encryption key is gone while something depends on it. Berth does not touch the pods.
        CertificateAuthorityLost => "Restore the Secret from a backup. Berth creates no new one: whatever trusts the old one would refuse it.",
        /// Such a Secret cannot be parsed, its key does not match its certificate, or the CA is not valid now.
        CertificateAuthorityInvalid => "Restore the Secret from a backup. For an expired CA: check the clocks, then create a new `Cluster`.",
        /// Less than a quarter of a CA's lifetime is left.
        CertificateAuthorityExpiring => "Plan ahead: Berth cannot rotate CAs yet.",
        /// The clock of the operator's node differs by two minutes or more from the clock of the meta cluster's API server.
        ClockSkew => "Fix the time (NTP) of that node, or of the API server's, whichever is wrong. What runs stays as it is, and new certificates are valid by both clocks. Renewal is suspended only if the clocks differ by more than a third of a certificate's lifetime (30 of 90 days).",
        /// The PersistentVolumeClaim of an etcd member is being deleted; its data lasts until the member's pod ends.
        VolumeDeleting => "",
        /// An etcd member whose cluster was formed before found its volume empty. It does not start, and nothing is overwritten.
        DataLost => "Of several members one: nothing, Berth replaces it. The only one, or a majority: restore a backup, as the message says. If nobody needs the data: delete the `Cluster` with `dataPolicy` Delete and create it again.",
        /// An etcd member found a volume of another member or cluster; or there are volumes, and nothing records whose they are.
        ForeignData => "Attach the right volume, or restore the ConfigMap that the message names.",
        /// A member of etcd is being added, replaced or removed; the message says what that waits for.
        MembersChanging => "Nothing at first. If it stays: describe the pod that the message names. `spec.replicas` as it was before turns back what was begun.",
        /// etcd lists a member that Berth did not add. Berth changes no member until it is gone.
        UnknownMember => "",
        /// Too few etcd members are up.
        QuorumLost => "Describe the pods that the message names.",
        /// etcd raised an alarm: `NOSPACE` (the database is full) or `CORRUPT`.
        EtcdAlarm => "",
        /// The tenant's API does not answer at its endpoint.
        APINotReachable => "With `endpoint.host`: the operator, too, must resolve and reach that name. Otherwise read the log of kube-apiserver.",
        /// The API is reached under a name, and no IP address of it is known to which the tenant's Service `kubernetes` could lead: pods on
        /// nodes outside the meta cluster do not reach the API.
        NoIPAddress => "Set `spec.endpoint.advertiseAddress` to the IP address at which nodes reach the API; with type `Gateway`, to one that does not lead through the gateway.",
        /// The API has no address of the family of the first network in `spec.network.serviceCIDRs`, so no pod reaches it at Service
        /// `kubernetes`.
        OtherAddressFamily => "Set `spec.endpoint.advertiseAddress` to an address of that family at which nodes reach the API. If there is none, create a new `Cluster` whose `spec.network.serviceCIDRs` begin with a network of the other family.",
        /// `spec.network.podCIDRs` have room for one node: the next one gets no addresses for its pods.
        RoomForOneNode => "Nothing for a tenant with one node, or with a network plugin that has addresses of its own. Otherwise create a new `Cluster` with larger networks.",
        /// The meta cluster refused a call because a right is missing.
        PermissionDenied => "Restore the chart's rights: `helm upgrade` with the same values. For a stand-alone `EtcdCluster`: add its namespace to the chart's value `etcdNamespaces`.",
        /// The meta cluster, a webhook or a policy refused an object or a pod.
        Rejected => "The message quotes the refusal: a quota, a policy, a wrong value. Exempt control-plane namespaces from webhooks and policies that change objects, or leave the field to them by the chart's value `admission.mayChange`, if the message has that line.",
        /// The store of a backup cannot be used: it is not configured, has no credentials, refuses, or does not answer.
        StoreUnavailable => "Set up the store as in docs/backup.md. Then create another `EtcdBackup`, if this one has `Failed`.",
        /// A backup could not be taken; the message says why.
        BackupFailed => "Correct what the message names, and create another `EtcdBackup`.",
        /// A backup was taken, and what the store gave back, or an etcd that was started with it, is not the same.
        BackupNotProven => "Do not rely on it. Create another `EtcdBackup`; if that fails, too, suspect the store.",
        /// A restore, or the Job of a newer backup, found a proven one damaged: the store gives back another snapshot, or one that etcd's own
        /// program refuses as corrupt. Nothing is restored from it by itself, and nothing deleted for it.
        BackupDamaged => "Restore another backup: `kubectl berth etcd status` names the newest proven one. Look for what damaged the snapshot in the store, and create another `EtcdBackup`. Delete the damaged one when nobody needs it for that.",
        /// The backup that a schedule asks for is not proven two hours after its time.
        BackupOverdue => "Describe the `EtcdBackupSchedule` that the message names, and its newest `EtcdBackup`.",
        /// An app could not be installed, upgraded or uninstalled in a tenant; the message says where, and has Helm's words. It is tried again.
        AppFailed => "Correct the chart, its values, or what the message names. `kubectl get appi -A` lists where it failed.",
        /// What Helm left in a tenant was changed or deleted there since; the message says what. It is `Ready`.
        Drifted => "Set it back in the tenant, or change the App so that it is meant. `spec.drift.mode: Repair` of the App has Berth set it back, and `spec.drift.ignore` names what others may change.",
        /// What is in a tenant could not be compared with what Helm left there; the message says why. It is tried again at the next time.
        DriftUnknown => "Correct what the message names. The annotation `berth.dev/check` of the App asks for another look.",
        /// Requests of pods are to follow what the pods use (`autoscaling`), and do not: the message says of which, and why. It is `Ready`.
        SizeHeld => "Do what the message says. Pods keep the requests that they have; nothing restarts.",
        /// etcd is being restored from a backup; the message says what that waits for. The API does not answer meanwhile.
        Restoring => "Nothing at first. If it stays: do what the message says. Until etcd's epoch has changed, deleting the `EtcdRestore` turns it back.",
        /// It has no pods, since nobody uses it; its data, address and credentials stay.
        Asleep => "Nothing. To wake it: `kubectl berth wake NAME`.",
        /// Its pods end, so that it sleeps; the message says what that waits for.
        FallingAsleep => "Nothing at first. What takes longer than ten minutes, or a backup before it that takes longer than two hours, ends awake, and the message says what kept it.",
        /// Its pods start after a sleep.
        Waking => "Nothing at first. If it stays: do what the message says.",
        /// It is to sleep once nobody uses it, or to wake by a connection, and cannot; the message says why. The tenant is `Ready`.
        StaysAwake => "Do what the message says, or remove the field that it names.",
        /// A restore would overwrite the data of an etcd that answers; or an `App` would be uninstalled from so many `Cluster`s at once that it may be a
        /// mistake.
        ConfirmationRequired => "",
        /// A backup could not be restored; the message says why. If etcd was stopped for it, it stays so.
        RestoreFailed => "Correct what the message names, and create another `EtcdRestore`.",
        /// More etcds lost their quorum for good within an hour than Berth restores by itself (chart value `recovery.maxPerHour`).
        RecoveryHeld => "Check the platform, such as its storage. It is restored in its turn; an `EtcdRestore` that you create is not held.",
        /// The meta cluster does not serve `TLSRoute` in version `v1` of the Gateway API, or an older one only. Nothing else of the tenant waits for it.
        NoGatewayAPI => "Install the Gateway API, version 1.5 or newer, standard channel, and an implementation that knows `TLSRoute` in `v1`. Or take `GatewayAPI` out of `gateway.engines`.",
        /// A `Gateway` of the platform refuses the tenant's `TLSRoute`, does not find its Service, or nobody answers for it. The message has the reason.
        RouteNotAccepted => "Do what the message says: it is for whoever looks after that `Gateway`. It is followed at once.",
        /// `spec.paused` is true: Berth changes, repairs and renews nothing.
        Paused => "Set it to false to continue. Deletion continues in any case.",
        /// The object is being deleted; the message says what that waits for.
        Deleting => "If the message says that the `Cluster` is protected: set `spec.deletion.protected` to false.",
        /// The namespace that a protected `Cluster` is in is being deleted. The `Cluster` and its control plane stay, and everything else in
        /// the namespace is lost.
        NamespaceDeleting => "Keep the tenant, or set `spec.deletion.protected` to false to delete it, too; the message says where that is described.",
        /// A call failed, or there is a bug in Berth.
        Error => "Nothing: it is retried. If it stays: read the operator's log.",
    }
}

/// What one condition says now; [`merge`] turns it into a `metav1.Condition`.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Which condition.
    pub type_: ConditionType,
    /// `Some(true)`, `Some(false)`, or `None` for Unknown.
    pub status: Option<bool>,
    /// Machine-readable cause.
    pub reason: Reason,
    /// What a person reads: what it waits for and what to do.
    pub message: String,
}

impl Verdict {
    /// A verdict.
    pub fn new(type_: ConditionType, status: Option<bool>, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status, reason, message: message.into() }
    }
}

/// New conditions from `verdicts`, keeping transition times of those whose status did not change.
pub fn merge(old: &[Condition], verdicts: &[Verdict], generation: i64, now: Timestamp) -> Vec<Condition> {
    verdicts
        .iter()
        .map(|v| {
            let status = match v.status {
                Some(true) => "True",
                Some(false) => "False",
                None => "Unknown",
            };
            let since = old
                .iter()
                .find(|c| c.type_ == v.type_.as_str() && c.status == status)
                .map_or(Time(now), |c| c.last_transition_time.clone());
            Condition {
                type_: v.type_.as_str().into(),
                status: status.into(),
                reason: v.reason.as_str().into(),
                // Whatever it quotes.
                message: shortened(&printable(&v.message), LONGEST),
                observed_generation: Some(generation),
                last_transition_time: since,
            }
        })
        .collect()
}

/// The longest message, in bytes.
const LONGEST: usize = 2000;

/// At most so many bytes, and what was cut out is said. Its end stays: there a container's output has its error.
pub fn shortened(message: &str, longest: usize) -> String {
    if message.len() <= longest {
        return message.to_owned();
    }
    // The longest note there is.
    let room = longest.saturating_sub(cut_out(message.len()).len());
    let head = message.floor_char_boundary(room / 4);
    let tail = message.ceil_char_boundary(message.len() - room * 3 / 4);
    format!("{}{}{}", &message[..head], cut_out(tail - head), &message[tail..])
}

fn cut_out(bytes: usize) -> String {
    format!(" [… {bytes} bytes cut …] ")
}

/// The condition of that type, if published.
pub fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == type_.as_str())
}

/// True if the condition is published as `True`.
pub fn is_true(conditions: &[Condition], type_: ConditionType) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

/// What a `Cluster` is not `Ready` for while nothing is left to do for the operator: what runs is what was asked for.
const SETTLED: [Reason; 7] = [
    Reason::NotInTemplates,
    Reason::NoIPAddress,
    Reason::OtherAddressFamily,
    Reason::AddonsNotReady,
    Reason::AppsNotReady,
    Reason::NoGatewayAPI,
    Reason::RouteNotAccepted,
];

/// True if a `Cluster` whose `Ready` that is needs nothing of the operator. It may be `False` for what only a change of the spec mends.
pub fn is_settled(ready: &Condition) -> bool {
    ready.status == "True" || SETTLED.iter().any(|reason| ready.reason == reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let t0: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let t1: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let v = |s, m: &str| Verdict::new(ConditionType::Ready, s, Reason::Waiting, m);
        let a = merge(&[], &[v(Some(false), "a")], 1, t0);
        let b = merge(&a, &[v(Some(false), "b")], 2, t1);
        assert_eq!((b[0].last_transition_time.0, b[0].message.as_str()), (t0, "b"));
        let c = merge(&b, &[v(Some(true), "b")], 2, t1);
        assert_eq!(c[0].last_transition_time.0, t1);
    }

    #[test]
    fn what_is_cut_keeps_its_end() {
        assert_eq!(shortened(&"x".repeat(2000), LONGEST), "x".repeat(2000));
        let whole = format!("pod a: {} Error: unknown flag: --nope", "é".repeat(2000));
        for longest in [80, 1000, LONGEST] {
            let short = shortened(&whole, longest);
            assert!(short.len() <= longest, "{}", short.len());
            assert!(short.starts_with("pod a: é") && short.ends_with("Error: unknown flag: --nope"), "{short}");
            let (head, rest) = short.split_once(" [… ").unwrap();
            let (bytes, tail) = rest.split_once(" bytes cut …] ").unwrap();
            assert_eq!(head.len() + bytes.parse::<usize>().unwrap() + tail.len(), whole.len(), "{short}");
        }
    }

    #[test]
    fn every_value_says_what_it_means_in_sentences() {
        let texts = Reason::ALL.iter().flat_map(|r| [r.meaning(), r.what_to_do()]);
        for text in texts.chain(ConditionType::ALL.iter().map(|t| t.meaning())) {
            assert!(text.is_empty() || text.ends_with(['.', '?']), "{text}");
            assert!(!text.contains(['|', '\n']), "{text}");
        }
        assert_eq!("DataLost".parse(), Ok(Reason::DataLost));
        assert_eq!("Nonsense".parse::<Reason>(), Err(UnknownValue));
    }
}
