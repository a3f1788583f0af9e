//! Thresholds of eviction, as `pkg/kubelet/eviction/helpers.go` reads them when kubelet starts.

use super::fault::Fault;
use super::parse::{duration, is_not_negative, is_zero, percentage};
use super::shape::unknown;
use serde_json::{Map, Value};

const SIGNALS: [&str; 9] = [
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
];

/// Appends what kubelet refuses. The types are right.
pub(super) fn check(config: &Map<String, Value>, faults: &mut Vec<Fault>) {
    let entries = |field: &'static str| config.get(field).and_then(Value::as_object).into_iter().flatten();
    for field in ["evictionHard", "evictionSoft", "evictionMinimumReclaim", "evictionSoftGracePeriod"] {
        for (signal, value) in entries(field) {
            let (path, text) = (format!("{field}.{signal}"), value.as_str().unwrap_or_default());
            if !SIGNALS.contains(&&**signal) {
                let what = unknown(signal, SIGNALS.into_iter());
                faults.push(Fault::new(path, what.replace("field of KubeletConfiguration", "signal of eviction")));
                continue;
            }
            let why = match field {
                "evictionSoftGracePeriod" if duration(text).is_none_or(|period| period < 0) => {
                    "has to be a length of time of 0s or more, such as 90s"
                }
                "evictionMinimumReclaim" if !is_reclaim(text) => {
                    "has to be a quantity or a percentage, such as 500Mi or 5%"
                }
                "evictionHard" | "evictionSoft" if !is_threshold(text) => {
                    "has to be a quantity of more than 0, or a percentage from 0% to 100%, such as 500Mi or 5%"
                }
                _ => continue,
            };
            faults.push(Fault::new(path, why));
        }
    }
    let periods = config.get("evictionSoftGracePeriod");
    for (signal, _) in entries("evictionSoft").filter(|(_, value)| !matches!(value.as_str(), Some("0%" | "100%"))) {
        if periods.is_none_or(|periods| periods.get(signal).is_none()) {
            let why = format!("needs evictionSoftGracePeriod.{signal}, such as 90s");
            faults.push(Fault::new(format!("evictionSoft.{signal}"), why));
        }
    }
}

fn is_threshold(text: &str) -> bool {
    if text.ends_with('%') {
        return percentage(text).is_some_and(|percent| (0.0..=100.0).contains(&percent));
    }
    is_not_negative(text) && !is_zero(text)
}

fn is_reclaim(text: &str) -> bool {
    if text.ends_with('%') {
        return percentage(text).is_some_and(|percent| percent > 0.0);
    }
    is_not_negative(text)
}
