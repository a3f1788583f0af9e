//! Where backups go: the chart's value `backups`.

use crate::meta_cluster::addresses::MetaRanges;
use crate::times;
use berth_api::backup::Store;
use berth_api::backup_schedule::Keep;
use serde::Deserialize;
use serde_json::Value;
use std::net::IpAddr;

/// Where backups go, and what takes them. Default: nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backups {
    /// Image of `berth-backup`.
    pub image: String,
    /// Namespace of the stores' Secrets: the operator's own.
    pub namespace: String,
    /// The stores.
    pub stores: Vec<BackupStore>,
    /// Where the stores are, as peers of a NetworkPolicy. Default: anywhere but in the meta cluster, at their ports.
    pub peers: Vec<Value>,
    /// Backups that are taken at once in the fleet, of each pool. Default 4.
    pub concurrent: usize,
    /// Endpoints that teams' own stores may have, without a slash at the end. Default: none.
    pub endpoints: Vec<String>,
    /// The schedule of each tenant that has none of its own. Default: none.
    pub default: Option<DefaultBackups>,
}

/// A schedule for tenants that have none of their own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultBackups {
    /// Name of a store.
    pub store: String,
    /// When, as in an `EtcdBackupSchedule`.
    pub schedule: String,
    /// Time zone of that.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// Which are kept.
    #[serde(default)]
    pub keep: Keep,
}

/// A store of the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupStore {
    /// How an `EtcdBackup` calls it.
    pub name: String,
    /// Server and bucket.
    pub store: Store,
    /// What keys in it begin with, without slashes at its ends. Default: nothing.
    pub prefix: String,
    /// Secret with its credentials.
    pub secret: String,
    /// Namespaces whose stand-alone `EtcdCluster`s may use it: whoever reads Secrets there sees its credentials while a Job runs. Default: none.
    pub namespaces: Vec<String>,
}

impl BackupStore {
    /// Whether an etcd may use it: that of a `Cluster`, or, where a namespace is given, a stand-alone one there.
    pub fn serves(&self, stands_alone_in: Option<&str>) -> bool {
        stands_alone_in.is_none_or(|namespace| self.namespaces.iter().any(|allowed| allowed == namespace))
    }
}

impl Default for Backups {
    fn default() -> Self {
        let (image, namespace) = (String::new(), String::new());
        Self {
            image,
            namespace,
            stores: vec![],
            peers: vec![],
            concurrent: CONCURRENT,
            endpoints: vec![],
            default: None,
        }
    }
}

/// Default of [`Backups::concurrent`].
const CONCURRENT: usize = 4;

impl Backups {
    /// Whether there is a store, or may be one.
    pub fn are_enabled(&self) -> bool {
        !self.stores.is_empty() || !self.endpoints.is_empty()
    }

    /// The store of that name.
    pub fn store(&self, name: &str) -> Option<&BackupStore> {
        self.stores.iter().find(|store| store.name == name)
    }

    /// The stores' ports, each once.
    pub fn ports(&self) -> Vec<u16> {
        let own = self.stores.iter().map(|s| &s.store.endpoint);
        let mut ports: Vec<u16> = own.chain(&self.endpoints).filter_map(|endpoint| port(endpoint)).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Hosts of the stores, with the value of the chart that names each. None where the chart's values say where they are.
    pub fn hosts_anywhere(&self) -> Vec<(String, &str)> {
        if !self.peers.is_empty() {
            return vec![];
        }
        let own = self.stores.iter().map(|s| (format!("backups.stores: {}", s.name), &s.store.endpoint));
        let teams = self.endpoints.iter().map(|endpoint| ("writers.backups.endpoints".to_owned(), endpoint));
        own.chain(teams).filter_map(|(value, endpoint)| Some((value, host(endpoint)?))).collect()
    }

    /// Stores in the meta cluster that Jobs do not reach, since no value of the chart says where they are: a sentence each. `resolved`: the
    /// addresses of a host, as far as they are known.
    pub fn out_of_reach(&self, meta: &MetaRanges, resolved: impl Fn(&str) -> Vec<IpAddr>) -> Vec<String> {
        let why = |host: &str| {
            if host.split('.').skip(1).any(|part| part == "svc") {
                return Some(format!("{host} is a Service of this cluster"));
            }
            let literal = host.parse::<IpAddr>().ok();
            let inside = |address: IpAddr| Some((address, meta.overlap(address.into())?));
            let (address, (whose, range)) = literal.into_iter().chain(resolved(host)).find_map(inside)?;
            Some(format!("{host} is at {address}, where this cluster has its {whose} ({range})"))
        };
        let hosts = self.hosts_anywhere().into_iter();
        hosts.filter_map(|(value, host)| Some(format!("{value}: {}. NetworkPolicies keep Jobs that take and restore backups from there: set backups.peers in the values of Berth's chart, such as [{{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: NAMESPACE}}}}, podSelector: {{matchLabels: {{app: STORE}}}}}}]", why(host)?))).collect()
    }
}

/// The host of a URL that has a [`port`], without brackets. None: it is none.
pub fn host(url: &str) -> Option<&str> {
    port(url)?;
    let authority = url.split_once("://")?.1.split('/').next()?;
    match authority.strip_prefix('[') {
        Some(address) => Some(address.split_once(']')?.0),
        None => Some(authority.rsplit_once(':').map_or(authority, |(host, _)| host)),
    }
}

/// The port of an `http` or `https` URL without a user. None: it is none.
pub fn port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let standard = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split('/').next().filter(|a| !a.is_empty() && !a.contains(['@', '?', '#']))?;
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, port)| port);
    match after_host.rsplit_once(':') {
        Some((_, port)) => port.parse().ok(),
        None => Some(standard),
    }
}

/// The file's part.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AllowedBackups {
    stores: Vec<AllowedStore>,
    peers: Vec<Value>,
    concurrent: Option<usize>,
    default: Option<DefaultBackups>,
}

fn utc() -> String {
    "UTC".into()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AllowedStore {
    name: String,
    endpoint: String,
    bucket: String,
    #[serde(default = "region")]
    region: String,
    #[serde(default)]
    prefix: String,
    secret_name: String,
    #[serde(default = "yes")]
    path_style: bool,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    server_side_encryption: String,
    #[serde(default, rename = "kmsKeyID")]
    kms_key_id: String,
}

impl AllowedStore {
    fn store(&self) -> Store {
        Store {
            directory: String::new(),
            endpoint: self.endpoint.trim_end_matches('/').to_owned(),
            bucket: self.bucket.clone(),
            region: self.region.clone(),
            path_style: self.path_style,
            server_side_encryption: self.server_side_encryption.clone(),
            kms_key_id: self.kms_key_id.clone(),
        }
    }
}

fn region() -> String {
    "us-east-1".into()
}

fn yes() -> bool {
    true
}

impl AllowedBackups {
    /// `endpoints`: those of teams' own stores.
    pub(super) fn read(self, endpoints: &[String]) -> Result<Backups, String> {
        let mut backups = Backups { peers: self.peers, ..Backups::default() };
        backups.concurrent = self.concurrent.unwrap_or(CONCURRENT).max(1);
        for endpoint in endpoints {
            if port(endpoint).is_none() {
                return Err(format!(
                    "writers.backups.endpoints: {endpoint} is no URL such as https://s3.example.com:9000"
                ));
            }
            backups.endpoints.push(endpoint.trim_end_matches('/').to_owned());
        }
        for allowed in self.stores {
            let store = allowed.store();
            let AllowedStore { name, endpoint, bucket, prefix, secret_name, namespaces, .. } = allowed;
            let of = |field: &str| format!("backups.stores: {name}: {field}");
            if backups.store(&name).is_some() {
                return Err(of("two stores have this name"));
            }
            if port(&endpoint).is_none() {
                return Err(of(&format!("endpoint: {endpoint} is no URL such as https://s3.example.com:9000")));
            }
            if name.is_empty() || bucket.is_empty() || secret_name.is_empty() {
                return Err(of("name, bucket and secretName must not be empty"));
            }
            if let Some((key, what)) = store.encryption_problem() {
                return Err(of(&format!("{key} is {what}")));
            }
            let prefix = prefix.trim_matches('/').to_owned();
            backups.stores.push(BackupStore { name, store, prefix, secret: secret_name, namespaces });
        }
        if let Some(DefaultBackups { store, schedule, time_zone, keep }) = &self.default {
            let wrong = |field: &str, why: &str| Err(format!("backups.default.{field}: {why}"));
            if backups.store(store).is_none() {
                return wrong("store", &format!("no store {store} is in backups.stores"));
            }
            if let Err(why) = times::check(schedule, time_zone) {
                return Err(format!("backups.default: {}", why.trim_start_matches("spec.")));
            }
            if [keep.last, keep.hourly, keep.daily, keep.weekly] == [0; 4] {
                return wrong("keep", "with nothing to keep no backup is of use");
            }
        }
        Ok(Backups { default: self.default, ..backups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;

    #[test]
    fn an_endpoint_has_a_port() {
        for (url, wanted) in [
            ("https://s3.example.com", Some(443)),
            ("http://10.0.0.1/", Some(80)),
            ("https://[fd00::1]:9000/x", Some(9000)),
            ("https://[fd00::1]", Some(443)),
            ("s3.example.com", None),
            ("ftp://a", None),
            ("https://user@a", None),
            ("https://", None),
        ] {
            assert_eq!(port(url), wanted, "{url}");
        }
    }

    #[test]
    fn stores_in_the_meta_cluster_are_named_unless_somebody_says_where_they_are() {
        use crate::meta_cluster::addresses::network;
        let text = r#"{"backups": {"peers": PEERS, "stores": [
            {"name": "a", "endpoint": "http://10.1.0.7:9000", "bucket": "b", "secretName": "s"},
            {"name": "b", "endpoint": "https://[fd00:1::7]", "bucket": "b", "secretName": "s"},
            {"name": "c", "endpoint": "https://minio.stores.svc:9000", "bucket": "b", "secretName": "s"},
            {"name": "d", "endpoint": "https://s3.example.com", "bucket": "b", "secretName": "s"},
            {"name": "e", "endpoint": "https://10.2.0.7", "bucket": "b", "secretName": "s"}]},
            "writers": {"backups": {"endpoints": ["https://minio.example.com:9000", "https://minio.stores.svc.cluster.local"]}}}"#;
        let read = |peers: &str| Config::parse(&text.replace("PEERS", peers)).unwrap().backups;
        let nets = ["10.1.0.0/16", "fd00:1::/64"].map(|net| network(net).unwrap());
        let meta = MetaRanges { pods: nets.into(), ..MetaRanges::default() };
        let resolved = |host: &str| match host {
            "minio.example.com" => vec!["10.1.9.9".parse().unwrap()],
            "s3.example.com" => vec!["203.0.113.9".parse().unwrap()],
            _ => vec![],
        };
        let found = read("[]").out_of_reach(&meta, resolved);
        let starts = [
            "backups.stores: a: 10.1.0.7 is at 10.1.0.7, where this cluster has its pods (10.1.0.0/16). ",
            "backups.stores: b: fd00:1::7 is at fd00:1::7, where this cluster has its pods (fd00:1::/64). ",
            "backups.stores: c: minio.stores.svc is a Service of this cluster. ",
            "writers.backups.endpoints: minio.example.com is at 10.1.9.9, where this cluster has its pods (10.1.0.0/16). ",
            "writers.backups.endpoints: minio.stores.svc.cluster.local is a Service of this cluster. ",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (said, start) in found.iter().zip(starts) {
            assert!(said.starts_with(start) && said.contains("set backups.peers"), "{said}");
        }
        assert_eq!(read(r#"[{"ipBlock": {"cidr": "10.1.0.0/16"}}]"#).out_of_reach(&meta, resolved), [""; 0]);
    }

    #[test]
    fn stores_are_read_and_a_wrong_one_is_named() {
        let store =
            "{name: main, endpoint: 'https://s3:9000/', bucket: b, prefix: /p/, secretName: s, namespaces: [etcds]}";
        let read = |stores: &str| Config::parse(&format!("backups: {{stores: [{stores}]}}")).map(|c| c.backups);
        let backups = read(store).unwrap();
        assert_eq!((backups.concurrent, backups.ports()), (4, vec![9000]));
        let main = backups.store("main").unwrap();
        assert_eq!((&*main.store.endpoint, &*main.prefix, main.store.path_style), ("https://s3:9000", "p", true));
        assert_eq!(main.namespaces, ["etcds"]);
        assert!(read(&format!("{store}, {store}")).unwrap_err().contains("main: two stores"));
        let wrong = "{name: x, endpoint: s3, bucket: b, secretName: s}";
        assert!(read(wrong).unwrap_err().contains("backups.stores: x: endpoint: s3 is no URL"));
        assert!(!read("").unwrap().are_enabled());
        let encrypts =
            |how: &str| read(&format!("{{name: x, endpoint: 'https://s3', bucket: b, secretName: s, {how}}}"));
        let kms = encrypts("serverSideEncryption: 'aws:kms', kmsKeyID: k").unwrap().stores.remove(0).store;
        assert_eq!((&*kms.server_side_encryption, &*kms.kms_key_id), ("aws:kms", "k"));
        let why = encrypts("serverSideEncryption: AES256, kmsKeyID: k").unwrap_err();
        assert!(why.starts_with("backups.stores: x: kmsKeyID is a key that goes with"), "{why}");
        let default = |text: &str| {
            let text = format!("backups: {{stores: [{store}], default: {text}}}");
            Config::parse(&text).map(|c| (c.backups.default, c.unknown))
        };
        let (found, unknown) = default("{store: main, schedule: 0 3 * * *, keep: {last: 1}}").unwrap();
        let found = found.unwrap();
        assert_eq!((&*found.time_zone, found.keep.last, found.keep.daily, unknown.len()), ("UTC", 1, 7, 0));
        assert_eq!(default("null").unwrap().0, None);
        for (text, word) in [
            ("{store: other, schedule: 0 3 * * *}", "backups.default.store: no store other"),
            ("{store: main, schedule: 0 3}", "backups.default: schedule: 0 3 is no cron"),
            ("{store: main, schedule: 0 3 * * *, timeZone: Moon}", "backups.default: timeZone: Moon"),
            ("{store: main, schedule: 0 3 * * *, keep: {last: 0, daily: 0, weekly: 0}}", "backups.default.keep"),
        ] {
            let why = default(text).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
        let teams = |endpoint: &str| Config::parse(&format!("writers: {{backups: {{endpoints: ['{endpoint}']}}}}"));
        let backups = teams("https://s3.team:9443/").unwrap().backups;
        assert_eq!((backups.are_enabled(), backups.ports()), (true, vec![9443]));
        assert_eq!(backups.endpoints, ["https://s3.team:9443"]);
        assert!(teams("*").unwrap_err().contains("writers.backups.endpoints: * is no URL"));
    }
}
