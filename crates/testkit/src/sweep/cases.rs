//! Which cases of a sweep are run, and which were before.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context as _, Result};

/// The settings of the environment, see [`super`].
#[derive(Clone, Debug)]
pub struct Choice {
    /// One case in so many is run.
    pub one_in: u64,
    /// Which of them; also the seed of whatever is random.
    pub seed: u64,
    /// File that remembers what passed.
    pub state: Option<PathBuf>,
}

impl Choice {
    /// Without `BERTH_SWEEP`, one case in `one_in` is run.
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
        Self { one_in: one_in.max(1), seed, state }
    }

    /// Whether the case of this number is run.
    pub fn takes(&self, number: u64) -> bool {
        mix(number ^ self.seed.rotate_left(32)).is_multiple_of(self.one_in)
    }
}

/// Spreads neighbouring numbers (the finalizer of splitmix64).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Numbers that look random, and are the same for the same seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(mix(self.0) % limit).unwrap_or(0)
    }
}

/// What passed before, one case a line after a line that says what it is about.
#[derive(Debug)]
pub struct Passed {
    path: Option<PathBuf>,
    about: String,
    cases: BTreeSet<String>,
}

impl Passed {
    /// Reads the file of the choice, if there is one. With another binary or about something else, what passed says nothing.
    pub fn load(choice: &Choice, about: &str) -> Result<Self> {
        let path = choice.state.clone();
        let text = path.as_ref().and_then(|p| fs::read_to_string(p).ok()).unwrap_or_default();
        let mut lines = text.lines();
        let binary = fs::metadata(env::current_exe()?)?;
        let about = format!("{about}, binary of {:?}, {} bytes", binary.modified()?, binary.len());
        let same = lines.next() == Some(&*about);
        let cases = if same { lines.map(str::to_owned).collect() } else { BTreeSet::new() };
        Ok(Self { path, about, cases })
    }

    /// Whether a case passed.
    pub fn contains(&self, case: &str) -> bool {
        self.cases.contains(case)
    }

    /// Writes a case down. It must be one line.
    pub fn add(&mut self, case: String) -> Result<()> {
        self.cases.insert(case);
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let lines: Vec<_> = std::iter::once(self.about.clone()).chain(self.cases.iter().cloned()).collect();
        fs::write(path, lines.join("\n") + "\n").with_context(|| format!("writing {}", path.display()))
    }
}
