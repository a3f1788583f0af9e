//! `berth-apps` runs in a Job beside a tenant's control plane, with Helm in its image: it has a release in the tenant be as its task
//! says. It reads the release's state before it changes it, since whoever changed it last may have died amid that.
//!
//! It knows nothing of the meta cluster's API and holds no token of it. What it is to do is in the environment, and how it ended is in the
//! container's termination message (see [`berth_contract::apps`]). Exit codes: 0 done, 1 error, 2 usage, 42 not worth another try.

use berth_apps::helm::Helm;
use berth_apps::place::Place;
use berth_apps::secrets::Secrets;
use berth_apps::{Problem, deploy, drift, uninstall};
use berth_contract::apps::{At, Outcome, TASK, Task};
use berth_contract::jobs::GIVE_UP;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "berth-apps", version, about = "Installs, upgrades, compares and uninstalls a Helm chart in a tenant")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    let Command::Run(run) = Cli::parse().command;
    let (outcome, code) = match task(&run.place) {
        Ok(outcome) => (outcome, ExitCode::SUCCESS),
        Err(problem) => {
            // What values hold may be in what Helm says.
            let problem = Secrets::read(&run.place.secret).without(problem).cut();
            eprintln!("berth-apps: {}", problem.failure.message);
            let code = if problem.lasting { GIVE_UP } else { 1 };
            (Outcome::Failed(problem.failure), ExitCode::from(code))
        }
    };
    let text = serde_json::to_string(&outcome).unwrap_or_default();
    if let Err(error) = std::fs::write(&run.termination_log, text) {
        eprintln!("berth-apps: {}: {error}", run.termination_log.display());
        return ExitCode::FAILURE;
    }
    code
}

fn task(place: &Place) -> Result<Outcome, Problem> {
    let text = std::env::var(TASK).unwrap_or_default();
    let task: Task = serde_json::from_str(&text)
        .map_err(|error| Problem::lasting(At::Other, format!("environment variable {TASK}: {error}")))?;
    let helm = Helm::new(place)?;
    match task {
        Task::Deploy(task) => deploy::run(&task, &helm, place).map(Outcome::Deployed),
        Task::Uninstall(task) => uninstall::run(&task, &helm, place).map(|()| Outcome::Uninstalled),
        Task::Check(task) => drift::run(&task, &helm, place).map(Outcome::Checked),
    }
}
