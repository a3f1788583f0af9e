//! A time at which something ends, as it is written.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A time in UTC. An object may have one that was let in before and that is none, such as `9999-12-31T23:59:59Z`: whoever asks for the time
/// has to say what that means, and the object is read all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Until(String);

/// What both Kubernetes and Berth read as the same time. The policy `berth-cluster-access` has it, too.
pub const TIME: &str = r"^([1-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$";

impl Until {
    /// The time. None: it is none that Berth knows.
    pub fn time(&self) -> Option<Timestamp> {
        self.0.parse().ok()
    }

    /// Whether it is over. One that is none is.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.time().is_none_or(|until| until <= now)
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Timestamp> for Until {
    fn from(at: Timestamp) -> Self {
        Self(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_read_and_is_over() {
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        let of = |text: &str| serde_json::from_value::<Until>(text.into()).unwrap();
        for (text, is_time, over) in [
            ("2026-11-30T12:00:00Z", true, true),
            ("2026-11-30T12:00:01Z", true, false),
            ("9998-12-31T23:59:59.999999999Z", true, false),
            // From before the schema had a pattern.
            ("2026-11-30T14:00:00+01:00", true, false),
            ("9999-12-31T23:59:59Z", false, true),
            ("2026-12-01T18:00:00+99:99", false, true),
            ("2026-12-01T18:00:00Zt", false, true),
        ] {
            assert_eq!((of(text).time().is_some(), of(text).is_over(now)), (is_time, over), "{text}");
            assert_eq!(serde_json::to_value(of(text)).unwrap(), text, "as it was");
        }
        assert_eq!(Until::from(now).as_str(), "2026-11-30T12:00:00Z");
    }
}
