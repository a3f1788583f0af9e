//! A look for drift: what is in a tenant by now against what Helm last left there.

use super::release::Release;
use serde::{Deserialize, Serialize};

/// What is to be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Which release, as it was deployed.
    pub release: Release,
    /// What differs is set back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repair: bool,
    /// What others may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<Ignored>,
    /// What was set back when it was looked for before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<Known>,
}

/// Objects that others may change, or fields of theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ignored {
    /// Their kind.
    pub kind: String,
    /// Empty: each.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Empty: each.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// JSON pointers. None: the whole object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// An object in the tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// Its kind.
    pub kind: String,
    /// Its namespace. Empty: it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What was set back before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Known {
    /// Which object.
    pub object: Object,
    /// Fields that had another value, as [`Drifted::paths`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// It was so often enough: it is not set back for the same once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leave: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Why the release itself is not what was deployed; then nothing was compared. Empty: it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replaced: String,
    /// Objects that are not as Helm left them by now: without those that were set back.
    pub count: i64,
    /// Of these, and of those that were set back, at most [`Checked::LISTED`], those that were known first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Drifted>,
}

impl Checked {
    /// Objects in the list.
    pub const LISTED: usize = 16;
    /// Fields of an object.
    pub const PATHS: usize = 3;
}

/// An object that is not as Helm left it, or was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drifted {
    /// Which.
    pub object: Object,
    /// What it is.
    pub what: What,
    /// Fields that have another value, at most [`Checked::PATHS`], each cut to what a termination message has room for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// It was set back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mended: bool,
    /// What more there is to say, such as why it could not be set back. Empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How an object is not as Helm left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It is not there.
    Missing,
    /// Fields have other values.
    Changed,
    /// Another release has it.
    Taken,
    /// The API server does not say what a dry run would change; or what this build does not know.
    #[default]
    #[serde(other)]
    Refused,
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, Task};
    use super::*;

    #[test]
    fn a_task_and_an_outcome_are_written_so() {
        let release = Release { name: "r".into(), namespace: "n".into(), ..Release::default() };
        let check = Check { release, repair: true, ..Check::default() };
        assert_eq!(
            serde_json::to_string(&Task::Check(Box::new(check))).unwrap(),
            r#"{"check":{"release":{"name":"r","namespace":"n","installation":"","timeout":0},"repair":true}}"#
        );
        let said = r#"{"checked": {"count": 1, "objects": [{"object": {"kind": "Service", "name": "web"}, "what": "Moved"}]}}"#;
        let Outcome::Checked(checked) = serde_json::from_str(said).unwrap() else { panic!("{said}") };
        assert_eq!((checked.objects[0].what, checked.objects[0].mended), (What::Refused, false));
    }
}
