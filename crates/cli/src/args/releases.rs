//! Versions and releases: `rollouts`, `upgrade`, `history`, `diff` and `rollback`.

use super::{Format, values};
use berth_api::version::Version;

/// `rollouts`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Rollouts {
    /// Only Clusters with these labels, such as tier=test.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `upgrade`.
#[derive(Clone, Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub(crate) struct Upgrade {
    /// Name of the Cluster.
    #[arg(required_unless_present_any = ["all_namespaces", "selector"], conflicts_with_all = ["all_namespaces", "selector"])]
    pub(crate) name: Option<String>,
    /// Clusters of all namespaces, lower waves first.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Clusters with these labels, such as tier=test.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Of many: only show who is ready for it, and who is not and why.
    #[arg(long, conflicts_with = "name")]
    pub(crate) dry_run: bool,
    /// Do not wait for spec.upgrade.window: sets the annotation berth.dev/roll, too. Turns are waited for.
    #[arg(long)]
    pub(crate) now: bool,
    /// The version, such as 1.36.3: a patch version, the next minor version, or back while that is possible.
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Version,
    /// Wait until it is served; of another minor version, until its first step is through.
    #[arg(long, conflicts_with_all = ["all_namespaces", "selector"])]
    pub(crate) wait: bool,
    /// How long to wait, such as 30m.
    #[arg(long, default_value = "30m", value_name = "DURATION", value_parser = values::timeout, requires = "wait")]
    pub(crate) timeout: jiff::SignedDuration,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Namespace of the operator, whose configuration plans depend on.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
}

/// `history`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct History {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Show all of this one. It needs the right to list clusterrevisions.berth.dev in the control-plane namespace.
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<i64>,
    /// How to print the list.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `diff`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Diff {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Number of a revision.
    pub(crate) from: i64,
    /// Number of another one.
    pub(crate) to: i64,
}

/// `rollback`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Rollback {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Number of the revision. Default: the last one that ran and is not what the spec asks for.
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<i64>,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Namespace of the operator, whose configuration plans depend on.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
}
