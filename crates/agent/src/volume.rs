//! The files that [`crate::guard`] decides about.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use berth_contract::{Bootstrap, MARKER_FILE, Marker};

use crate::guard::{Data, Found};

/// Reads what the operator says.
pub(crate) fn read_bootstrap(path: &Path) -> anyhow::Result<Bootstrap> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}

/// Reads the marker beside the data directory. An error means that the volume cannot be read, which proves nothing.
pub(crate) fn read_marker(data_dir: &Path) -> anyhow::Result<Found> {
    let path = marker_path(data_dir)?;
    match fs::read(&path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(Found::Garbage, Found::Marker)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Looks at the data directory as etcd does: what counts is a write-ahead log.
pub(crate) fn look(data_dir: &Path) -> anyhow::Result<Data> {
    let wal = data_dir.join("member").join("wal");
    if names(&wal)?.iter().any(|name| Path::new(name).extension().is_some_and(|extension| extension == "wal")) {
        return Ok(Data::Present);
    }
    Ok(if names(data_dir)?.is_empty() { Data::Empty } else { Data::Partial })
}

/// Writes the marker so that it is there, whole, after a power cut: temporary file, fsync, rename, fsync of the directory.
pub(crate) fn write_marker(data_dir: &Path, marker: &Marker) -> anyhow::Result<()> {
    let path = marker_path(data_dir)?;
    write_durably(&path, &serde_json::to_vec(marker)?).with_context(|| path.display().to_string())
}

/// Sets aside what another member left in the data directory: whole, on the same volume, and there after a power cut.
pub(crate) fn set_aside(data_dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let volume = marker_path(data_dir)?;
    let free = |n: u32| volume.with_file_name(if n == 0 { name.to_owned() } else { format!("{name}-{n}") });
    let target = (0..1000).map(free).find(|path| !path.exists()).context("too much was set aside on this volume")?;
    fs::rename(data_dir, &target).with_context(|| format!("{} to {}", data_dir.display(), target.display()))?;
    if let Some(parent) = data_dir.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(target)
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("json.tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn marker_path(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let volume = data_dir.parent().filter(|volume| !volume.as_os_str().is_empty());
    Ok(volume.with_context(|| format!("--data-dir {} has no parent directory", data_dir.display()))?.join(MARKER_FILE))
}

/// Names in a directory; none if it does not exist.
fn names(dir: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| dir.display().to_string()),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<_>>();
    names.with_context(|| dir.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_comes_back_and_leaves_nothing_else() {
        let volume = tempfile::tempdir().unwrap();
        let data = volume.path().join("data");
        assert_eq!(read_marker(&data).unwrap(), Found::Nothing);
        let marker = Marker { cluster_uid: "u".to_owned(), epoch: 1, member: "e-0".to_owned(), id: None };
        write_marker(&data, &marker).unwrap();
        assert_eq!(read_marker(&data).unwrap(), Found::Marker(marker));
        assert_eq!(names(volume.path()).unwrap(), [MARKER_FILE]);
        fs::write(volume.path().join(MARKER_FILE), "{").unwrap();
        assert_eq!(read_marker(&data).unwrap(), Found::Garbage);
    }

    #[test]
    fn only_a_log_is_data() {
        let volume = tempfile::tempdir().unwrap();
        let data = volume.path().join("data");
        assert_eq!(look(&data).unwrap(), Data::Empty);
        fs::create_dir_all(data.join("member/wal")).unwrap();
        assert_eq!(look(&data).unwrap(), Data::Partial);
        fs::write(data.join("member/wal/0.tmp"), "").unwrap();
        assert_eq!(look(&data).unwrap(), Data::Partial);
        fs::write(data.join("member/wal/0000000000000000-0000000000000000.wal"), "").unwrap();
        assert_eq!(look(&data).unwrap(), Data::Present);
    }
}
