//! A cache, programs that say what they are told to, and a `go` that copies one of them.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub(crate) struct World {
    dir: TempDir,
}

/// What a run of `devcluster` said, with its exit.
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) text: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(world.dir.path().join("path")).unwrap();
        // Where the program goes is the last argument, or what follows -o.
        world.script(
            "go",
            "echo \"$*\" >> \"${0%/*}/../go.log\"; out=; before=\n\
             for a; do [ \"$before\" = -o ] && out=$a; before=$a; last=$a; done\n\
             [ -n \"$out\" ] || { name=${last%@*}; out=$GOBIN/${name##*/}; }\n\
             printf '#!/bin/sh\\necho built\\n' > \"$out\"; chmod 755 \"$out\"",
        );
        world
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        let path = self.path("path").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A file of the cache's `bin`.
    pub(crate) fn bin(&self, below: &str) -> PathBuf {
        self.path("cache/bin").join(below)
    }

    /// `devcluster` with these arguments; what this test's own environment says of proxies and the like does not matter.
    pub(crate) fn devcluster(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_devcluster"));
        let path = format!("{}:/usr/bin:/bin", self.path("path").display());
        command.args(arguments).env_clear().env("PATH", path).env("HOME", self.dir.path());
        command.env("BERTH_CACHE", self.path("cache")).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn build(&self, artifact: &str, variables: &[(&str, &str)]) -> Said {
        said(&self.devcluster(&["build", artifact], variables).output().unwrap())
    }

    /// The files of the cache that have their names, and what lies about beside them.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        for root in ["cache/bin", "cache/build"] {
            collect(&self.path(root), &mut found);
        }
        let below = |path: PathBuf| path.strip_prefix(self.path("cache")).unwrap().display().to_string();
        let mut found: Vec<_> = found.into_iter().map(below).filter(|path| !path.ends_with("/log")).collect();
        found.sort();
        found
    }

    /// How often `go` ran.
    pub(crate) fn builds(&self) -> usize {
        fs::read_to_string(self.path("go.log")).unwrap_or_default().lines().count()
    }
}

pub(crate) fn said(output: &Output) -> Said {
    let text = [&output.stdout[..], &output.stderr].concat();
    Said { ok: output.status.success(), text: String::from_utf8_lossy(&text).into_owned() }
}

impl Said {
    pub(crate) fn has(&self, words: &[&str]) {
        let missing: Vec<_> = words.iter().filter(|word| !self.text.contains(*word)).collect();
        assert!(missing.is_empty(), "{missing:?} not in: {}", self.text);
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

/// A program that says this, whatever it is asked; of `size` bytes or more.
pub(crate) fn program(says: &str, size: usize) -> Vec<u8> {
    linked("-static", says, size)
}

/// Linked as `how`, a flag of the C compiler.
pub(crate) fn linked(how: &str, says: &str, size: usize) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("main.c"), dir.path().join("main"));
    fs::write(&source, format!("#include <stdio.h>\nint main(void) {{ puts(\"{says}\"); return 0; }}\n")).unwrap();
    assert!(Command::new("cc").args(["-s", how, "-o"]).arg(&out).arg(&source).status().unwrap().success());
    let mut program = fs::read(&out).unwrap();
    // Whatever follows an ELF file's end does not matter to it. Noise does not get smaller in an archive.
    let mut noise = 1_u32;
    while program.len() < size {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        program.extend_from_slice(&noise.to_be_bytes());
    }
    program
}

/// The same program as if it were for another processor.
pub(crate) fn foreign(mut program: Vec<u8>) -> Vec<u8> {
    program[18..20].copy_from_slice(&243_u16.to_le_bytes());
    program
}

pub(crate) fn sum(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// A compressed archive of these files.
pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// As publishers call this machine's processor.
pub(crate) fn arch() -> &'static str {
    if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" }
}
