//! What a sandbox was attached to, in a file of its own: DEL needs neither the API server nor the pod.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    attachment::Attachment,
    error::{Code, Error, Result},
};

/// The file of one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Store(PathBuf);

impl Store {
    /// `interface` tells calls apart that a runtime makes for the same container.
    pub(crate) fn new(directory: &Path, container: &str, interface: &str) -> Result<Self> {
        // Both become a file's name.
        for (name, value) in [("CNI_CONTAINERID", container), ("CNI_IFNAME", interface)] {
            if value.is_empty() || value.contains('/') || value.starts_with('.') {
                return Err(Error::new(Code::Environment, format!("{name} `{value}` cannot be used")));
            }
        }
        Ok(Self(directory.join(format!("{container}-{interface}.json"))))
    }

    /// What was written; none if nothing was, or if all of it was undone.
    pub(crate) fn read(&self) -> Result<Option<Vec<Attachment>>> {
        match fs::read(&self.0) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| Error::io(self.0.display(), e)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(self.0.display(), e)),
        }
    }

    /// Replaces the file as a whole.
    pub(crate) fn write(&self, attachments: &[Attachment]) -> Result<()> {
        let failed = |e: std::io::Error| Error::io(self.0.display(), e);
        if let Some(directory) = self.0.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let temporary = self.0.with_extension("tmp");
        let text = serde_json::to_vec(attachments).map_err(|e| Error::io(self.0.display(), e))?;
        fs::write(&temporary, text).map_err(failed)?;
        fs::rename(&temporary, &self.0).map_err(failed)
    }

    pub(crate) fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.0) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(self.0.display(), e)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{attachment, network};

    #[test]
    fn what_was_attached_is_found_again_until_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(&dir.path().join("sub"), "abc", "eth0").unwrap();
        assert_eq!(store.read().unwrap(), None);
        let network = network::parse(&json!({"name": "pods", "type": "bridge"}), "").unwrap();
        let mut all = attachment::plan("eth0", vec![network], vec![]).unwrap();
        all[0].result = Some(json!({"ips": []}));
        store.write(&all).unwrap();
        assert_eq!(store.read().unwrap(), Some(all));
        store.remove().unwrap();
        store.remove().unwrap();
        assert_eq!(store.read().unwrap(), None);
        assert!(Store::new(dir.path(), "../x", "eth0").is_err());
    }
}
