//! Wrapper modules: some Go modules cannot be `go install`ed because their go.mod replaces others by paths.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::catalog::{Artifact, Recipe};
use crate::files;

/// Writes the wrapper module of an artifact (go.mod, go.sum and a file of blank imports that no build compiles) unless
/// an earlier run completed it. Gives its directory.
pub(super) fn prepare(artifact: &Artifact, dir: PathBuf, log: &Path) -> Result<PathBuf> {
    let Recipe::Wrapper { modules, source_version, staging_of, test } = &artifact.recipe else {
        return Ok(dir);
    };
    let complete = dir.join("complete");
    if complete.exists() {
        return Ok(dir);
    }
    files::create_dir(&dir)?;
    let mut module = String::from("module components\n\n");
    let downloaded = downloaded_go_mod(modules[0], source_version)?;
    if let Some(line) = downloaded.lines().find(|line| line.starts_with("go ")) {
        module += &format!("{line}\n\n");
    }
    for name in modules {
        module += &format!("require {name} {source_version}\n");
    }
    if staging_of.is_some() {
        module += &staging_replacements(&downloaded, source_version)?;
    }
    let imports: String = artifact.binaries.iter().map(|(_, package)| format!("import _ \"{package}\"\n")).collect();
    files::write(&dir.join("go.mod"), module)?;
    // A package named main cannot be imported by a compiled file; a test package can, and `tidy` reads both.
    let _ = test;
    files::write(&dir.join("imports.go"), format!("//go:build imports\n\npackage components\n\n{imports}"))?;
    let mut tidy = Command::new("go");
    tidy.args(["mod", "tidy"]).current_dir(&dir);
    super::build::run_logged(&mut tidy, log)?;
    files::write(&complete, "")?;
    Ok(dir)
}

/// The `replace` lines for staging modules: `k8s.io/NAME => ./staging/…` becomes `k8s.io/NAME => k8s.io/NAME v0.X.Y`.
fn staging_replacements(go_mod: &str, version: &str) -> Result<String> {
    let Some(staging_version) = version.strip_prefix("v1.").map(|rest| format!("v0.{rest}")) else {
        bail!("no staging version follows from {version}: expected v1.X.Y");
    };
    let mut names: Vec<&str> = go_mod
        .lines()
        .filter_map(|line| line.split_once("=> ./staging/"))
        .filter_map(|(left, _)| left.split_whitespace().next_back())
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names.iter().map(|name| format!("replace {name} => {name} {staging_version}\n")).collect())
}

/// The go.mod of a published module.
fn downloaded_go_mod(module: &str, version: &str) -> Result<String> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .current_dir(std::env::temp_dir())
        .output()
        .context("cannot run `go`: install Go 1.26 or newer")?;
    let description: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`go mod download` of {module} said: {}", String::from_utf8_lossy(&output.stderr)))?;
    let Some(path) = description["GoMod"].as_str() else {
        bail!("cannot download {module} {version}: {}", description["Error"]);
    };
    std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

/// The directory of a published module's sources.
pub(super) fn downloaded_sources(module: &str, version: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .current_dir(std::env::temp_dir())
        .output()
        .context("cannot run `go`: install Go 1.26 or newer")?;
    let description: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    match description["Dir"].as_str() {
        Some(dir) => Ok(PathBuf::from(dir)),
        None => bail!("cannot download {module} {version}: {}", description["Error"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_paths_become_published_versions() {
        let go_mod = "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/client-go => ./staging/src/x\n)\n\
                      replace k8s.io/api => ./staging/src/k8s.io/api\nreplace example.com/x => ../y\n";
        assert_eq!(
            staging_replacements(go_mod, "v1.36.3").unwrap(),
            "replace k8s.io/api => k8s.io/api v0.36.3\nreplace k8s.io/client-go => k8s.io/client-go v0.36.3\n"
        );
        assert!(staging_replacements(go_mod, "v2.0.0").is_err());
    }
}
