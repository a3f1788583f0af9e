//! What is in a program, as SPDX has it: the crates that cargo links into it, with versions, licences and checksums.
//!
//! Tools for this put the time of day and a random number into what they write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::platforms::CLI;
use crate::root;
use crate::shell::{Result, cargo, output};

/// What a release has of Berth's programs.
pub(super) const PROGRAMS: [&str; 9] = [
    "berth-operator",
    "berth-agent",
    "berth-approve",
    "berth-backup",
    "berth-gateway",
    "berth-access",
    "berth-api-proxy",
    "berth-apps",
    CLI,
];

const REPOSITORY: &str = "https://github.com/berth-dev/berth";

/// A crate or a module: name and version.
pub(super) type Crate = (String, String);

/// What cargo says of a program.
#[derive(Debug, Default)]
struct Tree {
    /// By crate, the licence.
    crates: BTreeMap<Crate, String>,
    /// Who uses whom.
    edges: BTreeSet<(Crate, Crate)>,
    root: Crate,
}

/// The document of a program, as built for these.
pub(super) fn make(program: &str, version: &str, triples: &[&str]) -> Result<Vec<u8>> {
    let package = if program == CLI { "berth-cli" } else { program };
    let mut tree = cargo();
    tree.args(["tree", "--locked", "-p", package, "--edges", "normal", "--prefix", "depth", "--format", "{p}|{l}"]);
    let tree = parse(&output(tree.args(triples.iter().flat_map(|triple| ["--target", triple])))?)?;
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let rust = output(Command::new("rustc").current_dir(root()).arg("--version"))?;
    let rust = rust.split_whitespace().nth(1).unwrap_or_default();
    let document = document(program, version, &tree, &checksums(&lock), rust, &created()?);
    Ok(serde_json::to_vec_pretty(&document)?)
}

/// `1serde v1.0.1 (proc-macro)|MIT OR Apache-2.0 (*)`: depth, crate, licence; what was shown before ends with a star.
fn parse(text: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut above: Vec<Crate> = vec![];
    for line in text.lines().filter(|l| !l.is_empty()) {
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        let (depth, rest) = line.split_at(digits);
        let (package, licence) = rest.split_once('|').with_context(|| format!("cargo tree: {line}"))?;
        let mut words = package.split_whitespace();
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let this = (name.to_owned(), version.trim_start_matches('v').to_owned());
        above.truncate(depth.parse().with_context(|| format!("cargo tree: {line}"))?);
        match above.last() {
            Some(parent) => {
                tree.edges.insert((parent.clone(), this.clone()));
            }
            None => tree.root = this.clone(),
        }
        let licence = licence.trim_end_matches(" (*)").trim().replace('/', " OR ");
        tree.crates.insert(this.clone(), if licence.is_empty() { "NOASSERTION".to_owned() } else { licence });
        above.push(this);
    }
    Ok(tree)
}

/// Checksums of what was downloaded.
fn checksums(lock: &str) -> BTreeMap<Crate, String> {
    let field = |package: &str, name: &str| {
        let value = package.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'));
        value.map(ToOwned::to_owned)
    };
    let packages = lock.split("[[package]]").skip(1);
    packages.filter_map(|p| Some(((field(p, "name")?, field(p, "version")?), field(p, "checksum")?))).collect()
}

/// When it was made, but the same each time: the commit's time, or SOURCE_DATE_EPOCH.
pub(super) fn created() -> Result<String> {
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds,
        // Without git, as from an archive of the sources, it is not known.
        Err(_) => output(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"]))
            .unwrap_or_else(|_| "0".to_owned()),
    };
    let seconds = seconds.trim().parse().with_context(|| format!("SOURCE_DATE_EPOCH: `{seconds}`"))?;
    Ok(jiff::Timestamp::from_second(seconds)?.to_string())
}

fn document(
    program: &str,
    version: &str,
    tree: &Tree,
    checksums: &BTreeMap<Crate, String>,
    rust: &str,
    created: &str,
) -> Value {
    let mut packages = vec![];
    for (this, licence) in &tree.crates {
        let (name, number) = this;
        let ours = name.starts_with("berth-");
        let from = if ours { format!("git+{REPOSITORY}") } else { NOTHING.to_owned() };
        let mut package = package(this, if ours { version } else { number }, &from, licence);
        if let Some(checksum) = checksums.get(this) {
            package["checksums"] = json!([{"algorithm": "SHA256", "checksumValue": checksum}]);
            package["externalRefs"] = json!([{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": format!("pkg:cargo/{name}@{number}"),
            }]);
        }
        packages.push(package);
    }
    let std = ("rust-std".to_owned(), rust.to_owned());
    packages.push(package(&std, rust, "https://static.rust-lang.org", "MIT OR Apache-2.0"));
    let edges: Vec<_> = tree.edges.iter().map(|(from, to)| (from, to)).chain([(&tree.root, &std)]).collect();
    spdx(&format!("{program}-{version}"), &packages, &tree.root, &edges, ("cargo-tree", created))
}

/// What is not said.
pub(super) const NOTHING: &str = "NOASSERTION";

/// A package in a document, with a name and a version of its own for it. `from`: where it is downloaded.
pub(super) fn package(this: &Crate, version: &str, from: &str, licence: &str) -> Value {
    json!({
        "SPDXID": id(this),
        "name": this.0,
        "versionInfo": version,
        "downloadLocation": from,
        "filesAnalyzed": false,
        "licenseConcluded": NOTHING,
        "licenseDeclared": licence,
        "copyrightText": NOTHING,
    })
}

/// A document on `root`. `edges`: who uses whom. `made`: by which tool, and when.
pub(super) fn spdx(
    name: &str,
    packages: &[Value],
    root: &Crate,
    edges: &[(&Crate, &Crate)],
    (tool, created): (&str, &str),
) -> Value {
    let relation = |from: String, kind: &str, to: String| json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to});
    let mut relations = vec![relation("SPDXRef-DOCUMENT".to_owned(), "DESCRIBES", id(root))];
    relations.extend(edges.iter().map(|(from, to)| relation(id(from), "DEPENDS_ON", id(to))));
    // The name of the document has to differ where its content does.
    let content = berth_oci::sha256(format!("{packages:?}{relations:?}").as_bytes());
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": format!("{REPOSITORY}/spdx/{name}-{content}"),
        "creationInfo": {"created": created, "creators": ["Organization: Berth", format!("Tool: {tool}")]},
        "packages": packages,
        "relationships": relations,
    })
}

/// Letters, digits, dots and hyphens.
fn id((name, version): &Crate) -> String {
    let text = format!("{name}-{version}");
    let clean: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("SPDXRef-{clean}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0berth-agent v0.1.0 (/src/berth/crates/agent)|Apache-2.0
1ring v0.17.14|Apache-2.0 AND ISC
2cfg-if v1.0.4|MIT/Apache-2.0
1serde_json v1.0.145|MIT OR Apache-2.0
2cfg-if v1.0.4|MIT/Apache-2.0 (*)
";

    #[test]
    fn a_document_has_each_crate_once_and_who_uses_it() {
        let lock = "version = 4\n\n[[package]]\nname = \"cfg-if\"\nversion = \"1.0.4\"\nsource = \"x\"\nchecksum = \"ab\"\n\n\
                    [[package]]\nname = \"berth-agent\"\nversion = \"0.1.0\"\n";
        let tree = parse(TREE).unwrap();
        let made = document("berth-agent", "7.0.0", &tree, &checksums(lock), "1.95.0", "2026-01-01T00:00:00Z");
        let packages = made["packages"].as_array().unwrap();
        let ids: Vec<_> = packages.iter().map(|p| p["SPDXID"].as_str().unwrap()).collect();
        let expected = ["berth-agent-0.1.0", "cfg-if-1.0.4", "ring-0.17.14", "serde-json-1.0.145", "rust-std-1.95.0"];
        assert_eq!(ids, expected.map(|id| format!("SPDXRef-{id}")));
        assert_eq!(packages[0]["versionInfo"], "7.0.0");
        assert_eq!(packages[1]["licenseDeclared"], "MIT OR Apache-2.0");
        assert_eq!(packages[1]["checksums"][0]["checksumValue"], "ab");
        let relations = made["relationships"].as_array().unwrap();
        let all: Vec<_> = relations
            .iter()
            .map(|r| format!("{} {}", r["spdxElementId"], r["relatedSpdxElement"]).replace('"', ""))
            .collect();
        let all: Vec<_> = all.iter().map(|r| r.replace("SPDXRef-", "")).collect();
        let expected = [
            "DOCUMENT berth-agent-0.1.0",
            "berth-agent-0.1.0 ring-0.17.14",
            "berth-agent-0.1.0 serde-json-1.0.145",
            "ring-0.17.14 cfg-if-1.0.4",
            "serde-json-1.0.145 cfg-if-1.0.4",
            "berth-agent-0.1.0 rust-std-1.95.0",
        ];
        assert_eq!(all, expected);
        assert!(!made.to_string().contains("/work"), "a path of the machine");
    }

    #[test]
    fn a_documents_name_is_its_contents() {
        let name = |text: &str| {
            let tree = parse(text).unwrap();
            document("a", "1.0.0", &tree, &BTreeMap::new(), "1", "t")["documentNamespace"].clone()
        };
        assert_eq!(name(TREE), name(TREE));
        assert_ne!(name(TREE), name(&TREE.replace("0.17.14", "0.17.15")));
    }
}
