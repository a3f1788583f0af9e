//! What probes and Prometheus read. Names and labels are stable.

use berth_edge::http::Told;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use std::time::Duration;

use crate::serve::Access;

/// How long a new replica waits for the operator before it takes calls.
const WAITS_FOR_OPERATOR: Duration = Duration::from_mins(1);

/// All metrics as text.
fn text(access: &Access) -> String {
    let mut registry = Registry::with_prefix("berth_access");
    let answered: Family<[(&str, String); 1], Counter> = Family::default();
    for (code, count) in access.counts.answered() {
        answered.get_or_create(&[("code", code)]).inc_by(count);
    }
    registry.register("calls", "Calls that a tenant answered, by its code", answered);
    let refused: Family<[(&str, String); 1], Counter> = Family::default();
    for (why, count) in access.counts.refused() {
        refused.get_or_create(&[("reason", format!("{why:?}"))]).inc_by(count);
    }
    registry.register("calls_refused", "Calls that went no further, by why", refused);
    let failed: Counter = Counter::default();
    failed.inc_by(access.reviews.failed());
    registry.register("reviews_failed", "Questions that the meta cluster's API server did not answer", failed);
    let gauge = |count: u64| {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        gauge
    };
    registry.register("tenants", "Tenants that were called within an hour", gauge(access.tenants.len() as u64));
    registry.register("streams", "Open streams of exec, port-forward and the like", gauge(access.streams.len() as u64));
    let what = "1 while the operator is connected, without which no tenant is called anew";
    registry.register("operator_connected", what, gauge(access.link.is_open().into()));
    registry.register("ready", "1 while it takes calls", gauge(access.unready().is_none().into()));
    let what = "Seconds until a tenant's answer began";
    registry.register("call_duration_seconds", what, access.counts.took.clone());
    if let Some(expires) = access.certificate.expires() {
        let expiry: Gauge = Gauge::default();
        expiry.set(expires);
        let what = "When the certificate that callers see expires, in seconds since 1970";
        registry.register("certificate_expiry_timestamp_seconds", what, expiry);
    }
    let lost: Counter = Counter::default();
    lost.inc_by(access.log.lost());
    registry.register("log_lines_lost", "Lines of the log that were not written", lost);
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

impl Told for Access {
    fn unready(&self) -> Option<&'static str> {
        const ALONE: &str =
            "waiting for the operator, without which no tenant is called anew: its log says what is in the way";
        if self.stop.is_cancelled() {
            return Some("this program ends");
        }
        // A replica that takes the place of another one knows no tenant yet. Without the operator it serves nobody, and says so to callers, but not
        // for ever: those that are there may end as well.
        let is_alone = !self.link.was_opened() && self.began.elapsed() < WAITS_FOR_OPERATOR;
        is_alone.then_some(ALONE)
    }

    fn metrics(&self) -> String {
        text(self)
    }
}
