//! All templates of a minor, whichever folder each comes from.

use anyhow::{Context as _, bail};
use berth_api::version::Minor;
use berth_render::folders::{File, Files, Folders};
use std::io::Write as _;

use crate::shell::Result;

/// Prints the files of `1.36`, or of `etcd 3.6`.
pub(crate) fn print(of: &[String]) -> Result<()> {
    let text = text(&Folders::builtin(), of)?;
    // A pager may have had enough.
    std::io::stdout().write_all(text.as_bytes()).context("cannot print")
}

fn text(folders: &Folders, of: &[String]) -> Result<String> {
    let words: Vec<&str> = of.iter().map(String::as_str).collect();
    let (sets, minor) = match words[..] {
        [minor] if minor != "etcd" => (&folders.kubernetes, minor),
        ["etcd", minor] => (&folders.etcd, minor),
        _ => bail!("name a minor of Kubernetes, such as `1.36`, or of etcd, such as `etcd 3.6`"),
    };
    let parsed: Minor = minor.parse().ok().with_context(|| format!("{minor} is no minor such as 1.36"))?;
    let known = || Minor::list(&sets.keys().copied().collect::<Vec<_>>());
    let files = sets.get(&parsed).with_context(|| format!("there are no templates of {minor}, but of {}", known()))?;
    Ok(whole(files))
}

/// In the order of paths in the set, so that `diff` finds the same files of two minors beside each other.
fn whole(files: &Files) -> String {
    let one = |file: &File| format!("==> templates/{} <==\n{}", file.source, file.text);
    files.values().map(one).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(words: &[&str]) -> Result<String> {
        text(&Folders::builtin(), &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn headers(text: &str) -> BTreeSet<&str> {
        text.lines().filter_map(|line| line.strip_prefix("==> ")?.strip_suffix(" <==")).collect()
    }

    #[test]
    fn a_set_is_printed_whole_and_each_file_with_the_place_where_it_lies() {
        let catalog = berth_render::Catalog::builtin();
        for minor in catalog.minors() {
            let text = of(&[&minor.to_string()]).unwrap();
            let sets = [catalog.kubernetes(minor).unwrap(), catalog.tenant(minor).unwrap()];
            assert_eq!(headers(&text).len(), sets.iter().map(|set| set.paths().len()).sum::<usize>());
            for source in headers(&text) {
                let file = std::fs::read_to_string(crate::root().join(source)).unwrap();
                assert!(text.contains(&format!("==> {source} <==\n{file}")), "{source}");
            }
            for data in sets.map(berth_render::TemplateSet::to_data) {
                let texts = data.iter().filter(|(key, _)| !["format", "name"].contains(&key.as_str()));
                assert!(texts.into_iter().all(|(_, file)| text.contains(file)), "{minor}");
            }
        }
        let text = of(&["1.36"]).unwrap();
        for source in
            ["v1.36/apiserver/deployment.yaml.j2", "v1.34/apiserver/pdb.yaml.j2", "common/apiserver/service.yaml.j2"]
        {
            assert!(headers(&text).contains(format!("templates/{source}").as_str()), "{source}");
        }
        assert!(headers(&of(&["etcd", "3.6"]).unwrap()).contains("templates/etcd/v3.6/cluster/statefulset.yaml.j2"));
    }

    #[test]
    fn what_there_is_not_is_said() {
        let error = |words: &[&str]| of(words).unwrap_err().to_string();
        assert_eq!(error(&["1.33"]), "there are no templates of 1.33, but of 1.34, 1.35, 1.36");
        assert_eq!(error(&["etcd", "1.36"]), "there are no templates of 1.36, but of 3.5, 3.6");
        assert_eq!(error(&["v1.36"]), "v1.36 is no minor such as 1.36");
        for words in [&["kubernetes", "1.36"][..], &["etcd"]] {
            assert!(error(words).starts_with("name a minor"), "{words:?}");
        }
    }
}
