//! What goes to standard output and standard error, and files.

use crate::args::Format;
use crate::paint;
use anyhow::Context as _;
use serde::Serialize;
use std::fmt::Write as _;
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
    anstream::eprintln!("{} {}", paint::warn("note:"), paint::safe_lines(text));
}

/// The error, with its causes.
pub(crate) fn complain(error: &anyhow::Error) {
    anstream::eprintln!("{} {}", paint::bad("error:"), paint::safe_lines(&format!("{error:#}")));
}

/// Prints what programs read, or else the text for people.
pub(crate) fn show<T: Serialize>(format: Format, value: &T, table: impl FnOnce() -> String) -> anyhow::Result<()> {
    print(&structured(format, value)?.unwrap_or_else(table))
}

/// A head, and rows below it.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let head = head.into_iter().map(paint::strong).collect();
    columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// A value for programs; None: it is to be a text for people.
fn structured<T: Serialize>(format: Format, value: &T) -> anyhow::Result<Option<String>> {
    Ok(match format {
        Format::Table => None,
        Format::Json => Some(json(value)?),
        Format::Yaml => Some(yaml(value)?),
    })
}

/// JSON that ends with a newline. What a terminal would obey is escaped, as it is in YAML.
pub(crate) fn json<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let pretty = serde_json::to_string_pretty(value)?;
    let mut text = String::with_capacity(pretty.len() + 1);
    for c in pretty.chars() {
        // Outside of strings there is none.
        if c.is_control() && c != '\n' {
            write!(text, "\\u{:04x}", u32::from(c))?;
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    Ok(text)
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
    let line = |row: &Vec<String>| {
        let gap = |i: usize, cell: &str| if i + 1 < row.len() { widths[i].saturating_sub(width(cell)) + 2 } else { 0 };
        let cells = row.iter().enumerate().map(|(i, cell)| format!("{cell}{}", " ".repeat(gap(i, cell))));
        cells.chain(["\n".to_owned()]).collect::<String>()
    };
    rows.iter().map(line).collect()
}

/// What programs read of a value, which is the same in both forms.
#[cfg(test)]
#[track_caller]
pub(crate) fn same_in_both_forms<T: Serialize>(value: &T) -> serde_json::Value {
    let text = |format| structured(format, value).unwrap().unwrap();
    let (json, yaml) = (text(Format::Json), text(Format::Yaml));
    assert!([&json, &yaml].iter().all(|t| !t.chars().any(|c| c.is_control() && c != '\n')), "{json:?} {yaml:?}");
    let read: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read, serde_json::from_str::<serde_json::Value>(&json).unwrap(), "{yaml}");
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn colours_do_not_shift_columns() {
        let rows = [vec!["A".into(), "B".into()], vec![paint::good("long"), "b".into()]];
        assert_eq!(paint::plain(&columns(&rows)), "A     B\nlong  b\n");
    }

    #[test]
    fn yaml_says_what_json_says() {
        let words = r#"~ null no Yes on 1.36 0x10 0o7 1e3 .inf - ' " \ {a} [a *a &a !a %a @a `a` #a | > = << 2026-01-31T23:55:00Z"#;
        let lines = [
            "",
            " ",
            "- a",
            "a: b",
            "a #b",
            " begins with one",
            "ends with one ",
            "two\nlines",
            "ends with lines\n\n",
            "\ttab",
            "ä → \u{1f600}",
            "\u{7}\u{85}\u{2028}",
            "two\nlines\u{1b}\u{7f}\u{9b}",
        ];
        let texts: Vec<&str> = words.split(' ').chain(lines).collect();
        let keys: serde_json::Map<String, serde_json::Value> =
            texts.iter().map(|t| ((*t).to_owned(), json!(t))).collect();
        let value = json!({
            "texts": texts, "keys": keys, "numbers": [0, -1, 1.5, i64::MAX], "others": [true, false, null],
            "empty": [[], {}], "long": "word ".repeat(100),
        });
        assert_eq!(same_in_both_forms(&value), value);
    }
}
