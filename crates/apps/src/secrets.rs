//! Keeps what values of Secrets hold out of messages: Helm quotes what it cannot render or apply.

use crate::problem::Problem;
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
        // The longest first: one may be part of another.
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
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

fn leaves(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.extend(text.lines().map(|line| line.trim().to_owned())),
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
