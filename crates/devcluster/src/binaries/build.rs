//! Building: one artifact after the other, each under its own lock, each file renamed into place when it is complete.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use super::{
    catalog::{Artifact, Recipe, Selection},
    directory, go_module,
};
use crate::{deps, files, paths};

/// How the directories begin in which binaries are made before they are moved to their place.
const STAGING: &str = "staging-";

/// Builds what is selected and not there yet. Prints a line per binary; `go`'s own output goes to a log that errors name.
pub fn build(selection: &Selection) -> Result<()> {
    let artifacts = selection.artifacts().map_err(|unknown| {
        let known: Vec<_> = Selection::All.artifacts().unwrap_or_default().iter().map(Artifact::name).collect();
        anyhow::anyhow!("nothing to build is called {}; known are {}", unknown.join(", "), known.join(", "))
    })?;
    let missing: Vec<_> = artifacts.iter().filter(|a| !a.is_built()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    deps::check_build()?;
    let start = Instant::now();
    for (index, artifact) in missing.iter().enumerate() {
        eprintln!("[{}/{}] {}", index + 1, missing.len(), artifact.name());
        build_artifact(artifact).with_context(|| format!("cannot build {}", artifact.name()))?;
    }
    eprintln!("built {} of {} artifacts in {} s", missing.len(), artifacts.len(), start.elapsed().as_secs());
    Ok(())
}

fn build_artifact(artifact: &Artifact) -> Result<()> {
    let cache = paths::cache();
    let name = artifact.name();
    let _lock = files::Lock::acquire(&cache.join("locks").join(&name), &name)?;
    let target = directory(artifact.component, artifact.version);
    files::create_dir(&target)?;
    let work = cache.join("build").join(&name);
    files::create_dir(&work)?;
    remove_leftovers(&work)?;
    let log = work.join("log");
    files::remove(&log)?;
    let module = work.join("module");
    go_module::prepare(artifact, &module, &log)?;
    for (binary, package) in &artifact.binaries {
        let path = artifact.binary(binary);
        if path.exists() {
            continue;
        }
        let start = Instant::now();
        eprint!("      {binary} … ");
        // A directory of its own, since `go install` chooses the file's name itself; on the same file system as the target.
        let staging = work.join(format!("{STAGING}{}", std::process::id()));
        files::create_dir(&staging)?;
        let result = compile(artifact, binary, package, &module, &staging, &log);
        if let Err(e) = result.and_then(|built| {
            fs::rename(&built, &path).with_context(|| format!("cannot move {} to {}", built.display(), path.display()))
        }) {
            eprintln!("failed");
            files::remove(&staging)?;
            return Err(e);
        }
        files::remove(&staging)?;
        eprintln!("{:.1} s", start.elapsed().as_secs_f32());
    }
    if artifact.component == "kwok" {
        copy_stages(artifact)?;
    }
    Ok(())
}

/// Runs the compiler; gives the path of the binary within `staging`.
fn compile(
    artifact: &Artifact,
    binary: &str,
    package: &str,
    module: &Path,
    staging: &Path,
    log: &Path,
) -> Result<PathBuf> {
    let built = staging.join(binary);
    if let Recipe::Cargo { features } = &artifact.recipe {
        let version = format!("{package}@{}", artifact.version);
        let mut cargo = Command::new("cargo");
        // As nobody's toolchain or flags: this may run within another cargo.
        cargo.env_remove("RUSTFLAGS").env("CARGO_TARGET_DIR", module.with_file_name("target"));
        cargo.current_dir(std::env::temp_dir()).args(["install", "--locked", "--features", features, "--root"]);
        run_logged(cargo.arg(staging).arg(version), log)?;
        fs::rename(staging.join("bin").join(binary), &built).with_context(|| format!("cargo made no {binary}"))?;
        return Ok(built);
    }
    let mut go = Command::new("go");
    go.env("CGO_ENABLED", "0").env("GOBIN", staging).env_remove("GOOS").env_remove("GOARCH");
    match &artifact.recipe {
        Recipe::Wrapper { test, .. } => {
            // Without vet, which would look at every dependency first.
            go.current_dir(module).args(if *test { &["test", "-c", "-vet=off"][..] } else { &["build"] });
            go.arg("-trimpath").arg(format!("-ldflags={}", ldflags(artifact))).arg("-o").arg(&built).arg(package);
        }
        Recipe::Install { cgo_tags } => {
            go.current_dir(std::env::temp_dir()).arg("install").arg("-trimpath");
            if let Some(tags) = cgo_tags {
                go.env("CGO_ENABLED", "1").args(["-tags", tags]);
            }
            go.arg(format!("-ldflags={}", ldflags(artifact))).arg(format!("{package}@v{}", artifact.version));
        }
        Recipe::Cargo { .. } => bail!("cargo builds {binary}"),
        Recipe::Source { files } => {
            for (name, content) in *files {
                crate::files::write(&staging.join(name), content)?;
            }
            go.current_dir(staging).args(["build", "-trimpath", "-ldflags=-s -w", "-o"]).arg(&built);
            go.arg(if files.iter().any(|(name, _)| *name == "go.mod") { "." } else { "main.go" });
        }
    }
    run_logged(&mut go, log)?;
    if !built.exists() {
        bail!("`go` succeeded but made no {}", built.display());
    }
    Ok(built)
}

/// Linker flags: stripped, and with the version that the binary reports (without it every component says v0.0.0).
fn ldflags(artifact: &Artifact) -> String {
    let version = artifact.version;
    let variables: Vec<String> = match artifact.component {
        "kubernetes" => {
            let mut numbers = version.trim_start_matches('v').split('.');
            let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
            ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"]
                .iter()
                .flat_map(|package| {
                    [
                        format!("{package}.gitVersion={version}"),
                        format!("{package}.gitMajor={major}"),
                        format!("{package}.gitMinor={minor}"),
                        format!("{package}.gitTreeState=clean"),
                    ]
                })
                .collect()
        }
        "containerd" => vec![format!("github.com/containerd/containerd/v2/version.Version=v{version}")],
        "helm" => vec![
            format!("helm.sh/helm/v3/internal/version.version=v{version}"),
            "helm.sh/helm/v3/internal/version.gitTreeState=clean".to_owned(),
        ],
        "crane" => vec![format!("github.com/google/go-containerregistry/cmd/crane/cmd.Version=v{version}")],
        "kwok" => vec![format!("sigs.k8s.io/kwok/pkg/consts.Version=v{version}")],
        "cni-plugins" => {
            vec![format!("github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v{version}")]
        }
        _ => Vec::new(),
    };
    variables.iter().fold("-s -w".to_owned(), |flags, variable| format!("{flags} -X {variable}"))
}

/// Runs a command with its output in a log; the error carries the log's last lines.
pub(super) fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot open {}", log.display()))?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(12)..].join("\n");
    bail!("{} ended with {status}; the end of {}:\n{tail}", command.get_program().display(), log.display())
}

/// Removes what killed builds left. The artifact's lock is held, so nobody but a compiler that outlived its `devcluster`
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

/// kwok does nothing without stages; they lie beside its sources.
fn copy_stages(artifact: &Artifact) -> Result<()> {
    let target = artifact.binary("stages");
    if target.exists() {
        return Ok(());
    }
    let sources = go_module::download("sigs.k8s.io/kwok", &format!("v{}", artifact.version), "Dir")?;
    let staging = files::temporary_beside(&target)?;
    files::remove(&staging)?;
    files::create_dir(&staging)?;
    for stage in ["node/fast", "node/heartbeat-with-lease", "pod/fast"] {
        let from = sources.join("kustomize/stage").join(stage);
        for entry in fs::read_dir(&from).with_context(|| format!("kwok's stages are not in {}", from.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().extension().is_some_and(|kind| kind == "yaml") && name != "kustomization.yaml" {
                let content = fs::read(entry.path())?;
                files::write(&staging.join(format!("{}-{name}", stage.replace('/', "-"))), content)?;
            }
        }
    }
    fs::rename(&staging, &target).with_context(|| format!("cannot move kwok's stages to {}", target.display()))
}
