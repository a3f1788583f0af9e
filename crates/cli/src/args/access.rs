//! `access` and its verbs.

use super::etcd::Wait;
use super::values::Format;
use clap::Subcommand;
use jiff::SignedDuration;
use std::collections::BTreeMap;

/// `access`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Access {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What about it.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// List what ClusterAccesses give, to whom, until when, and how far that is.
    ///
    /// With --user or --group what that one has now: in all namespaces that you may read, unless -n names one. What ended is among it until it is
    /// taken back. Exit code 3: some are not as asked for.
    List(List),
    /// Show who may do what in a Cluster by ClusterAccesses: those of its namespace, and those of the platform.
    ///
    /// What ended, or is not for that Cluster any more, is among it until it is taken back there. Rights that the tenant's own admins gave are not.
    Who(Who),
    /// Give users or groups a role in Clusters.
    ///
    /// Creates a ClusterAccess, with your user name as the one who gives it. Exit code 3, with --wait: it is not given everywhere in time.
    Grant(Box<Grant>),
    /// Take rights back.
    ///
    /// The ClusterAccess ends now, and stays, so that its status says where its rights are not taken back yet; --delete deletes it, too. Exit
    /// code 3, with --wait: they are not taken back everywhere in time.
    Revoke(Revoke),
}

/// `list`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct List {
    /// Those of all namespaces.
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// What this user is given by name; what their groups are given is not among it. Default: what anybody is given.
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// What this group is given.
    #[arg(long, conflicts_with = "user")]
    pub(crate) group: Option<String>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `who`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Who {
    /// Name of the Cluster, also as `<namespace>/<name>`.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: String,
    /// Namespace of the operator, whose ClusterAccesses are for Clusters of all namespaces.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `grant`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").args(["cluster", "selector"]).required(true))]
#[command(group = clap::ArgGroup::new("whom").args(["user", "group"]).required(true).multiple(true))]
pub(crate) struct Grant {
    /// Name of the ClusterAccess.
    pub(crate) access: String,
    /// Viewer, Editor, Admin, ClusterAdmin, or a ClusterRole of the meta cluster with the label berth.dev/role=true.
    #[arg(long)]
    pub(crate) role: String,
    /// A user, by the name that the platform's login has; several times for several.
    #[arg(long)]
    pub(crate) user: Vec<String>,
    /// A group, likewise.
    #[arg(long)]
    pub(crate) group: Vec<String>,
    /// A Cluster; several times for several. In the operator's namespace also as `<namespace>/<name>`.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Vec<String>,
    /// Clusters with these labels, such as tier=gold.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = super::values::labels)]
    pub(crate) selector: Option<BTreeMap<String, String>>,
    /// A namespace of the tenant in which it counts; several times for several. Default: all.
    #[arg(long = "in", value_name = "NAMESPACE")]
    pub(crate) within: Vec<String>,
    /// For how long, such as 8h, by the clock of the meta cluster's API server. Default: until it is revoked.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::values::ttl)]
    pub(crate) lasts: Option<SignedDuration>,
    /// Why, for those who read it.
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Names are those of the tenant's own authentication, not of the platform's login.
    #[arg(long)]
    pub(crate) tenant_names: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `revoke`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Revoke {
    /// Name of the ClusterAccess.
    pub(crate) access: String,
    /// Delete it, too.
    #[arg(long)]
    pub(crate) delete: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
}
