//! `berth-backup` runs in a Job beside etcd's own programs: it keeps a snapshot in an object store and proves that it can be
//! restored. Its image has nothing else; in the pod it is a volume of a container with etcd's image, which has `etcd`, `etcdctl` and
//! `etcdutl` of the members' version and no shell.
//!
//! It knows nothing of Kubernetes' API and holds no token. What it is to do is in the environment, and how it ended is in the
//! container's termination message (see [`berth_contract::backup`]). Exit codes: 0 done, 1 error, 2 usage, 42 not worth another try.

use berth_backup::place::Place;
use berth_backup::{Problem, check, delete, install, read, restore, take};
use berth_contract::backup::{At, Earlier, GIVE_UP, Outcome, Proof, Read, ReadBack, TASK, Take, Task};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

#[derive(Debug, Parser)]
#[command(name = "berth-backup", version, about = "Keeps snapshots of etcd, and proves that they can be restored")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copies this program to where etcd's container finds it.
    Install {
        /// The directory.
        #[arg(long)]
        to: PathBuf,
    },
    /// Does the task in the environment.
    Run(Run),
}

#[derive(Debug, clap::Args)]
struct Run {
    #[command(flatten)]
    place: Place,
    /// Where the outcome goes.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Install { to } => match install::run(&to) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("berth-backup: {error:#}");
                ExitCode::FAILURE
            }
        },
        Command::Run(run) => {
            let (outcome, code) = match run.task() {
                Ok(outcome) => (outcome, ExitCode::SUCCESS),
                Err(problem) => {
                    eprintln!("berth-backup: {}", problem.failure.message);
                    let code = if problem.lasting { GIVE_UP } else { 1 };
                    (Outcome::Failed(problem.failure), ExitCode::from(code))
                }
            };
            if let Err(error) = std::fs::write(&run.termination_log, said(outcome)) {
                eprintln!("berth-backup: {}: {error}", run.termination_log.display());
                return ExitCode::FAILURE;
            }
            code
        }
    }
}

/// A termination message that is longer is cut, and says nothing any more.
const LONGEST: usize = 4096;

/// The outcome as text. Where there is no room, nothing is said of an older backup.
fn said(outcome: Outcome) -> String {
    let text = serde_json::to_string(&outcome).unwrap_or_default();
    match outcome {
        Outcome::Verified(proof) if text.len() > LONGEST => {
            serde_json::to_string(&Outcome::from(proof.manifest)).unwrap_or_default()
        }
        _ => text,
    }
}

impl Run {
    /// Has this program read an older backup, in a process of its own.
    fn read_beside(&self, task: &Take, of: Earlier) -> ReadBack {
        let says = self.place.scratch.join("read.json");
        let program = std::env::current_exe().unwrap_or_else(|_| "berth-backup".into());
        let mut reads = process::Command::new(program);
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        reads.arg("run").arg(format!("--store-timeout={}", self.place.store_timeout));
        reads.args([flag("etcd-pki", &self.place.etcd_pki), flag("credentials", &self.place.credentials)]);
        reads.args([flag("scratch", &self.place.scratch.join("earlier")), flag("termination-log", &says)]);
        let asked = Task::Read(Read { store: task.store.clone(), of: of.clone() });
        reads.env(TASK, serde_json::to_string(&asked).unwrap_or_default());
        read::beside(of, &mut reads, &says)
    }

    fn task(&self) -> Result<Outcome, Problem> {
        let text = std::env::var(TASK).unwrap_or_default();
        let task: Task = serde_json::from_str(&text)
            .map_err(|error| Problem::lasting(At::Other, format!("environment variable {TASK}: {error}")))?;
        let place = &self.place;
        match task {
            Task::Take(task) => {
                let earlier = task.earlier.clone().map(|of| self.read_beside(&task, of));
                let manifest = take::run(&task, place)?;
                Ok(Outcome::Verified(Proof { manifest, earlier }))
            }
            Task::Read(task) => read::run(&task, place).map(|()| Outcome::Read),
            Task::Delete(task) => delete::run(&task, place),
            Task::Check(task) => check::run(&task, place).map(Outcome::Checked),
            Task::Restore(task) => restore::run(&task, place).map(|()| Outcome::Restored),
        }
    }
}
