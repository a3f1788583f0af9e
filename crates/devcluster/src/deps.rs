//! What the machine must have, checked all at once so that a first run ends with one list and not with five.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// A Debian package, how to see that it is there, and what it is for.
struct Dependency {
    package: &'static str,
    probe: Probe,
    needed_for: &'static str,
}

enum Probe {
    Program(&'static str),
    PkgConfig(&'static str),
    File(&'static str),
}

/// How the need for it begins.
const FOR_RUNC: &str = "building runc";

const DEPENDENCIES: [Dependency; 13] = [
    program("iptables", "iptables", "the pods' bridge (masquerading) and host ports"),
    program("nftables", "nft", "kube-proxy"),
    program("conntrack", "conntrack", "kube-proxy"),
    program("ethtool", "ethtool", "kubelet"),
    program("socat", "socat", "port-forward"),
    program("ipset", "ipset", "kube-proxy"),
    program("keepalived", "keepalived", "a peer of the virtual IP in a test"),
    program("iproute2", "ip", "the cluster's network namespace"),
    program("util-linux", "setsid", "processes that outlive the terminal"),
    program("pkg-config", "pkg-config", FOR_RUNC),
    program("gcc", "gcc", FOR_RUNC),
    Dependency { package: "libc6-dev", probe: Probe::File("/usr/include/stdio.h"), needed_for: FOR_RUNC },
    Dependency {
        package: "libseccomp-dev",
        probe: Probe::PkgConfig("libseccomp"),
        needed_for: "building runc, which without seccomp starts no pod",
    },
];

/// What only Kubernetes' own tests ask for, in images that are made of this machine's programs.
const CONFORMANCE: [Dependency; 3] = [
    program("busybox-static", "busybox", "the image busybox"),
    program("curl", "curl", "the image agnhost"),
    program("netcat-openbsd", "nc.openbsd", "the image agnhost"),
];

const fn program(package: &'static str, name: &'static str, needed_for: &'static str) -> Dependency {
    Dependency { package, probe: Probe::Program(name), needed_for }
}

/// The Debian packages that are not there.
pub fn missing() -> Vec<&'static str> {
    DEPENDENCIES.iter().filter(|d| !d.is_there()).map(|d| d.package).collect()
}

/// Fails with the exact line to type if a package is missing.
pub fn check() -> Result<()> {
    report(&DEPENDENCIES.iter().filter(|d| !d.is_there()).collect::<Vec<_>>())
}

fn report(missing: &[&Dependency]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let why: Vec<_> = missing.iter().map(|d| format!("  {:<16} {}", d.package, d.needed_for)).collect();
    let packages: Vec<_> = missing.iter().map(|d| d.package).collect();
    bail!(
        "packages are missing:\n{}\ninstall them with `devcluster deps --install`, or\n  \
         apt-get update && apt-get install -y --no-install-recommends {}",
        why.join("\n"),
        packages.join(" ")
    )
}

/// Fails without a program that builds `artifacts`, if there are any; `how` says how to get it.
pub(crate) fn check_builder(program: &str, how: &str, artifacts: &[String]) -> Result<()> {
    if artifacts.is_empty() || find(program).is_some() {
        return Ok(());
    }
    bail!(
        "`{program}` is not in PATH, and builds what is not fetched: {}. Install {how}, or have all binaries fetched from a machine \
         that has them: BERTH_BINARIES=<address or folder>, see `devcluster sums --help`",
        artifacts.join(", ")
    )
}

/// Fails unless runc can be built: with a C compiler and seccomp.
pub(crate) fn check_c() -> Result<()> {
    report(&DEPENDENCIES.iter().filter(|d| d.needed_for.starts_with(FOR_RUNC) && !d.is_there()).collect::<Vec<_>>())
}

/// Fails unless run by root, who alone may make namespaces, mounts and cgroups.
pub(crate) fn check_root() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("a cluster needs namespaces, mounts and cgroups: run as root");
    }
    Ok(())
}

/// Installs what is missing with apt-get.
pub fn install() -> Result<()> {
    install_packages(&missing())?;
    check()
}

/// Installs what the images of Kubernetes' own tests are made of.
pub(crate) fn install_for_conformance() -> Result<()> {
    let missing: Vec<_> = CONFORMANCE.iter().filter(|d| !d.is_there()).map(|d| d.package).collect();
    install_packages(&missing)
}

fn install_packages(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    for arguments in [&["update", "-q"][..], &["install", "-y", "-q", "--no-install-recommends"]] {
        let packages = if arguments[0] == "install" { missing } else { &[] };
        let status = Command::new("apt-get")
            .args(arguments)
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .context("cannot run apt-get: install the packages with your system's package manager")?;
        if !status.success() {
            bail!("`apt-get {} {}` ended with {status}", arguments.join(" "), packages.join(" "));
        }
    }
    Ok(())
}

impl Dependency {
    fn is_there(&self) -> bool {
        match self.probe {
            Probe::Program(name) => find(name).is_some(),
            Probe::File(path) => Path::new(path).exists(),
            Probe::PkgConfig(library) => {
                Command::new("pkg-config").args(["--exists", library]).status().is_ok_and(|status| status.success())
            }
        }
    }
}

/// The `PATH` of everything that is started: the caller's, and the directories where Debian keeps network tools.
pub(crate) fn search_path() -> String {
    let path = env::var("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let mut parts: Vec<&str> = path.split(':').filter(|p| !p.is_empty()).collect();
    for directory in system {
        if !parts.contains(&directory) {
            parts.push(directory);
        }
    }
    parts.join(":")
}

pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    search_path().split(':').map(|dir| Path::new(dir).join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_builds_nothing_needs_no_compiler_and_others_hear_what_needs_it() {
        assert!(check_builder("no-such-program", "it", &[]).is_ok());
        assert!(check_builder("sh", "it", &["pause-1".to_owned()]).is_ok());
        let said =
            check_builder("no-such-program", "It: https://go.dev/dl", &["pause-1".to_owned(), "agnhost-2".to_owned()]);
        let said = said.unwrap_err().to_string();
        for part in [
            "`no-such-program` is not in PATH",
            "pause-1, agnhost-2",
            "Install It: https://go.dev/dl",
            "BERTH_BINARIES",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
