//! For whom is built, and what that takes: Rust's standard library for it, and a C compiler that links.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, bail, ensure};

use crate::root;
use crate::shell::{Result, cargo, host, output, run, say};

/// The command line's program.
pub(super) const CLI: &str = "kubectl-berth";

/// What runs in pods, by program and package.
const IN_PODS: [&str; 8] = [
    "berth-operator",
    "berth-agent",
    "berth-approve",
    "berth-backup",
    "berth-gateway",
    "berth-access",
    "berth-api-proxy",
    "berth-apps",
];

/// A platform in Go's words, and what it is to Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Platform {
    pub(super) os: &'static str,
    pub(super) arch: &'static str,
    /// For images. glibc, as in the images of every test.
    images: Option<&'static str>,
    /// For `kubectl-berth`. musl: a static glibc loads the name services of the machine that it runs on, which are of its own version
    /// or crash it.
    cli: &'static str,
}

const ALL: [Platform; 5] = [
    Platform { os: "linux", arch: "amd64", images: Some("x86_64-unknown-linux-gnu"), cli: "x86_64-unknown-linux-musl" },
    Platform {
        os: "linux",
        arch: "arm64",
        images: Some("aarch64-unknown-linux-gnu"),
        cli: "aarch64-unknown-linux-musl",
    },
    Platform { os: "darwin", arch: "amd64", images: None, cli: "x86_64-apple-darwin" },
    Platform { os: "darwin", arch: "arm64", images: None, cli: "aarch64-apple-darwin" },
    Platform { os: "windows", arch: "amd64", images: None, cli: "x86_64-pc-windows-gnu" },
];

/// A platform whose programs are there.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) platform: Platform,
    /// Where cargo put them.
    dir: PathBuf,
}

impl Platform {
    /// Those that were named; all, if none was.
    pub(super) fn chosen(names: &[String]) -> Result<Vec<Self>> {
        let names: Vec<&str> = names.iter().map(|n| n.trim()).filter(|n| !n.is_empty()).collect();
        let known = || ALL.map(Self::name).join(", ");
        for name in &names {
            ensure!(ALL.iter().any(|p| p.name() == *name), "RELEASE_TARGETS: no `{name}`; there are {}", known());
        }
        Ok(ALL.into_iter().filter(|p| names.is_empty() || names.contains(&p.name().as_str())).collect())
    }

    /// Such as `linux/arm64`.
    pub(super) fn name(self) -> String {
        format!("{}/{}", self.os, self.arch)
    }

    /// What Rust calls it where a program is built for it; none if it is not.
    pub(super) fn triple(self, program: &str) -> Option<&'static str> {
        if program == CLI { Some(self.cli) } else { self.images }
    }

    /// A program's file.
    pub(super) fn file(self, program: &str) -> String {
        if self.os == "windows" { format!("{program}.exe") } else { program.to_owned() }
    }
}

impl Built {
    /// A program of it, if it has that one.
    pub(super) fn program(&self, program: &str) -> Option<PathBuf> {
        let triple = self.platform.triple(program)?;
        Some(self.dir.join(triple).join("release").join(self.platform.file(program)))
    }
}

/// Builds each platform: what is there, and what is not and why. `all`: it is an error if one is not.
pub(super) fn build(platforms: &[Platform], all: bool, version: &str) -> Result<(Vec<Built>, Vec<String>)> {
    let (mut built, mut missing) = (vec![], vec![]);
    // Where paths of dependencies are is known once they are there.
    run(cargo().current_dir(root()).args(["fetch", "--locked"]))?;
    // In the checkout: a release is of its sources, wherever they lie, and of no other build.
    let dir = root().join("target/dist");
    for platform in platforms {
        let name = platform.name();
        let programs = [(platform.images, &IN_PODS[..]), (Some(platform.cli), &["berth-cli"][..])];
        let programs = programs.into_iter().filter_map(|(triple, packages)| Some((triple?, packages)));
        let tools: Result<Vec<_>> =
            programs.map(|(triple, packages)| Ok((triple, packages, Tools::ready(triple, host())?))).collect();
        match tools {
            Ok(tools) => {
                for (triple, packages, tools) in tools {
                    say(&format!("{name}: {} ({triple})", packages.join(", ")));
                    compile(triple, packages, &tools, &dir, version)?;
                }
                built.push(Built { platform: *platform, dir: dir.clone() });
            }
            Err(why) if all => bail!("{name}: {why:#}"),
            Err(why) => missing.push(format!("{name}: {why:#}")),
        }
    }
    Ok((built, missing))
}

/// Another C compiler than this machine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tools {
    /// Compiles C, of which there is some in `ring`.
    compiler: &'static str,
    linker: &'static str,
    /// Debian's.
    packages: &'static [&'static str],
}

impl Tools {
    /// What there has to be.
    fn of(triple: &str, host: &str) -> Result<Self> {
        let same = triple.split('-').next() == host.split('-').next();
        let one = |tool, packages: &'static [&'static str]| Self { compiler: tool, linker: tool, packages };
        Ok(match triple {
            _ if triple == host => one("cc", &["gcc", "libc6-dev"]),
            // Rust brings its own musl to link with.
            _ if triple.ends_with("-linux-musl") && same => {
                Self { compiler: "musl-gcc", linker: "cc", packages: &["musl-tools"] }
            }
            "x86_64-unknown-linux-gnu" | "x86_64-unknown-linux-musl" => {
                one("x86_64-linux-gnu-gcc", &["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"])
            }
            "aarch64-unknown-linux-gnu" | "aarch64-unknown-linux-musl" => {
                one("aarch64-linux-gnu-gcc", &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"])
            }
            "x86_64-pc-windows-gnu" => one("x86_64-w64-mingw32-gcc", &["gcc-mingw-w64-x86-64"]),
            _ if triple.ends_with("-apple-darwin") => bail!(
                "it is linked with Apple's SDK, which is for use on a Mac; there, \
                 `cargo build --release --locked -p berth-cli` builds {CLI}"
            ),
            other => bail!("no C compiler is known for {other}"),
        })
    }

    /// Gets what is missing.
    fn ready(triple: &str, host: &str) -> Result<Self> {
        let tools = Self::of(triple, host)?;
        if !has_std(triple)? {
            let rustup = output(Command::new("rustup").current_dir(root()).args(["target", "add", triple]));
            rustup.with_context(|| format!("Rust's standard library for {triple} cannot be installed"))?;
        }
        if [tools.compiler, tools.linker].iter().any(|tool| !is_there(tool)) {
            let packages = tools.packages.join(" ");
            let install = format!("apt-get update -q && apt-get install -y -q --no-install-recommends {packages}");
            let apt = output(Command::new("sh").args(["-c", &install]).env("DEBIAN_FRONTEND", "noninteractive"));
            apt.with_context(|| format!("{} is missing: apt-get install {packages}", tools.compiler))?;
        }
        Ok(tools)
    }

    /// For cargo. The linker that it takes anyway is not named: where that of this machine differs from one build to the next, cargo
    /// builds anew whatever runs here, such as build scripts, and all crates that need it.
    fn variables(self, triple: &str) -> BTreeMap<String, &'static str> {
        let name = triple.replace('-', "_");
        let mut variables = BTreeMap::from([(format!("CC_{name}"), self.compiler)]);
        if self.linker != "cc" {
            variables.insert(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), self.linker);
        }
        variables
    }
}

/// Whether programs for it can be compiled.
fn has_std(triple: &str) -> Result<bool> {
    let print = ["--print", "target-libdir", "--target", triple];
    let dir = output(Command::new("rustc").current_dir(root()).args(print))?;
    Ok(fs::read_dir(dir.trim()).is_ok_and(|mut files| files.next().is_some()))
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// One call of cargo.
fn compile(triple: &str, packages: &[&str], tools: &Tools, dir: &Path, version: &str) -> Result<()> {
    let mut build = cargo();
    build.current_dir(root()).args(["build", "--release", "--locked", "--target", triple, "--target-dir"]).arg(dir);
    build.args(packages.iter().flat_map(|package| ["-p", package]));
    build.envs(tools.variables(triple));
    build.env("CARGO_ENCODED_RUSTFLAGS", flags(triple, dir)?.join("\u{1f}"));
    // What `kubectl berth` says of itself.
    build.env("BERTH_RELEASE_VERSION", version);
    run(&mut build)
}

/// Static, and without a path of this machine, which messages of panics would have.
fn flags(triple: &str, target_dir: &Path) -> Result<Vec<String>> {
    let mut flags = vec![];
    if triple.ends_with("-linux-gnu") {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    if triple.contains("-windows-") {
        // Its header would have the time of day.
        flags.push("-Clink-arg=-Wl,--no-insert-timestamp".to_owned());
    }
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    let registry =
        fs::read_dir(home.join("registry/src")).with_context(|| format!("no sources in {}", home.display()))?;
    // The last one that fits counts.
    let mut remap = |from: &Path, to: &str| flags.push(format!("--remap-path-prefix={}={to}", from.display()));
    remap(root(), "/berth");
    remap(target_dir, "/berth/target");
    for source in registry {
        // The name has a digest of where it was downloaded from.
        remap(&source?.path(), "/cargo");
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_chosen_by_name() {
        let names = |text: &str| -> Vec<String> { text.split(',').map(ToOwned::to_owned).collect() };
        assert_eq!(Platform::chosen(&[]).unwrap().len(), ALL.len());
        assert_eq!(Platform::chosen(&names("")).unwrap().len(), ALL.len());
        let two = Platform::chosen(&names("windows/amd64, linux/arm64")).unwrap();
        assert_eq!(two.iter().map(|p| p.name()).collect::<Vec<_>>(), ["linux/arm64", "windows/amd64"]);
        let error = Platform::chosen(&names("linux/amd64,linux/riscv64")).unwrap_err().to_string();
        assert!(error.contains("no `linux/riscv64`; there are linux/amd64, linux/arm64, darwin"), "{error}");
    }

    #[test]
    fn only_linux_has_images() {
        for platform in ALL {
            assert_eq!(platform.triple("berth-operator").is_some(), platform.os == "linux");
            assert!(platform.triple(CLI).is_some());
        }
    }

    #[test]
    fn each_platform_has_a_compiler_or_says_why_not() {
        let (amd64, arm64) = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu");
        let compiler =
            |triple: &str, host: &str| Tools::of(triple, host).map(|t| t.compiler).map_err(|e| e.to_string());
        assert_eq!(compiler(amd64, amd64), Ok("cc"));
        assert_eq!(compiler(arm64, amd64), Ok("aarch64-linux-gnu-gcc"));
        assert_eq!(compiler(amd64, arm64), Ok("x86_64-linux-gnu-gcc"));
        assert_eq!(compiler("aarch64-unknown-linux-musl", arm64), Ok("musl-gcc"));
        assert_eq!(compiler("aarch64-unknown-linux-musl", amd64), Ok("aarch64-linux-gnu-gcc"));
        assert!(compiler("aarch64-apple-darwin", amd64).unwrap_err().contains("Apple's SDK"));
        for platform in ALL.iter().filter(|p| p.os != "darwin") {
            let triples = [platform.images, Some(platform.cli)].into_iter().flatten();
            triples.for_each(|triple| assert!(compiler(triple, amd64).is_ok(), "{triple}"));
        }
    }
    #[test]
    fn the_linker_of_this_machine_is_the_same_in_every_build() {
        let (host, arm64) = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu");
        let variables = |triple| Tools::of(triple, host).unwrap().variables(triple);
        for platform in ALL.iter().filter(|p| p.os != "darwin") {
            for triple in [platform.images, Some(platform.cli)].into_iter().flatten() {
                let variables = variables(triple);
                assert!(
                    !variables.contains_key("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER"),
                    "{triple}: {variables:?}"
                );
            }
        }
        assert_eq!(variables(arm64)["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"], "aarch64-linux-gnu-gcc");
    }
}
