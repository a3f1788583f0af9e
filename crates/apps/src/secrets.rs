//! Keeps what values of Secrets hold out of messages: Helm quotes what it cannot render or apply.

use crate::problem::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use berth_contract::apps::files;
use serde_json::Value;
use std::path::Path;

/// Texts that no message has.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Vec<String>);

/// Shorter ones are words of any message.
const SHORTEST: usize = 4;

impl Secrets {
    /// Those of the Secret beside the Job: texts and numbers of its values, and of the registry's login. Helm quotes no kubeconfig, whose names tell
    /// what is wrong.
    pub fn read(dir: &Path) -> Self {
        let mut all = vec![];
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if [files::KUBECONFIG, files::CA].iter().any(|plain| entry.file_name() == *plain) {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
            match serde_saphyr::from_str::<Value>(&text) {
                Ok(value) => leaves(&value, &mut all),
                // What is no YAML may be quoted by the line.
                Err(_) => all.extend(text.lines().map(|line| line.trim().to_owned())),
            }
        }
        all.retain(|text| text.len() >= SHORTEST);
        let mut all: Vec<String> = all.iter().flat_map(|text| forms(text)).collect();
        // The longest first: one may be part of another.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all)
    }

    /// The same without them.
    #[must_use]
    pub fn without(&self, mut problem: Problem) -> Problem {
        self.out_of(&mut problem.failure.message);
        problem
    }

    /// Takes them out of a text.
    pub fn out_of(&self, message: &mut String) {
        for text in &self.0 {
            *message = message.replace(text, "[from a Secret]");
        }
    }
}

/// A text as Helm, charts and API servers write it: plain, quoted, quoted in what is quoted, and as data of a Secret.
fn forms(text: &str) -> Vec<String> {
    let quoted = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    // Go's JSON does so, for browsers.
    let for_html = |text: &str| text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    let once = quoted(text);
    let all =
        [text.to_owned(), quoted(&once), for_html(&once), STANDARD.encode(text), STANDARD_NO_PAD.encode(text), once];
    all.into()
}

fn leaves(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            all.extend(text.lines().map(|line| line.trim().to_owned()));
            all.push(text.clone());
        }
        Value::Number(number) => all.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, all)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, all)),
        Value::Bool(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_contract::apps::At;
    use serde_json::json;

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let secret = "pa\"ss\\<word>&";
        std::fs::write(dir.path().join("values-0.yaml"), json!({"a": secret, "b": "two\nlines"}).to_string()).unwrap();
        let secrets = Secrets::read(dir.path());
        let told = |text: String| secrets.without(Problem::lasting(At::Release, text)).cut().failure.message;
        for form in [
            secret.to_owned(),
            // `%q` of Go, and that in a message which is quoted.
            r#"pa\"ss\\<word>&"#.to_owned(),
            r#"pa\\\"ss\\\\<word>&"#.to_owned(),
            r#"pa\"ss\\\u003cword\u003e\u0026"#.to_owned(),
            STANDARD.encode(secret),
            STANDARD_NO_PAD.encode(secret),
        ] {
            assert_eq!(told(format!("invalid value: {form}!")), "invalid value: [from a Secret]!");
        }
        assert_eq!(told(format!("data: {}", STANDARD.encode("two\nlines"))), "data: [from a Secret]");
        // Half of it would not be found.
        let long = told(format!("{}{secret}{}", "x".repeat(495), "y".repeat(2000)));
        assert!(!long.contains("pa\"") && long.len() <= 1500, "{long}");
    }

    #[test]
    fn what_a_secret_holds_is_in_no_message() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("values-0.yaml"), "db:\n  password: hunter22\n  pin: 12345\n  on: true\n")
            .unwrap();
        std::fs::write(dir.path().join("values-1.yaml"), "not: [yaml\nsecretline").unwrap();
        std::fs::write(dir.path().join("value"), "name: https://kube-apiserver\n").unwrap();
        let secrets = Secrets::read(dir.path());
        let told = |text: &str| secrets.without(Problem::lasting(At::Release, text)).failure.message;
        assert_eq!(told("cannot parse hunter22 and 12345"), "cannot parse [from a Secret] and [from a Secret]");
        assert_eq!(told("dial https://kube-apiserver"), "dial https://kube-apiserver");
        assert_eq!(told("line: secretline; true"), "line: [from a Secret]; true");
    }
}
