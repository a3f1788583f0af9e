//! `kubectl berth`: what tenants are, what would change, and what to do next.
//!
//! Every verb is a thin shell around pure functions: reading through `berth-kubeio`, judging with `berth-plan`, and a text that a
//! person can read. Only `access grant`, `access revoke`, `adopt`, `upgrade`, `rollback`, `sleep`, `wake`, `etcd backup`, `etcd restore` and `etcd defrag` write to the meta cluster; every other verb holds a fence
//! that is closed there.

mod access;
mod adopt;
mod age;
mod apps;
mod args;
mod charts;
mod complete;
mod confirm;
mod connect;
mod etcd;
mod grants;
mod images;
mod join;
mod kubeconfig;
mod login;
mod outcome;
mod output;
mod paint;
mod plan;
mod render;
mod revisions;
mod rollouts;
mod sleep;
mod status;
mod unchanged;
mod upgrade;
mod wait;
mod world;

use args::{Args, Verb};
use clap::{CommandFactory, Parser};
use outcome::{Outcome, block_on};
use revisions::{history, rollback};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let ended = if words.next().is_some_and(|word| word == complete::VERB) {
        complete::run(words.collect())
    } else {
        run(Args::parse())
    };
    match ended {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(1)
        }
    }
}

fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Render(render) => render::run(&render, args.meta.namespace.as_deref()),
        Verb::Images(images) if images.of.are_asked() => block_on(images::of_apps(&args.meta, &images)),
        Verb::Images(images) => images::run(&images),
        Verb::Completion { shell } => {
            match shell.generator() {
                Some(shell) => {
                    clap_complete::generate(shell, &mut Args::command(), "kubectl-berth", &mut std::io::stdout());
                }
                None => output::print(complete::SCRIPT)?,
            }
            Ok(Outcome::Done)
        }
        verb => block_on(async {
            match verb {
                Verb::Status(status) => status::run(&args.meta, &status).await,
                Verb::Plan(plan) => plan::run(&args.meta, &plan).await,
                Verb::Kubeconfig(kubeconfig) => kubeconfig::run(&args.meta, &kubeconfig).await,
                Verb::Login(login) => login::run(&login).await,
                Verb::Connect(connect) => connect::run(&args.meta, &connect).await,
                Verb::JoinCommand(join) => join::run(&args.meta, &join).await,
                Verb::Upgrade(upgrade) => upgrade::run(&args.meta, &upgrade).await,
                Verb::Rollouts(rollouts) => rollouts::run(&args.meta, &rollouts).await,
                Verb::History(history) => history::run(&args.meta, &history).await,
                Verb::Diff(diff) => history::diff(&args.meta, &diff).await,
                Verb::Rollback(rollback) => rollback::run(&args.meta, &rollback).await,
                Verb::Adopt(adopt) => adopt::run(&args.meta, &adopt).await,
                Verb::Sleep(asked) => sleep::sleep(&args.meta, &asked).await,
                Verb::Wake(asked) => sleep::wake(&args.meta, &asked).await,
                Verb::Access(access) => grants::run(&args.meta, &access.verb).await,
                Verb::Apps(asked) => apps::run(&args.meta, &asked).await,
                Verb::Etcd(etcd) => etcd::run(&args.meta, &etcd).await,
                Verb::Render(_) | Verb::Images(_) | Verb::Completion { .. } => Ok(Outcome::Done),
            }
        }),
    }
}
