//! Which values a template set reads, from the syntax of its templates.

use std::collections::{BTreeMap, BTreeSet};

use crate::env;

/// Names of values, such as `workload.image`, by the folder whose templates read them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads(BTreeMap<String, BTreeSet<String>>);

impl Reads {
    /// From the texts of a set, by path. Rendering complains about a text with a syntax error; here it reads nothing.
    pub(crate) fn of(texts: &BTreeMap<String, String>) -> Self {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        // Fields of add-ons have an effect whatever a tenant is pinned to: see `TemplateSet::addons`.
        for (path, text) in texts.iter().filter(|(path, _)| !path.starts_with("addons/")) {
            let Some((folder, _)) = path.strip_suffix(".j2").and_then(|path| path.rsplit_once('/')) else { continue };
            let folder = folder.strip_suffix("/files").unwrap_or(folder);
            all.entry(folder.to_owned()).or_default().extend(env::variables(path, text).unwrap_or_default());
        }
        Self(all)
    }

    /// Whether the value, a part of it, or what it is a part of is read.
    pub(crate) fn contains(&self, folder: &str, value: &str) -> bool {
        let within = |whole: &str, part: &str| part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'));
        let names = self.0.get(folder).into_iter().flatten();
        names.into_iter().any(|name| name == value || within(name, value) || within(value, name))
    }

    /// All of them, as (folder, value).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(folder, values)| values.iter().map(|value| (folder.as_str(), value.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_by_folder_wherever_they_are_read() {
        let texts = [
            ("a/one.yaml.j2", "{% if x %}a: {{ y.z }}{% endif %}\n{% for v in list %}- {{ v }}{% endfor %}\n"),
            ("a/files/two.yaml.j2", "{{ \"--f=\" ~ (deep.er.most | join(\",\")) }}"),
            ("b/three.yaml.j2", "{% set own = 1 %}{{ own }} {{ whole }}"),
            ("b/broken.yaml.j2", "{{ x"),
            ("b/plain.yaml", "{{ z }}"),
        ];
        let reads = Reads::of(&texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        for value in ["x", "y.z", "y", "list", "deep.er.most", "deep"] {
            assert!(reads.contains("a", value), "{value}");
            assert!(!reads.contains("b", value), "{value}");
        }
        assert!(reads.contains("b", "whole.part"));
        for value in ["v", "own", "y.x", "z", "wh"] {
            assert!(!reads.contains("a", value) && !reads.contains("b", value), "{value}");
        }
        assert_eq!(reads.iter().filter(|(folder, _)| *folder == "b").collect::<Vec<_>>(), [("b", "whole")]);
    }
}
