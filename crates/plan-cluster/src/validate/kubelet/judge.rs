//! All rules, one after the other.

use super::fault::{FIELD, Fault};
use super::gates::Gates;
use super::{eviction, fields, own, resources, rules};
use berth_api::version::Minor;
use serde_json::{Map, Value};

/// So much of it a ConfigMap is to hold, in bytes of JSON. An API server answers with twice as many at most, since the text is a string there, and
/// of an answer Berth reads 256 KiB.
const MOST: usize = 64 << 10;

/// As an API server writes JSON: each `<`, `>` and `&` takes six bytes.
fn size(config: &Map<String, Value>) -> usize {
    let Ok(json) = serde_json::to_vec(config) else { return usize::MAX };
    json.len() + 5 * json.iter().filter(|byte| b"<>&".contains(byte)).count()
}

/// Why nodes would not run with this configuration, and how many faults there are beside. `minor`: of the tenant.
pub(crate) fn refusal(config: &Map<String, Value>, minor: Minor) -> Option<String> {
    said(&faults(config, minor))
}

pub(super) fn said(faults: &[Fault]) -> Option<String> {
    let (first, more) = faults.split_first()?;
    let more = match more.len() {
        0 => String::new(),
        n => format!(". {FIELD} has {n} more of such faults"),
    };
    Some(format!("{first}{more}"))
}

/// All faults. Where fields are Berth's, unknown or of another type, nothing further is judged.
pub fn faults(config: &Map<String, Value>, minor: Minor) -> Vec<Fault> {
    if config.is_empty() {
        return vec![];
    }
    let size = size(config);
    if size > MOST {
        return vec![Fault::new(
            "",
            format!("is {size} bytes of JSON (<, > and & are six each). At most {MOST} are possible"),
        )];
    }
    let config = &berth_render::without_nulls(config);
    let mut faults = own::faults(config);
    fields::check(config, minor, &mut faults);
    if faults.is_empty() {
        let gates = Gates::new(config, minor);
        gates.check(&mut faults);
        rules::check(config, &gates, &mut faults);
        resources::check(config, &mut faults);
        eviction::check(config, &mut faults);
    }
    faults
}
