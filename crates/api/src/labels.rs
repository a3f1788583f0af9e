//! Labels, annotations, finalizers and field managers: the strings by which Berth recognises what is its own.

/// On every object that Berth makes; value [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_VALUE: &str = "berth";
/// Component name, such as `kube-apiserver`.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// On the pods of a workload: the version that they run.
pub const VERSION: &str = "app.kubernetes.io/version";
/// Name of the `Cluster` that an object belongs to.
pub const CLUSTER_NAME: &str = "berth.dev/cluster-name";
/// Namespace of the `Cluster` that an object belongs to.
pub const CLUSTER_NAMESPACE: &str = "berth.dev/cluster-namespace";
/// UID of the `Cluster` that an object belongs to.
pub const CLUSTER_UID: &str = "berth.dev/cluster-uid";
/// Name of the `EtcdCluster` that an object belongs to.
pub const ETCD_CLUSTER: &str = "berth.dev/etcd-cluster";
/// Name of the `EtcdBackup` that an object belongs to.
pub const ETCD_BACKUP: &str = "berth.dev/etcd-backup";
/// Name of the `EtcdBackupSchedule` that an `EtcdBackup` belongs to.
pub const ETCD_BACKUP_SCHEDULE: &str = "berth.dev/etcd-backup-schedule";
/// On a PersistentVolumeClaim: `true` is its owner's consent that Berth keeps backups on it.
pub const BACKUP_STORE: &str = "berth.dev/backup-store";
/// Name of the `EtcdRestore` that an object belongs to.
pub const ETCD_RESTORE: &str = "berth.dev/etcd-restore";
/// Namespace of the `EtcdRestore` that an object belongs to.
pub const ETCD_RESTORE_NAMESPACE: &str = "berth.dev/etcd-restore-namespace";
/// UID of the `EtcdRestore` that an `EtcdBackup` is taken for.
pub const ETCD_RESTORE_UID: &str = "berth.dev/etcd-restore-uid";
/// On an `EtcdRestore` that Berth created by itself: UID of the etcd's data.
pub const RECOVERY: &str = "berth.dev/recovery";
/// On the Service of a tenant's API: `true` while there is, or is to be, a TLSRoute beside it.
pub const TLS_ROUTE: &str = "berth.dev/tls-route";
/// Kubernetes' label of a Job's pods.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Namespace of the `EtcdBackup` that an object belongs to.
pub const ETCD_BACKUP_NAMESPACE: &str = "berth.dev/etcd-backup-namespace";
/// On a Job that takes a backup: whose time it takes, if that is a team's, [`BACKUP_POOL_TEAMS`].
pub const BACKUP_POOL: &str = "berth.dev/backup-pool";
/// Value of [`BACKUP_POOL`].
pub const BACKUP_POOL_TEAMS: &str = "teams";
/// On a Job: UID of the `EtcdBackup` that it is made for.
pub const ETCD_BACKUP_UID: &str = "berth.dev/etcd-backup-uid";
/// Cluster API's label: which cluster a kubeconfig Secret belongs to.
pub const CAPI_CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Cluster API's Secret type.
pub const CAPI_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Digest of the rendered object, to see at a glance that nothing is to be applied.
pub const APPLIED_DIGEST: &str = "berth.dev/applied-digest";
/// On the control-plane namespace: digest of the template set that the tenant is pinned to.
pub const TEMPLATES: &str = "berth.dev/templates";
/// On the control-plane namespace: the agent image that the tenant is pinned to.
pub const AGENT_IMAGE: &str = "berth.dev/agent-image";
/// On a Deployment or `StatefulSet`: the registry that the spec asked for when it was rendered. None: it was the operator's.
pub const IMAGE_REGISTRY: &str = "berth.dev/image-registry";
/// On the control-plane namespace: how the agent gets into the tenant's pods.
pub const AGENT_DELIVERY: &str = "berth.dev/agent-delivery";
/// On the control-plane namespace: what the chart's `helpers.resources` was when the tenant took its version, as JSON. None: it was not set.
pub const HELPER_RESOURCES: &str = "berth.dev/helper-resources";
/// On the control-plane namespace: what the chart's `tenants.proxy` was when the tenant took its version, as JSON. None: it was not set.
pub const PROXY: &str = "berth.dev/proxy";
/// On the control-plane namespace: what API servers reach without a proxy beside what is the tenant's own, as the operator had it when the tenant
/// took its version, as a JSON list. None: what the first operator with a proxy had.
pub const NO_PROXY: &str = "berth.dev/no-proxy";
/// On the control-plane namespace: issuers of all tenants (the chart's `authentication.jwt`) as they were when the tenant took its version, as a JSON
/// list. None: there were none.
pub const JWT: &str = "berth.dev/jwt";
/// On the control-plane namespace: requests with which pods of components begin, as the tenant's version was taken, as JSON by component. None: those
/// of `resources`.
pub const SIZES: &str = "berth.dev/sizes";
/// On a workload whose pods begin with other requests than those of `resources`: these, as JSON.
pub const REQUESTS: &str = "berth.dev/requests";
/// On the `StatefulSet` of an etcd: resources and placement that its members had before a change of them that is not through, as JSON.
pub const RAN_WITH: &str = "berth.dev/ran-with";
/// On the control-plane namespace: the Kubernetes version the tenant's manifests were last rendered for.
pub const KUBERNETES_VERSION: &str = "berth.dev/kubernetes-version";
/// On the control-plane namespace: the change of the minor that is under way, as JSON. Until its second step begins, the annotations
/// beside it name what ran before, and what an earlier build of the operator goes back to.
pub const UPGRADE: &str = "berth.dev/upgrade";
/// On the control-plane namespace: the highest Kubernetes minor that was ever served there without emulation, written before it is. It is
/// never lowered: what that minor may have written, an older one cannot read.
pub const SERVED_MINOR: &str = "berth.dev/served-minor";
/// On the control-plane namespace: `spec.network` that the tenant was made with, as JSON.
pub const NETWORK: &str = "berth.dev/network";
/// On the control-plane namespace: `Closed` if the tenant's API servers never could reach private networks that nobody opened. Without it
/// the tenant is of a build that did not close them.
pub const PRIVATE_NETWORKS: &str = "berth.dev/private-networks";
/// Likewise of networks for special purposes, such as 240.0.0.0/4, which some sites use as private ones.
pub const SPECIAL_NETWORKS: &str = "berth.dev/special-networks";
/// Value of [`PRIVATE_NETWORKS`] and [`SPECIAL_NETWORKS`].
pub const NETWORKS_CLOSED: &str = "Closed";
/// On a Secret in a control-plane namespace: it is Berth's copy of the platform's pull Secret of this name, which is also its own.
pub const PULL_SECRET: &str = "berth.dev/pull-secret";
/// On the control-plane namespace: names of pull Secrets that Berth has put, or is about to put, into the ServiceAccount `default`, with
/// spaces between them.
pub const PULL_SECRETS: &str = "berth.dev/pull-secrets";
/// On a Secret in a control-plane namespace: it is Berth's copy of the kubeconfig in the audit webhook's Secret of this name, which is in the
/// namespace of the `Cluster`.
pub const AUDIT_WEBHOOK: &str = "berth.dev/audit-webhook";
/// On the control-plane namespace: UID of the namespace that the tenant's `Cluster` is in. One of the same name may be another team's.
pub const TEAM_UID: &str = "berth.dev/cluster-namespace-uid";
/// On the control-plane namespace: UID of a namespace whose `Cluster` may take it over, though it was made for another one. Set by the
/// platform team; Berth never sets it.
pub const ALLOW_ADOPTION: &str = "berth.dev/allow-adoption";
/// On a `Cluster`: takes over a control-plane namespace whose recorded UID is the value.
pub const ADOPT: &str = "berth.dev/adopt";
/// On a `Cluster`: asks once more for a release that Berth took back. The value is the `Cluster`'s `metadata.generation`; to ask another
/// time, with a suffix, such as `7-2`.
pub const ROLL: &str = "berth.dev/roll";
/// On a `Cluster`: its release goes on although a webhook of the tenant's own is in the way. The value is the `Cluster`'s `metadata.generation`.
/// Only who may update `Cluster`s of all namespaces can set it.
pub const DESPITE_WEBHOOK: &str = "berth.dev/despite-webhook";
/// Name of the `App` that an `AppInstallation` belongs to.
pub const APP: &str = "berth.dev/app";
/// On a ConfigMap: `true` is its owner's consent that Berth reads it for values of an `App`.
pub const APP_VALUES: &str = "berth.dev/app-values";
/// Namespace of the `App` that an `AppInstallation` belongs to.
pub const APP_NAMESPACE: &str = "berth.dev/app-namespace";
/// Name of the `AppInstallation` that a Job is made for.
pub const APP_INSTALLATION: &str = "berth.dev/app-installation";
/// Namespace of the `AppInstallation` that a Job is made for.
pub const APP_INSTALLATION_NAMESPACE: &str = "berth.dev/app-installation-namespace";
/// On a Job: UID of the `AppInstallation` that it is made for.
pub const APP_INSTALLATION_UID: &str = "berth.dev/app-installation-uid";
/// On a Job: digest of what it is asked for, shortened.
pub const APP_ASKED: &str = "berth.dev/app-asked";
/// On a Job that looks for drift, in place of [`APP_INSTALLATION_UID`]: an older Berth, which knows no such Job, deletes it.
pub const APP_CHECK_UID: &str = "berth.dev/app-check-uid";
/// On an `App`: asks for a look for drift in all its `Cluster`s. The value is any new text.
pub const CHECK: &str = "berth.dev/check";
/// On an `App`: confirms that `Cluster`s which it selects no more lose it. The value is their number and a digest of which they are, as the App's `Ready` has it.
pub const CONFIRM_REMOVAL: &str = "berth.dev/confirm-removal";
/// On the Secret in a control-plane namespace with Argo CD's kubeconfig: the namespace of the Argo CD in which the tenant is, or is about to be,
/// registered.
pub const ARGOCD_NAMESPACE: &str = "berth.dev/argocd-namespace";
/// Annotation of the Secret that makes a tenant known to Argo CD: keys of its labels that the `Cluster` asks for, separated by commas.
pub const ARGOCD_LABELS: &str = "berth.dev/argocd-labels";
/// Argo CD's label of Secrets that it reads.
pub const ARGOCD_SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";
/// Value of [`ARGOCD_SECRET_TYPE`]: a cluster.
pub const ARGOCD_CLUSTER: &str = "cluster";
/// Label of a `Cluster`: when its changes of the version come, 0 to 9; lower ones first. Default 5.
pub const WAVE: &str = "berth.dev/wave";
/// On the control-plane namespace: the version towards which the tenant has the turn. Set before anything changes, and taken away when that
/// is through.
pub const TURN: &str = "berth.dev/turn";
/// kubectl's annotation on a `Cluster`: why it was changed, in somebody's words.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// On an etcd's StatefulSet and bootstrap ConfigMap: what the members run with and what their data is bound to, as JSON.
pub const ETCD_RECORD: &str = "berth.dev/etcd-record";
/// On a Deployment or `StatefulSet` from which Berth takes away what others add to its spec: who added something and when, as JSON. Without
/// it the pods are of a build that left additions.
pub const ADDITIONS: &str = "berth.dev/additions";
/// On a Service that was deleted and could not get its address back: the address that it had.
pub const FORMER_ADDRESS: &str = "berth.dev/former-address";
/// On a `Cluster`, or an `EtcdCluster` that belongs to none: has every member of its etcd defragmented, once for each value.
pub const DEFRAG: &str = "berth.dev/defrag";
/// On a `Cluster`: that it is to sleep or to wake, and since when: `sleep@2026-11-29T20:00:00Z`. `kubectl berth sleep` and `wake` set it.
pub const HIBERNATE: &str = "berth.dev/hibernate";
/// On a control-plane namespace: whether the tenant sleeps, as JSON.
pub const SLEEP: &str = "berth.dev/sleep";
/// On an `EtcdBackup` that is taken before a tenant sleeps: its `Cluster`.
pub const SLEEP_BACKUP: &str = "berth.dev/sleep-backup-of";
/// On a tenant's `EtcdCluster`: the version that its `Cluster`'s templates named when they were looked at last.
pub const ETCD_DEFAULT: &str = "berth.dev/etcd-default";
/// On an `EtcdCluster`: the `EtcdRestore` that is under way, as JSON.
pub const RESTORE_REQUEST: &str = "berth.dev/etcd-restore";
/// Label of a member's Service: the member.
pub const ETCD_MEMBER: &str = "berth.dev/etcd-member";
/// On the Secret of an etcd client: the client's name in `spec.clients`.
pub const ETCD_CLIENT: &str = "berth.dev/etcd-client";

/// On a control-plane namespace, or on what cannot be made again in it: the chart's admission policies let anybody delete it whose value
/// is `true`. Berth never sets it.
pub const ALLOW_DELETION: &str = "berth.dev/allow-deletion";
/// On a team's namespace: the chart's admission policies let nobody delete it, unless the value is `false`. Berth never sets it.
pub const PROTECTED: &str = "berth.dev/protected";

/// On a NetworkAttachmentDefinition: the namespaces, separated by commas, whose `Cluster`s may use it for `spec.vpc`. Berth never sets it.
pub const ALLOW_FROM: &str = "berth.dev/allow-from";

/// The label of a namespace that says what Pod Security refuses there.
pub const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
/// On the control-plane namespace of a tenant with `spec.vpc`: its pods may have the container `vpc`, and an admission policy holds them in
/// place of Pod Security. Set when the namespace is made; the operator does not change it afterwards.
pub const VPC: &str = "berth.dev/vpc";
/// On a control-plane namespace with the label [`VPC`]: images that the container `vpc` may have there beside the platform's, separated by
/// commas. They are of a registry of `spec.images`, which counted for that container in builds before, and of pods that ran then. None is
/// ever added. Without it the namespace is of such a build, and Berth has not looked at its pods yet.
pub const VPC_IMAGES: &str = "berth.dev/vpc-images";
/// Value of [`VPC_IMAGES`] where there are none.
pub const VPC_IMAGES_PLATFORM: &str = "Platform";
/// On each workload of API servers with addresses in a VPC, and on its pods: the place of its address in `spec.vpc.addresses`.
pub const SLOT: &str = "berth.dev/slot";

/// On a control-plane namespace: whether add-ons are on where the spec does not say, and the registry of their images, as JSON. A tenant
/// of a build without add-ons has none.
pub const ADDONS: &str = "berth.dev/addons";

/// On pods of kube-controller-manager, by their template: `berth-approve` beside it decides client certificates of kubelets, and the
/// tenant's kube-controller-manager may approve none of machines that join.
pub const CLIENT_CERTIFICATES: &str = "berth.dev/client-certificates";

/// Inside a tenant: the set that an object of Berth's belongs to, such as `join`.
pub const TENANT_SET: &str = "berth.dev/tenant-set";

/// On a ClusterRole of the meta cluster, with the value `true`: a `ClusterAccess` may give its rules in tenants. Berth never sets it.
pub const ROLE: &str = "berth.dev/role";

/// Inside a tenant, on a binding: the `ClusterAccess` that gave it, as `<namespace>/<name>`.
pub const CLUSTER_ACCESS: &str = "berth.dev/cluster-access";

/// Holds a `Cluster` or `EtcdCluster` until what it owns is gone.
pub const FINALIZER: &str = "berth.dev/control-plane";

/// Field manager of server-side apply for a `Cluster`'s children.
pub const MANAGER_CLUSTER: &str = "berth-cluster";
/// Field manager of what is made for an `App`.
pub const MANAGER_APP: &str = "berth-app";
/// Field manager of what is made for an `AppInstallation`.
pub const MANAGER_APP_INSTALLATION: &str = "berth-app-installation";
/// Field manager of turns.
pub const MANAGER_FLEET: &str = "berth-fleet";
/// Field manager of what is made for an `EtcdBackup`.
pub const MANAGER_BACKUP: &str = "berth-etcd-backup";
/// Field manager of what is made for an `EtcdRestore`, and of what it asks of an `EtcdCluster`.
pub const MANAGER_RESTORE: &str = "berth-etcd-restore";
/// Field manager of server-side apply for an `EtcdCluster`'s children.
pub const MANAGER_ETCD: &str = "berth-etcd-cluster";
/// Field manager of what a `ClusterAccess` gives in a tenant, and of its record.
pub const MANAGER_USERS: &str = "berth-users";
