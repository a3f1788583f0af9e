//! What a guard says that holds its member.

use crate::earlier;
use crate::marker::FoundData;
use std::{fmt, str::FromStr};

/// Exit code of a guard that holds its member. It is the same for every reason: operators of earlier builds know only this one, and
/// take any other for a container that fails.
pub const HELD: u8 = 42;

/// Why a guard holds its member. Conditions have a reason of the same name for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The volume should hold the member's data and does not.
    DataLost,
    /// The volume holds something that is not this member's.
    ForeignData,
}

impl HoldReason {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::DataLost, Self::ForeignData];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DataLost => "DataLost",
            Self::ForeignData => "ForeignData",
        }
    }
}

/// Termination message of a guard that holds its member: `<reason>: <why>`, and what it found as JSON in a last line. Programs read the
/// reason and the JSON, people the rest. The reason is a word before a colon, since that is what operators of earlier builds read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// For programs.
    pub reason: HoldReason,
    /// For people.
    pub why: String,
    /// For programs: whose data it found.
    pub found: Option<FoundData>,
}

impl Hold {
    /// What the guard said whose container ended so. None: it did not hold its member.
    pub fn of(exit_code: i64, message: &str) -> Option<Self> {
        let message = message.trim();
        // A reason that only a newer agent knows, or a message that got lost, holds the member all the same.
        let unknown = || Self { reason: HoldReason::DataLost, why: message.to_owned(), found: None };
        (exit_code == i64::from(HELD)).then(|| message.parse().unwrap_or_else(|_| unknown()))
    }

    /// As the guard writes it.
    pub fn message(&self) -> String {
        let found = self.found.as_ref().and_then(|found| serde_json::to_string(found).ok());
        found.map_or_else(|| self.to_string(), |found| format!("{self}\n{found}"))
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.why)
    }
}

impl FromStr for Hold {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, why) = text.split_once(':').ok_or(UnknownReason)?;
        let reason = HoldReason::ALL.into_iter().find(|r| r.as_str() == word).ok_or(UnknownReason)?;
        let why = why.strip_prefix(' ').unwrap_or(why);
        let json = why.rsplit_once('\n').and_then(|(why, last)| Some((why, serde_json::from_str(last).ok()?)));
        let (why, found) = json.map_or_else(|| (why, earlier::found(why)), |(why, found)| (why, Some(found)));
        Ok(Self { reason, why: why.to_owned(), found })
    }
}

/// The text does not begin with a [`HoldReason`] that this build knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownReason;

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no reason that this build knows")
    }
}

impl std::error::Error for UnknownReason {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::Marker;

    #[test]
    fn a_hold_comes_back_as_it_was_written() {
        for reason in HoldReason::ALL {
            for why in ["", "the volume is empty", "a: colon: and\na line"] {
                let hold = Hold { reason, why: why.to_owned(), found: None };
                assert_eq!(hold.to_string().parse(), Ok(hold.clone()));
            }
        }
    }

    /// The forms that this build writes and later ones must read; the line of JSON is nothing that people are told.
    #[test]
    fn what_was_found_is_a_line_of_its_own() {
        let marker = Marker { cluster_uid: "6f1c-9".into(), epoch: 12, member: "etcd-1".into(), id: None };
        for (found, json) in [
            (FoundData::Of(marker), r#"{"of":{"clusterUID":"6f1c-9","epoch":12,"member":"etcd-1"}}"#),
            (FoundData::Id("8e9e".into()), r#"{"id":"8e9e"}"#),
        ] {
            let hold = Hold { reason: HoldReason::ForeignData, why: "it is odd".into(), found: Some(found) };
            assert_eq!(hold.message(), format!("ForeignData: it is odd\n{json}"));
            assert_eq!(Hold::of(42, &format!("{}\n", hold.message())), Some(hold.clone()));
            assert_eq!(hold.to_string(), "ForeignData: it is odd");
        }
    }

    /// What the operator of the builds before this module looks at, in its own words.
    #[test]
    fn earlier_operators_understand_what_this_build_writes() {
        assert_eq!(HELD, 42);
        let said = |reason| Hold { reason, why: "because".to_owned(), found: None }.to_string();
        assert!(said(HoldReason::ForeignData).starts_with("ForeignData"));
        assert!(!said(HoldReason::DataLost).starts_with("ForeignData"));
    }

    #[test]
    fn what_is_not_understood_is_held_all_the_same() {
        for message in ["", "SomethingNew: the volume is odd", "etcd: ForeignData: no"] {
            assert_eq!(
                Hold::of(42, message),
                Some(Hold { reason: HoldReason::DataLost, why: message.to_owned(), found: None })
            );
        }
    }
}
