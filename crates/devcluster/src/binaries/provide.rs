//! Providing what is missing, fetched or built: one artifact after the other, each under its own lock, each file renamed into place
//! when it is complete.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, anyhow, bail};

use super::{
    catalog::{Artifact, Selection},
    directory, download, expected,
    fetch::{Client, Failure},
    sources::{self, Arch, Base, Mode, Offer, SUMS, VARIABLE},
    sums::Sums,
};
use crate::{files, paths};

/// How the directories begin in which binaries are made before they are moved to their place.
const STAGING: &str = "staging-";

/// Provides what is selected and not there yet, from where `BERTH_BINARIES` says; if all is there, nothing is asked. Prints a line for
/// each artifact; the output of compilers goes to a log that errors name.
pub fn build(selection: &Selection) -> Result<()> {
    let artifacts = selection.artifacts().map_err(|unknown| {
        let known: Vec<_> = Selection::All.artifacts().unwrap_or_default().iter().map(Artifact::name).collect();
        anyhow!("nothing to build is called {}; known are {}", unknown.join(", "), known.join(", "))
    })?;
    let missing: Vec<_> = artifacts.iter().filter(|a| !a.is_built()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let value = env::var_os(VARIABLE).unwrap_or_default();
    let mode = Mode::parse(&value.to_string_lossy(), Path::is_dir)?;
    let mut run = Run { mode, client: Client::default(), table: Sums::of_checkout(), list: None, gave_up: false };
    run.check_builder(&missing)?;
    let start = Instant::now();
    for (index, artifact) in missing.iter().enumerate() {
        let title = format!("[{}/{}] {}:", index + 1, missing.len(), artifact.name());
        run.provide(artifact, &title).with_context(|| format!("cannot provide {}", artifact.name()))?;
    }
    eprintln!(
        "{} of {} artifacts were missing; now all are there, after {} s",
        missing.len(),
        artifacts.len(),
        start.elapsed().as_secs()
    );
    Ok(())
}

/// Builds a program for another architecture of Linux into a file, with nothing of this machine in it. Returns the folder of its wrapper module.
pub fn cross(name: &str, arch: &str, to: &Path) -> Result<PathBuf> {
    let selection = Selection::Named(vec![name.to_owned()]);
    let artifacts = selection.artifacts().map_err(|unknown| anyhow!("nothing is called {}", unknown.join(", ")))?;
    let [artifact] = &artifacts[..] else { bail!("{name} is {} artifacts", artifacts.len()) };
    super::build::check(&[artifact])?;
    let (cache, name) = (paths::cache(), artifact.name());
    let _lock = files::Lock::acquire(&cache.join("locks").join(&name), &name)?;
    let work = cache.join("build").join(&name);
    files::create_dir(&work)?;
    super::build::cross(artifact, &work, arch, to)
}

/// One run over several artifacts.
struct Run {
    mode: Mode,
    client: Client,
    table: Sums,
    /// The base's, once it is read.
    list: Option<Sums>,
    /// Whether an address could not be reached: then no other is asked.
    gave_up: bool,
}

impl Run {
    /// Says before the first of many minutes that a compiler is missing.
    fn check_builder(&self, missing: &[&Artifact]) -> Result<()> {
        if matches!(self.mode, Mode::Base(_)) {
            return Ok(());
        }
        let is_built = |artifact: &Artifact| self.mode == Mode::Build || offers(artifact).is_empty();
        let built: Vec<_> = missing.iter().copied().filter(|artifact| is_built(artifact)).collect();
        super::build::check(&built)?;
        if self.mode == Mode::Build {
            let seconds = built.iter().map(|artifact| expected::seconds(artifact)).sum();
            eprintln!("to build: {}, which takes {}", missing.len(), expected::span(seconds));
        }
        Ok(())
    }

    fn provide(&mut self, artifact: &Artifact, title: &str) -> Result<()> {
        let cache = paths::cache();
        let name = artifact.name();
        let _lock = files::Lock::acquire(&cache.join("locks").join(&name), &name)?;
        eprint!("{title}");
        if artifact.is_built() {
            eprintln!(" another devcluster made it meanwhile");
            return Ok(());
        }
        let start = Instant::now();
        let work = cache.join("build").join(&name);
        let staging = work.join(format!("{STAGING}{}", std::process::id()));
        let result = prepare(artifact, &work, &staging).and_then(|()| self.make(artifact, title, &work, &staging));
        // What went wrong before matters more than what cannot be removed.
        let removed = files::remove(&staging);
        match &result {
            Ok(how) => eprintln!(" {how} in {:.1} s", start.elapsed().as_secs_f32()),
            Err(_) => eprintln!(" failed"),
        }
        result.and(removed)
    }

    /// Fetches or builds; says in the end which.
    fn make(&mut self, artifact: &Artifact, title: &str, work: &Path, staging: &Path) -> Result<&'static str> {
        let mut expects = |file: &str, length: Option<u64>| match length {
            Some(length) => eprint!(" {file} {} …", expected::size(length)),
            None => eprint!(" {file} …"),
        };
        if let Mode::Base(base) = self.mode.clone() {
            let fetched = self
                .read_list(&base)
                .and_then(|list| download::from_base(&self.client, &base, &list, artifact, staging, &mut expects));
            return fetched.map(|()| "fetched").map_err(with_way_out);
        }
        let offers = offers(artifact);
        if self.mode != Mode::Build && !self.gave_up && !offers.is_empty() {
            let fetched = download::from_publisher(&self.client, &self.table, &offers, artifact, staging, &mut expects);
            let (why, gave_up) = match fetched {
                Ok(()) => return Ok("fetched"),
                Err(e) if self.mode == Mode::Download => return Err(with_way_out(e)),
                Err(Failure::Local(e)) => return Err(e),
                Err(Failure::Wrong(why)) => (why, ""),
                Err(Failure::Unreachable(why)) => (why, ", and asks no other address"),
            };
            self.gave_up = !gave_up.is_empty();
            eprint!(" {why}; builds it instead{gave_up}\n{title}");
            super::build::check(&[artifact])?;
            // Builds need the room.
            files::remove(staging)?;
            files::create_dir(staging)?;
        }
        eprint!(" builds, {} …", expected::span(expected::seconds(artifact)));
        super::build::artifact(artifact, work, staging)?;
        Ok("built")
    }

    /// The base's list of sums, which is asked for once.
    fn read_list(&mut self, base: &Base) -> Result<Sums, Failure> {
        if let Some(list) = &self.list {
            return Ok(list.clone());
        }
        let text = self.client.list_of_base(base, SUMS)?;
        let list = Sums::parse(&text).map_err(|line| {
            let place = base.place(SUMS);
            Failure::Wrong(format!("{place} is to have lines of a sum and a path, but has `{line}`"))
        })?;
        Ok(self.list.insert(list).clone())
    }
}

/// What publishers offer for this machine.
fn offers(artifact: &Artifact) -> Vec<Offer> {
    Arch::here().map(|arch| sources::offers(artifact, arch)).unwrap_or_default()
}

fn with_way_out(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Local(e) => e,
        Failure::Unreachable(why) | Failure::Wrong(why) => anyhow!("{why}; {VARIABLE}=build builds it here"),
    }
}

fn prepare(artifact: &Artifact, work: &Path, staging: &Path) -> Result<()> {
    files::create_dir(&directory(artifact.component, artifact.version))?;
    files::create_dir(work)?;
    remove_leftovers(work)?;
    files::create_dir(staging)
}

/// Removes what killed runs left. The artifact's lock is held, so nobody but a compiler that outlived its `devcluster`
/// is at work here, and what that makes is never looked at.
fn remove_leftovers(work: &Path) -> Result<()> {
    for entry in fs::read_dir(work).with_context(|| format!("cannot list {}", work.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(STAGING) {
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}
