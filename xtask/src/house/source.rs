//! Reads the sources of a crate as the compiler does: from its roots, along `mod`, without what is built for tests alone.

use super::graph::{Crate, File, Scope};
use crate::shell::Result;
use anyhow::{Context as _, bail};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, UseTree};

/// All files of the package in that folder.
pub(super) fn read(folder: &Path) -> Result<Crate> {
    let sources = folder.join("src");
    let mut roots: Vec<PathBuf> = ["lib.rs", "main.rs"].map(|name| sources.join(name)).into();
    if let Ok(programs) = std::fs::read_dir(sources.join("bin")) {
        for program in programs {
            let path = program?.path();
            roots.push(if path.is_dir() { path.join("main.rs") } else { path });
        }
    }
    let mut all = Crate::default();
    for root in roots.iter().filter(|root| root.is_file()) {
        let name = root.strip_prefix(&sources)?.display().to_string();
        let beside = root.parent().context("a folder")?.to_owned();
        file(&mut all, &sources, root, &beside, vec![name])?;
    }
    Ok(all)
}

/// Takes in a file and what it declares. `beside`: where the files of its modules are.
fn file(all: &mut Crate, sources: &Path, path: &Path, beside: &Path, module: Vec<String>) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
    let at = all.files.len();
    all.files.push(File { path: path.strip_prefix(sources)?.display().to_string(), ..File::default() });
    let mut lines = BTreeSet::new();
    let mut declared = vec![];
    let items: Vec<Item> = parsed.items;
    scope(all, at, &items, module, &mut lines, &mut declared);
    all.files[at].lines = lines.len();
    for (name, module) in declared {
        if let Some(found) = [beside.join(format!("{name}.rs")), beside.join(&name).join("mod.rs")]
            .into_iter()
            .find(|path| path.is_file())
        {
            file(all, sources, &found, &beside.join(&name), module)?;
        } else {
            bail!("{}: no file for mod {name}", path.display());
        }
    }
    Ok(())
}

/// Takes in the items of a module, inline ones too.
fn scope(
    all: &mut Crate,
    at: usize,
    items: &[Item],
    module: Vec<String>,
    lines: &mut BTreeSet<usize>,
    declared: &mut Vec<(String, Vec<String>)>,
) {
    let mut found = Scope { file: at, ..Scope::default() };
    let mut inside = vec![];
    for item in items.iter().filter(|item| !attributes(item).iter().any(is_test)) {
        match item {
            Item::Mod(declaration) => {
                let mut path = module.clone();
                path.push(declaration.ident.to_string());
                match &declaration.content {
                    Some((_, items)) => inside.push((items.clone(), path)),
                    // One with a path is a file of somebody else's.
                    None if declaration.attrs.iter().any(|attribute| attribute.path().is_ident("path")) => {}
                    None => declared.push((declaration.ident.to_string(), path)),
                }
                count(declaration.ident.to_token_stream(), lines);
                continue;
            }
            Item::Use(import) => trees(&import.tree, &mut vec![], &mut found),
            item => {
                found.defines.extend(name(item));
                paths(item.to_token_stream(), &mut found);
            }
        }
        count(item.to_token_stream(), lines);
    }
    all.scopes.insert(module, found);
    for (items, path) in inside {
        scope(all, at, &items, path, lines, declared);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// `#[cfg(test)]`, or a part of `all(…)` that says so.
fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && {
        let text = attribute.meta.to_token_stream().to_string().replace(' ', "");
        text == "cfg(test)" || text.starts_with("cfg(all(test,")
    }
}

/// The paths that a `use` names, and under which name each is known then.
fn trees(tree: &UseTree, before: &mut Vec<String>, found: &mut Scope) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            trees(&path.tree, before, found);
            before.pop();
        }
        UseTree::Name(name) => found.import(before, &name.ident.to_string(), &name.ident.to_string()),
        UseTree::Rename(rename) => found.import(before, &rename.ident.to_string(), &rename.rename.to_string()),
        UseTree::Glob(_) => found.globs.push(before.clone()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| trees(tree, before, found)),
    }
}

/// Paths such as `super::x::f(…)`, also in the arguments of macros.
fn paths(tokens: TokenStream, found: &mut Scope) {
    let mut path: Vec<String> = vec![];
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                colons += 1;
                continue;
            }
            TokenTree::Ident(ident) if colons == 2 => path.push(ident.to_string()),
            token => {
                found.uses.extend(Some(std::mem::take(&mut path)).filter(|path| path.len() > 1));
                match token {
                    TokenTree::Ident(ident) => path = vec![ident.to_string()],
                    TokenTree::Group(group) => paths(group.stream(), found),
                    TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                }
            }
        }
        colons = 0;
    }
    found.uses.extend(Some(path).filter(|path| path.len() > 1));
}

/// The lines that hold a token, other than those of doc comments.
fn count(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let is_doc = |group: &proc_macro2::Group| {
                    group.delimiter() == Delimiter::Bracket && group.stream().to_string().starts_with("doc =")
                };
                if tokens.next_if(|next| matches!(next, TokenTree::Group(group) if is_doc(group))).is_some() {
                    continue;
                }
            }
            TokenTree::Group(group) => {
                lines.extend([group.span_open().start().line, group.span_close().end().line]);
                count(group.stream(), lines);
                continue;
            }
            _ => {}
        }
        lines.extend(token.span().start().line..=token.span().end().line);
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph;
    use super::*;

    /// Files, and for each those that it imports from.
    fn read_all(files: &[(&str, &str)]) -> Vec<(String, usize, Vec<String>)> {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join("src").join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let all = read(folder.path()).expect("sources");
        let edges = graph::imports(&all);
        let named = |at: &usize| all.files[*at].path.clone();
        all.files.iter().zip(edges).map(|(f, to)| (f.path.clone(), f.lines, to.iter().map(named).collect())).collect()
    }

    #[test]
    fn an_import_leads_to_the_file_that_defines_what_it_names() {
        let found = read_all(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::deep::Thing;\nuse b::*;\n"),
            ("a/mod.rs", "pub mod deep;\n"),
            ("a/deep.rs", "pub struct Thing;\n"),
            ("b.rs", "use crate::Thing;\npub fn f() { println!(\"{}\", super::a::g(Thing)); }\n"),
        ]);
        let imports = |path: &str| found.iter().find(|(of, ..)| of == path).expect("it is read").2.clone();
        assert_eq!(imports("lib.rs"), ["a/deep.rs", "b.rs"]);
        assert_eq!(imports("b.rs"), ["a/mod.rs", "a/deep.rs"]);
        assert_eq!(imports("a/deep.rs"), Vec::<String>::new());
    }

    #[test]
    fn comments_blank_lines_and_tests_are_no_code_and_import_nothing() {
        let text = "//! Of it.\n\n/// Of f.\npub fn f() {\n    // why\n    g();\n}\n#[cfg(test)]\nmod tests {\n    use super::other::x;\n}\n#[cfg(test)]\nmod apart;\nmod other;\n";
        let found = read_all(&[("lib.rs", text), ("other.rs", "const TEXT: &str = \"a\nb\";\n")]);
        assert_eq!(found, [("lib.rs".into(), 4, vec![]), ("other.rs".into(), 2, vec![])]);
    }
}
