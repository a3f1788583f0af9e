//! Binaries that others made: fetched under a temporary name, checked, and then given their own.

use std::{fs, io::Read, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, Result, anyhow};

use super::{
    catalog::Artifact,
    check,
    fetch::{Client, Failure},
    sources::{Base, Holds, Offer, SUMS},
    sums::{self, Sums},
};
use crate::paths;

/// Fetches what is missing of an artifact from its publisher. `expects` hears of each file and how long it is to be.
pub(super) fn from_publisher(
    client: &Client,
    table: &Sums,
    offers: &[Offer],
    artifact: &Artifact,
    staging: &Path,
    expects: &mut dyn FnMut(&str, Option<u64>),
) -> Result<(), Failure> {
    for offer in offers {
        let missing: Vec<_> = offer.programs().into_iter().filter(|name| !artifact.binary(name).exists()).collect();
        if missing.is_empty() {
            continue;
        }
        let url = format!("https://{}", offer.address);
        let wanted = wanted(client, table, offer)?;
        let file = staging.join("download");
        let found = client.file(&url, &file, |length| expects(offer.file(), length))?;
        compare(&url, &wanted, &found)?;
        match &offer.holds {
            Holds::Program(name) => rename(&file, &staging.join(name))?,
            Holds::Archive(members) => unpack(&file, members, &missing, staging, &url)?,
        }
        for name in missing {
            accept(artifact, name, staging, &url)?;
        }
    }
    Ok(())
}

/// The sum that a file is to have: the checkout's, or else the publisher's.
fn wanted(client: &Client, table: &Sums, offer: &Offer) -> Result<String, Failure> {
    if let Some(sum) = table.get(&offer.address) {
        return Ok(sum.to_owned());
    }
    let url = format!("https://{}", offer.sums);
    let list = client.list(&url)?;
    sums::published(&list, offer.file()).ok_or_else(|| {
        let (file, begins) = (offer.file(), sums::start(&list));
        Failure::Wrong(format!("{url} is to have the sum of {file}, but has none; it begins with `{begins}`"))
    })
}

/// Fetches what is missing of an artifact from a base.
pub(super) fn from_base(
    client: &Client,
    base: &Base,
    list: &Sums,
    artifact: &Artifact,
    staging: &Path,
    expects: &mut dyn FnMut(&str, Option<u64>),
) -> Result<(), Failure> {
    for (name, _) in &artifact.binaries {
        let path = in_layout(&artifact.binary(name))?;
        if artifact.binary(name).exists() {
            continue;
        }
        let place = base.place(&path);
        let wanted = list.get(&path).ok_or_else(|| not_listed(base, &path, artifact))?;
        let found = client.of_base(base, &path, &staging.join(name), |length| expects(name, length))?;
        compare(&place, wanted, &found)?;
        accept(artifact, name, staging, &place)?;
    }
    if let Some(name) = artifact.folder().filter(|name| !artifact.binary(name).exists()) {
        let folder = format!("{}/", in_layout(&artifact.binary(name))?);
        let files = list.in_folder(&folder);
        if files.is_empty() {
            return Err(not_listed(base, &folder, artifact));
        }
        let collected = staging.join(name);
        for (file, wanted) in files {
            let (path, to) = (format!("{folder}{file}"), collected.join(file));
            let made = to.parent().map_or(Ok(()), fs::create_dir_all);
            made.context("cannot make a folder in the cache").map_err(Failure::Local)?;
            let found = client.of_base(base, &path, &to, |_| {})?;
            compare(&base.place(&path), wanted, &found)?;
        }
        rename(&collected, &artifact.binary(name))?;
    }
    Ok(())
}

fn not_listed(base: &Base, path: &str, artifact: &Artifact) -> Failure {
    let (list, name) = (base.place(SUMS), artifact.name());
    Failure::Wrong(format!(
        "{list} has no {path}: `devcluster build {name}` and `devcluster sums` add it where that list was made"
    ))
}

/// The path of a file of the cache below its `bin`, as a base has it.
fn in_layout(path: &Path) -> Result<String, Failure> {
    let root = paths::cache().join("bin");
    let below = path.strip_prefix(&root).context("a binary lies outside of the cache").map_err(Failure::Local)?;
    Ok(below.display().to_string())
}

fn compare(place: &str, wanted: &str, found: &str) -> Result<(), Failure> {
    if wanted == found {
        return Ok(());
    }
    Err(Failure::Wrong(format!("{place} is to have the sum {wanted}, but has {found}")))
}

/// Gives a program of `staging` its name, if it is the right one.
fn accept(artifact: &Artifact, name: &str, staging: &Path, place: &str) -> Result<(), Failure> {
    let file = staging.join(name);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", file.display()))
        .map_err(Failure::Local)?;
    check::program(&file, artifact, name).map_err(|why| Failure::Wrong(format!("{name} of {place} {why}")))?;
    rename(&file, &artifact.binary(name))
}

fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    let moved = fs::rename(from, to);
    moved.with_context(|| format!("cannot move {} to {}", from.display(), to.display())).map_err(Failure::Local)
}

/// Writes the members that are `missing`, and nothing else, under the names of the programs.
fn unpack(
    archive: &Path,
    members: &[(&'static str, String)],
    missing: &[&str],
    staging: &Path,
    place: &str,
) -> Result<(), Failure> {
    let broken = |e: std::io::Error| Failure::Wrong(format!("{place} is no archive: {e}"));
    let file = fs::File::open(archive).with_context(|| format!("cannot read {}", archive.display()));
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file.map_err(Failure::Local)?));
    let mut wanted: Vec<_> = members.iter().filter(|(name, _)| missing.contains(name)).collect();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.to_string_lossy().trim_start_matches("./").to_owned();
        let Some(at) = wanted.iter().position(|(_, inside)| *inside == path) else { continue };
        if !entry.header().entry_type().is_file() {
            return Err(Failure::Wrong(format!("{path} in {place} is no file")));
        }
        let (name, _) = wanted.swap_remove(at);
        extract(&mut entry, &staging.join(name), broken)?;
        if wanted.is_empty() {
            return Ok(());
        }
    }
    let names: Vec<_> = wanted.iter().map(|(_, inside)| inside.as_str()).collect();
    Err(Failure::Wrong(format!("{place} has no {}", names.join(", "))))
}

fn extract(from: &mut impl Read, to: &Path, broken: impl Fn(std::io::Error) -> Failure) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| Failure::Local(anyhow!(e).context(format!("cannot write {}", to.display())));
    let (mut file, mut buffer) = (fs::File::create(to).map_err(cannot)?, vec![0; 1 << 16]);
    loop {
        match from.read(&mut buffer).map_err(&broken)? {
            0 => return file.sync_all().map_err(cannot),
            count => std::io::Write::write_all(&mut file, &buffer[..count]).map_err(cannot)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_checkouts_table_decides_and_the_publisher_is_not_asked() {
        // Nobody listens there.
        let address = "127.0.0.1:1/runc.amd64".to_owned();
        let offer = Offer { sums: format!("{address}.sha256"), address, holds: Holds::Program("runc") };
        let sum = "a".repeat(64);
        let table = Sums::parse(&format!("{sum}  127.0.0.1:1/runc.amd64\n")).unwrap();
        assert_eq!(wanted(&Client::default(), &table, &offer).unwrap(), sum);
        assert!(matches!(wanted(&Client::default(), &Sums::default(), &offer), Err(Failure::Unreachable(_))));
    }
}
