//! Whether a file is the program that it is to be: for this machine's processor, linked as images need it, and of the version that it
//! reports.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    catalog::Artifact,
    sums::{Summing, start},
};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// What images are made of: nothing else is in them, no loader and no library.
const IN_IMAGES: [&str; 12] = [
    "agnhost",
    "coredns",
    "descheduler",
    "etcd",
    "etcdctl",
    "etcdutl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "metrics-server",
    "pause",
];

/// The error says what was expected and what was found.
pub(super) fn program(path: &Path, artifact: &Artifact, name: &str) -> Result<(), String> {
    let mut head = Vec::new();
    let opened = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    opened.map_err(|e| format!("cannot be read: {e}"))?;
    machine(&head, std::env::consts::ARCH)?;
    if IN_IMAGES.contains(&name) && asks_for_a_loader(&head) {
        return Err("is to be linked statically, since its image holds nothing else, but asks for a loader".to_owned());
    }
    let Some(arguments) = question(artifact, name) else { return Ok(()) };
    let said = ask(path, arguments)?;
    let expected = artifact.version.trim_start_matches('v');
    if reports(&said, expected) {
        return Ok(());
    }
    let asked = [&[name], arguments].concat().join(" ");
    Err(format!("is to be version {expected}, but `{asked}` says `{}`", start(&said)))
}

/// The SHA-256 sum of a file.
pub(super) fn sum(path: &Path) -> io::Result<String> {
    let mut summing = Summing::new(io::sink());
    io::copy(&mut File::open(path)?, &mut summing)?;
    Ok(summing.finish().1)
}

/// Looks at the header of an ELF file: 64 bits, little-endian, for the processor `here` as Rust calls it.
fn machine(head: &[u8], here: &str) -> Result<(), String> {
    const PROCESSORS: [(u16, &str); 2] = [(62, "x86_64"), (183, "aarch64")];
    if head.len() < 20 || !head.starts_with(b"\x7fELF") {
        return Err(format!("is to be a program, but begins with `{}`", start(&String::from_utf8_lossy(head))));
    }
    let found = match (head[4], head[5]) {
        (2, 1) => {
            let number = u16::from_le_bytes([head[18], head[19]]);
            PROCESSORS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
        }
        _ => None,
    };
    match found {
        Some(found) if found == here => Ok(()),
        _ => Err(format!("is to be a program for {here}, but is one for {}", found.unwrap_or("another processor"))),
    }
}

/// Whether a program, of which [`machine`] has seen the header, has a segment `PT_INTERP`.
fn asks_for_a_loader(head: &[u8]) -> bool {
    let half = |at: usize| head.get(at..at + 2).map_or(0, |b| usize::from(u16::from_le_bytes([b[0], b[1]])));
    // Linkers put the table right behind the header.
    let (table, size, count) = (half(32), half(54), half(56));
    (0..count)
        .any(|index| head.get(table + index * size..).is_some_and(|entry| entry.starts_with(&3_u32.to_le_bytes())))
}

/// The arguments with which a program says its version; `None` for those that say none.
fn question(artifact: &Artifact, name: &str) -> Option<&'static [&'static str]> {
    // Called without CNI_COMMAND, a plugin says what it is.
    if artifact.component == "cni-plugins" {
        return Some(&[]);
    }
    Some(match name {
        "kubectl" => &["version", "--client"],
        "kubeadm" => &["version", "-o", "short"],
        "etcdctl" | "etcdutl" | "crane" => &["version"],
        "helm" | "helm4" => &["version", "--short"],
        "containerd-shim-runc-v2" => &["-v"],
        "coredns" => &["-version"],
        "agnhost" | "descheduler" | "e2e.test" | "health" | "kube-router" | "metrics-server" | "otelcol" | "pause"
        | "s3s-fs" => return None,
        _ => &["--version"],
    })
}

/// What a program writes, wherever it writes it. It gets nothing of the environment, from which many read flags.
fn ask(path: &Path, arguments: &[&str]) -> Result<String, String> {
    // In a file and not a pipe: no child of the program can keep it open.
    let answer = path.with_extension("says");
    let result = run(path, arguments, &answer);
    let said = fs::read(&answer).unwrap_or_default();
    let _ = fs::remove_file(&answer);
    result.map(|()| String::from_utf8_lossy(&said).into_owned())
}

fn run(path: &Path, arguments: &[&str], answer: &Path) -> Result<(), String> {
    let cannot = |e: io::Error| format!("does not run here: {e}");
    let file = File::create(answer).map_err(|e| format!("cannot be asked for its version: {e}"))?;
    let deadline = Instant::now() + PATIENCE;
    let mut child = loop {
        let mut command = Command::new(path);
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(cannot)?)
            .stderr(file.try_clone().map_err(cannot)?);
        match command.spawn() {
            // Another thread that starts a process at this moment still has the file open that was just written.
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            other => break other.map_err(cannot)?,
        }
    };
    while child.try_wait().map_err(cannot)?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("says no version within {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether a version stands in a text, and not as part of another: `1.36.3` is in `v1.36.3+g1` and `CoreDNS-1.36.3`, but neither in
/// `1.36.30` nor in `1.36.3-rc.1`.
fn reports(said: &str, version: &str) -> bool {
    said.match_indices(version).any(|(at, _)| {
        let before = said[..at].chars().next_back();
        let mut after = said[at + version.len()..].chars();
        let begins = match before {
            Some('v') => !said[..at - 1].ends_with(char::is_alphanumeric),
            Some(c) => !c.is_alphanumeric() && c != '.',
            None => true,
        };
        let ends = match after.next() {
            Some('.' | '-') => !after.next().is_some_and(char::is_alphanumeric),
            Some(c) => !c.is_alphanumeric(),
            None => true,
        };
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::binaries::{
        Selection,
        sources::{self, Arch},
    };

    fn elf(class: u8, order: u8, machine: u16) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order]);
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head
    }

    #[test]
    fn a_program_is_for_one_processor() {
        let [x86, arm] = ["x86_64", "aarch64"];
        assert_eq!(machine(&elf(2, 1, 62), x86), Ok(()));
        assert_eq!(machine(&elf(2, 1, 183), arm), Ok(()));
        assert_eq!(machine(&elf(2, 1, 183), x86).unwrap_err(), "is to be a program for x86_64, but is one for aarch64");
        for other in [elf(2, 1, 243), elf(1, 1, 62), elf(2, 2, 62)] {
            assert!(machine(&other, x86).unwrap_err().ends_with("is one for another processor"));
        }
        assert!(machine(&elf(2, 1, 62)[..10], x86).is_err(), "cut");
        assert_eq!(machine(b"", x86).unwrap_err(), "is to be a program, but begins with ``");
        let page = b"<!DOCTYPE html>\n<title>Sign in</title>";
        assert_eq!(machine(page, x86).unwrap_err(), "is to be a program, but begins with `<!DOCTYPE html>`");
    }

    #[test]
    fn what_needs_a_loader_is_found_by_its_segment() {
        let with = |kinds: &[u32]| {
            let mut head = elf(2, 1, 62);
            head[32] = 64;
            head[54] = 56;
            head[56] = u8::try_from(kinds.len()).unwrap();
            for kind in kinds {
                head.extend_from_slice(&kind.to_le_bytes());
                head.extend_from_slice(&[0; 52]);
            }
            head
        };
        assert!(asks_for_a_loader(&with(&[6, 3, 1])));
        assert!(!asks_for_a_loader(&with(&[6, 1, 2])));
        assert!(!asks_for_a_loader(&with(&[1, 3])[..100]), "cut");
    }

    #[test]
    fn a_version_is_no_part_of_another() {
        for said in [
            "Kubernetes v1.36.3",
            "Client Version: v1.36.3\nKustomize Version: v5.8.1\n",
            "v1.36.3+g2f4a7c1",
            "CoreDNS-1.36.3\nlinux/amd64, go1.26.1, \n",
            "etcd Version: 1.36.3\nGit SHA: 12",
            "containerd github.com/containerd/containerd/v2 v1.36.3 .m",
            "CNI bridge plugin v1.36.3.",
            "1.36.3",
        ] {
            assert!(reports(said, "1.36.3"), "{said}");
        }
        for said in [
            "",
            "v1.36.30",
            "v11.36.3",
            "2.1.36.3",
            "v1.36.3.1",
            "v1.36.3-rc.1",
            "v1.36.3a",
            "go1.36.3",
            "rev1.36.3",
            "v1.36.2",
        ] {
            assert!(!reports(said, "1.36.3"), "{said}");
        }
    }

    /// A script is enough to be asked; only [`machine`] wants more.
    fn script(dir: &Path, text: &str) -> std::path::PathBuf {
        let path = dir.join("program");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_program_is_asked_without_the_environment_and_on_either_stream() {
        let dir = tempfile::tempdir().unwrap();
        let said = ask(&script(dir.path(), "echo \"$1 ${HOME-none}\"; echo v2 >&2; exit 1"), &["--version"]).unwrap();
        assert_eq!(said, "--version none\nv2\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the answer is removed");
        // Who leaves a process behind that holds the streams is not waited for.
        assert_eq!(ask(&script(dir.path(), "sleep 5 & echo v1"), &[]).unwrap(), "v1\n");
    }

    #[test]
    fn what_does_not_run_here_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::write(&path, elf(2, 1, 62)).unwrap();
        assert!(ask(&path, &[]).unwrap_err().starts_with("does not run here: "));
    }

    #[test]
    fn every_program_that_is_offered_is_asked_for_its_version() {
        for artifact in Selection::All.artifacts().unwrap() {
            if !sources::offers(&artifact, Arch::Amd64).is_empty() {
                assert!(artifact.binaries.iter().all(|(name, _)| question(&artifact, name).is_some()), "{artifact:?}");
            }
        }
    }
}
