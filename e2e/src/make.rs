//! `make` as a person types it, in a shell that was just opened.

use std::{
    env,
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};

use crate::paths;

/// What a shell has that was just opened, somewhere else.
pub fn plain(command: &mut Command) -> &mut Command {
    let kept = ["PATH", "HOME", "TERM"].into_iter().filter_map(|name| Some((name, env::var_os(name)?)));
    command.env_clear().envs(kept).current_dir("/").stdin(Stdio::null())
}

/// [`plain`], and where the caches are, which is this machine's affair; the rest of cargo's and make's environment belongs to the
/// run of tests.
pub fn building(command: &mut Command) -> &mut Command {
    let kept = ["BERTH_CACHE", "BERTH_STATE", "CARGO_HOME", "RUSTUP_HOME", "XDG_CACHE_HOME"];
    let kept = kept.into_iter().filter_map(|name| Some((name, env::var_os(name)?)));
    plain(command).envs(kept)
}

/// `make TARGET NAME=VALUE…` in the checkout: whether it went well, and what it printed.
pub fn try_make(target: &str, variables: &[String]) -> Result<(bool, String)> {
    println!("$ make {target} {}", variables.join(" "));
    let mut command = Command::new("make");
    command.arg("-C").arg(paths::root()).arg(target).args(variables);
    let output = building(&mut command).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}");
    Ok((output.status.success(), text))
}

/// [`try_make`] that has to go well.
pub fn make(target: &str, variables: &[String]) -> Result<String> {
    let (well, text) = try_make(target, variables)?;
    ensure!(well, "`make {target}` failed");
    Ok(text)
}
