//! Names of what Berth makes. The control-plane namespace holds one tenant, so names inside it need no prefix,
//! except for those that Cluster API fixes (`<cluster>-ca`, `-proxy`, `-sa`, `-kubeconfig`).

use sha2::{Digest, Sha256};

/// `<name>-<8 hex of SHA-256 of namespace/name>`: where the tenant's control plane runs.
pub fn control_plane_namespace(namespace: &str, name: &str) -> String {
    let hash = Sha256::digest(format!("{namespace}/{name}").as_bytes());
    let first = hash.iter().take(4).fold(0u32, |n, b| n << 8 | u32::from(*b));
    let cut: String = name.chars().take(63 - 9).collect();
    format!("{}-{first:08x}", cut.trim_end_matches('-'))
}

/// Whether a namespace is named as that of the control plane of some `Cluster` in `of`. Names of `Cluster`s are so short that none is cut.
pub fn is_control_plane_namespace(namespace: &str, of: &str) -> bool {
    namespace.rsplit_once('-').is_some_and(|(name, _)| control_plane_namespace(of, name) == namespace)
}

/// Cluster CA Secret, in Cluster API's shape.
pub fn ca(cluster: &str) -> String {
    format!("{cluster}-ca")
}
/// Front-proxy CA Secret.
pub fn proxy_ca(cluster: &str) -> String {
    format!("{cluster}-proxy")
}
/// Service-account key pair Secret.
pub fn service_account(cluster: &str) -> String {
    format!("{cluster}-sa")
}
/// Kubeconfig Secret in the `Cluster`'s namespace.
pub fn kubeconfig(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Secret with the apiserver's serving and client certificates.
pub const APISERVER_PKI: &str = "kube-apiserver-pki";
/// Secret with the `EncryptionConfiguration`.
pub const APISERVER_ENCRYPTION: &str = "kube-apiserver-encryption";
/// Secret with the controller-manager's certificates.
pub const CONTROLLER_MANAGER_PKI: &str = "kube-controller-manager-pki";
/// Container beside kube-controller-manager that decides kubelets' certificates, and its program.
pub const APPROVER: &str = "berth-approve";
/// Secret with its client certificate.
pub const APPROVER_PKI: &str = "berth-approve-pki";
/// Secret with the scheduler's certificates.
pub const SCHEDULER_PKI: &str = "kube-scheduler-pki";
/// Secret with the tenant admins' kubeconfig, the source of the one in the `Cluster`'s namespace.
pub const ADMIN_KUBECONFIG: &str = "admin-kubeconfig";
/// Secret with the break-glass kubeconfig (`system:masters`), for the platform team only.
pub const BREAK_GLASS_KUBECONFIG: &str = "break-glass-kubeconfig";
/// Deployment, Service and label value of the API server.
pub const APISERVER: &str = "kube-apiserver";
/// The n-th workload of a component that has a workload for each of its addresses.
pub fn slot(component: &str, n: usize) -> String {
    format!("{component}-{n}")
}
/// Deployment and label value of the controller-manager.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// Deployment and label value of the scheduler.
pub const SCHEDULER: &str = "kube-scheduler";
/// The `EtcdCluster` of a tenant.
pub const ETCD: &str = "etcd";
/// Label value of pods that take backups, and the NetworkPolicy of these.
pub const ETCD_BACKUP: &str = "etcd-backup";
/// Name of the client of etcd that takes backups, in `spec.clients`.
pub const BACKUP_CLIENT: &str = "backup";
/// The Job that takes a backup, and the Secret with the store's credentials beside it.
pub fn backup(backup: &str) -> String {
    format!("backup-{backup}")
}
/// The `EtcdBackupSchedule` that the platform gives a `Cluster`. Names of schedules have 27 characters at most.
pub fn default_schedule(cluster: &str) -> String {
    if cluster.len() <= 19 {
        return format!("default-{cluster}");
    }
    let cut: String = cluster.chars().take(10).collect();
    let hash = Sha256::digest(cluster.as_bytes());
    let first = hash.iter().take(4).fold(0u32, |n, b| n << 8 | u32::from(*b));
    format!("default-{cut}-{first:08x}")
}
/// The `EtcdBackup` that is taken before a `Cluster` sleeps. `at`: 14 digits. Names have 40 characters at most.
pub fn sleep_backup(cluster: &str, at: &str) -> String {
    if cluster.len() <= 18 {
        return format!("asleep-{cluster}-{at}");
    }
    let cut: String = cluster.chars().take(9).collect();
    let hash = Sha256::digest(cluster.as_bytes());
    let first = hash.iter().take(4).fold(0u32, |n, b| n << 8 | u32::from(*b));
    format!("asleep-{cut}-{first:08x}-{at}")
}
/// The Job that deletes a backup in the store, and its Secret.
pub fn backup_deletion(backup: &str) -> String {
    format!("backup-{backup}-delete")
}
/// The Job that finds out whether a backup can be restored, and its Secret.
pub fn restore_check(restore: &str) -> String {
    format!("restore-{restore}-check")
}
/// The `EtcdBackup` that is taken before etcd is restored. Names have 40 characters at most.
pub fn restore_backup(restore: &str) -> String {
    let cut: String = restore.chars().take(33).collect();
    format!("before-{}", cut.trim_end_matches('-'))
}
/// The `EtcdBackup` of members that are left without a quorum. Names have 40 characters at most.
pub fn restore_survivors(restore: &str) -> String {
    let cut: String = restore.chars().take(30).collect();
    format!("survivors-{}", cut.trim_end_matches('-'))
}
/// The `EtcdRestore` that Berth creates by itself: `of` is the `Cluster` or `EtcdCluster`, `token` tells it from others of that name. So short
/// that its [`restore_survivors`] is not cut.
pub fn recovery(of: &str, token: &str, epoch: i64, source: &str) -> String {
    let (of, token): (String, String) = (of.chars().take(8).collect(), token.chars().take(6).collect());
    format!("recover-{}-{token}-{epoch}-{source}", of.trim_end_matches('-'))
}
/// The Job that puts a backup onto a member's volume, and its Secret.
pub fn restore(restore: &str) -> String {
    format!("restore-{restore}")
}
/// Label value of pods that install apps in the tenant, and the NetworkPolicy of these.
pub const APPS: &str = "apps";
/// User inside a tenant by which apps are installed, while it has any.
pub const APPS_USER: &str = "berth:apps";
/// User inside a tenant that the platform's Argo CD is, while the tenant is registered there.
pub const ARGOCD_USER: &str = "berth:argocd";
/// Secret in a control-plane namespace with the kubeconfig of [`ARGOCD_USER`]: what is registered is made from it, and it records that.
pub const ARGOCD_KUBECONFIG: &str = "argocd-kubeconfig";
/// The Secret in Argo CD's namespace that makes a `Cluster` known to it.
pub fn argocd_cluster(namespace: &str, cluster: &str) -> String {
    format!("berth-{}", control_plane_namespace(namespace, cluster))
}
/// The `AppInstallation` of an `App` in a `Cluster`.
pub fn app_installation(app_namespace: &str, app: &str, cluster: &str) -> String {
    let hash = Sha256::digest(format!("{app_namespace}/{app}/{cluster}").as_bytes());
    // So many that nobody finds two Apps of one name.
    let first = hash.iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b));
    let cut: String = format!("{cluster}-{app}").chars().take(42).collect();
    format!("{}-{first:016x}", cut.trim_end_matches('-'))
}
/// The Job that works for an `AppInstallation`, and its Secret.
pub fn app_job(installation: &str) -> String {
    format!("app-{installation}")
}
/// RoleBinding that lets the operator read Secrets in one control-plane namespace.
pub const OPERATOR_ROLE_BINDING: &str = "berth-operator";
/// The ServiceAccount of pods that name none; Kubernetes makes it in each namespace.
pub const DEFAULT_SERVICE_ACCOUNT: &str = "default";
/// ClusterRole that [`OPERATOR_ROLE_BINDING`] refers to.
pub const OPERATOR_NAMESPACE_ROLE: &str = "berth-control-plane-namespace";
/// ConfigMap with the template set that a tenant is pinned to.
pub fn templates(digest: &str) -> String {
    format!("templates-{}", digest.get(..12).unwrap_or(digest))
}

/// Secret with the kubeconfig of an audit webhook, by a digest that goes with what it holds.
pub fn audit_webhook(digest: &str) -> String {
    format!("kube-apiserver-audit-{}", digest.get(..12).unwrap_or(digest))
}

/// The `ClusterRevision` of that number.
pub fn revision(number: i64) -> String {
    format!("revision-{number}")
}

/// ConfigMap in a control-plane namespace with what `ClusterAccess`es gave in the tenant.
pub const USERS_RECORD: &str = "berth-users";

/// Group of the tenant's admins, bound to `cluster-admin` inside the tenant.
pub const ADMIN_GROUP: &str = "berth:cluster-admins";
/// User and group of the operator's own short-lived credential inside a tenant.
pub const OPERATOR_USER: &str = "berth:operator";

/// User of [`APPROVER`] inside a tenant: it may decide certificates of kubelets, and read nodes.
pub const APPROVER_USER: &str = "berth:approver";

/// Names of an `EtcdCluster`'s children.
pub mod etcd {
    /// A member: pod, and the Service that gives it a stable address.
    pub fn member(e: &str, ordinal: i32) -> String {
        format!("{e}-{ordinal}")
    }
    /// The ordinal of a member. None: it is none of this etcd's.
    pub fn ordinal(e: &str, member: &str) -> Option<i32> {
        member.strip_prefix(e)?.strip_prefix('-')?.parse().ok().filter(|ordinal| *ordinal >= 0)
    }
    /// Claim of a member's volume.
    pub fn claim(e: &str, ordinal: i32) -> String {
        format!("data-{e}-{ordinal}")
    }
    /// Peer CA Secret.
    pub fn peer_ca(e: &str) -> String {
        format!("{e}-peer-ca")
    }
    /// Client CA Secret.
    pub fn client_ca(e: &str) -> String {
        format!("{e}-client-ca")
    }
    /// Serving certificate of the members' client port.
    pub fn server(e: &str) -> String {
        format!("{e}-server")
    }
    /// Certificate for peers.
    pub fn peer(e: &str) -> String {
        format!("{e}-peer")
    }
    /// Client certificate of one of `spec.clients`.
    pub fn client(e: &str, client: &str) -> String {
        format!("{e}-client-{client}")
    }
    /// ConfigMap with the template set that the members are pinned to. It has the cluster's name, since a namespace may
    /// hold several.
    pub fn templates(e: &str, digest: &str) -> String {
        format!("{e}-{}", super::templates(digest))
    }
    /// ConfigMap that tells the members' guard whether the cluster was ever formed.
    pub fn bootstrap(e: &str) -> String {
        format!("{e}-bootstrap")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_plane_namespaces_are_distinct_and_valid() {
        let a = control_plane_namespace("team-a", "acme");
        assert!(a.starts_with("acme-") && a.len() == 13, "{a}");
        assert_ne!(a, control_plane_namespace("team-b", "acme"));
        // "a/b-c" and "a-b/c" must not collide.
        assert_ne!(control_plane_namespace("a", "b-c"), control_plane_namespace("a-b", "c"));
        let long = app_job(&app_installation("berth-system", &"a".repeat(40), &"x".repeat(40)));
        assert_eq!(long.len(), 63);
        assert_ne!(app_installation("a", "b", "c"), app_installation("d", "b", "c"));
        let long = control_plane_namespace("t", &"x".repeat(40));
        assert!(long.len() <= 63);
        assert!(is_control_plane_namespace(&long, "t") && !is_control_plane_namespace(&long, "u"));
        assert!(!is_control_plane_namespace("t", "t"));
    }
}
