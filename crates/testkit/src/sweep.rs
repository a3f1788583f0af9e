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

use std::{
    collections::BTreeSet,
    env, fs,
    future::Future,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    fault::{Fault, FaultPlan},
    oracle::{Counts, Dump, diff, diff_counts},
};

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
    one_in: u64,
    seed: u64,
    faults: Vec<Fault>,
    timeout: Duration,
    state: Option<PathBuf>,
}

impl Sweep {
    /// A sweep with the settings of the environment; without `BERTH_SWEEP`, one case in `one_in` is run.
    ///
    /// # Panics
    /// If `BERTH_SWEEP` or `BERTH_SWEEP_SEED` is set to something else than the table says.
    pub fn new(name: &str, one_in: u64) -> Self {
        let one_in = match env::var("BERTH_SWEEP").ok().as_deref() {
            None | Some("") => one_in,
            Some("full") => 1,
            Some(text) => {
                let number = text.strip_prefix("1/").and_then(|n| n.parse().ok());
                number.unwrap_or_else(|| panic!("BERTH_SWEEP={text}: `full` or `1/n`"))
            }
        };
        let seed = env::var("BERTH_SWEEP_SEED").map_or(0, |s| s.parse().expect("BERTH_SWEEP_SEED is a number"));
        let state = env::var_os("BERTH_SWEEP_STATE").map(|d| PathBuf::from(d).join(format!("{name}.sweep")));
        let faults = vec![Fault::StopBefore, Fault::StopAfter, Fault::LoseReply];
        Self { name: name.to_owned(), one_in: one_in.max(1), seed, faults, timeout: Duration::from_mins(2), state }
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
        self.state = Some(path.into());
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
        let mut passed = Passed::load(self.state.clone(), mutations)?;
        let mut summary = Summary { mutations, ..Summary::default() };
        println!(
            "sweep {name}: {mutations} mutating calls, {} cases, 1 in {}, seed {}",
            cases.len(),
            self.one_in,
            self.seed
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
        let chosen = numbered.filter(|(at, _)| mix(at ^ self.seed.rotate_left(32)).is_multiple_of(self.one_in));
        chosen.map(|(_, case)| case).collect()
    }
}

/// Spreads neighbouring numbers (the finalizer of splitmix64).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// What passed before, one case a line after a line that says what it is about.
struct Passed {
    path: Option<PathBuf>,
    about: String,
    cases: BTreeSet<String>,
}

impl Passed {
    fn load(path: Option<PathBuf>, mutations: usize) -> Result<Self> {
        let text = path.as_ref().and_then(|p| fs::read_to_string(p).ok()).unwrap_or_default();
        let mut lines = text.lines();
        // With another binary or another number of calls, what passed says nothing.
        let binary = fs::metadata(env::current_exe()?)?;
        let about = format!("{mutations} calls, binary of {:?}, {} bytes", binary.modified()?, binary.len());
        let same = lines.next() == Some(&*about);
        let cases = if same { lines.map(str::to_owned).collect() } else { BTreeSet::new() };
        Ok(Self { path, about, cases })
    }

    fn contains(&self, case: &str) -> bool {
        self.cases.contains(case)
    }

    fn add(&mut self, case: String) -> Result<()> {
        self.cases.insert(case);
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let lines: Vec<_> = std::iter::once(self.about.clone()).chain(self.cases.iter().cloned()).collect();
        fs::write(path, lines.join("\n") + "\n").with_context(|| format!("writing {}", path.display()))
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
