//! Sums of files: lists of them as publishers write them, the checkout's own table, and the list of a base. Pure.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The checkout's table: its rows decide, and whoever has one is asked for no list.
const TABLE: &str = include_str!("sums.txt");

/// Sums by name: the path of a file below the list, or its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums(BTreeMap<String, String>);

impl Sums {
    /// The checkout's own.
    pub(super) fn of_checkout() -> Self {
        // A test holds that every row is one.
        Self::parse(TABLE).unwrap_or_default()
    }

    /// Reads `<sum>  <name>` lines; empty ones and those that begin with `#` are no rows. The error is the line that is no such one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rows = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        rows.map(|line| row(line).map(|(sum, name)| (name.to_owned(), sum)).ok_or_else(|| start(line)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The files below a folder, which ends with a slash.
    pub(super) fn in_folder(&self, folder: &str) -> Vec<(&str, &str)> {
        let files = self.0.iter().filter_map(|(path, sum)| Some((path.strip_prefix(folder)?, sum.as_str())));
        files.filter(|(name, _)| name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))).collect()
    }
}

/// The sum of one file in a publisher's list. Kubernetes' files are nothing but the sum.
pub(super) fn published(text: &str, file: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    if let (Some(sum), None) = (words.next(), words.next()) {
        return is_sum(sum).then(|| sum.to_ascii_lowercase());
    }
    let mut found =
        text.lines().filter_map(row).filter(|(_, name)| name.rsplit('/').next() == Some(file)).map(|(sum, _)| sum);
    let first = found.next()?;
    // Two that differ: nobody knows which of them is meant.
    found.all(|other| other == first).then_some(first)
}

/// The beginning of what came instead of something, for messages: one line, no control characters.
pub(super) fn start(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let shown: String = line.chars().filter(|c| !c.is_control()).take(100).collect();
    shown.trim_end().to_owned()
}

/// `sha256sum` writes a star before the name of what it read as binary.
fn row(line: &str) -> Option<(String, &str)> {
    let (sum, name) = line.trim().split_once(char::is_whitespace)?;
    let name = name.trim_start().trim_start_matches('*').trim_start_matches("./");
    (is_sum(sum) && !name.is_empty()).then(|| (sum.to_ascii_lowercase(), name))
}

fn is_sum(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Writes on to another writer, and sums up what passes.
#[derive(Debug)]
pub(super) struct Summing<W> {
    inner: W,
    sum: Sha256,
}

impl<W> Summing<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, sum: Sha256::new() }
    }

    /// The writer, and the sum of what passed.
    pub(super) fn finish(self) -> (W, String) {
        let sum = self.sum.finalize();
        (self.inner, format!("{sum:x}"))
    }
}

impl<W: std::io::Write> std::io::Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::{
        Selection,
        sources::{self, Arch},
    };

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn publishers_write_lists_in_several_ways() {
        let of = |text: &str| published(text, "runc.amd64");
        assert_eq!(of(A).as_deref(), Some(A), "Kubernetes");
        assert_eq!(of(&format!("{}\n", A.to_uppercase())).as_deref(), Some(A));
        assert_eq!(of(&format!("{B}  runc.arm64\n{A}  runc.amd64\n")).as_deref(), Some(A), "etcd, runc");
        assert_eq!(of(&format!("{A} *runc.amd64")).as_deref(), Some(A));
        assert_eq!(of(&format!("{A}  release/runc.amd64\r\n")).as_deref(), Some(A));
        let signed = format!(
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{A}  runc.amd64\n-----BEGIN PGP SIGNATURE-----\n"
        );
        assert_eq!(of(&signed).as_deref(), Some(A));
    }

    #[test]
    fn what_is_no_list_or_of_another_file_gives_no_sum() {
        let of = |text: &str| published(text, "runc.amd64");
        assert_eq!(of(""), None);
        assert_eq!(of("<html>"), None);
        assert_eq!(of("<!DOCTYPE html>\n<html><body>Sign in to the network</body></html>"), None);
        assert_eq!(of(&A[1..]), None);
        assert_eq!(of(&format!("{A}  runc.arm64")), None);
        assert_eq!(of(&format!("{A}  runc.amd64.asc")), None);
        assert_eq!(of(&format!("{A}  runc.amd64\n{B}  runc.amd64")), None, "one of two");
    }

    #[test]
    fn a_list_of_a_base_has_paths_and_what_is_none_is_shown() {
        let list = Sums::parse(&format!("# of Berth\n\n{A}  etcd/v3.6.16/etcd\n{B}  ./tools/kwok-0.8.0/stages/a.yaml\n{B}  tools/kwok-0.8.0/stages/../x\n{A}  tools/a/chart/templates/b.yaml\n")).unwrap();
        assert_eq!(list.get("etcd/v3.6.16/etcd"), Some(A));
        assert_eq!(list.get("etcd"), None);
        assert_eq!(list.in_folder("tools/kwok-0.8.0/stages/"), [("a.yaml", B)]);
        assert_eq!(list.in_folder("tools/a/chart/"), [("templates/b.yaml", A)]);
        assert_eq!(Sums::parse("<html>\u{7}<head>\nmore").unwrap_err(), "<html><head>");
    }

    #[test]
    fn a_sum_is_that_of_sha256() {
        let mut summing = Summing::new(Vec::new());
        std::io::Write::write_all(&mut summing, b"abc").unwrap();
        let (written, sum) = summing.finish();
        assert_eq!(
            (&*written, &*sum),
            (&b"abc"[..], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
    }

    #[test]
    fn every_row_of_the_checkouts_table_is_of_something_that_is_offered() {
        let table = Sums::parse(TABLE).unwrap();
        let all = Selection::All.artifacts().unwrap();
        let offered: Vec<_> = [Arch::Amd64, Arch::Arm64]
            .into_iter()
            .flat_map(|arch| all.iter().flat_map(move |artifact| sources::offers(artifact, arch)))
            .map(|offer| offer.address)
            .collect();
        for name in table.0.keys() {
            assert!(offered.contains(name), "nobody asks for {name}: the row is of a version that is gone");
        }
    }
}
