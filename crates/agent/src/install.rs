//! Brings this program into the component's container, and hands over to the component.
//!
//! A gate in an init container costs up to a second more, since kubelet looks only once a second whether it has ended, and it is
//! not passed again when the container restarts. So the gate runs in the component's own container, before the component, and
//! becomes it. Upstream's images have nothing but the component: an init container copies this program onto a volume first.

use std::{
    ffi::OsString,
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

/// The name of the copy.
const NAME: &str = "berth-agent";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that the copy goes to, as `berth-agent`.
    #[arg(long)]
    to: PathBuf,
}

/// Copies this program. Whoever starts the copy finds all of it or nothing.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let target = args.to.join(NAME);
    let new = target.with_extension("new");
    let own = Path::new("/proc/self/exe");
    fs::copy(own, &new).with_context(|| format!("cannot copy to {}", new.display()))?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o555))?;
    fs::rename(&new, &target).with_context(|| format!("cannot write {}", target.display()))?;
    println!("{} is there", target.display());
    Ok(())
}

/// What etcd reads from its environment about the cluster that it begins in.
const INITIAL_CLUSTER: &str = "ETCD_INITIAL_CLUSTER";
const INITIAL_CLUSTER_STATE: &str = "ETCD_INITIAL_CLUSTER_STATE";
/// The argument by which etcd says where its peers reach it.
const ADVERTISE: &str = "--initial-advertise-peer-urls=";

/// The component's program and its arguments, after `--`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// What this process becomes once it may start. Without it, it ends with 0.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// What its environment has beside this program's own.
    #[arg(skip)]
    env: Vec<(&'static str, String)>,
}

impl ExecArgs {
    /// Likewise, as a member of a running cluster, whatever the template says. In the environment and not as arguments: etcd does not start
    /// where both say something.
    pub(crate) fn joining(&self, initial_cluster: &str, peer_url: &str) -> Self {
        let own = |argument: &OsString| match argument.to_str() {
            Some(text) if text.starts_with(ADVERTISE) => format!("{ADVERTISE}{peer_url}").into(),
            _ => argument.clone(),
        };
        Self {
            command: self.command.iter().map(own).collect(),
            env: vec![(INITIAL_CLUSTER, initial_cluster.to_owned()), (INITIAL_CLUSTER_STATE, "existing".to_owned())],
        }
    }

    /// Becomes the command; returns only if there is none, or if it cannot be started.
    pub(crate) fn exec(&self) -> anyhow::Result<()> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(()) };
        let error = Command::new(program).args(arguments).envs(self.env.iter().cloned()).exec();
        Err(error).with_context(|| format!("cannot start {}", program.display()))
    }
}
