//! Pages of the documentation, run as they are printed.
//!
//! A block that is fenced as `sh` is typed into one shell, block after block. A block fenced as `text` right after it is what the
//! page says one sees: each of its lines has to come up in the output, in that order, and `…` stands for anything. Where that
//! shows an error, the block has to fail. Other blocks are for reading.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

/// Before the output of each block; nothing prints that by itself.
const MARK: &str = "=====block ";

/// A block of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The line of the page on which the commands begin, from 1.
    pub line: usize,
    /// What is typed.
    pub commands: String,
    /// What one sees; no lines where the page does not say it.
    pub shown: Vec<String>,
}

impl Block {
    /// Whether the page says that it fails.
    fn fails(&self) -> bool {
        self.shown.iter().any(|l| l.starts_with("Error") || l.starts_with("error"))
    }
}

/// The blocks of a page that are run.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut all: Vec<Block> = vec![];
    // The language of the fence that is open, and whether only empty lines were there since a block of commands.
    let (mut open, mut just_ran): (Option<&str>, bool) = (None, false);
    let mut indent = 0;
    for (number, line) in page.lines().enumerate() {
        let bare = line.trim_start();
        if open.is_none() {
            indent = line.len() - bare.len();
        }
        match (open, bare.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(if language == "text" && !just_ran { "" } else { language });
                if language == "sh" {
                    all.push(Block { line: number + 2, ..Block::default() });
                }
            }
            (Some(language), Some(_)) => {
                just_ran = language == "sh";
                open = None;
            }
            (None, None) => just_ran &= line.is_empty(),
            (Some(language), None) => {
                if let Some(block) = all.last_mut() {
                    match language {
                        "sh" => {
                            block.commands.push_str(line.get(indent..).unwrap_or_default());
                            block.commands.push('\n');
                        }
                        "text" => block.shown.push(bare.trim_end().to_owned()),
                        _ => {}
                    }
                }
            }
        }
    }
    all
}

/// Runs a page in a bash with directory and environment as given, and compares what the page says with what is seen.
pub fn run(page: &Path, bash: &mut Command) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let blocks = blocks(&text);
    ensure!(!blocks.is_empty(), "{} has no block that can be run", page.display());
    let (reader, writer) = std::io::pipe()?;
    let command = bash.args(["-c", &script(&blocks)]).stdin(Stdio::null());
    let mut shell = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing end; with it the reader would wait for ever.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut outputs: Vec<String> = vec![];
    for line in BufReader::new(reader).lines() {
        let line = line?;
        // Not every command ends its last line.
        if let Some((before, number)) = line.split_once(MARK) {
            if let Some(output) = outputs.last_mut() {
                output.push_str(before);
                output.push('\n');
            }
            let block = number.trim().parse().ok().and_then(|n: usize| blocks.get(n)).context("an unknown block")?;
            println!("--- {}:{}\n{}", page.display(), block.line, block.commands.trim_end());
            outputs.push(String::new());
        } else if let Some(output) = outputs.last_mut() {
            println!("    {line}");
            output.push_str(&line);
            output.push('\n');
        }
        let _ = std::io::stdout().flush();
    }
    let status = shell.wait()?;
    for (block, output) in blocks.iter().zip(&outputs) {
        if let Err(missing) = seen(&block.shown, output) {
            bail!("{}:{}: the page shows `{missing}`, but one sees:\n{output}", page.display(), block.line);
        }
    }
    let last = outputs.len().checked_sub(1).and_then(|n| blocks.get(n)).map(|b| b.line).unwrap_or_default();
    ensure!(status.success(), "{}:{last}: that block ended with {status}", page.display());
    ensure!(outputs.len() == blocks.len(), "{}: {} blocks of {} were run", page.display(), outputs.len(), blocks.len());
    Ok(())
}

/// One script: what a block sets, those after it have.
fn script(blocks: &[Block]) -> String {
    let one = |(number, block): (usize, &Block)| {
        let commands = &block.commands;
        let commands = if block.fails() {
            format!("if (\n{commands}); then echo 'it did not fail'; exit 1; fi\n")
        } else {
            commands.clone()
        };
        format!("echo '{MARK}{number}'\n{commands}")
    };
    "set -eo pipefail\n".to_owned() + &blocks.iter().enumerate().map(one).collect::<String>()
}

/// The first line that is not in the output after those before it.
fn seen<'b>(shown: &'b [String], output: &str) -> Result<(), &'b str> {
    let mut lines = output.lines();
    for want in shown.iter().filter(|l| !l.is_empty() && *l != "…") {
        if !lines.any(|line| matches(want, line)) {
            return Err(want);
        }
    }
    Ok(())
}

/// Whether a line is what the page shows. Columns may be wider.
fn matches(want: &str, line: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // What stands for anything between two words also stands for nothing.
    let (want, line) = (words(want).replace(" … ", " …"), words(line));
    let mut parts = want.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n```sh\na=1\necho $a two\n```\n\n```text\none … two\n…\nthree\n```\n\n```text\nread only\n```\n\
                        ```yaml\nx: y\n```\n\n1. item\n\n   ```sh\n   if true; then\n     false\n   fi\n   ```\n\n   ```text\n   Error from …\n   ```\n";

    #[test]
    fn blocks_and_what_they_show_are_found() {
        let block = |line, commands: &str, shown: &[&str]| Block {
            line,
            commands: commands.to_owned(),
            shown: shown.iter().map(|l| (*l).to_owned()).collect(),
        };
        let all = blocks(PAGE);
        assert_eq!(
            all,
            [
                block(4, "a=1\necho $a two\n", &["one … two", "…", "three"]),
                block(24, "if true; then\n  false\nfi\n", &["Error from …"])
            ]
        );
        assert!(!all[0].fails() && all[1].fails());
    }

    #[test]
    fn what_is_shown_has_to_be_seen_in_its_order() {
        let shown = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let output = "NAME   READY\nacme   True   12s\nglobex False  3s\n";
        assert_eq!(seen(&shown(&["NAME READY", "acme True …", "globex … 3s"]), output), Ok(()));
        assert_eq!(seen(&shown(&["globex … 3s", "acme True …"]), output), Err("acme True …"));
        assert_eq!(seen(&shown(&["acme True"]), output), Err("acme True"));
        assert_eq!(seen(&shown(&["…True…12s", "…"]), output), Ok(()));
        assert_eq!(seen(&shown(&["acme … True … 12s"]), output), Ok(()));
    }

    #[test]
    fn a_page_is_run_in_one_shell() {
        let dir = std::env::temp_dir().join(format!("berth-page-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let page = dir.join("page.md");
        let run_page = |text: &str| {
            fs::write(&page, text).unwrap();
            run(&page, Command::new("bash").current_dir(&dir).env("NAME", "acme")).map_err(|e| e.to_string())
        };
        run_page("```sh\nprintf ok\n```\n```text\nok\n```\n```sh\ntrue\n```\n").unwrap();
        run_page("```sh\na=$NAME\n```\n```sh\necho $a\n```\n```text\nacme\n```\n").unwrap();
        run_page("```sh\necho Error: no; false\n```\n```text\nError: …\n```\n").unwrap();
        assert!(
            run_page("```sh\necho a\n```\n```text\nb\n```\n").unwrap_err().contains("page.md:2: the page shows `b`")
        );
        assert!(run_page("```sh\ntrue\n```\n```sh\nfalse\ntrue\n```\n").unwrap_err().contains("page.md:5: that block"));
        assert!(run_page("```sh\necho Error: no\n```\n```text\nError: …\n```\n").unwrap_err().contains("ended with"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
