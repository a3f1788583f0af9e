//! Which file imports from which.

use std::collections::{BTreeMap, BTreeSet};

/// A path of names, such as `["crate", "model", "Action"]`.
pub(super) type Names = Vec<String>;

/// The sources of a package. A module's path begins with the file of its root.
#[derive(Default)]
pub(super) struct Crate {
    pub(super) files: Vec<File>,
    pub(super) scopes: BTreeMap<Names, Scope>,
}

#[derive(Default)]
pub(super) struct File {
    /// Below `src`.
    pub(super) path: String,
    /// Lines of code: without comments, blank lines and tests.
    pub(super) lines: usize,
}

/// What a module says.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) file: usize,
    /// What its items are called.
    pub(super) defines: BTreeSet<String>,
    /// What it imports, by the name that it has here.
    pub(super) imports: Vec<(String, Names)>,
    /// What it imports everything of.
    pub(super) globs: Vec<Names>,
    /// Paths in its items.
    pub(super) uses: BTreeSet<Names>,
}

impl Scope {
    pub(super) fn import(&mut self, before: &[String], name: &str, here: &str) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        let here = if here == "self" { before.last().cloned().unwrap_or_default() } else { here.to_owned() };
        self.imports.push((here, path));
    }
}

/// For each file those that it imports from. What is imported through another file counts as imported from where it is defined.
pub(super) fn imports(all: &Crate) -> Vec<BTreeSet<usize>> {
    let mut edges = vec![BTreeSet::new(); all.files.len()];
    for (module, scope) in &all.scopes {
        let named = scope.imports.iter().map(|(_, path)| path);
        for path in named.chain(&scope.globs).chain(&scope.uses) {
            if let Some(to) = all.file_of(module, path, 0).filter(|to| *to != scope.file) {
                edges[scope.file].insert(to);
            }
        }
    }
    edges
}

/// So many names are followed from one import to the next.
const MOST: usize = 20;

impl Crate {
    /// The file in which is defined what that path means within that module. None: it is of another crate.
    fn file_of(&self, module: &[String], path: &[String], depth: usize) -> Option<usize> {
        let (mut at, mut rest) = (module.to_vec(), path);
        match path.first().map(String::as_str)? {
            "crate" => {
                at.truncate(1);
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while let Some(("super", after)) = rest.split_first().map(|(first, after)| (first.as_str(), after)) {
                    at.pop();
                    rest = after;
                }
            }
            first => {
                let here = self.scopes.get(&at)?;
                let child = [at.as_slice(), &[first.to_owned()]].concat();
                let is_known = self.scopes.contains_key(&child) || here.imports.iter().any(|(name, _)| name == first);
                if !is_known {
                    return None;
                }
            }
        }
        self.inside(at, rest, depth)
    }

    fn inside(&self, mut at: Names, mut rest: &[String], depth: usize) -> Option<usize> {
        if depth > MOST {
            return None;
        }
        loop {
            let scope = self.scopes.get(&at)?;
            let Some((first, after)) = rest.split_first() else { return Some(scope.file) };
            let child = [at.as_slice(), std::slice::from_ref(first)].concat();
            if self.scopes.contains_key(&child) {
                (at, rest) = (child, after);
                continue;
            }
            if scope.defines.contains(first) {
                return Some(scope.file);
            }
            if let Some((_, path)) = scope.imports.iter().find(|(name, _)| name == first) {
                // What is not of this crate is named by this file.
                let path = [path.as_slice(), after].concat();
                return self.file_of(&at, &path, depth + 1);
            }
            let through = |glob: &Names| self.file_of(&at, &[glob.as_slice(), rest].concat(), depth + 1);
            return scope.globs.iter().find_map(through).or(Some(scope.file));
        }
    }
}
