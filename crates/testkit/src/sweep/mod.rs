//! Breaks every mutating call of a workload in every way, one run each, and compares how it ends.
//!
//! The 0.7 ms between two writes are never hit by chance, so the calls are enumerated: the first run is undisturbed and
//! says how many there are and what the end is; a second one shows that the end is always the same; then one run per
//! call and fault.
//!
//! | variable | meaning |
//! |---|---|
//! | `BERTH_SWEEP` | `full`, or `1/n`: every n-th case, by a hash |
//! | `BERTH_SWEEP_SEED` | another choice of cases |
//! | `BERTH_SWEEP_STATE` | directory of files that remember what passed, to go on after an interruption with the same binary |

mod cases;

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

pub use cases::{Choice, Passed, Random};

use crate::fault::{Fault, FaultPlan};
use crate::oracle::{Counts, Dump, diff, diff_counts};

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// End state, see [`Dumper`](crate::oracle::Dumper).
    pub state: Dump,
    /// Creates and deletes that count; leave it empty where only the end matters.
    pub counts: Counts,
}

impl Outcome {
    fn diff(&self, actual: &Self) -> String {
        let parts = [diff(&self.state, &actual.state), diff_counts(&self.counts, &actual.counts)];
        parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Mutating calls of the undisturbed run.
    pub mutations: usize,
    /// Cases that ended as they should, those of earlier runs included.
    pub passed: usize,
    /// Of these, cases whose call was never made: runs differ a little in their order.
    pub not_reached: usize,
}

/// An enumeration of faults over one workload.
#[derive(Clone, Debug)]
#[must_use]
pub struct Sweep {
    name: String,
    choice: Choice,
    faults: Vec<Fault>,
    timeout: Duration,
}

impl Sweep {
    /// A sweep with the settings of the environment; without `BERTH_SWEEP`, one case in `one_in` is run.
    ///
    /// # Panics
    /// If `BERTH_SWEEP` or `BERTH_SWEEP_SEED` is set to something else than the table says.
    pub fn new(name: &str, one_in: u64) -> Self {
        let faults = vec![Fault::StopBefore, Fault::StopAfter, Fault::LoseReply];
        Self { name: name.to_owned(), choice: Choice::new(name, one_in), faults, timeout: Duration::from_mins(15) }
    }

    /// Other faults than a stop before, a stop after and a lost reply.
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// How long one run may take. Default: two minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Remembers what passed in this file, and goes on from there.
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.choice.state = Some(path.into());
        self
    }

    /// All cases: `workload` prepares what it needs (a namespace of its own), runs under the plan until converged (see
    /// [`lives`]), and says how it ended. The first case that ends otherwise than the undisturbed run is the error.
    pub async fn run(self, workload: impl AsyncFn(FaultPlan) -> Result<Outcome>) -> Result<Summary> {
        let name = self.name.clone();
        let plan = FaultPlan::new();
        let expected = self.once(&workload, &plan).await.with_context(|| format!("sweep {name}: undisturbed"))?;
        let (mutations, calls) = (plan.mutations(), plan.calls());
        ensure!(mutations > 0, "sweep {name}: the workload made no mutating call through its plan");
        let again = self.once(&workload, &FaultPlan::new()).await.with_context(|| format!("sweep {name}: again"))?;
        let difference = expected.diff(&again);
        ensure!(difference.is_empty(), "sweep {name}: two undisturbed runs end differently, mask this:\n{difference}");

        let cases = self.cases(mutations);
        let mut passed = Passed::load(&self.choice, &format!("{mutations} calls"))?;
        let mut summary = Summary { mutations, ..Summary::default() };
        println!(
            "sweep {name}: {mutations} mutating calls, {} cases, 1 in {}, seed {}",
            cases.len(),
            self.choice.one_in,
            self.choice.seed
        );
        for (at, (k, fault)) in cases.iter().enumerate() {
            let case = format!("#{k} {fault:?}");
            if passed.contains(&case) {
                summary.passed += 1;
                continue;
            }
            let began = Instant::now();
            let plan = FaultPlan::new();
            plan.at(*k, fault.clone());
            let result = self.once(&workload, &plan).await;
            let hit = plan.calls().into_iter().find(|c| c.mutation == Some(*k));
            let reference = calls.iter().find(|c| c.mutation == Some(*k));
            let call = hit.as_ref().or(reference).map_or_else(String::new, ToString::to_string);
            let broken = match result {
                Err(e) => format!("{e:#}"),
                Ok(outcome) => expected.diff(&outcome),
            };
            let verdict = if broken.is_empty() { "ok" } else { "BROKEN" };
            println!("sweep {name}: {}/{} {fault:?} {call}: {verdict} {:.1?}", at + 1, cases.len(), began.elapsed());
            if !broken.is_empty() {
                let log: Vec<_> =
                    plan.calls().iter().filter(|c| c.verb.is_mutating()).map(ToString::to_string).collect();
                bail!("sweep {name}: {fault:?} at {call}\n{broken}\nwrites of this run:\n{}", log.join("\n"));
            }
            summary.passed += 1;
            summary.not_reached += usize::from(hit.is_none());
            passed.add(case)?;
        }
        Ok(summary)
    }

    async fn once(&self, workload: &impl AsyncFn(FaultPlan) -> Result<Outcome>, plan: &FaultPlan) -> Result<Outcome> {
        match tokio::time::timeout(self.timeout, workload(plan.clone())).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("not converged within {:?}", self.timeout),
        }
    }

    /// The chosen cases: call by call, so that an interrupted sweep has finished the early ones.
    fn cases(&self, mutations: usize) -> Vec<(usize, Fault)> {
        let all = (1..=mutations).flat_map(|k| self.faults.iter().map(move |f| (k, f.clone())));
        let numbered = (0_u64..).zip(all);
        let chosen = numbered.filter(|(at, _)| self.choice.takes(*at));
        chosen.map(|(_, case)| case).collect()
    }
}

/// Runs an operator through its lives until `done`: whenever the plan stops it, it is dropped and the next one starts.
/// `operator` makes its clients from the plan each time. An operator that ends by itself is an error.
pub async fn lives<T, O>(plan: &FaultPlan, mut operator: impl FnMut() -> O, done: impl Future<Output = T>) -> Result<T>
where
    O: Future<Output = Result<()>>,
{
    let mut done = pin!(done);
    loop {
        tokio::select! {
            biased;
            result = &mut done => return Ok(result),
            () = plan.stopped() => {}
            ended = operator() => {
                ended.context("the operator failed")?;
                bail!("the operator ended by itself");
            }
        }
        plan.restart();
    }
}
