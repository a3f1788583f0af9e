//! `etcd` and its verbs.

use crate::args::Format;
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
    /// A member answers nothing meanwhile: with a single member the API is away for that long. Exit code 3, with --wait: it is not done in
    /// time.
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
    #[arg(long, default_value = "30m", value_name = "DURATION", value_parser = crate::upgrade::timeout, requires = "wait")]
    pub(crate) timeout: SignedDuration,
}

/// `backup`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    pub(crate) of: Of,
    /// Where to: a store of the platform (chart value backups.stores).
    #[arg(long, value_name = "STORE")]
    pub(crate) store: String,
    /// Name of the EtcdBackup. Default: the name of the Cluster, and the time.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) called: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `restore`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    pub(crate) of: Of,
    #[command(flatten)]
    pub(crate) source: Source,
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
    /// The newest verified EtcdBackup of it.
    #[arg(long)]
    pub(crate) latest: bool,
    /// The newest one whose snapshot was taken until then, such as 2026-01-05T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) latest_before: Option<jiff::Timestamp>,
    /// What the members hold that are left without a quorum; a backup of it is kept in this store.
    #[arg(long, value_name = "STORE")]
    pub(crate) survivors: Option<String>,
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
