//! What Prometheus reads, and probes. Names and labels are stable.

use berth_edge::http::Told;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::Ordering::Relaxed;

use crate::ended::Ended;
use crate::live::Rows;
use crate::serve::Gateway;
use crate::table::Ignored;

/// Name of the row, without a namespace, of tenants that have none of their own, and of those that are gone.
const OTHERS: &str = "(others)";

/// All metrics as text.
pub(crate) fn text(gateway: &Gateway) -> String {
    let mut registry = Registry::with_prefix("berth_gateway");
    tenants(&gateway.live.rows(), &mut registry);
    let ended: Family<[(&str, &str); 1], Counter> = Family::default();
    for (why, count) in gateway.ends.all() {
        ended.get_or_create(&[("reason", why.as_str())]).inc_by(count);
    }
    registry.register("connections_ended", "Connections that ended or were refused, by why", ended);
    let gauge = |count: u64| {
        let gauge: Gauge = Gauge::default();
        gauge.set(number(count));
        gauge
    };
    let all = gauge(gateway.connections.len() as u64);
    registry.register("connections", "Connections that are open, those included of which no tenant is known", all);
    let most = gauge(gateway.limits.in_all as u64);
    registry.register("connections_limit", "Connections that may be open: who comes then is refused", most);
    let held = gauge(gateway.held.len() as u64);
    registry.register("connections_held", "Connections that wait for a tenant to wake", held);
    let most = gauge(gateway.limits.held.in_all as u64);
    registry.register(
        "connections_held_limit",
        "Connections that may wait for tenants: who comes then is refused",
        most,
    );
    let ready = gauge(gateway.unready().is_none().into());
    registry.register("ready", "1 while it takes clients and knows all tenants", ready);
    let lost: Counter = Counter::default();
    lost.inc_by(gateway.log.lost());
    registry.register("log_lines_lost", "Lines of the access log that were not written", lost);
    let stale: Family<[(&str, &str); 1], Gauge> = Family::default();
    for (what, is_stale) in ["services", "endpointslices"].into_iter().zip(&gateway.is_stale) {
        stale.get_or_create(&[("resource", what)]).set(is_stale.load(Relaxed).into());
    }
    registry.register("watch_failing", "1 while a watch fails: what is known of the resource gets old", stale);
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

fn tenants(rows: &Rows, registry: &mut Registry) {
    type Tenant = [(&'static str, String); 2];
    type Way = [(&'static str, String); 3];
    let open: Family<Tenant, Gauge> = Family::default();
    let opened: Family<Tenant, Counter> = Family::default();
    let bytes: Family<Way, Counter> = Family::default();
    let refused: Family<Way, Counter> = Family::default();
    let own = rows.own.iter().map(|(of, sum)| (of.namespace.as_str(), of.name.as_str(), *sum));
    for (namespace, name, sum) in own.chain([("", OTHERS, rows.others)]) {
        let tenant = || [("namespace", namespace.to_owned()), ("name", name.to_owned())];
        open.get_or_create(&tenant()).set(number(sum.open));
        opened.get_or_create(&tenant()).inc_by(sum.opened);
        for (way, count) in [("up", sum.up), ("down", sum.down)] {
            let [namespace, name] = tenant();
            bytes.get_or_create(&[namespace, name, ("direction", way.to_owned())]).inc_by(count);
        }
        // Rows for what never happened would be five times as many as all others.
        for (why, count) in Ended::ALL.into_iter().zip(sum.refused).filter(|(_, count)| *count > 0) {
            let [namespace, name] = tenant();
            refused.get_or_create(&[namespace, name, ("reason", why.as_str().to_owned())]).inc_by(count);
        }
    }
    registry.register("tenant_connections", "Connections of a tenant that are open", open);
    registry.register("tenant_connections_opened", "Connections of a tenant that were let in", opened);
    let what = "Bytes of a tenant: up to its API servers, down to its clients";
    registry.register_with_unit("tenant_traffic", what, Unit::Bytes, bytes);
    let what = "Connections of a tenant that were not let in, or led to no API server, by why";
    registry.register("tenant_connections_refused", what, refused);
    let tenants: Gauge = Gauge::default();
    tenants.set(number(rows.tenants as u64));
    registry.register("tenants", "Tenants that are known", tenants);
    let ignored: Family<[(&str, &str); 1], Gauge> = Family::default();
    for why in Ignored::ALL {
        let count = rows.ignored.get(&why).copied().unwrap_or_default();
        ignored.get_or_create(&[("reason", why.as_str())]).set(number(count));
    }
    registry.register("services_ignored", "Services with the gateway's label that do not count, by why", ignored);
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Told for Gateway {
    fn unready(&self) -> Option<&'static str> {
        const UNKNOWN: &str = "waiting for the lists of Services and EndpointSlices: the log says what is in the way";
        if self.stop.is_cancelled() {
            return Some("this gateway ends");
        }
        if self.is_unknown.load(Relaxed) {
            return Some("waiting for its Lease, by which the operator finds it: the log says what is in the way");
        }
        (!self.is_known.load(Relaxed)).then_some(UNKNOWN)
    }

    fn metrics(&self) -> String {
        text(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use crate::tenant::tests::route;
    use crate::tests::limits;
    use berth_edge::log::Log;

    #[test]
    fn metrics_are_written_so() {
        let gateway = Gateway::new(limits(), Log::captured().0);
        gateway.live.update(Table { routes: vec![route("acme", &[])], ..Table::default() });
        let tenant = gateway.live.tenant("acme.example.com").unwrap();
        let _open = tenant.admit("10.0.0.1".parse().unwrap(), &limits()).unwrap();
        tenant.traffic.refused.add(Ended::TooMany);
        gateway.ends.add(Ended::UnknownName);
        gateway.is_stale[1].store(true, Relaxed);
        let text = text(&gateway);
        for line in [
            r#"berth_gateway_tenant_connections{namespace="team-a",name="acme"} 1"#,
            r#"berth_gateway_tenant_connections_opened_total{namespace="team-a",name="acme"} 1"#,
            r#"berth_gateway_tenant_connections{namespace="",name="(others)"} 0"#,
            r#"berth_gateway_tenant_traffic_bytes_total{namespace="team-a",name="acme",direction="up"} 0"#,
            r#"berth_gateway_tenant_connections_refused_total{namespace="team-a",name="acme",reason="TooMany"} 1"#,
            r#"berth_gateway_connections_ended_total{reason="UnknownName"} 1"#,
            r#"berth_gateway_connections_ended_total{reason="Drained"} 0"#,
            r#"berth_gateway_services_ignored{reason="Foreign"} 0"#,
            r#"berth_gateway_watch_failing{resource="services"} 0"#,
            r#"berth_gateway_watch_failing{resource="endpointslices"} 1"#,
            "berth_gateway_tenants 1",
            "berth_gateway_connections 0",
            "berth_gateway_connections_limit 1000",
            "berth_gateway_connections_held 0",
            "berth_gateway_connections_held_limit 100",
            "berth_gateway_ready 0",
            "berth_gateway_log_lines_lost_total 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
    }

    #[test]
    fn it_is_ready_from_when_all_is_known_until_it_ends() {
        let gateway = Gateway::new(limits(), Log::captured().0);
        assert!(gateway.unready().unwrap().starts_with("waiting for the lists"));
        gateway.is_known.store(true, Relaxed);
        assert_eq!(gateway.unready(), None);
        gateway.is_unknown.store(true, Relaxed);
        assert!(gateway.unready().unwrap().starts_with("waiting for its Lease"), "who uses tenants would be unknown");
        gateway.stop.cancel();
        assert_eq!(gateway.unready(), Some("this gateway ends"));
    }
}
