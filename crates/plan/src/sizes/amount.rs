//! Amounts of CPU and memory, as far as sizes go.

use berth_api::quantity;
use serde_json::{Value, json};
use std::fmt;

/// What a container uses, or requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

const MIB: i64 = 1024 * 1024;

impl Size {
    /// The least that is requested of anything: with nothing a pod would be of another QoS class.
    pub(super) const LEAST: Self = Self { cpu: 1, memory: MIB };

    /// Of a map of quantities by resource; what is not there is 0, and what is no whole unit counts as one.
    pub fn of(amounts: &Value) -> Self {
        Self { cpu: cpu(&amounts["cpu"]), memory: memory(&amounts["memory"]) }
    }

    /// The same of both resources.
    pub(super) fn each(self, other: Self, of: impl Fn(i64, i64) -> i64) -> Self {
        Self { cpu: of(self.cpu, other.cpu), memory: of(self.memory, other.memory) }
    }

    /// Both together, by resource.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, i64::saturating_add)
    }

    /// The most of both, by resource.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, i64::max)
    }

    /// The least of both, by resource.
    pub(super) fn min(self, other: Self) -> Self {
        self.each(other, i64::min)
    }

    /// For people: `100m CPU, 256Mi`.
    pub fn shown(self) -> String {
        format!("{}m CPU, {}Mi", self.cpu, self.memory / MIB)
    }

    /// Requests of a container.
    pub fn to_json(self) -> Value {
        json!({"cpu": format!("{}m", self.cpu), "memory": shown(self.memory)})
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m CPU and {} of memory", self.cpu, shown(self.memory))
    }
}

fn shown(bytes: i64) -> String {
    if bytes % MIB == 0 { format!("{}Mi", bytes / MIB) } else { bytes.to_string() }
}

/// Thousandths of a CPU. 0: none is named.
pub(super) fn cpu(amount: &Value) -> i64 {
    whole(amount, 1_000_000)
}

/// Bytes. 0: none are named.
pub(super) fn memory(amount: &Value) -> i64 {
    whole(amount, 1_000_000_000)
}

fn whole(amount: &Value, unit: i128) -> i64 {
    let nanos = match amount {
        Value::String(text) => quantity::nanos(text),
        Value::Number(number) => quantity::nanos(&number.to_string()),
        _ => None,
    };
    nanos.map_or(0, |nanos| i64::try_from((nanos + unit - 1) / unit).unwrap_or(i64::MAX))
}

/// Bytes as a container requests them: whole MiB.
pub(super) fn whole_mib(bytes: i64) -> i64 {
    bytes.saturating_add(MIB - 1) / MIB * MIB
}
