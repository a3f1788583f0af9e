//! The last run of something, as docs/evidence.yaml has it: for the page, and for who has just run it.

use serde::Deserialize;

/// What people edit.
pub(crate) const SOURCE: &str = "docs/evidence.yaml";

/// The last run of a command, or of a test that takes long.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct LastRun {
    pub(crate) run: String,
    pub(crate) what: String,
    /// None, as the date: not run yet.
    pub(crate) commit: Option<String>,
    pub(crate) date: Option<String>,
    pub(crate) result: String,
}

impl LastRun {
    /// As it stands in the source. In quotes: the text has whatever failed, and a commit may look like a number.
    pub(crate) fn entry(&self) -> String {
        let Self { run, what, commit, date, result } = self;
        let fields = [
            ("run", Some(run)),
            ("what", Some(what)),
            ("commit", commit.as_ref()),
            ("date", date.as_ref()),
            ("result", Some(result)),
        ];
        let set = fields.into_iter().filter_map(|(name, text)| Some((name, serde_json::Value::from(text?.as_str()))));
        let lines: Vec<String> = set.map(|(name, text)| format!("{name}: {text}")).collect();
        format!("  - {}\n", lines.join("\n    "))
    }
}
