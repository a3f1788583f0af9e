//! Command line.

pub(crate) mod access;
pub(crate) mod apps;
pub(crate) mod etcd;
mod offline;
#[cfg(test)]
mod reference;
mod releases;
#[cfg(test)]
mod tests;
mod values;

use clap::{Parser, Subcommand};
#[cfg(test)]
pub(crate) use offline::Layout;
pub(crate) use offline::{Images, ImagesOf, Objects, Render};
pub(crate) use releases::{Diff, History, Rollback, Rollouts, Upgrade};
use std::ffi::OsString;
use std::path::PathBuf;
use values::Completer;
pub(crate) use values::{BERTH, Format};

/// Hosted Kubernetes control planes: their state, what would change, and what to do next.
///
/// Exit codes: 0 all is well, 1 an error, 2 wrong usage, 3 not ready, a kubeconfig does not work yet, changes are pending, no release is
/// recorded yet, or there is nothing to adopt.
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl-berth", bin_name = "kubectl berth", version = values::BERTH, max_term_width = 110)]
pub(crate) struct Args {
    /// Which meta cluster.
    #[command(flatten)]
    pub(crate) meta: Meta,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Which meta cluster, and where in it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Meta {
    /// Kubeconfig of the meta cluster. Default: $KUBECONFIG, or ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig. Default: its current one.
    #[arg(long, global = true)]
    pub(crate) context: Option<String>,
    /// Namespace of the Cluster. Default: the context's, or `default`.
    #[arg(short, long, global = true)]
    pub(crate) namespace: Option<String>,
}

/// The verbs.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the state of Clusters, what is wrong, and what to do next.
    ///
    /// Exit code 0: ready; 3: not ready; 1, in a list: this version cannot read a Cluster, and the others are listed.
    ///
    /// A certificate that was not renewed is named in the last week before it expires, but not before a quarter of its lifetime is left. That
    /// lifetime is read from the operator's Deployment; without the right to, it is named six hours before. Without rights in the
    /// control-plane namespace, pods and members of etcd are left out.
    Status(Status),
    /// Print a Cluster's kubeconfig, write it to a file, or merge it into another.
    ///
    /// Exit code 3: Berth has not published it yet, or the API has not answered yet; no file is touched. 1: there is no such Cluster, or no
    /// folder for --out.
    ///
    /// Files are readable only by you, and are written completely or not at all; on Windows they have the rights of their folder. Root keeps
    /// the owner and group of an existing file. Links are followed, and devices and pipes are written to. With --merge other entries stay, and
    /// comments are lost. Run again after a renewal, it changes the certificate alone. A Secret with a field that Berth does not write is
    /// refused, since kubectl would run what it says.
    Kubeconfig(Kubeconfig),
    /// Write a kubeconfig with a context for each tenant that you may use, by the platform's login.
    ///
    /// It needs no access to the meta cluster. The platform says which command gets a token; kubectl runs that from then on, so it is shown, and
    /// you are asked. Exit code 3: there is no tenant that you may use.
    Login(Login),
    /// Reach a Cluster from here: with a command, or until Ctrl-C.
    ///
    /// Uses the published address if it answers within five seconds, otherwise a port-forward through the meta cluster. Sets KUBECONFIG for the
    /// command and exits with its code. Without a command it prints the path of the kubeconfig. Exit code 3: Berth has not published it yet.
    ///
    /// A port-forward needs rights in the control-plane namespace: get and list of pods, get and create of pods/portforward.
    Connect(Connect),
    /// Print a `kubeadm join` command for new nodes of a Cluster, with a new bootstrap token.
    ///
    /// Needs only the published kubeconfig, and an address that answers from here. Exit code 3: Berth has not published it yet.
    JoinCommand(JoinCommand),
    /// Show what Berth would change now, without changing it.
    ///
    /// Exit code 0: nothing; 3: changes are pending.
    ///
    /// What comes later is simulated, as if pods become ready and etcd is healthy. Of a deletion only the next step is shown. Objects inside a
    /// running tenant are not compared, and members of etcd are not asked. It needs the rights of the platform team; an error names one that is
    /// missing.
    Plan(Plan),
    /// Set another Kubernetes version, of one Cluster or of many, after showing what that changes and asking.
    ///
    /// Exit code 3, with --wait: Berth refuses it, or it is not done in time; of many: some are not ready for it, and are left alone.
    ///
    /// It sets spec.version, if nobody changed the Cluster meanwhile. The way back is the same command with the version before.
    Upgrade(Upgrade),
    /// Show how far the Clusters of the fleet are with which version, wave by wave.
    ///
    /// For each version and wave it counts who is through, at work, waiting, blocked or failed. A line for each that is not through says why.
    /// Exit code 0: all are through; 3: some are not.
    Rollouts(Rollouts),
    /// List the releases that a Cluster had, or show one of them.
    ///
    /// Exit code 3: none is recorded yet.
    History(History),
    /// Show where two recorded releases of a Cluster differ.
    ///
    /// It needs the right to list clusterrevisions.berth.dev in the control-plane namespace.
    Diff(Diff),
    /// Set a release that ran before into the spec, after showing what that changes and asking.
    ///
    /// It refuses one that is gone or never came up, and names those that ran, and one of a minor version that is unsafe. It writes if nobody
    /// changed the Cluster meanwhile. It needs the right to list clusterrevisions.berth.dev in the control-plane namespace.
    Rollback(Rollback),
    /// Print the objects that Berth would create for a Cluster, without any cluster.
    ///
    /// The same file renders the same bytes. A Secret is a list of what it will hold: no key is made. Texts of templates and digests that Berth
    /// adds are left out. The CustomResourceDefinition's rules are not checked, since that takes an API server: use `plan -f`.
    Render(Render),
    /// Print the images that Berth and its tenants run, such as to mirror them, without any cluster; or those of Apps.
    ///
    /// For Apps (--apps, --app or -f) it has your own `helm` fetch and render the charts, with the values that each Cluster gets and upstream's
    /// registries. Exit code 3: the values of some Cluster cannot be made yet.
    Images(Images),
    /// Take over the control-plane namespace of a Cluster that no longer exists, such as after a restore.
    ///
    /// It sets an annotation: remove it once the Cluster is Ready. Exit code 3: there is nothing to adopt.
    Adopt(Adopt),
    /// End all pods of a Cluster's control plane while nobody uses it; its data, address and kubeconfigs stay.
    ///
    /// It sets an annotation; the latest of `sleep` and `wake` counts. A Cluster in the middle of a change sleeps after it. Exit code 3, with
    /// --wait: it does not sleep in time.
    Sleep(Sleep),
    /// Start a Cluster that sleeps.
    ///
    /// Exit code 3, with --wait: it does not answer in time.
    Wake(Wake),
    /// A Cluster's etcd: its state, its members, a backup of it, its upkeep.
    ///
    /// It does not speak to etcd: it shows what Berth says of it, and asks Berth. All but `backup` need the right to get the EtcdCluster in the
    /// control-plane namespace.
    Etcd(Box<etcd::Etcd>),
    /// Who may do what in which Clusters: list it, give it, take it back.
    ///
    /// It reads and writes ClusterAccesses. What a tenant's own admins gave inside it is not shown.
    Access(access::Access),
    /// Show how far Apps are: a line for each App, or of one a line for each Cluster.
    ///
    /// Exit code 3: some are not deployed as their spec says.
    Apps(Box<apps::Apps>),
    /// Print a script that completes this command in a shell, or for kubectl.
    Completion {
        /// Which shell completes `kubectl-berth`; `kubectl` for what completes `kubectl berth`.
        #[arg(value_enum)]
        shell: Completer,
    },
}

/// `status`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Status {
    /// Name of the Cluster. Default: a line for each one.
    pub(crate) name: Option<String>,
    /// Clusters of all namespaces.
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    pub(crate) all_namespaces: bool,
    /// Namespace of the operator, whose configuration has the lifetime of certificates.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `join-command`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JoinCommand {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// How long the token can be used, such as 2h or 30m.
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = values::ttl)]
    pub(crate) ttl: jiff::SignedDuration,
}

/// `kubeconfig`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("file").args(["out", "merge"]))]
pub(crate) struct Kubeconfig {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Write it to this file, which only you can read. Default: standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Merge it into your kubeconfig: the first file of $KUBECONFIG, or ~/.kube/config.
    #[arg(long)]
    pub(crate) merge: bool,
    /// The file to merge into.
    #[arg(long = "kubeconfig-file", value_name = "FILE", requires = "merge")]
    pub(crate) into: Option<PathBuf>,
    /// Name of the context, its cluster and its user in that file. Default: `<namespace>/<name>`.
    #[arg(long, value_name = "NAME", requires = "merge")]
    pub(crate) context_name: Option<String>,
    /// Replace entries of that name that point elsewhere, or with --out a file that has other contexts.
    #[arg(long, requires = "file")]
    pub(crate) force: bool,
    /// Make it the current context.
    #[arg(long = "use", requires = "merge")]
    pub(crate) use_context: bool,
    /// One without a credential, for users of the OIDC issuer in spec.apiServer.authentication.jwt, who log in by kubelogin. With the
    /// issuer's URL if there are several.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "merge")]
    pub(crate) oidc: Option<String>,
    /// ID of the client at the issuer that --oidc=<URL> names: for one of the platform's, which is not in the spec. Default: the first audience in the spec.
    #[arg(long, value_name = "ID", requires = "oidc")]
    pub(crate) oidc_client: Option<String>,
}

/// `login`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Login {
    /// Where the platform's login is, such as https://access.example.com.
    pub(crate) url: String,
    /// Write it to this file, which only you can read. Default: standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace a file that has other contexts.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// A file with a token, which is read for each call, instead of the command that the platform names.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the CA of the platform's certificate. Default: the CAs that this machine trusts.
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Do not ask whether to run the platform's command.
    #[arg(short, long, conflicts_with = "token_file")]
    pub(crate) yes: bool,
}

/// `connect`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Connect {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Write the kubeconfig to this file, which is not there yet, and remove it at the end. Default: a temporary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// The command and its arguments, after `--`.
    #[arg(last = true)]
    pub(crate) command: Vec<OsString>,
}

/// `plan`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Name of the Cluster. Default: the one in the file.
    #[arg(required_unless_present = "file")]
    pub(crate) name: Option<String>,
    /// Plan for the Cluster in this file instead of what is stored; `-` is standard input. If there is such a Cluster, the API server
    /// validates the file by a dry run.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Namespace of the operator, whose configuration plans depend on. What cannot be read of it is said to be assumed.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// `sleep`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sleep {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Do not ask for confirmation. Without a terminal nothing is written but with it.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Wait until it sleeps.
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait, such as 10m.
    #[arg(long, default_value = "10m", value_name = "DURATION", value_parser = values::timeout, requires = "wait")]
    pub(crate) timeout: jiff::SignedDuration,
}

/// `wake`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Wake {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Wait until its API answers.
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait, such as 10m.
    #[arg(long, default_value = "10m", value_name = "DURATION", value_parser = values::timeout, requires = "wait")]
    pub(crate) timeout: jiff::SignedDuration,
}

/// `adopt`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Adopt {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Do not ask for confirmation. Without a terminal nothing is written but with it.
    #[arg(short, long)]
    pub(crate) yes: bool,
}
