//! Running programs, and saying what goes on.

use anyhow::{Context as _, bail};
use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

pub(crate) type Result<T> = anyhow::Result<T>;

/// A headline.
pub(crate) fn say(text: &str) {
    println!("\n==> {text}");
    let _ = std::io::stdout().flush();
}

/// The checkout: what make says, or `cargo xtask`.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = || Some(PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).parent()?.to_owned());
        variable("BERTH_ROOT").or_else(package).or_else(|| env::current_dir().ok()).unwrap_or_else(|| ".".into())
    });
    &ROOT
}

/// Where the sources lie that are built: make builds those of every checkout in one place, `cargo xtask` where they are.
pub(crate) fn sources() -> PathBuf {
    variable("BERTH_SRC").unwrap_or_else(|| root().to_owned())
}

/// A path among [`sources`], as it is in the checkout.
pub(crate) fn in_checkout(path: &Path) -> PathBuf {
    path.strip_prefix(sources()).map_or_else(|_| path.to_owned(), |rest| root().join(rest))
}

/// A variable that has a value.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// Cargo, in [`sources`]. What it builds is this checkout's while [`ours`] is held.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(sources());
    // Static programs, for images. With a target what runs while cargo builds is apart, and has not these flags.
    command.env("CARGO_BUILD_TARGET", host()).env("RUSTFLAGS", "-C target-feature=+crt-static");
    command.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_BUILD_RUSTFLAGS");
    // `cargo run` tells us about our own package. ring's build script takes that for its own, and is built anew.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Whatever is built and not shipped is built with the features that all of the workspace has together, those of its tests too, so that
/// cargo compiles a dependency once. It does so for the whole workspace where an example, of which there is one for this, is among what
/// it is asked for.
pub(crate) const UNIFIED: [&str; 4] = ["--locked", "--workspace", "--example", "unify"];

/// Builds programs as tests have them, unoptimised.
pub(crate) fn build_programs(programs: &[&str]) -> Result<()> {
    let _held = ours()?;
    run(cargo().arg("build").args(UNIFIED).args(programs.iter().flat_map(|program| ["--bin", program])))
}

/// A program of [`build_programs`].
pub(crate) fn program(name: &str) -> PathBuf {
    target_dir().join(host()).join("debug").join(name)
}

/// This machine, as Rust calls it.
pub(crate) fn host() -> &'static str {
    static HOST: LazyLock<String> = LazyLock::new(|| {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let text = output(Command::new(rustc).current_dir(root()).arg("-vV")).unwrap_or_default();
        // Cargo knows this word, too, where rustc does not say it.
        text.lines().find_map(|l| l.strip_prefix("host: ")).unwrap_or("host-tuple").to_owned()
    });
    &HOST
}

/// This program again, for a part of the work whose output is to be kept.
pub(crate) fn xtask(arguments: &[&str]) -> Command {
    let exe = env::current_exe().unwrap_or_else(|_| "xtask".into()).display().to_string();
    // A build may have put another one in its place since this one was started.
    let mut command = Command::new(exe.trim_end_matches(" (deleted)"));
    command.args(arguments);
    command
}

/// [`sources`] as this checkout has them, as long as it is held: another one may build in the same place.
#[derive(Debug)]
#[must_use = "another checkout may change what is built"]
pub(crate) struct Held(#[expect(dead_code, reason = "held for its drop")] Option<File>);

/// Waits for whoever builds now.
pub(crate) fn ours() -> Result<Held> {
    let Some(sources) = variable("BERTH_SRC") else { return Ok(Held(None)) };
    let path = sources.with_extension("lock");
    let lock = File::options().create(true).append(true).open(&path);
    let lock = lock.with_context(|| format!("cannot open {}", path.display()))?;
    lock.lock()?;
    run(Command::new(root().join("xtask/sync.sh")).arg(&sources))?;
    Ok(Held(Some(lock)))
}

/// Where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    variable("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// What builds outside of the checkout leave: as in crates/devcluster.
pub(crate) fn cache() -> PathBuf {
    variable("BERTH_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|d| d.join("berth")))
        .unwrap_or_else(|| variable("HOME").unwrap_or_else(|| "/root".into()).join(".cache/berth"))
}

/// Where devcluster keeps its clusters.
pub(crate) fn state() -> PathBuf {
    variable("BERTH_STATE").unwrap_or_else(|| "/var/lib/berth/devcluster".into())
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
