//! The proxy by which Jobs reach a store, or a registry: the platform's alone, since a Job has keys of a store and dials what the platform team allows (ADR 64).

use crate::observed::Observed;
use crate::settings::{Settings, host};
use berth_api::proxy::ALWAYS;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Variables of the container. It dials its store and etcd alone: of the meta cluster's addresses, which are as many as it has nodes, only that of a
/// store there is reached without. Names in `.svc` are anyway.
pub fn variables(settings: &Settings, observed: &Observed, endpoint: &str) -> Vec<Value> {
    let Some(proxy) = &settings.proxy else { return vec![] };
    let address = host(endpoint).and_then(|host| host.parse::<IpAddr>().ok());
    let meta = observed.meta.addresses.as_ref().ok();
    let inside = address.filter(|address| meta.is_some_and(|meta| meta.overlap((*address).into()).is_some()));
    let own: Vec<String> =
        ALWAYS.map(str::to_owned).into_iter().chain(inside.map(|address| address.to_string())).collect();
    let all = proxy.variables(&own).into_iter();
    all.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta_cluster::MetaCluster;
    use crate::meta_cluster::addresses::{MetaRanges, network};
    use berth_api::proxy::Proxy;
    use std::sync::Arc;

    #[test]
    fn a_job_goes_by_the_charts_proxy_and_to_the_meta_cluster_without() {
        let nets = |all: &[&str]| all.iter().map(|net| network(net).unwrap()).collect();
        let meta = MetaCluster {
            addresses: Ok(MetaRanges {
                pods: nets(&["10.1.0.0/16"]),
                services: nets(&["10.2.0.0/16"]),
                nodes: nets(&["192.168.0.7", "fd00::9"]),
                api_servers: nets(&["10.4.0.9"]),
            }),
            ..MetaCluster::default()
        };
        let proxy = |no_proxy: &[&str]| Proxy {
            https: Some("http://proxy:3128".to_owned()),
            no_proxy: no_proxy.iter().map(|&entry| entry.to_owned()).collect(),
            ..Proxy::default()
        };
        let of = |proxy, meta: &MetaCluster, endpoint: &str| -> Vec<String> {
            let settings = Settings { proxy, ..Settings::default() };
            let observed = Observed { meta: Arc::new(meta.clone()), ..Observed::default() };
            let all = variables(&settings, &observed, endpoint);
            all.iter().map(|v| format!("{}={}", v["name"].as_str().unwrap(), v["value"].as_str().unwrap())).collect()
        };
        let outside = "https://s3.example.com:9000";
        assert_eq!(of(None, &meta, outside), [""; 0]);
        assert_eq!(
            of(Some(proxy(&[".example.com", "10.2.0.0/16"])), &meta, outside),
            [
                "HTTPS_PROXY=http://proxy:3128",
                "NO_PROXY=localhost,127.0.0.0/8,::1,.svc,.cluster.local,.example.com,10.2.0.0/16"
            ]
        );
        let unknown = MetaCluster { addresses: Err("not said".to_owned()), ..MetaCluster::default() };
        let always = "NO_PROXY=localhost,127.0.0.0/8,::1,.svc,.cluster.local";
        for (meta, endpoint, inside) in [
            (&meta, "http://192.168.0.7:30900", ",192.168.0.7"),
            (&meta, "http://10.1.2.3:9000/path", ",10.1.2.3"),
            (&meta, "http://[fd00::9]:9000", ",fd00::9"),
            (&meta, "http://192.168.0.8:30900", ""),
            (&meta, "http://store.minio.svc:9000", ""),
            (&unknown, "http://192.168.0.7:30900", ""),
        ] {
            let said = of(Some(proxy(&[])), meta, endpoint);
            assert_eq!(said[1], format!("{always}{inside}"), "{endpoint}");
        }
    }

    /// A variable of many KiB would be in each Job, and with enough nodes none would start.
    #[test]
    fn with_many_nodes_it_is_no_longer() {
        let nodes = (0..5000_u32).map(|n| IpAddr::from((n * 2 + 0x0a00_0001).to_be_bytes()).into()).collect();
        let addresses = Ok(MetaRanges { nodes, ..MetaRanges::default() });
        let observed =
            Observed { meta: MetaCluster { addresses, ..MetaCluster::default() }.into(), ..Observed::default() };
        let proxy = Proxy { https: Some("http://proxy:3128".to_owned()), ..Proxy::default() };
        let settings = Settings { proxy: Some(proxy), ..Settings::default() };
        let all = variables(&settings, &observed, "http://10.0.0.1:30900");
        assert!(all[1]["value"].as_str().unwrap().ends_with(",10.0.0.1"), "{}", all[1]);
        assert!(all[1].to_string().len() < 200, "{}", all[1]);
    }
}
