//! The release before `make release` was there: images in archives, and charts in the checkout.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::paths as dev;
use berth_e2e::{make, paths};

use super::site::{Site, output};

/// The last commit before Berth could be installed from a registry alone.
const COMMIT: &str = "a714e80266703c81ef75a8e0f22c1445942f11d1";

pub(crate) const TEAM: &str = "team-before";
pub(crate) const TENANT: &str = "before";

pub(crate) struct Before {
    checkout: PathBuf,
}

impl Before {
    /// Builds it by its own `make images`, once: what a commit gives is kept.
    pub(crate) fn build() -> Result<Self> {
        let before = Self { checkout: dev::cache().join("before").join(COMMIT) };
        fs::create_dir_all(&before.checkout)?;
        let copy = format!("set -o pipefail; git archive {COMMIT} | tar -xf - -C '{}'", before.checkout.display());
        output(Command::new("bash").current_dir(paths::root()).args(["-c", &copy]))
            .context("the release before is made from this repository's history")?;
        if before.archive("agent").is_err() {
            // Not where this checkout builds: other tests take programs from there.
            let target = before.checkout.join("target/cargo");
            let mut make = Command::new("make");
            make.arg("-C").arg(&before.checkout).arg("images");
            let made = make::building(&mut make).env("CARGO_TARGET_DIR", &target).status()?;
            ensure!(made.success(), "`make images` failed in {}", before.checkout.display());
            fs::remove_dir_all(&target)?;
        }
        Ok(before)
    }

    /// An image of it, and its tag. The agent's is made last.
    fn archive(&self, name: &str) -> Result<(PathBuf, String)> {
        let dir = self.checkout.join("target/demo/images");
        let files = fs::read_dir(&dir).with_context(|| dir.display().to_string())?;
        let found = files.flatten().find_map(|file| {
            let tag =
                file.file_name().to_str()?.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".tar")?.to_owned();
            Some((file.path(), tag))
        });
        found.with_context(|| format!("no image of the {name} in {}", dir.display()))
    }

    /// Installs it as its docs/install.md says, and makes a tenant.
    pub(crate) fn install(&self, site: &Site<'_>) -> Result<()> {
        let mut tags = vec![];
        for name in ["operator", "agent"] {
            let (archive, tag) = self.archive(name)?;
            site.registry.push_image(&archive, &format!("{}/berth/{name}:{tag}", site.host))?;
            tags.push(tag);
        }
        let values = site.place.join("before.yaml");
        fs::write(&values, site.values(&tags[0], &tags[1]))?;
        let script = format!(
            "set -e
             helm upgrade --install berth-crds charts/berth-crds -n berth-system --create-namespace
             helm upgrade --install berth charts/berth -n berth-system -f '{}'
             kubectl -n berth-system rollout status deployment/berth-operator --timeout=3m
             kubectl create namespace {TEAM}
             kubectl create -f - <<'EOF'
{{apiVersion: berth.dev/v1alpha1, kind: Cluster, metadata: {{name: {TENANT}, namespace: {TEAM}}}, spec: {{version: 1.36.3}}}}
EOF
             kubectl -n {TEAM} wait clusters.berth.dev {TENANT} --for=condition=Ready --timeout=10m",
            values.display()
        );
        println!("{}", output(site.shell().current_dir(&self.checkout).args(["-c", &script]))?);
        Ok(())
    }
}
