//! Helm, which the image of `berth-apps` has beside it: built from its Go module for each architecture, with the texts of all licences, and
//! what is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::platforms::Built;
use super::sbom::{self, Crate, NOTHING};
use crate::root;
use crate::shell::{Result, build_programs, output, program, say};

/// Its module.
const MODULE: &str = "helm.sh/helm/v4";
/// Names of files with licences begin so.
const LICENCES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// What was built.
#[derive(Clone, Debug)]
pub(super) struct Helm {
    /// By architecture.
    programs: BTreeMap<&'static str, PathBuf>,
    /// Texts of licences of all that is in it.
    pub(super) licences: PathBuf,
    /// What is in it, as SPDX has it.
    pub(super) sbom: Vec<u8>,
}

/// What the linker recorded of a program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Linked {
    /// Go's version.
    go: String,
    modules: BTreeSet<Crate>,
}

impl Helm {
    /// What the image for that architecture has beside `berth-apps`.
    pub(super) fn files(&self, arch: &str) -> Result<Vec<(PathBuf, String)>> {
        let helm = self.programs.get(arch).with_context(|| format!("Helm was not built for {arch}"))?;
        Ok(vec![(helm.clone(), "/helm".into()), (self.licences.clone(), "/licenses/helm.txt".into())])
    }
}

/// Builds it for each Linux.
pub(super) fn build(built: &[Built]) -> Result<Helm> {
    build_programs(&["devcluster"])?;
    let dir = root().join("target/dist/helm");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let (mut programs, mut linked) = (BTreeMap::new(), Linked::default());
    for arch in built.iter().filter(|b| b.platform.triple("berth-apps").is_some()).map(|b| b.platform.arch) {
        say(&format!("linux/{arch}: Helm"));
        let to = dir.join(format!("helm-{arch}"));
        output(Command::new(program("devcluster")).args(["cross", "helm4", "--arch", arch, "--to"]).arg(&to))?;
        let said = parse(&output(Command::new("go").args(["version", "-m"]).arg(&to))?)?;
        linked.go.clone_from(&said.go);
        linked.modules.extend(said.modules);
        programs.insert(arch, to);
    }
    let licences = dir.join("licenses.txt");
    fs::write(&licences, texts(&linked)?).with_context(|| format!("cannot write {}", licences.display()))?;
    let sbom = serde_json::to_vec_pretty(&document(&linked, &sbom::created()?)?)?;
    Ok(Helm { programs, licences, sbom })
}

/// `go version -m`: after the file's line, one for each module, whose replacement follows it.
fn parse(text: &str) -> Result<Linked> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let go = first.rsplit_once(": ").with_context(|| format!("go version: {first}"))?.1.to_owned();
    let mut modules: Vec<Crate> = vec![];
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            // Helm is the program's main module.
            ["mod" | "dep", name, version, ..] => modules.push((name.to_owned(), version.to_owned())),
            ["=>", name, version, ..] => {
                modules.pop();
                modules.push((name.to_owned(), version.to_owned()));
            }
            _ => {}
        }
    }
    Ok(Linked { go, modules: modules.into_iter().collect() })
}

fn document(linked: &Linked, created: &str) -> Result<Value> {
    let helm = linked.modules.iter().find(|(name, _)| name == MODULE).context("Helm's own module is not in it")?;
    let std = ("go-std".to_owned(), linked.go.trim_start_matches("go").to_owned());
    let mut packages: Vec<Value> = linked.modules.iter().map(module).collect();
    packages.push(sbom::package(&std, &std.1, "https://go.dev/dl", "BSD-3-Clause"));
    let others = linked.modules.iter().filter(|module| *module != helm).chain([&std]);
    let edges: Vec<_> = others.map(|other| (helm, other)).collect();
    Ok(sbom::spdx(&format!("helm-{}", helm.1), &packages, helm, &edges, ("go-version", created)))
}

fn module(this: &Crate) -> Value {
    let (name, version) = this;
    let mut package = sbom::package(this, version, NOTHING, NOTHING);
    package["externalRefs"] = json!([{
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": format!("pkg:golang/{name}@{version}"),
    }]);
    package
}

/// Licences of all modules, and of Go's library.
fn texts(linked: &Linked) -> Result<String> {
    let named = linked.modules.iter().map(|(name, version)| format!("{name}@{version}"));
    let mut go = Command::new("go");
    let said = output(go.current_dir(std::env::temp_dir()).args(["mod", "download", "-json"]).args(named))?;
    let mut all = String::new();
    for one in serde_json::Deserializer::from_str(&said).into_iter::<Value>() {
        let one = one.context("go mod download")?;
        let of = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        text(&mut all, &format!("{} {}", of("Path"), of("Version")), Path::new(&of("Dir")))?;
    }
    let go_root = output(Command::new("go").args(["env", "GOROOT"]))?;
    text(&mut all, &format!("Go's library {}", linked.go), Path::new(go_root.trim()))?;
    Ok(all)
}

/// Adds the licences in that folder.
fn text(all: &mut String, title: &str, dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("{title}: cannot list {}", dir.display()))?.flatten();
    let is_one = |name: &str| LICENCES.iter().any(|start| name.to_uppercase().starts_with(start));
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: BTreeSet<String> = names.filter(|name| is_one(name) && dir.join(name).is_file()).collect();
    ensure!(!names.is_empty(), "{title} has no file with a licence");
    for name in names {
        let content = fs::read(dir.join(&name)).with_context(|| format!("{title}: {name}"))?;
        write!(all, "==== {title}: {name}\n\n{}\n\n", String::from_utf8_lossy(&content).trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "/tmp/helm: go1.26.2
\tpath\thelm.sh/helm/v4/cmd/helm
\tmod\thelm.sh/helm/v4\tv4.3.1\th1:z=
\tdep\tgithub.com/a/b\tv1.0.0\th1:x=
\tdep\tgithub.com/c/d\tv1.1.0
\t=>\tgithub.com/e/f\tv1.2.0\th1:y=
\tbuild\t-trimpath=true
";

    #[test]
    fn a_document_has_what_was_linked() {
        let linked = parse(SAID).unwrap();
        let made = document(&linked, "2026-01-01T00:00:00Z").unwrap();
        let packages = made["packages"].as_array().unwrap();
        let names: Vec<_> =
            packages.iter().map(|p| format!("{} {}", p["name"], p["versionInfo"]).replace('"', "")).collect();
        assert_eq!(
            names,
            ["github.com/a/b v1.0.0", "github.com/e/f v1.2.0", "helm.sh/helm/v4 v4.3.1", "go-std 1.26.2"]
        );
        assert_eq!(packages[0]["externalRefs"][0]["referenceLocator"], "pkg:golang/github.com/a/b@v1.0.0");
        assert_eq!(made["relationships"].as_array().unwrap().len(), 4);
        assert_eq!(made["name"], "helm-v4.3.1");
        assert!(parse("").is_err() && document(&Linked::default(), "").is_err());
    }

    #[test]
    fn what_has_no_licence_is_not_given_to_anybody() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = String::new();
        assert!(text(&mut all, "a", dir.path()).is_err());
        fs::write(dir.path().join("License.md"), "MIT\n\n").unwrap();
        fs::write(dir.path().join("NOTICE"), "n").unwrap();
        text(&mut all, "a", dir.path()).unwrap();
        assert_eq!(all, "==== a: License.md\n\nMIT\n\n==== a: NOTICE\n\nn\n\n");
    }
}
