//! `apps` and its verbs.

use super::values::Format;
use clap::Subcommand;
use std::path::PathBuf;

/// `apps`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Apps {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) list: List,
}

/// What about it.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show which Clusters an App would reach, in which wave, and which charts change there; with `--objects` also which objects and pods.
    ///
    /// Nothing is written. Exit code 3: something would change.
    Plan(Plan),
    /// Print the values that an App gives each of its Clusters, without those of Secrets.
    ///
    /// They are made as the operator makes them, and nothing is written. Exit code 3: some cannot be made, and it says why.
    Render(Render),
}

/// `apps` itself.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct List {
    /// Name of the App. Default: a line for each one.
    #[arg(value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Apps of all namespaces.
    #[arg(short = 'A', long, conflicts_with_all = ["app", "cluster", "namespace"])]
    pub(crate) all_namespaces: bool,
    /// Only in this Cluster, as `<namespace>/<name>` if it is in another namespace. Without the name of an App: all that it has.
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<String>,
    /// Namespace of the operator, whose Apps are for Clusters of all namespaces.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `plan`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Name of the App.
    #[arg(value_name = "NAME", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) app: Option<String>,
    /// The App in this file instead of what is stored; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only in this Cluster; several times for several. As `<namespace>/<name>` if it is in another namespace.
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Vec<String>,
    /// Also show which objects change in the tenants, and whose pods restart. Charts are rendered here, by your own `helm`, with its logins; values of Secrets, and what a chart looks up in a tenant, are not in it.
    #[arg(long)]
    pub(crate) objects: bool,
    /// Namespace of the operator, whose Apps are for Clusters of all namespaces.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `render`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Render {
    /// Name of the App.
    #[arg(value_name = "NAME", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) app: Option<String>,
    /// The App in this file instead of what is stored; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only of this Cluster; several times for several. As `<namespace>/<name>` if it is in another namespace.
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Vec<String>,
    /// Namespace of the operator, whose Apps are for Clusters of all namespaces.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// How to print: documents, or a list with the name of each Cluster.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}
