//! Wrapper modules: some Go modules cannot be `go install`ed because their go.mod replaces others by paths.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow, bail};

use super::catalog::{Artifact, Recipe};
use crate::files;

/// Writes the wrapper module of an artifact (go.mod, go.sum and a file of blank imports that no build compiles) unless
/// an earlier run completed it. Other recipes need none.
pub(super) fn prepare(artifact: &Artifact, dir: &Path, log: &Path) -> Result<()> {
    let Recipe::Wrapper { modules, source_version, has_staging, .. } = &artifact.recipe else {
        return Ok(());
    };
    let complete = dir.join("complete");
    if complete.exists() {
        return Ok(());
    }
    files::create_dir(dir)?;
    let upstream = download(modules[0], source_version, "GoMod")?;
    let upstream = fs::read_to_string(&upstream).with_context(|| format!("cannot read {}", upstream.display()))?;
    let mut module = String::from("module components\n\n");
    if let Some(line) = upstream.lines().find(|line| line.starts_with("go ")) {
        writeln!(module, "{line}\n")?;
    }
    for name in modules {
        writeln!(module, "require {name} {source_version}")?;
    }
    if *has_staging {
        module += &staging_replacements(&upstream, source_version)?;
    }
    module += &version_replacements(&upstream);
    // `go mod tidy` reads imports behind any build tag, so these keep what the packages need in go.mod.
    let mut imports = String::from("//go:build imports\n\npackage components\n\n");
    for (_, package) in &artifact.binaries {
        writeln!(imports, "import _ \"{package}\"")?;
    }
    files::write(&dir.join("go.mod"), module)?;
    files::write(&dir.join("imports.go"), imports)?;
    super::build::run_logged(Command::new("go").args(["mod", "tidy"]).current_dir(dir), log)?;
    files::write(&complete, "")
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
    let mut lines = String::new();
    for name in names {
        writeln!(lines, "replace {name} => {name} {staging_version}")?;
    }
    Ok(lines)
}

/// The `replace` lines of modules by versions, which count in the module itself alone. Those by paths are for [`staging_replacements`].
fn version_replacements(go_mod: &str) -> String {
    let mut lines = String::new();
    for line in go_mod.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let Some((old, new)) = line.trim_start_matches("replace ").split_once("=>") else { continue };
        if new.split_whitespace().count() == 2 {
            let _ = writeln!(lines, "replace {} => {}", old.trim(), new.trim());
        }
    }
    lines
}

/// Downloads a module into Go's module cache; gives the path of its `GoMod` or its `Dir` there.
pub(super) fn download(module: &str, version: &str, field: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .current_dir(std::env::temp_dir())
        .output()
        .context("cannot run `go`: install Go 1.26 or newer")?;
    let description: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`go mod download` of {module} said: {}", String::from_utf8_lossy(&output.stderr)))?;
    let path = description[field].as_str().map(PathBuf::from);
    path.ok_or_else(|| anyhow!("cannot download {module} {version}: {}", description["Error"]))
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

    #[test]
    fn what_a_module_replaces_by_versions_is_replaced_so_again() {
        let go_mod = "require a.example/b v1.0.0\nreplace (\n\ta.example/b v1.0.0 => a.example/c v1.2.0 // why\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n\
                      replace k8s.io/x => k8s.io/x v0.0.0-20260512234627-ef417d054102\n";
        assert_eq!(
            version_replacements(go_mod),
            "replace a.example/b v1.0.0 => a.example/c v1.2.0\nreplace k8s.io/x => k8s.io/x v0.0.0-20260512234627-ef417d054102\n"
        );
    }
}
