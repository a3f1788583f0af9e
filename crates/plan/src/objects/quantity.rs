//! Kubernetes' quantities, as far as "are these two the same" goes.

use serde_json::Value;

/// True for keys below which values are quantities.
pub(crate) fn are_below(key: &str) -> bool {
    matches!(key, "requests" | "limits")
}

/// True if both are quantities of the same size.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    let text = |v: &Value| match v {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    };
    let size = |v: &Value| nanos(&text(v)?);
    matches!((size(a), size(b)), (Some(a), Some(b)) if a == b)
}

/// In units of 10⁻⁹, the smallest that there are.
fn nanos(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') || fraction.len() > 9 {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let nano = digits.checked_mul(10_i128.checked_pow(9 - u32::try_from(fraction.len()).ok()?)?)?;
    let decimal = |power: i32| -> Option<i128> {
        let factor = 10_i128.checked_pow(power.unsigned_abs())?;
        if power < 0 { (nano % factor == 0).then_some(nano / factor) } else { nano.checked_mul(factor) }
    };
    let binary = |power: u32| nano.checked_mul(1024_i128.pow(power));
    match suffix {
        "" => Some(nano),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes() {
        for (a, b, equal) in [
            (json!("1024Mi"), json!("1Gi"), true),
            (json!("1000m"), json!("1"), true),
            (json!("0.5"), json!("500m"), true),
            (json!(2), json!("2"), true),
            (json!("1e3"), json!("1k"), true),
            (json!("2500u"), json!("0.0025"), true),
            (json!("1G"), json!("1Gi"), false),
            (json!("1"), json!("1m"), false),
            (json!("x"), json!("x"), false),
            (json!("1.2.3"), json!("1"), false),
            (json!("99999999999999999999Ei"), json!("1"), false),
            (json!(null), json!("1"), false),
        ] {
            assert_eq!(same(&a, &b), equal, "{a} {b}");
        }
    }
}
