//! `etcd` and its verbs.

use super::values::Format;
use berth_api::backup::BackupRef;
use berth_api::restore::BackupOf;
use clap::Subcommand;
use jiff::SignedDuration;

/// `etcd`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Etcd {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What about it.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show how an etcd is: its members, sizes, what Berth does to it, and its newest proven backup.
    ///
    /// Exit code 0: ready; 3: not ready.
    Status(Show),
    /// Show its members, with the sizes of their databases.
    Members(Show),
    /// Take a backup of it, which is proven by restoring it.
    ///
    /// Creates an EtcdBackup. Exit code 3, with --wait: it failed, or did not end in time.
    Backup(Backup),
    /// Put a backup back into it. What was written since is lost, and the API does not answer meanwhile.
    ///
    /// Creates an EtcdRestore, after asking for the name. If etcd answers, a backup of what it has is taken first. Exit code 3, with --wait:
    /// it failed, or did not end in time.
    Restore(Restore),
    /// Have each member defragmented, one after the other, the leader last.
    ///
    /// Sets an annotation, after asking for the name. A member answers nothing meanwhile: with a single member the API is away for that long.
    /// Exit code 3, with --wait: it is not done in time.
    Defrag(Defrag),
}

/// Which etcd.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Of {
    /// Name of the Cluster; with --stand-alone, of the EtcdCluster.
    pub(crate) name: String,
    /// It is an EtcdCluster in this namespace that belongs to no Cluster.
    #[arg(long)]
    pub(crate) stand_alone: bool,
}

/// `status` and `members`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) of: Of,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Whether to wait.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Wait {
    /// Wait until it is done.
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait, such as 30m.
    #[arg(long, default_value = "30m", value_name = "DURATION", value_parser = super::values::timeout, requires = "wait")]
    pub(crate) timeout: SignedDuration,
}

/// `backup`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    pub(crate) of: Of,
    #[command(flatten)]
    pub(crate) at: At,
    /// Of what this member holds, whether or not it has a quorum. Can be given several times: then each has to answer, and it is of the
    /// furthest. Default: of what etcd serves.
    #[arg(long = "member", value_name = "MEMBER")]
    pub(crate) members: Vec<String>,
    /// Name of the EtcdBackup. Default: the name of the Cluster, and the time.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) called: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// Where a backup is kept.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct At {
    /// Where to: a store of the platform (chart value backups.stores).
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// Where to: a store of your own, which this Secret of type berth.dev/object-store in this namespace describes.
    #[arg(long, value_name = "NAME")]
    pub(crate) secret: Option<String>,
    /// Where to: a volume. A PersistentVolumeClaim in this namespace with the label berth.dev/backup-store=true; only with --stand-alone.
    #[arg(long, value_name = "NAME", requires = "stand_alone")]
    pub(crate) claim: Option<String>,
}

/// `restore`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    pub(crate) of: Of,
    #[command(flatten)]
    pub(crate) source: Source,
    /// With --key: the store of the platform that it is in.
    #[arg(long, value_name = "STORE", conflicts_with_all = ["secret", "claim", "backup", "latest", "latest_before", "survivors"])]
    pub(crate) store: Option<String>,
    /// With --key: the Secret of type berth.dev/object-store of the store of your own that it is in. With --survivors: of the one that the
    /// backup of them goes to.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["claim", "backup", "latest", "latest_before"])]
    pub(crate) secret: Option<String>,
    /// With --key: the PersistentVolumeClaim of the volume that it is on. With --survivors: of the one that the backup of them goes to.
    #[arg(long, value_name = "NAME", requires = "stand_alone", conflicts_with_all = ["backup", "latest", "latest_before"])]
    pub(crate) claim: Option<String>,
    /// With --survivors: a member that is not waited for. What only it holds is lost. Can be given several times.
    #[arg(long = "without", value_name = "MEMBER", conflicts_with_all = ["backup", "latest", "latest_before", "key"])]
    pub(crate) without: Vec<String>,
    /// etcd's cluster ID, to confirm that what its members hold may be lost, where it does not answer and their data is not lost: --yes does
    /// not confirm that.
    #[arg(long, value_name = "CLUSTER-ID")]
    pub(crate) confirm: Option<String>,
    /// The backup is one of another etcd: of the Cluster NAME, or of the EtcdCluster with etcdcluster/NAME. Only with --stand-alone: it goes
    /// into an EtcdCluster that nothing uses.
    #[arg(long = "of", value_name = "NAME", requires = "stand_alone", conflicts_with = "survivors", value_parser = parse_other)]
    pub(crate) of_other: Option<Other>,
    /// Name of the EtcdRestore. Default: the name of the Cluster, and the time.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) called: Option<String>,
    /// Take no backup of what etcd has, such as where it can give none.
    #[arg(long)]
    pub(crate) no_backup_first: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// What is restored.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// A verified EtcdBackup of it.
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,
    /// The newest verified EtcdBackup of its data that is not damaged.
    #[arg(long)]
    pub(crate) latest: bool,
    /// The newest one whose snapshot was certainly taken until then, such as 2026-01-05T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) latest_before: Option<jiff::Timestamp>,
    /// What the members hold that are left without a quorum; a backup of it is kept in this store of the platform, or where --secret or
    /// --claim says.
    #[arg(long, value_name = "STORE", num_args = 0..=1, default_missing_value = "")]
    pub(crate) survivors: Option<String>,
    /// A snapshot by its key in a store, also if its EtcdBackup is gone; --store, --secret or --claim says which store.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

impl Of {
    /// As a backup names it.
    pub(crate) fn as_other(&self) -> Other {
        Other { field: if self.stand_alone { "etcdClusterRef" } else { "clusterRef" }, name: self.name.clone() }
    }
}

/// Whose backup it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    /// `clusterRef` or `etcdClusterRef`.
    pub(crate) field: &'static str,
    /// Its name.
    pub(crate) name: String,
}

impl Other {
    /// As restores name it.
    pub(crate) fn as_backup_of(&self) -> BackupOf {
        let named = |field: &str| (self.field == field).then(|| BackupRef { name: self.name.clone() });
        BackupOf { cluster_ref: named("clusterRef"), etcd_cluster_ref: named("etcdClusterRef") }
    }
}

impl std::fmt::Display for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.field == "clusterRef" { "Cluster" } else { "EtcdCluster" };
        write!(f, "{kind} {}", self.name)
    }
}

fn parse_other(text: &str) -> Result<Other, String> {
    let (field, name) = match text.split_once('/') {
        None => ("clusterRef", text),
        Some(("cluster", name)) => ("clusterRef", name),
        Some(("etcdcluster", name)) => ("etcdClusterRef", name),
        Some(_) => return Err("not the name of a Cluster, cluster/NAME or etcdcluster/NAME".into()),
    };
    if name.is_empty() || name.contains('/') {
        return Err("it has no name".into());
    }
    Ok(Other { field, name: name.to_owned() })
}

/// `defrag`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Defrag {
    #[command(flatten)]
    pub(crate) of: Of,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
}
