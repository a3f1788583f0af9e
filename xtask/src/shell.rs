//! Running programs, and saying what goes on.

use anyhow::{Context as _, bail};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::root;

pub(crate) type Result<T> = anyhow::Result<T>;

/// A headline.
pub(crate) fn say(text: &str) {
    println!("\n==> {text}");
    let _ = std::io::stdout().flush();
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // `cargo run` tells us about our own package. ring's build script takes that for its own, and is built anew.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// This program again, for a part of the work whose output is to be kept.
pub(crate) fn xtask(arguments: &[&str]) -> Command {
    let exe = std::env::current_exe().unwrap_or_else(|_| "xtask".into()).display().to_string();
    // A build may have put another one in its place since this one was started.
    let mut command = Command::new(exe.trim_end_matches(" (deleted)"));
    command.args(arguments);
    command
}

/// To be called before a build: another checkout may have built in the same place since this run began.
pub(crate) fn ours() -> Result<()> {
    run(Command::new(root().join("xtask/prepare.sh")).current_dir(root()))
}

/// Where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR").filter(|v| !v.is_empty());
    set.map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// What builds outside of the checkout leave: as in crates/devcluster.
pub(crate) fn cache() -> PathBuf {
    let dir = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    dir("BERTH_CACHE")
        .or_else(|| dir("XDG_CACHE_HOME").map(|d| d.join("berth")))
        .unwrap_or_else(|| dir("HOME").unwrap_or_else(|| "/root".into()).join(".cache/berth"))
}

/// Where devcluster keeps its clusters.
pub(crate) fn state() -> PathBuf {
    std::env::var_os("BERTH_STATE").map_or_else(|| "/var/lib/berth/devcluster".into(), PathBuf::from)
}

/// Runs a program with our own input and output; an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = line(command);
    let status = command.status().with_context(|| format!("cannot run `{name}`"))?;
    if !status.success() {
        bail!("`{name}` ended with {status}");
    }
    Ok(())
}

/// What a program prints; an error with what it complains about if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = line(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{name}`"))?;
    if !output.status.success() {
        bail!("`{name}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// [`output`] of a program that reads `text`.
pub(crate) fn input(command: &mut Command, text: &str) -> Result<String> {
    let name = line(command);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().with_context(|| format!("cannot run `{name}`"))?;
    let stdin = child.stdin.take();
    let text = text.to_owned();
    // It may print before it has read everything.
    let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(text.as_bytes())));
    let output = child.wait_with_output()?;
    // Who ends early says why.
    let _ = writer.join();
    if !output.status.success() {
        bail!("`{name}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Writes a file if its content differs. True if it was written.
pub(crate) fn write_if_changed(path: &Path, content: &[u8], mode: u32) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(false);
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    // By a rename: a program that runs from that file goes on.
    let new = path.with_extension("new");
    let written = fs::write(&new, content)
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&new, path));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

/// Copies a program, if it differs.
pub(crate) fn install(from: &Path, to: &Path) -> Result<bool> {
    let content = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write_if_changed(to, &content, 0o755)
}

/// SHA-256, the first 8 hexadecimal digits.
pub(crate) fn short_digest(content: &[u8]) -> String {
    use sha2::{Digest as _, Sha256};
    let first = Sha256::digest(content).iter().take(4).fold(0u32, |n, b| n << 8 | u32::from(*b));
    format!("{first:08x}")
}
