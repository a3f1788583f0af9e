//! `make release` of the same checkout in two places, with nothing built in the second one, gives the same bytes.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_e2e::{make, paths, run::must_be_real};

#[test]
#[ignore = "make test-all: everything that is in a release is built twice, once from nothing"]
fn a_release_is_the_same_bytes_wherever_it_is_made() {
    must_be_real();
    // Not below the checkout: what is beside the copy is not to be found by anything.
    let place = std::env::temp_dir().join(format!("berth-reproducible-{}", std::process::id()));
    let result = twice(&place);
    fs::remove_dir_all(&place).unwrap();
    if let Err(error) = result {
        panic!("{error:#}");
    }
}

fn twice(place: &Path) -> Result<()> {
    let copy = place.join("somewhere/else");
    fs::create_dir_all(&copy)?;
    let variables =
        |name: &str| [format!("RELEASE_DIR={}", place.join(name).display()), "RELEASE_TARGETS=linux/amd64".to_owned()];
    make::make("release", &variables("first"))?;
    // What git knows, as it is now.
    let files =
        "git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf -";
    let script = format!("set -o pipefail; {files} | tar -xf - -C '{}'", copy.display());
    let copied = Command::new("bash").current_dir(paths::root()).args(["-c", &script]).status()?;
    ensure!(copied.success(), "cannot copy the checkout");
    let committed = Command::new("git").current_dir(paths::root()).args(["log", "-1", "--format=%ct"]).output()?;
    let mut second = Command::new("make");
    second.arg("-C").arg(&copy).arg("release").args(variables("second"));
    let second = make::building(&mut second)
        // The copy has no commits.
        .env("SOURCE_DATE_EPOCH", String::from_utf8(committed.stdout)?.trim())
        .env("CARGO_TARGET_DIR", place.join("target"));
    ensure!(second.status()?.success(), "`make release` failed in {}", copy.display());

    let sums = |name: &str| -> Result<BTreeSet<String>> {
        let text = fs::read_to_string(place.join(name).join("SHA256SUMS")).context("checksums")?;
        Ok(text.lines().map(ToOwned::to_owned).collect())
    };
    let (first, second) = (sums("first")?, sums("second")?);
    ensure!(first.len() > 20, "{first:#?}");
    let differ: Vec<_> = first.symmetric_difference(&second).collect();
    ensure!(differ.is_empty(), "{differ:#?}");
    let mut dirty = Command::new("grep");
    dirty.args(["-rl", "-e", "/.cargo/registry", "-e"]).arg(paths::root()).arg(place.join("first"));
    let dirty = dirty.output()?;
    ensure!(dirty.stdout.is_empty(), "a path of this machine is in {}", String::from_utf8_lossy(&dirty.stdout));
    Ok(())
}
