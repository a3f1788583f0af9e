//! The files of one cluster. Pure: a name and a slot give every path.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::{node::FIRST, paths, slot::Slot};

/// The longest name of a cluster. containerd's and kubelet's sockets must stay below 108 bytes.
const NAME_MAX: usize = 20;

/// Where a cluster's files are and what its parts are called.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) name: String,
    /// What survives a reboot: `$BERTH_STATE/<name>`.
    pub(crate) dir: PathBuf,
}

impl Layout {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty()
            || name.len() > NAME_MAX
            || !name.chars().all(valid)
            || name.starts_with('-')
            || name.ends_with('-')
        {
            bail!(
                "`{name}` is no cluster name: at most {NAME_MAX} lower-case letters, digits and dashes, \
                 not beginning or ending with a dash"
            );
        }
        let dir = paths::state().join(name);
        if dir.as_os_str().len() > 60 {
            bail!(
                "the state directory {} is too long for Unix sockets: set BERTH_STATE to a shorter one",
                dir.display()
            );
        }
        Ok(Self { name: name.to_owned(), dir })
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.with_file_name(format!("{}.lock", self.name))
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state.json")
    }

    pub(crate) fn pki(&self, file: &str) -> PathBuf {
        self.dir.join("pki").join(file)
    }

    pub(crate) fn config(&self, file: &str) -> PathBuf {
        self.dir.join("config").join(file)
    }

    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{user}.kubeconfig"))
    }

    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.dir.join("log").join(format!("{component}.log"))
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.dir.join("log").join("audit.log")
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
    }

    pub(crate) fn volume(&self, pv: &str) -> PathBuf {
        self.volumes().join(pv)
    }

    pub(crate) fn registries(&self) -> PathBuf {
        self.dir.join("registries")
    }

    pub(crate) fn etcd(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    pub(crate) fn s3(&self) -> PathBuf {
        self.dir.join("s3")
    }

    /// The network namespace's name, and the name of the cluster's part of each cgroup hierarchy and of its CNI network.
    /// Further nodes have names of their own, see [`crate::node`].
    pub(crate) fn scope(&self) -> String {
        format!("berth-{}", self.name)
    }

    pub(crate) fn netns(&self) -> PathBuf {
        PathBuf::from(paths::NETNS_DIR).join(self.scope())
    }

    /// The environment variable by which every process of the cluster is known, whoever its parent is.
    pub(crate) fn marker(&self) -> (&'static str, String) {
        ("BERTH_DEVCLUSTER", self.dir.to_string_lossy().into_owned())
    }
}

/// What does not survive a reboot: sockets and containerd's state. Short, for the sockets' sake.
#[derive(Clone, Debug)]
pub(crate) struct RunDir(pub(crate) PathBuf);

impl RunDir {
    pub(crate) fn new(slot: Slot) -> Self {
        Self(PathBuf::from(format!("/run/berth/{}", slot.number())))
    }

    /// A node's part of it; the first node's is the whole.
    pub(crate) fn node(&self, number: u8) -> PathBuf {
        if number == FIRST { self.0.clone() } else { self.0.join(format!("n{number}")) }
    }

    pub(crate) fn containerd_socket(&self, node: u8) -> PathBuf {
        self.node(node).join("containerd.sock")
    }

    /// There while a node's power is off. It lies here, since with the cluster's own power all nodes come back.
    pub(crate) fn killed(&self, node: u8) -> PathBuf {
        self.0.join(format!("killed-{node}"))
    }

    pub(crate) fn is_killed(&self, node: u8) -> bool {
        self.killed(node).exists()
    }

    /// Held by whoever starts or ends a further node's processes.
    pub(crate) fn power_lock(&self) -> PathBuf {
        self.0.join("power.lock")
    }

    pub(crate) fn process(&self, component: &str) -> PathBuf {
        self.0.join("processes").join(format!("{component}.json"))
    }

    pub(crate) fn processes(&self) -> PathBuf {
        self.0.join("processes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["demo", "e2e-1", "a", "twenty-characters-ok"] {
            assert!(Layout::new(good).is_ok(), "{good}");
        }
        for bad in ["", "Demo", "-a", "a-", "a/b", "..", "a-name-that-is-too-long"] {
            assert!(Layout::new(bad).is_err(), "{bad}");
        }
    }
}
