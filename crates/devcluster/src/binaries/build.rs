//! Building from Go modules, and one from a crate.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use super::{
    catalog::{Artifact, Recipe},
    go_module,
};
use crate::{deps, files};

/// Fails if what builds one of these is missing, and says what it is needed for.
pub(super) fn check(artifacts: &[&Artifact]) -> Result<()> {
    let names = |by: fn(&Artifact) -> bool| -> Vec<String> {
        artifacts.iter().filter(|artifact| by(artifact)).map(|artifact| artifact.name()).collect()
    };
    deps::check_builder("cargo", "Rust: https://rustup.rs", &names(|a| matches!(a.recipe, Recipe::Cargo { .. })))?;
    deps::check_builder(
        "go",
        "Go 1.26 or newer: https://go.dev/dl",
        &names(|a| !matches!(a.recipe, Recipe::Cargo { .. })),
    )?;
    if names(|artifact| artifact.label == "runc").is_empty() { Ok(()) } else { deps::check_c() }
}

/// Builds what is missing of an artifact, each program in `staging` first.
pub(super) fn artifact(artifact: &Artifact, work: &Path, staging: &Path) -> Result<()> {
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
        // A directory of its own, since `go install` chooses the file's name itself; on the same file system as the target.
        let staging = staging.join(format!("{binary}.build"));
        files::create_dir(&staging)?;
        let built = compile(artifact, binary, package, &module, &staging, &log)?;
        fs::rename(&built, &path).with_context(|| format!("cannot move {} to {}", built.display(), path.display()))?;
        if artifact.binaries.len() > 1 {
            eprint!(" {binary} {:.1} s,", start.elapsed().as_secs_f32());
        }
    }
    copy_folder(artifact)
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

/// Builds the one program of a wrapper module for another architecture; the module's folder.
pub(super) fn cross(artifact: &Artifact, work: &Path, arch: &str, to: &Path) -> Result<PathBuf> {
    let (Recipe::Wrapper { .. }, [(_, package)]) = (&artifact.recipe, &artifact.binaries[..]) else {
        bail!("{} is not one program of a wrapper module", artifact.name());
    };
    let (log, module) = (work.join("log"), work.join("module"));
    files::remove(&log)?;
    go_module::prepare(artifact, &module, &log)?;
    let mut go = Command::new("go");
    // Flags of this machine's own could leave something of it in the program.
    go.env("CGO_ENABLED", "0").env("GOOS", "linux").env("GOARCH", arch).env("GOFLAGS", "").current_dir(&module);
    go.args(["build", "-trimpath", "-buildvcs=false"]).arg(format!("-ldflags={} -buildid=", ldflags(artifact)));
    run_logged(go.arg("-o").arg(to).arg(package), &log)?;
    Ok(module)
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
        "kube-router" => vec![format!("github.com/cloudnativelabs/kube-router/v2/pkg/version.Version=v{version}")],
        "helm" => vec![
            format!("helm.sh/helm/v3/internal/version.version=v{version}"),
            "helm.sh/helm/v3/internal/version.gitTreeState=clean".to_owned(),
        ],
        "helm4" => vec![format!("helm.sh/helm/v4/internal/version.version={version}")],
        "metrics-server" => vec![format!("k8s.io/client-go/pkg/version.gitVersion=v{version}")],
        "descheduler" => vec![format!("sigs.k8s.io/descheduler/pkg/version.version={version}")],
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

/// What is kept beside the programs lies beside their sources.
fn copy_folder(artifact: &Artifact) -> Result<()> {
    let Some(folder) = artifact.folder() else { return Ok(()) };
    let target = artifact.binary(folder);
    if target.exists() {
        return Ok(());
    }
    let (module, version) = (format!("sigs.k8s.io/{}", artifact.component), artifact.version.trim_start_matches('v'));
    let sources = go_module::download(&module, &format!("v{version}"), "Dir")?;
    let staging = files::temporary_beside(&target)?;
    files::remove(&staging)?;
    match folder {
        "stages" => copy_stages(&sources, &staging)?,
        _ => copy_all(&sources.join("charts").join(artifact.component), &staging)?,
    }
    fs::rename(&staging, &target).with_context(|| format!("cannot move a folder to {}", target.display()))
}

/// A folder of a module with all below it, but for what begins with a dot.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    files::create_dir(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("the module has no {}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to.join(name))?;
        } else {
            files::write(&to.join(name), fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// kwok does nothing without stages.
fn copy_stages(sources: &Path, staging: &Path) -> Result<()> {
    files::create_dir(staging)?;
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
    Ok(())
}
