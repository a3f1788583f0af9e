//! The images of the operator, of the agent, of `berth-backup`, `berth-apps`, `berth-gateway`, `berth-access` and `berth-api-proxy`: static binaries and nothing
//! else. The agent's has two: what is copied into every pod, and `berth-approve`, which runs from the image. That of `berth-apps` has Helm beside it, which is
//! built from its Go module.

use anyhow::{Context as _, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::root;
use crate::shell::{
    Result, build_programs, cache, cargo, host, install, ours, program, run, say, short_digest, target_dir,
};

/// An image in an archive.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) tag: String,
    pub(crate) archive: PathBuf,
    /// The program that it starts.
    pub(crate) binary: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Images {
    pub(crate) operator: Image,
    pub(crate) agent: Image,
    pub(crate) backup: Image,
    pub(crate) gateway: Image,
    pub(crate) access: Image,
    pub(crate) api_proxy: Image,
    /// None: Helm is not built (`devcluster build helm4`).
    pub(crate) apps: Option<Image>,
}

impl Images {
    /// Those that there are.
    pub(crate) fn all(&self) -> Vec<&Image> {
        let Self { operator, agent, backup, gateway, access, api_proxy, apps } = self;
        [operator, agent, backup, gateway, access, api_proxy].into_iter().chain(apps).collect()
    }
}

/// What the demo leaves in the checkout: one of another name (`BERTH_CLUSTER`) has files of its own.
pub(crate) fn demo_dir() -> PathBuf {
    root().join("target").join(match demo_name().as_str() {
        DEMO => DEMO.to_owned(),
        other => format!("{DEMO}-{other}"),
    })
}

/// The name of a demo that was given none.
const DEMO: &str = "demo";

/// The demo's meta cluster.
pub(crate) fn demo_name() -> String {
    std::env::var("BERTH_CLUSTER").ok().filter(|v| !v.is_empty()).unwrap_or_else(|| DEMO.into())
}

/// The devcluster program that this checkout runs.
pub(crate) fn devcluster() -> Command {
    Command::new(demo_dir().join("bin/devcluster"))
}

/// For whom images are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// For this machine: of the programs that its tests have, so that they are compiled once.
    Dev,
    /// For others, and for what is measured: optimised.
    Release,
}

/// What is in images.
const IN_IMAGES: [&str; 8] = [
    "berth-operator",
    "berth-agent",
    "berth-approve",
    "berth-backup",
    "berth-gateway",
    "berth-access",
    "berth-api-proxy",
    "berth-apps",
];
/// What runs on this machine.
const HERE: [&str; 3] = ["devcluster", "cni-meta", "kubectl-berth"];

impl Profile {
    /// Builds static binaries.
    fn programs(self) -> Result<()> {
        match self {
            Self::Dev => build_programs(&[&IN_IMAGES[..], &HERE].concat()),
            Self::Release => release_programs(&[&IN_IMAGES[..], &HERE].concat()),
        }
    }

    /// Where they are.
    fn dir(self) -> PathBuf {
        match self {
            Self::Dev => program(""),
            Self::Release => release_dir(),
        }
    }

    /// Where images of them are.
    fn images(self) -> PathBuf {
        match self {
            Self::Dev => demo_dir().join("images"),
            Self::Release => root().join("target/images"),
        }
    }
}

/// Builds programs that are optimised, and nothing for tests in them.
pub(crate) fn release_programs(programs: &[&str]) -> Result<()> {
    let _held = ours()?;
    let named = programs.iter().flat_map(|program| ["--bin", program]);
    run(cargo().args(["build", "--release", "--locked", "--workspace"]).args(named))
}

/// Where [`release_programs`] are.
pub(crate) fn release_dir() -> PathBuf {
    target_dir().join(host()).join("release")
}

/// Builds programs, and makes images of them. Their tag holds a digest of the content: a tag never changes its meaning, and a tenant
/// stays with the agent that it was made with.
pub(crate) fn build(profile: Profile) -> Result<Images> {
    say(&format!("building {}, kubectl-berth and devcluster", IN_IMAGES.join(", ")));
    profile.programs()?;
    let built = profile.dir();
    install_here(profile, &HERE)?;
    let image = |name| image(&built, name, &[], profile);
    let (operator, agent) = (image("operator")?, image("agent")?);
    let (backup, gateway, access) = (image("backup")?, image("gateway")?, image("access")?);
    let helm = helm();
    if helm.is_none() {
        println!("no image of berth-apps: Helm is not built (devcluster build helm4)");
    }
    let apps = helm.map(|helm| self::image(&built, APPS, &[(helm, "/helm")], profile)).transpose()?;
    Ok(Images { operator, agent, backup, gateway, access, api_proxy: image("api-proxy")?, apps })
}

/// Puts programs that run on this machine beside the demo's files.
pub(crate) fn install_here(profile: Profile, programs: &[&str]) -> Result<()> {
    let (from, to) = (profile.dir(), demo_dir().join("bin"));
    programs.iter().try_for_each(|program| install(&from.join(program), &to.join(program)).map(drop))
}

/// Images by name, and the programs in each. It starts the first.
pub(crate) const IMAGES: [(&str, &[&str]); 7] = [
    ("operator", &["berth-operator"]),
    ("agent", &["berth-agent", "berth-approve"]),
    ("backup", &["berth-backup"]),
    ("gateway", &["berth-gateway"]),
    ("access", &["berth-access"]),
    ("api-proxy", &["berth-api-proxy"]),
    (APPS, &["berth-apps"]),
];

/// The image that also has Helm.
pub(crate) const APPS: &str = "apps";

/// Helm 4, if it is built.
fn helm() -> Option<PathBuf> {
    let tools = fs::read_dir(cache().join("bin/tools")).ok()?.flatten();
    let mut all: Vec<_> = tools.filter(|dir| dir.file_name().to_string_lossy().starts_with("helm4-")).collect();
    all.sort_by_key(fs::DirEntry::file_name);
    Some(all.pop()?.path().join("helm4")).filter(|path| path.exists())
}

/// The programs in an image.
pub(crate) fn programs(image: &str) -> &'static [&'static str] {
    IMAGES.iter().find(|(name, _)| *name == image).map_or(&[], |(_, programs)| programs)
}

/// The most that the program may have which is copied into every pod.
const AGENT: usize = 4 << 20;

/// Fails if a program is larger than it may be.
pub(crate) fn fits(program: &str, bytes: usize) -> Result<()> {
    if program == "berth-agent" && bytes > AGENT {
        bail!("{program} has {bytes} bytes, and is copied into every pod: {AGENT} are allowed");
    }
    Ok(())
}

/// `more`: files beside the programs, and where they are in the image.
fn image(built: &std::path::Path, name: &str, more: &[(PathBuf, &str)], profile: Profile) -> Result<Image> {
    let programs = programs(name);
    let mut content = vec![];
    for program in programs {
        let file = built.join(program);
        content.extend(format!("/{program}").into_bytes());
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if profile == Profile::Release {
            fits(program, bytes.len())?;
        }
        content.extend(bytes);
    }
    for (file, to) in more {
        content.extend(to.bytes());
        content.extend(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    let first = programs.first().context("an image has a program")?;
    let (binary, entrypoint) = (built.join(first), format!("/{first}"));
    let digest = short_digest(&content);
    let tag = format!("{}-{digest}", env!("CARGO_PKG_VERSION"));
    let dir = profile.images();
    let archive = dir.join(format!("{name}-{tag}.tar"));
    if !archive.exists() {
        fs::create_dir_all(&dir)?;
        for old in fs::read_dir(&dir)?.flatten() {
            if old.file_name().to_string_lossy().starts_with(&format!("{name}-")) {
                fs::remove_file(old.path())?;
            }
        }
        run(devcluster()
            .arg("image")
            .arg("--out")
            .arg(&archive)
            .args(["--ref", &format!("ghcr.io/berth-dev/{name}:{tag}")])
            .args(["--entrypoint", &entrypoint, "--user", "65532:65532"])
            .args(programs.iter().map(|program| format!("{}:/{program}", built.join(program).display())))
            .args(more.iter().map(|(file, to)| format!("{}:{to}", file.display()))))?;
    }
    println!("ghcr.io/berth-dev/{name}:{tag}, {} MiB", content.len() >> 20);
    Ok(Image { tag, archive, binary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_alone_has_a_limit() {
        fits("berth-agent", AGENT).unwrap();
        fits("berth-operator", 2 * AGENT).unwrap();
        let refused = fits("berth-agent", AGENT + 1).unwrap_err().to_string();
        assert!(refused.contains("4194305 bytes"), "{refused}");
    }
}
