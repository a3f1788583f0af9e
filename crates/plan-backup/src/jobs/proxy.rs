//! The proxy by which Jobs reach a store: the platform's alone, since a Job has keys of a store and dials what the platform team allows (ADR 64).

use berth_api::proxy::ALWAYS;
use berth_plan::observed::Observed;
use berth_plan::settings::Settings;
use serde_json::{Value, json};

/// Variables of the container. What is in the meta cluster is reached without: it is as it is now, since a Job is over before that changes.
pub(super) fn variables(settings: &Settings, observed: &Observed) -> Vec<Value> {
    let Some(proxy) = &settings.proxy else { return vec![] };
    let ranges = observed.meta.addresses.as_ref().ok();
    let ranges = ranges.into_iter().flat_map(|all| [&all.pods, &all.services, &all.nodes, &all.api_servers]);
    let own: Vec<String> =
        ALWAYS.map(str::to_owned).into_iter().chain(ranges.flatten().map(ToString::to_string)).collect();
    let all = proxy.variables(&own).into_iter();
    all.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::proxy::Proxy;
    use berth_plan::meta_cluster::MetaCluster;
    use berth_plan::meta_cluster::addresses::{MetaRanges, network};
    use std::sync::Arc;

    #[test]
    fn a_job_goes_by_the_charts_proxy_and_to_the_meta_cluster_without() {
        let nets = |all: &[&str]| all.iter().map(|net| network(net).unwrap()).collect();
        let meta = MetaCluster {
            addresses: Ok(MetaRanges {
                pods: nets(&["10.1.0.0/16"]),
                services: nets(&["10.2.0.0/16"]),
                nodes: nets(&["192.168.0.7"]),
                api_servers: nets(&["10.4.0.9"]),
            }),
            ..MetaCluster::default()
        };
        let proxy = |no_proxy: &[&str]| Proxy {
            https: Some("http://proxy:3128".to_owned()),
            no_proxy: no_proxy.iter().map(|&entry| entry.to_owned()).collect(),
            ..Proxy::default()
        };
        let of = |proxy, meta: &MetaCluster| {
            let settings = Settings { proxy, ..Settings::default() };
            let observed = Observed { meta: Arc::new(meta.clone()), ..Observed::default() };
            let all = variables(&settings, &observed);
            all.iter().map(|v| format!("{}={}", v["name"].as_str().unwrap(), v["value"].as_str().unwrap())).collect()
        };
        let none: Vec<String> = of(None, &meta);
        assert!(none.is_empty());
        assert_eq!(
            of(Some(proxy(&[".example.com", "10.2.0.0/16"])), &meta),
            [
                "HTTPS_PROXY=http://proxy:3128",
                "NO_PROXY=localhost,127.0.0.0/8,::1,.svc,.cluster.local,10.1.0.0/16,10.2.0.0/16,192.168.0.7/32,10.4.0.9/32,.example.com"
            ]
        );
        let unknown = MetaCluster { addresses: Err("not said".to_owned()), ..MetaCluster::default() };
        let said: Vec<String> = of(Some(proxy(&[])), &unknown);
        assert_eq!(said[1], "NO_PROXY=localhost,127.0.0.0/8,::1,.svc,.cluster.local");
    }
}
