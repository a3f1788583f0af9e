//! Command line.

pub(crate) mod etcd;
mod values;

use berth_api::common::AgentDelivery;
use berth_api::version::Version;
use clap::{Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
pub(crate) use values::BERTH;
use values::Completer;

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
    /// Exit code 0: ready; 3: not ready.
    Status(Status),
    /// Print a Cluster's kubeconfig, write it to a file, or merge it into another.
    ///
    /// Exit code 3: Berth has not published it yet, or the API has not answered yet.
    Kubeconfig(Kubeconfig),
    /// Reach a Cluster from here: with a command, or until Ctrl-C.
    ///
    /// Uses the published address if it answers, otherwise a port-forward through the meta cluster. Sets KUBECONFIG for the command and
    /// exits with its code. Without a command it prints the path of the kubeconfig. Exit code 3: Berth has not published it yet.
    Connect(Connect),
    /// Print a `kubeadm join` command for new nodes of a Cluster, with a new bootstrap token.
    ///
    /// Needs only the published kubeconfig, and an address that answers from here. Exit code 3: Berth has not published it yet.
    JoinCommand(JoinCommand),
    /// Show what Berth would change now, without changing it.
    ///
    /// Exit code 0: nothing; 3: changes are pending.
    Plan(Plan),
    /// Set another Kubernetes version, of one Cluster or of many, after showing what that changes and asking.
    ///
    /// Exit code 3, with --wait: Berth refuses it, or it is not done in time; of many: some are not ready for it.
    Upgrade(Upgrade),
    /// Show how far the Clusters of the fleet are with which version, wave by wave.
    ///
    /// Exit code 0: all are through; 3: some are not.
    Rollouts(Rollouts),
    /// List the releases that a Cluster had, or show one of them.
    ///
    /// Exit code 3: none is recorded yet.
    History(History),
    /// Show where two recorded releases of a Cluster differ.
    Diff(Diff),
    /// Set a release that ran before into the spec, after showing what that changes and asking.
    Rollback(Rollback),
    /// Print the objects that Berth would create for a Cluster, without any cluster.
    Render(Render),
    /// Print the images that Berth and its tenants run, such as to mirror them, without any cluster.
    Images(Images),
    /// Take over the control-plane namespace of a Cluster that no longer exists, such as after a restore.
    ///
    /// Exit code 3: there is nothing to adopt.
    Adopt(Adopt),
    /// A Cluster's etcd: its state, its members, a backup of it, its upkeep.
    Etcd(Box<etcd::Etcd>),
    /// Print a script that completes this command in a shell, or for kubectl.
    Completion {
        /// Which shell completes `kubectl-berth`; `kubectl` for what completes `kubectl berth`.
        #[arg(value_enum)]
        shell: Completer,
    },
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
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
    /// Overwrite entries of that name that point elsewhere, or with --out a file that has other contexts.
    #[arg(long, requires = "file")]
    pub(crate) force: bool,
    /// Make it the current context.
    #[arg(long = "use", requires = "merge")]
    pub(crate) use_context: bool,
    /// One without a credential, for users of the OIDC issuer in spec.apiServer.authentication.jwt, who log in by kubelogin. With the
    /// issuer's URL if there are several.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "merge")]
    pub(crate) oidc: Option<String>,
}

/// `connect`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Connect {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Write the kubeconfig to this file, and remove it at the end. Default: a temporary file.
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
    /// Plan for the Cluster in this file instead of what is stored; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Namespace of the operator, whose configuration plans depend on.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

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
    /// Do not wait for spec.upgrade.window. Turns are waited for.
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
    /// Show all of this one. It is read in the control-plane namespace.
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

/// `render`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Render {
    /// File with the Cluster; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Image of Berth's agent, as the operator's flag of that name.
    #[arg(long, default_value = "berth.dev/agent:dev", value_name = "IMAGE")]
    pub(crate) agent_image: String,
    /// How the agent gets into the pods, as the operator's flag of that name.
    #[arg(long, value_enum, default_value_t, ignore_case = true)]
    pub(crate) agent_delivery: Delivery,
    /// Registry with upstream's images, as the operator's flag of that name. Default: registry.k8s.io.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "REGISTRY")]
    pub(crate) image_registry: String,
    /// Namespace of the operator.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// The operator's configuration file, see the chart's values `meta`, `isolation`, `writers`, `vpc` and `backups`.
    #[arg(long, value_name = "FILE")]
    pub(crate) operator_config: Option<PathBuf>,
    /// Print the objects in the tenant instead of those on the meta cluster.
    #[arg(long)]
    pub(crate) inside: bool,
    /// How to print: documents, or one List.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Objects,
}

/// `images`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Images {
    /// Kubernetes versions of tenants, such as 1.36.3, separated by commas. Default: one of each minor that this Berth is tested with.
    #[arg(long = "version", value_name = "VERSIONS", value_delimiter = ',')]
    pub(crate) versions: Vec<Version>,
    /// etcd version of tenants that set `spec.etcd.version`. Default: the one of new tenants.
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub(crate) etcd: Vec<Version>,
    /// Registry to mirror to. Print each image and what it is called there.
    #[arg(long, value_name = "REGISTRY")]
    pub(crate) to: Option<String>,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Objects {
    /// Documents.
    #[default]
    Yaml,
    /// A `v1` List.
    Json,
}

/// How the agent gets into pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Delivery {
    /// By an init container.
    #[default]
    InitContainer,
    /// As an image volume.
    ImageVolume,
}

impl From<Delivery> for AgentDelivery {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::InitContainer => Self::InitContainer,
            Delivery::ImageVolume => Self::ImageVolume,
        }
    }
}

/// `adopt`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Adopt {
    /// Name of the Cluster.
    pub(crate) name: String,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Args, ErrorKind> {
        Args::try_parse_from(std::iter::once("kubectl-berth").chain(line.split_whitespace())).map_err(|e| e.kind())
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    /// As they stand: what a person has to choose is a word in capitals.
    #[test]
    fn what_conditions_tell_to_type_is_taken() {
        let objects = concat!(
            include_str!("../../../plan-cluster/src/tests/situations.jsonl"),
            include_str!("../../../plan-etcd/src/tests/situations.jsonl"),
            include_str!("../../../plan-backup/src/tests/situations.jsonl"),
        );
        let mut seen = 0;
        for line in objects.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            for message in conditions.iter().filter_map(|c| c["message"].as_str()) {
                for text in message.split("kubectl berth ").skip(1) {
                    let ends = [". ", ")", "`", "; ", " && "].iter().filter_map(|end| text.find(end)).min();
                    let command = text[..ends.unwrap_or(text.len())].trim_end_matches('.');
                    parse(command).unwrap_or_else(|e| panic!("{e}: kubectl berth {command}: {message}"));
                    seen += 1;
                }
            }
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn exit_codes_are_explained_as_on_the_page() {
        let page = include_str!("../../../../docs/kubectl-berth.md");
        let help = Args::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in [
            "3 not ready, a kubeconfig does not work yet, changes are pending, no release is recorded yet, or there is nothing to adopt",
            "2 wrong usage",
        ] {
            assert!(help.contains(wanted), "{help}");
            assert!(page.contains(&format!("| {} |", wanted.replacen(' ', " | ", 1))), "{wanted}");
        }
    }

    #[test]
    fn flags_of_the_meta_cluster_go_before_and_after_the_verb() {
        for line in ["-n team-a --context c status acme", "status acme -n team-a --context c"] {
            let args = parse(line).unwrap();
            assert_eq!(args.meta.namespace.as_deref(), Some("team-a"));
            assert_eq!(args.meta.context.as_deref(), Some("c"));
        }
    }

    #[test]
    fn what_makes_no_sense_together_is_wrong_usage() {
        assert_eq!(parse("status acme -A").unwrap_err(), ErrorKind::ArgumentConflict);
        assert_eq!(parse("status -A -n team-a").unwrap_err(), ErrorKind::ArgumentConflict);
        assert_eq!(parse("kubeconfig acme --out a --merge").unwrap_err(), ErrorKind::ArgumentConflict);
        assert_eq!(parse("kubeconfig acme --use").unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert_eq!(parse("kubeconfig acme --force").unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert!(parse("kubeconfig acme --force --out a").is_ok() && parse("kubeconfig acme --force --merge").is_ok());
        assert_eq!(parse("plan").unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert_eq!(parse("render").unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert_eq!(parse("completion tcsh").unwrap_err(), ErrorKind::InvalidValue);
        assert!(
            parse("kubeconfig acme --oidc").is_ok() && parse("kubeconfig acme --oidc=https://idp.example.com").is_ok()
        );
        assert_eq!(parse("kubeconfig acme --oidc --merge").unwrap_err(), ErrorKind::ArgumentConflict);
        assert_eq!(parse("connect acme get pods").unwrap_err(), ErrorKind::UnknownArgument);
        assert!(parse("connect acme").is_ok() && parse("connect acme -n team-a -- kubectl get pods -A").is_ok());
        assert!(parse("plan -f new.yaml").is_ok() && parse("plan acme").is_ok());
        assert!(parse("render -f a.yaml --agent-delivery imagevolume -o json").is_ok());
    }
}
