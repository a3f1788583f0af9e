//! What goes to standard output and standard error, and files.

use crate::args::Format;
use crate::paint;
use anyhow::Context as _;
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// Prints a text that ends with a newline. A reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}

/// Something to know that is no part of the answer.
pub(crate) fn note(text: &str) {
    anstream::eprintln!("{} {text}", paint::warn("note:"));
}

/// The error, with its causes.
pub(crate) fn complain(error: &anyhow::Error) {
    anstream::eprintln!("{} {error:#}", paint::bad("error:"));
}

/// A value for programs; None: it is to be a text for people.
pub(crate) fn structured<T: Serialize>(format: Format, value: &T) -> anyhow::Result<Option<String>> {
    Ok(match format {
        Format::Table => None,
        Format::Json => Some(format!("{}\n", serde_json::to_string_pretty(value)?)),
        Format::Yaml => Some(yaml(value)?),
    })
}

/// YAML that ends with a newline.
pub(crate) fn yaml<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let mut text = serde_saphyr::to_string(value).context("YAML")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The text of a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Lines in columns, two spaces apart. Colours count for nothing.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let width = |text: &str| paint::plain(text).chars().count();
    let most = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> =
        (0..most).map(|i| rows.iter().filter_map(|r| r.get(i)).map(|c| width(c)).max().unwrap_or_default()).collect();
    let mut text = String::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if i + 1 < row.len() {
                let gap = widths.get(i).copied().unwrap_or_default().saturating_sub(width(cell)) + 2;
                text.extend(std::iter::repeat_n(' ', gap));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_shift_columns() {
        let rows = [vec!["A".into(), "B".into()], vec![paint::good("long"), "b".into()]];
        assert_eq!(paint::plain(&columns(&rows)), "A     B\nlong  b\n");
    }
}
