//! Checksums of everything, and their signature.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::pack::below;
use crate::shell::{Result, output};

/// What `sha256sum --check` reads.
pub(super) const SUMS: &str = "SHA256SUMS";

/// Writes the checksums of all files; the checksum of that.
pub(super) fn write(dir: &Path) -> Result<String> {
    let mut text = String::new();
    for path in below(dir)? {
        let content = fs::read(dir.join(&path)).with_context(|| format!("cannot read {path}"))?;
        writeln!(text, "{}  {path}", berth_oci::sha256(&content))?;
    }
    super::write(&dir.join(SUMS), text.as_bytes())?;
    Ok(berth_oci::sha256(text.as_bytes()))
}

/// Signs the checksums, and with them everything.
pub(super) fn sign(dir: &Path, key: &Path) -> Result<()> {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(dir).args([
        "pkeyutl",
        "-sign",
        "-rawin",
        "-in",
        SUMS,
        "-out",
        &format!("{SUMS}.sig"),
        "-inkey",
    ]);
    output(openssl.arg(key)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(dir: &Path, line: &str) -> bool {
        let done = Command::new("sh").current_dir(dir).args(["-c", line]).output().unwrap();
        println!("{line}: {}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        done.status.success()
    }

    /// With the commands of docs/release.md.
    #[test]
    fn what_was_changed_is_found_by_the_commands_of_the_page() {
        let page = include_str!("../../../docs/release.md");
        let (check, verify) = (
            "sha256sum --quiet --check SHA256SUMS",
            "openssl pkeyutl -verify -pubin -inkey berth.pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig",
        );
        assert!(page.contains(check) && page.contains(verify));
        let dir = tempfile::tempdir().unwrap();
        let release = dir.path().join("release");
        super::super::write(&release.join("a/b"), b"text").unwrap();
        let key = dir.path().join("key.pem");
        assert!(run(dir.path(), "openssl genpkey -algorithm ed25519 -out key.pem"));
        assert!(run(dir.path(), "openssl pkey -in key.pem -pubout -out release/berth.pub"));
        let digest = write(&release).unwrap();
        sign(&release, &key).unwrap();
        assert!(run(&release, check) && run(&release, verify));
        fs::write(release.join("a/b"), "other").unwrap();
        assert!(!run(&release, check));
        fs::remove_file(release.join("SHA256SUMS.sig")).unwrap();
        fs::remove_file(release.join("SHA256SUMS")).unwrap();
        assert_ne!(write(&release).unwrap(), digest);
        sign(&dir.path().join("release"), &dir.path().join("nobody.pem")).unwrap_err();
        assert!(run(dir.path(), "openssl genpkey -algorithm ed25519 -out other.pem"));
        sign(&release, &dir.path().join("other.pem")).unwrap();
        assert!(!run(&release, verify), "another key's signature");
    }
}
