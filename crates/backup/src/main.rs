//! `berth-backup` runs in a Job beside etcd's own programs: it keeps a snapshot in an object store and proves that it can be
//! restored. Its image has nothing else; in the pod it is a volume of a container with etcd's image, which has `etcd`, `etcdctl` and
//! `etcdutl` of the members' version and no shell.
//!
//! It knows nothing of Kubernetes' API and holds no token. What it is to do is in the environment, and how it ended is in the
//! container's termination message (see [`berth_contract::backup`]). Exit codes: 0 done, 1 error, 2 usage, 42 not worth another try.

use berth_backup::{check, delete, install, restore, take};
use berth_contract::backup::{At, Failure, GIVE_UP, Outcome, TASK, Task};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    /// Directory with a client's certificate for etcd: ca.crt, tls.crt, tls.key.
    #[arg(long)]
    etcd_pki: PathBuf,
    /// Directory with the credentials of a store that is a server.
    #[arg(long)]
    credentials: PathBuf,
    /// How long one request to a store that is a server may take, in seconds.
    #[arg(long, default_value_t = 120)]
    store_timeout: u64,
    /// Directory for the snapshot and for the etcd that it is restored into. It is emptied first.
    #[arg(long)]
    scratch: PathBuf,
    /// Directory of etcd's programs. Default: those in PATH.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Volume of the member that a backup is restored to.
    #[arg(long)]
    volume: Option<PathBuf>,
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
            let result = run.task();
            let (outcome, code) = match result {
                Ok(outcome) => (outcome, ExitCode::SUCCESS),
                Err(problem) => {
                    eprintln!("berth-backup: {}", problem.failure.message);
                    let code = if problem.lasting { GIVE_UP } else { 1 };
                    (Outcome::Failed(problem.failure), ExitCode::from(code))
                }
            };
            if run.say(&outcome) { code } else { ExitCode::FAILURE }
        }
    }
}

impl Run {
    /// Says how it ended. Whether that could be written.
    fn say(&self, outcome: &Outcome) -> bool {
        let text = serde_json::to_string(outcome).unwrap_or_default();
        let written = std::fs::write(&self.termination_log, text);
        if let Err(error) = &written {
            eprintln!("berth-backup: {}: {error}", self.termination_log.display());
        }
        written.is_ok()
    }

    fn task(&self) -> Result<Outcome, berth_backup::Problem> {
        let text = std::env::var(TASK).unwrap_or_default();
        let task: Task = serde_json::from_str(&text).map_err(|error| berth_backup::Problem {
            failure: Failure { at: At::Other, message: format!("environment variable {TASK}: {error}") },
            lasting: true,
        })?;
        let place = take::Place {
            etcd_pki: self.etcd_pki.clone(),
            credentials: self.credentials.clone(),
            store_timeout: Duration::from_secs(self.store_timeout),
            scratch: self.scratch.clone(),
            programs: self.programs.clone(),
            volume: self.volume.clone(),
        };
        match task {
            Task::Take(task) => {
                let began = Instant::now();
                let manifest = take::run(&task, &place)?;
                // Whatever becomes of the older one, this one is proven.
                self.say(&manifest.clone().into());
                Ok(Outcome::Verified(take::read_earlier(&task, &place, began.elapsed(), manifest)))
            }
            Task::Delete(task) => delete::run(&task, &place).map(|()| Outcome::Deleted),
            Task::Check(task) => check::run(&task, &place).map(Outcome::Checked),
            Task::Restore(task) => restore::run(&task, &place).map(|()| Outcome::Restored),
        }
    }
}
