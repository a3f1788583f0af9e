//! `make release`: a folder with what a registry and a download page need. The same checkout gives the same bytes, wherever it lies.
//!
//! | what | where |
//! |---|---|
//! | Berth's images, for each architecture that was built | `oci/operator`, `oci/agent`, `oci/backup`, `oci/gateway`, `oci/access`, `oci/api-proxy`, `oci/apps`: OCI layouts |
//! | charts that pin these images by digest | `oci/charts/*` (OCI layouts) and `charts/*.tgz` |
//! | `kubectl berth`, and its manifest for krew | `kubectl-berth_*.tar.gz`, `krew/berth.yaml` |
//! | what is in the programs (SPDX) | `sbom/*.spdx.json` |
//! | licences of what is in Helm | `licenses/helm.txt` |
//! | images to mirror | `images.txt` |
//! | checksums of all that, and their signature | `SHA256SUMS`, `SHA256SUMS.sig` |

mod charts;
mod helm;
mod krew;
mod pack;
mod platforms;
mod sbom;
mod sums;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use berth_oci::{ImageSpec, Layout};
use berth_render::images;
use serde_json::{Value, json};

use crate::images::{APPS, IMAGES};
use crate::root;
use crate::shell::{Result, say};
use platforms::{Built, Platform};

/// Where releases can be downloaded, without the version.
const DOWNLOADS: &str = "https://github.com/berth-dev/berth/releases/download/v";

/// Whom the programs run as: nobody.
const USER: &str = "65532:65532";

/// What is asked for, by variables of `make`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Wanted {
    /// The folder. Default: `target/berth-<version>`. An earlier release in it is replaced.
    #[arg(long, env = "RELEASE_DIR")]
    dir: Option<PathBuf>,
    /// Version of the images, the charts and `kubectl berth`.
    #[arg(long, env = "RELEASE_VERSION", default_value = env!("CARGO_PKG_VERSION"))]
    version: String,
    /// Platforms, such as `linux/amd64,linux/arm64`; it is an error if one cannot be built. Default: all that can be.
    #[arg(long, env = "RELEASE_TARGETS", value_delimiter = ',')]
    targets: Vec<String>,
    /// A private key for the signature, in PEM: Ed25519, since others sign differently each time.
    #[arg(long, env = "RELEASE_KEY")]
    key: Option<PathBuf>,
}

/// Makes the release.
pub(crate) fn make(wanted: &Wanted) -> Result<()> {
    let version = version(&wanted.version)?;
    let dir = match &wanted.dir {
        Some(dir) => root().join(dir),
        None => root().join("target").join(format!("berth-{version}")),
    };
    ensure!(
        !dir.exists() || dir.join(sums::SUMS).exists() || fs::read_dir(&dir)?.next().is_none(),
        "{} is not empty, and not an earlier release",
        dir.display()
    );
    if let Some(key) = &wanted.key {
        ensure!(root().join(key).is_file(), "RELEASE_KEY: there is no {}", key.display());
    }
    let (built, missing) = platforms::build(&Platform::chosen(&wanted.targets)?, !wanted.targets.is_empty(), version)?;
    ensure!(!built.is_empty(), "nothing could be built: {}", missing.join("; "));
    let helm = helm::build(&built)?;

    say(&format!("release {version} in {}", dir.display()));
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut digests = vec![];
    for (name, programs) in IMAGES {
        let beside = |arch: &str| if name == APPS { helm.files(arch) } else { Ok(vec![]) };
        digests.push((name, image(&dir, &built, (name, programs), &beside, version)?));
    }
    for name in ["berth-crds", "berth"] {
        let pinned: &[_] = if name == "berth" { &digests } else { &[] };
        charts::write(&dir, name, version, pinned)?;
    }
    let mut archives = vec![];
    for platform in &built {
        archives.push(krew::archive(&dir, platform, version)?);
    }
    write(&dir.join("krew/berth.yaml"), krew::manifest(&archives, version).as_bytes())?;
    for program in sbom::PROGRAMS {
        let triples: Vec<&str> = built.iter().filter_map(|b| b.platform.triple(program)).collect();
        if !triples.is_empty() {
            write(&dir.join("sbom").join(format!("{program}.spdx.json")), &sbom::make(program, version, &triples)?)?;
        }
    }
    write(&dir.join("sbom/helm.spdx.json"), &helm.sbom)?;
    write(&dir.join("licenses/helm.txt"), &fs::read(&helm.licences)?)?;
    let list = images::all(version).join("\n") + "\n";
    write(&dir.join("images.txt"), list.as_bytes())?;
    let sums = sums::write(&dir)?;
    match &wanted.key {
        Some(key) => sums::sign(&dir, &root().join(key))?,
        None => println!("not signed: RELEASE_KEY names no key"),
    }
    for (name, digest) in &digests {
        println!("{name}:{version}@{digest}");
    }
    println!("built: {}", built.iter().map(|b| b.platform.name()).collect::<Vec<_>>().join(", "));
    for why in &missing {
        println!("NOT built: {why}");
    }
    println!("digest of the whole release (of {}): sha256:{sums}", sums::SUMS);
    Ok(())
}

/// A version that is also a tag.
fn version(text: &str) -> Result<&str> {
    let parsed = semver::Version::parse(text).with_context(|| format!("RELEASE_VERSION: `{text}`"))?;
    ensure!(parsed.build.is_empty(), "RELEASE_VERSION: `{text}` has a `+`, which no tag of an image may have");
    Ok(text)
}

/// An image of each Linux that was built; its digest. It starts the first of its programs. `beside`: more files, by architecture.
fn image(
    dir: &Path,
    built: &[Built],
    (name, programs): (&str, &[&str]),
    beside: &impl Fn(&str) -> Result<Vec<(PathBuf, String)>>,
    version: &str,
) -> Result<String> {
    let program = programs.first().context("an image has a program")?;
    let mut specs = vec![];
    for b in built {
        let files = programs.iter().map(|program| Some((b.program(program)?, format!("/{program}"))));
        let Some(mut files) = files.collect::<Option<Vec<_>>>() else { continue };
        files.extend(beside(b.platform.arch)?);
        specs.push(ImageSpec {
            entrypoint: vec![format!("/{program}")],
            files,
            user: USER.to_owned(),
            architecture: b.platform.arch.to_owned(),
            ..ImageSpec::default()
        });
    }
    if specs.is_empty() {
        bail!("no Linux was built, so there is no image of {program}: name one in RELEASE_TARGETS");
    }
    Layout::create(&dir.join("oci").join(name))?.images(&specs, version, &annotations(program, version))
}

/// What registries show.
fn annotations(title: &str, version: &str) -> Value {
    json!({
        "org.opencontainers.image.title": title,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.source": "https://github.com/berth-dev/berth",
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    let writing = || -> std::io::Result<()> {
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        fs::write(file, content)
    };
    writing().with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_tag_and_of_helms_kind() {
        for good in ["0.1.0", "1.2.3-rc.1"] {
            assert_eq!(version(good).unwrap(), good);
        }
        for bad in ["1.2", "v1.2.3", "1.2.3+build", "", "../1.2.3"] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }
}
