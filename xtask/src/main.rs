//! Chores of this repository: what is generated, the rules between crates, the demo, and the run of all tests.

mod bench;
mod charts;
mod crates;
mod crds;
mod demo;
mod evidence;
mod house;
mod images;
mod names;
mod pages;
mod places;
mod rbac;
mod recipes;
mod reference;
mod release;
mod shell;
mod templates;
mod testing;
mod upgrade;

use anyhow::bail;
use clap::{Parser, Subcommand};
use images::Profile;
use shell::root;
use std::path::PathBuf;
use std::process::ExitCode;
use testing::Extent;

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes what is generated: CustomResourceDefinitions, RBAC, docs/evidence.md and the pages of docs/reference.
    Gen {
        /// Compare only, and fail if something differs.
        #[arg(long)]
        check: bool,
    },
    /// Checks that dependencies between crates point the way that the design says, that no program knows where its checkout lies, and
    /// that no import circle within a crate grows. Prints files, lines of code without tests, and the largest circle of each crate.
    CheckCrates {
        /// Print the imports that make the largest circle of this crate, and check nothing.
        #[arg(long)]
        circle: Option<String>,
    },
    /// Lints the charts, and checks what they render.
    CheckCharts,
    /// Checks the documentation: links, the book's table of contents, and that code which it names is there.
    CheckDocs,
    /// Checks that the book builds without a warning. Builds mdBook first where it is missing.
    CheckBook,
    /// Checks dependencies: bans, licenses, sources.
    CheckDependencies,
    /// Builds what clusters and tests are made of into the cache.
    Binaries,
    /// Builds the static binaries and their images into target/images, as they are pushed to a registry.
    Images,
    /// Likewise into target/demo/images, as the demo and tests have them: not optimised.
    DemoImages,
    /// What a registry and a download page need, in target/berth-<version>: the same bytes each time.
    Release(release::Wanted),
    /// A meta cluster with Berth and a first tenant. Run again, it changes nothing.
    Demo,
    /// The same with an S3 server, which Berth keeps backups in: for the tutorial of a restore.
    DemoStore,
    /// Removes the demo: the cluster and its files.
    DemoDown,
    /// Measures Berth on a meta cluster of its own. See bench/README.md.
    Bench {
        /// Arguments for berth-bench, such as `--runs 3 single`. Default: `all`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Removes the benches' meta cluster.
    BenchDown,
    /// Another commit's operator makes tenants, this one takes them over, and the other one gets them back: no pod restarts.
    Upgrade {
        /// The other commit.
        #[arg(long)]
        from: String,
        /// The cluster stays, to look at it.
        #[arg(long)]
        keep: bool,
    },
    /// Runs the sweeps and faults of the meta cluster, every case of them. Cut off, it goes on where it was, at the same commit.
    Chaos {
        /// Another order, and other random walks.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Only tests whose name, with its modules, contains one of these.
        filters: Vec<String>,
    },
    /// Prints all templates of a minor, each with the file that it comes from: `1.36`, or `etcd 3.6`. `diff` compares two minors.
    Templates {
        /// The minor, of etcd with `etcd` before it.
        #[arg(required = true, num_args = 1..=2)]
        of: Vec<String>,
    },
    /// Prints `package path` of each test, from the sources: `diff` compares two commits.
    TestNames {
        /// Another checkout. Default: this one.
        checkout: Option<PathBuf>,
    },
    /// Prints the record of runs of the tests on this machine, and which tests failed at the first try most often.
    Runs,
    /// Runs all checks and tests and ends with their count.
    Test {
        /// Only what a developer runs in a minute.
        #[arg(long, conflicts_with = "all")]
        fast: bool,
        /// Also what takes longest. Cut off, it goes on where it was, at the same commit.
        #[arg(long)]
        all: bool,
        /// Only steps whose name contains one of these.
        #[arg(long)]
        only: Vec<String>,
    },
}

/// One generated file: path in the checkout, and content.
type Generated = (PathBuf, String);

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Gen { check } => generate(check),
        Command::CheckCrates { circle: Some(name) } => house::print_circle(&name),
        Command::CheckCrates { circle: None } => {
            crates::check().and_then(|()| places::check()).and_then(|()| house::check())
        }
        Command::CheckCharts => charts::check(),
        Command::CheckDocs => pages::check(),
        Command::CheckBook => pages::book(),
        Command::CheckDependencies => testing::deny(),
        Command::Binaries => testing::build_binaries(),
        Command::Images => images::build(Profile::Release).map(|_| ()),
        Command::DemoImages => images::build(Profile::Dev).map(|_| ()),
        Command::Release(wanted) => release::make(&wanted),
        Command::Demo => demo::up(false),
        Command::DemoStore => demo::up(true),
        Command::DemoDown => demo::down(),
        Command::Bench { args } => bench::run_all(&args),
        Command::BenchDown => bench::down(),
        Command::Upgrade { from, keep } => upgrade::run_all(&from, keep),
        Command::Templates { of } => templates::print(&of),
        Command::TestNames { checkout } => names::print(checkout.as_deref().unwrap_or(root())),
        Command::Runs => testing::runs::print(),
        Command::Chaos { seed, filters } => testing::chaos::run(seed, &filters),
        Command::Test { fast: true, only, .. } => testing::run(Extent::Fast, &only),
        Command::Test { all: true, only, .. } => testing::run(Extent::All, &only),
        Command::Test { only, .. } => testing::run(Extent::Usual, &only),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn generate(check: bool) -> anyhow::Result<()> {
    let mut files: Vec<Generated> = crds::files()?;
    files.extend(rbac::files()?);
    files.extend(reference::files()?);
    files.extend(evidence::files()?);
    let mut stale = vec![];
    for (path, text) in files {
        let path = root().join(path);
        if std::fs::read_to_string(&path).ok().as_deref() == Some(text.as_str()) {
            continue;
        }
        if check {
            stale.push(path.display().to_string());
        } else {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            std::fs::write(&path, text)?;
        }
    }
    if !stale.is_empty() {
        bail!("not what would be generated; run `make gen`: {}", stale.join(", "));
    }
    if check { Ok(()) } else { by_tests() }
}

/// The page of messages comes from the situations that the planners' tests lead to, and the page of verbs from the program that has them,
/// of which this one knows nothing. Tests write them, and compare them, too.
fn by_tests() -> anyhow::Result<()> {
    for (packages, kind, test) in [
        (
            &["berth-plan-apps", "berth-plan-backup", "berth-plan-etcd", "berth-plan-cluster"][..],
            "--lib",
            "situations_are_written_down",
        ),
        (&["xtask"], "--test", "messages::"),
        (&["berth-cli"], "--bins", "the_page_of_verbs"),
    ] {
        let built = {
            let _held = shell::ours()?;
            let mut build = shell::cargo();
            build.args(["test", "--no-run", "--locked", "--message-format", "json-render-diagnostics", kind]);
            build.args((kind == "--test").then_some("it"));
            testing::program::built(build.args(packages.iter().flat_map(|package| ["-p", package])))?
        };
        let (messages, said) = built;
        let programs: Vec<_> = messages.iter().flat_map(|m| m.lines()).filter_map(testing::program::program).collect();
        if programs.len() != packages.len() {
            bail!("tests do not compile:\n{said}");
        }
        for program in programs {
            shell::run(program.command(&["--quiet", test]).env("BERTH_GEN", "1"))?;
        }
    }
    Ok(())
}
