//! Values that stand in texts.

use berth_api::quantity;

/// A length of time as Go reads it, in nanoseconds: a sign, and numbers with their units, such as `-1.5h30m`. None: it is none.
pub(super) fn duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum: i128 = 0;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(end)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 20 {
            return None;
        }
        // Go cuts off what is less than a nanosecond.
        let fraction: String = fraction.chars().take(15).collect();
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        sum = sum.checked_add(whole.checked_mul(unit)?)?.checked_add(part.checked_mul(unit)?.checked_div(scale)?)?;
        rest = after;
        if rest.is_empty() {
            return i64::try_from(sum.checked_mul(sign)?).ok();
        }
    }
}

/// Seconds, as nanoseconds.
pub(super) const fn seconds(n: i64) -> i64 {
    n * 1_000_000_000
}

/// Without its sign.
fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

/// Whether it is a quantity, also a negative one.
pub(super) fn is_quantity(text: &str) -> bool {
    quantity::is_one(unsigned(text))
}

/// Whether it is a quantity of 0 or more.
pub(super) fn is_not_negative(text: &str) -> bool {
    is_quantity(text) && (!text.starts_with('-') || is_zero(text))
}

/// Whether it is a quantity of nothing.
pub(super) fn is_zero(text: &str) -> bool {
    quantity::same(&unsigned(text).into(), &"0".into())
}

/// A percentage with its sign, such as `5%`. None: it is none.
pub(super) fn percentage(text: &str) -> Option<f64> {
    text.strip_suffix('%')?.trim_end_matches('%').parse::<f64>().ok().filter(|n| n.is_finite())
}

/// CPUs as Linux lists them, such as `0-3,8`. None: the text is no such list.
pub(super) fn is_cpu_list(text: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    text.is_empty()
        || text.split(',').all(|part| match part.split_once('-') {
            Some((from, to)) => matches!((number(from), number(to)), (Some(from), Some(to)) if from <= to),
            None => number(part).is_some(),
        })
}
