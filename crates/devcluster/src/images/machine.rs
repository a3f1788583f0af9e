//! Programs of this machine with their libraries: what an image needs that is not one static binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::deps;

/// Names of protocols, without which `nft` prints numbers that kube-proxy does not read.
const PROTOCOLS: &str = "/etc/protocols";

/// To which kube-router adds a table of its own, where there is one.
const ROUTING_TABLES: &str = "/etc/iproute2/rt_tables";

/// What kube-proxy calls.
pub(super) fn nft() -> Result<Vec<(PathBuf, String)>> {
    let mut files = with_libraries(&["nft"])?;
    files.push((PathBuf::from(PROTOCOLS), PROTOCOLS.to_owned()));
    Ok(files)
}

/// What a network plugin calls: iptables with its extensions, which it loads by name, and what it copies files by.
pub(super) fn network() -> Result<Vec<(PathBuf, String)>> {
    let tables = ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];
    let mut files = with_libraries(&[&tables[..], &["ipset", "ip", "sh", "cp", "mv"]].concat())?;
    let extensions = library_folders()?.into_iter().map(|folder| folder.join("xtables")).find(|folder| folder.is_dir());
    let extensions = extensions.context("iptables has no extensions in /usr/lib")?;
    for entry in fs::read_dir(&extensions).with_context(|| extensions.display().to_string())? {
        let path = entry?.path();
        files.push((path.clone(), path.to_string_lossy().into_owned()));
    }
    let tables = PathBuf::from(ROUTING_TABLES);
    if tables.is_file() {
        files.push((tables, ROUTING_TABLES.to_owned()));
    }
    Ok(files)
}

/// Folders of libraries: one for each processor.
fn library_folders() -> Result<Vec<PathBuf>> {
    let all = fs::read_dir("/usr/lib").context("/usr/lib")?;
    Ok(all.flatten().map(|entry| entry.path()).collect())
}

/// These programs and what the loader needs to start them, each at the path that it has here.
pub(super) fn with_libraries(programs: &[&str]) -> Result<Vec<(PathBuf, String)>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for name in programs {
        let program = deps::find(name).with_context(|| format!("`{name}` is not in PATH"))?;
        let output = Command::new("ldd").arg(&program).output().context("cannot run `ldd`")?;
        ensure!(output.status.success(), "`ldd {}`: {}", program.display(), String::from_utf8_lossy(&output.stderr));
        let libraries = libraries(&String::from_utf8_lossy(&output.stdout))?;
        for path in [program].into_iter().chain(libraries) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    Ok(paths.into_iter().map(|path| (path.clone(), path.to_string_lossy().into_owned())).collect())
}

/// The files in what `ldd` says, the loader among them. The kernel's own library is none.
fn libraries(said: &str) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for line in said.lines() {
        ensure!(!line.contains("not found"), "a library is missing: {}", line.trim());
        let file = line.split_whitespace().find(|word| Path::new(word).is_absolute());
        all.extend(file.map(PathBuf::from));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_is_a_library_and_what_the_kernel_maps_is_none() {
        let said = "\tlinux-vdso.so.1 (0x00007f)\n\tlibmnl.so.0 => /lib/x/libmnl.so.0 (0x00007f)\n\t/lib64/ld.so.2 (0x00007f)\n";
        assert_eq!(libraries(said).unwrap(), ["/lib/x/libmnl.so.0", "/lib64/ld.so.2"].map(PathBuf::from));
        libraries("\tlibmnl.so.0 => not found\n").unwrap_err();
        assert_eq!(libraries("\tstatically linked\n").unwrap(), Vec::<PathBuf>::new());
    }
}
