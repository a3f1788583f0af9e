//! Looking for a cluster on this machine, without asking devcluster.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Everything on this machine by which a cluster could be seen.
pub(crate) struct Traces {
    mounts: Vec<String>,
    processes: Vec<(String, String)>,
    cgroups: Vec<String>,
    files: Vec<String>,
}

impl Traces {
    pub(crate) fn find() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = mounts.lines().filter_map(|l| Some(l.split(' ').nth(4)?.to_owned()));
        let mut files = list(Path::new("/run/netns"));
        for directory in ["/var/log/containers", "/var/lib/cni/results"] {
            for file in list(Path::new(directory)) {
                let target = fs::read_link(&file).unwrap_or_default();
                files.push(PathBuf::from(format!("{} -> {}", file.display(), target.display())));
            }
        }
        files.extend(list(&berth_devcluster::paths::state()));
        Self {
            mounts: mounts.collect(),
            processes: marked_processes("BERTH_DEVCLUSTER"),
            cgroups: list(Path::new("/sys/fs/cgroup"))
                .iter()
                .flat_map(|hierarchy| list(hierarchy))
                .map(|group| group.display().to_string())
                .collect(),
            files: files.iter().map(|file| file.display().to_string()).collect(),
        }
    }

    /// The programs that a cluster runs.
    pub(crate) fn processes_of(&self, cluster: &str) -> Vec<String> {
        let directory = berth_devcluster::paths::state().join(cluster).display().to_string();
        self.processes.iter().filter(|(mark, _)| *mark == directory).map(|(_, program)| program.clone()).collect()
    }

    /// The programs of one node, by the directory in their mark.
    pub(crate) fn processes_of_node(directory: &Path) -> Vec<String> {
        let directory = directory.display().to_string();
        marked_processes("BERTH_DEVCLUSTER_NODE")
            .into_iter()
            .filter(|(mark, _)| *mark == directory)
            .map(|(_, program)| program)
            .collect()
    }

    /// Everything that belongs to a cluster, for people to read.
    pub(crate) fn of(&self, cluster: &str) -> Vec<String> {
        let is_of = |text: &&String| {
            text.split(['/', ' ']).any(|part| {
                // Further nodes are called as the cluster, a dot and what tells them apart.
                part == cluster
                    || part == format!("berth-{cluster}")
                    || ["-", "."].iter().any(|end| part.starts_with(&format!("berth-{cluster}{end}")))
            })
        };
        let mut all = self.processes_of(cluster);
        all.extend(self.mounts.iter().chain(&self.cgroups).chain(&self.files).filter(is_of).cloned());
        all
    }

    /// What names a slot rather than a cluster: containerd's mounts and sockets, and the link. Nothing is said of a slot
    /// that another cluster of the machine has leased in the meantime.
    pub(crate) fn of_free_slot(&self, slot: berth_devcluster::Slot) -> Vec<String> {
        if Path::new("/var/lib/berth/slots").join(slot.number().to_string()).exists() {
            return Vec::new();
        }
        let run = format!("/run/berth/{}", slot.number());
        let mut all: Vec<_> = self.mounts.iter().filter(|m| Path::new(m).starts_with(&run)).cloned().collect();
        all.extend(
            [run, format!("/sys/class/net/berth{}", slot.number())].into_iter().filter(|p| Path::new(p).exists()),
        );
        all
    }
}

/// The mark and the program of every process that a devcluster started.
fn marked_processes(variable: &str) -> Vec<(String, String)> {
    let variable = format!("{variable}=");
    list(Path::new("/proc"))
        .iter()
        .filter_map(|process| {
            let environment = fs::read(process.join("environ")).ok()?;
            let environment = String::from_utf8_lossy(&environment).into_owned();
            let mark = environment.split('\0').find_map(|v| v.strip_prefix(&variable))?.to_owned();
            let command = fs::read(process.join("cmdline")).ok()?;
            let program = String::from_utf8_lossy(&command).split('\0').next()?.to_owned();
            (!program.is_empty()).then_some((mark, program))
        })
        .collect()
}

fn list(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).map(|all| all.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}
