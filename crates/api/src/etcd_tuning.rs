//! How soon etcd's members notice that their leader is gone: rules of etcd for two intervals.

use serde_json::{Value, json};

/// etcd's own default of `heartbeatInterval`.
const HEARTBEAT: &str = "100ms";
/// etcd's own default of `electionTimeout`.
const ELECTION: &str = "1s";
/// The longest `electionTimeout` that etcd takes, in milliseconds.
const LONGEST: i64 = 50_000;

/// An interval such as `250ms` or `3s`, in milliseconds. None: it is none.
pub fn milliseconds(text: &str) -> Option<i64> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    let is_plain = (1..=5).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    let number: i64 = number.parse().ok().filter(|n| is_plain && *n > 0)?;
    Some(number * unit)
}

/// Why etcd would not start with these. None: it would. What is not set is etcd's default.
pub fn timing_fault(heartbeat: Option<&str>, election: Option<&str>) -> Option<String> {
    let read = |field: &str, text: &str| {
        milliseconds(text).ok_or_else(|| format!("{field}: must be an interval such as 250ms or 3s"))
    };
    let both = read("heartbeatInterval", heartbeat.unwrap_or(HEARTBEAT))
        .and_then(|beat| Ok((beat, read("electionTimeout", election.unwrap_or(ELECTION))?)));
    let (beat, timeout) = match both {
        Ok(both) => both,
        Err(why) => return Some(why),
    };
    if timeout > LONGEST {
        return Some(format!("electionTimeout: {timeout}ms is more than 50s, the most that etcd takes. Lower it"));
    }
    (beat * 5 > timeout).then(|| {
        format!(
            "electionTimeout: {timeout}ms is less than five times heartbeatInterval ({beat}ms), which etcd refuses. Raise electionTimeout, or lower heartbeatInterval"
        )
    })
}

/// The same as a rule of the API server, for a struct with both fields.
pub(crate) fn timing_rule() -> Value {
    let or = |field: &str, default: &str| format!("has(self.{field}) ? duration(self.{field}) : duration('{default}')");
    let (beat, timeout) = (or("heartbeatInterval", HEARTBEAT), or("electionTimeout", ELECTION));
    json!({
        "rule": format!("[{beat}].all(h, h + h + h + h + h <= ({timeout}))"),
        "message": format!("electionTimeout (default {ELECTION}) must be at least five times heartbeatInterval (default {HEARTBEAT})"),
    })
}

/// Of one such field.
pub(crate) fn interval_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string", "maxLength": 7, "pattern": "^[1-9][0-9]{0,4}(ms|s)$",
        "x-kubernetes-validations": [{
            "rule": "duration(self) <= duration('50s')",
            "message": "must be an interval of at most 50s, such as 250ms or 3s",
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_they_are_written() {
        for (text, is) in [
            ("1ms", Some(1)),
            ("250ms", Some(250)),
            ("3s", Some(3000)),
            ("50000ms", Some(50_000)),
            ("100000ms", None),
            ("0s", None),
            ("", None),
            ("s", None),
            ("1", None),
            ("+1s", None),
            ("1.5s", None),
            ("1m", None),
        ] {
            assert_eq!(milliseconds(text), is, "{text}");
        }
    }

    #[test]
    fn what_etcd_refuses_is_refused_with_the_field() {
        let said = |beat: Option<&str>, timeout: Option<&str>| timing_fault(beat, timeout).unwrap_or_default();
        for (beat, timeout, begins) in [
            (None, None, ""),
            (Some("200ms"), None, ""),
            (Some("201ms"), None, "electionTimeout: 1000ms is less than five times heartbeatInterval (201ms)"),
            (None, Some("500ms"), ""),
            (None, Some("499ms"), "electionTimeout: 499ms is less than five times heartbeatInterval (100ms)"),
            (Some("10s"), Some("50s"), ""),
            (Some("10s"), Some("50001ms"), "electionTimeout: 50001ms is more than 50s"),
            (Some("x"), None, "heartbeatInterval: must be"),
            (None, Some("1h"), "electionTimeout: must be"),
        ] {
            let said = said(beat, timeout);
            assert!(said.starts_with(begins) && said.is_empty() == begins.is_empty(), "{beat:?} {timeout:?}: {said}");
        }
    }
}
