//! What kubelet refuses of `spec.kubelet.config`, and what Berth sets there itself.
//!
//! A kubelet that refuses its configuration does not start, and one that does not know a field goes on without it: both would be found on a
//! machine, long after the mistake. The rules are those of kubelet 1.36: `pkg/kubelet/apis/config/validation`, the types of
//! `k8s.io/kubelet/config/v1beta1`, and what the program reads at its start (thresholds of eviction, reserved resources, TLS).

mod eviction;
mod fault;
mod fields;
mod gates;
mod next;
mod own;
mod parse;
mod resources;
mod rules;
mod shape;
mod taints;
mod tls;

pub use fault::Fault;
pub(crate) use next::refusal_by_next;
pub use next::refused_gates;

use berth_api::version::Minor;
use fault::FIELD;
use gates::Gates;
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

fn said(faults: &[Fault]) -> Option<String> {
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

#[cfg(test)]
mod tests;
