//! Kubernetes' quantities, as far as comparing two of them goes.

use crate::common::Resources;
use serde_json::Value;

/// True for keys below which values are quantities.
pub fn are_below(key: &str) -> bool {
    matches!(key, "requests" | "limits" | "hard" | "capacity")
}

/// True for keys whose value is a quantity.
pub fn is_at(key: &str) -> bool {
    matches!(key, "sizeLimit" | "storage")
}

/// True if both are quantities of the same size.
pub fn same(a: &Value, b: &Value) -> bool {
    let text = |v: &Value| match v {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    };
    let size = |v: &Value| nanos(&text(v)?);
    matches!((size(a), size(b)), (Some(a), Some(b)) if a == b)
}

/// True if it is a quantity.
pub fn is_one(text: &str) -> bool {
    nanos(text).is_some()
}

/// True if the first is less than the second. What is no quantity is not less: the API server refuses it.
pub fn is_less(a: &str, b: &str) -> bool {
    matches!((nanos(a), nanos(b)), (Some(a), Some(b)) if a < b)
}

/// How many times the second the first is, in thousandths. None: one is no quantity, or the second is 0.
pub fn ratio(a: &str, b: &str) -> Option<i128> {
    nanos(a)?.checked_mul(1000)?.checked_div(nanos(b)?)
}

/// The first request that is more than its limit.
pub fn beyond_limit(resources: &Resources) -> Option<String> {
    let requests = resources.requests.iter().flatten();
    let mut both = requests.filter_map(|(name, request)| Some((name, request, resources.limits.as_ref()?.get(name)?)));
    let (name, request, limit) = both.find(|(_, request, limit)| is_less(&limit.0, &request.0))?;
    Some(format!(
        "requests.{name} is {}, and limits.{name} is {}. Set the limit to at least the request, or lower the request",
        request.0, limit.0
    ))
}

/// A size in units of 10⁻⁹, as people write it: CPUs in thousandths, all else in Mi where it is as much.
pub fn shown(resource: &str, nanos: i128) -> String {
    let (whole, mebi) = (10_i128.pow(9), 10_i128.pow(9) * 1024 * 1024);
    match resource {
        "cpu" if nanos % whole != 0 => format!("{}m", nanos / 10_i128.pow(6)),
        "cpu" => (nanos / whole).to_string(),
        _ if nanos >= mebi => format!("{}Mi", nanos / mebi),
        _ => (nanos / whole).to_string(),
    }
}

/// In units of 10⁻⁹, the smallest that there are. None: it is no quantity.
pub fn nanos(text: &str) -> Option<i128> {
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
    fn a_request_is_at_most_its_limit() {
        let of = |resources: Value| beyond_limit(&serde_json::from_value(resources).unwrap());
        let why = of(json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "1500m", "memory": "2Gi"}}));
        assert_eq!(
            why.as_deref(),
            Some(
                "requests.cpu is 2, and limits.cpu is 1500m. Set the limit to at least the request, or lower the request"
            )
        );
        for fine in [
            json!({}),
            json!({"requests": {"cpu": "2"}}),
            json!({"limits": {"cpu": "1"}}),
            json!({"requests": {"cpu": 1, "memory": "1024Mi"}, "limits": {"cpu": "1000m", "memory": "1Gi"}}),
            json!({"requests": {"memory": "0.5Ki"}, "limits": {"memory": "512", "cpu": "1"}}),
        ] {
            assert_eq!(of(fine.clone()), None, "{fine}");
        }
    }

    #[test]
    fn one_is_less_than_another() {
        for (a, b) in [("1Mi", "1Gi"), ("1G", "1Gi"), ("1073741823", "1Gi"), ("0.999Gi", "1Gi"), ("0", "1Gi")] {
            assert!(is_less(a, b) && !is_less(b, a), "{a} {b}");
        }
        for (a, b) in [("1Gi", "1Gi"), ("1024Mi", "1Gi"), ("1048576Ki", "1Gi"), ("1073741824", "1Gi"), ("1.5Gi", "1Gi")]
        {
            assert!(!is_less(a, b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_shown_is_no_more_than_there_is() {
        for (resource, text, wanted) in [
            ("cpu", "1500m", "1500m"),
            ("cpu", "8", "8"),
            ("cpu", "7.9999", "7999m"),
            ("memory", "16220416Ki", "15840Mi"),
            ("memory", "1000", "1000"),
            ("example.com/gpu", "2", "2"),
        ] {
            assert_eq!(shown(resource, nanos(text).unwrap()), wanted);
        }
    }

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
