//! Who there is, and who may reach whom.

use super::*;
use berth_testkit::policies::{End, Pod, Protocol};
use std::collections::BTreeSet;

/// What a row of the matrix names.
pub(super) struct Party {
    pub(super) name: &'static str,
    pub(super) pod: Option<Pod>,
    address: &'static str,
}

impl Party {
    pub(super) fn is_acmes(&self) -> bool {
        self.pod.as_ref().is_some_and(|p| p.namespace == Fixture::cp_namespace())
    }

    pub(super) fn end(&self) -> End<'_> {
        self.pod.as_ref().map_or_else(|| End::Address(self.address.parse().unwrap()), End::Pod)
    }
}

/// A connection as one end sees it: egress or ingress, from, to, protocol, port.
pub(super) type Connection = (&'static str, &'static str, &'static str, Protocol, u16);

/// Pods of acme, of another tenant of the same team, of the meta cluster; and addresses.
pub(super) fn parties() -> Vec<Party> {
    let other = names::control_plane_namespace("team-a", "other");
    let cp_namespace = Fixture::cp_namespace();
    let component = |ns: &str, c: &str| (ns.to_owned(), json!({"app.kubernetes.io/component": c}));
    let gateway = json!({"app.kubernetes.io/name": "berth", "app.kubernetes.io/component": "gateway"});
    let component_of = |ns: &str| (ns.to_owned(), gateway.clone());
    let operator = json!({"app.kubernetes.io/name": "berth", "app.kubernetes.io/component": "operator"});
    let pods = [
        ("etcd", component(&cp_namespace, "etcd"), "10.1.0.1"),
        ("etcd-1", component(&cp_namespace, "etcd"), "10.1.0.2"),
        ("apiserver", component(&cp_namespace, "kube-apiserver"), "10.1.0.3"),
        ("controller-manager", component(&cp_namespace, "kube-controller-manager"), "10.1.0.4"),
        ("scheduler", component(&cp_namespace, "kube-scheduler"), "10.1.0.5"),
        ("backup", component(&cp_namespace, "etcd-backup"), "10.1.0.7"),
        ("stray", (cp_namespace.clone(), json!({"app": "debug"})), "10.1.0.6"),
        ("other-etcd", component(&other, "etcd"), "10.1.1.1"),
        ("other-backup", component(&other, "etcd-backup"), "10.1.1.3"),
        ("other-apiserver", component(&other, "kube-apiserver"), "10.1.1.2"),
        ("operator", ("berth-system".into(), operator.clone()), "10.1.2.1"),
        ("operators-neighbour", ("berth-system".into(), json!({"app": "x"})), "10.1.2.2"),
        ("operator-by-name", ("berth-system".into(), json!({"app.kubernetes.io/name": "berth"})), "10.1.2.4"),
        ("operator-by-component", component("berth-system", "operator"), "10.1.2.5"),
        ("false-operator", ("team-a".into(), operator), "10.1.2.3"),
        ("dns", ("kube-system".into(), json!({"k8s-app": "kube-dns"})), "10.1.3.1"),
        ("dns-neighbour", ("kube-system".into(), json!({"k8s-app": "metrics"})), "10.1.3.3"),
        ("false-dns", ("team-a".into(), json!({"k8s-app": "kube-dns"})), "10.1.3.2"),
        ("prometheus", ("monitoring".into(), json!({"app": "prometheus"})), "10.1.4.1"),
        ("webhook", ("policy-webhooks".into(), json!({"app": "webhook"})), "10.1.6.1"),
        ("webhooks-neighbour", ("policy-webhooks".into(), json!({"app": "x"})), "10.1.6.2"),
        ("false-webhook", ("team-a".into(), json!({"app": "webhook"})), "10.1.6.3"),
        ("gateway", component_of("berth-gateway"), "10.1.7.1"),
        ("gateways-neighbour", ("berth-gateway".into(), json!({"app": "x"})), "10.1.7.2"),
        ("false-gateway", component_of("team-a"), "10.1.7.3"),
        ("foreign", ("team-a".into(), json!({"app.kubernetes.io/component": "kube-apiserver"})), "10.1.5.1"),
    ];
    let pods = pods.map(|(name, (namespace, labels), address)| {
        let labels = serde_json::from_value(labels).unwrap();
        let pod = Pod { namespace, labels, ip: Some(address.parse().unwrap()), ports: BTreeMap::new() };
        Party { name, pod: Some(pod), address }
    });
    let addresses = [
        ("node", "192.168.0.7"),
        // Ranges are whole: of each an address in either half.
        ("first-pod", "10.1.0.0"),
        ("last-pod", "10.1.255.255"),
        ("meta-service", "10.96.0.1"),
        ("last-service", "10.96.255.255"),
        ("link-local", "169.254.0.1"),
        ("meta-apiserver", "192.168.9.9"),
        ("metadata", "169.254.169.254"),
        ("metadata-alibaba", "100.100.100.200"),
        ("metadata-azure", "168.63.129.16"),
        ("metadata-oracle", "192.0.0.192"),
        ("metadata-v6", "fd00:ec2::254"),
        ("pod-identity-v6", "fd00:ec2::23"),
        ("metadata-google-v6", "fd20:ce::254"),
        ("metadata-oracle-v6", "fd00:c1::a9fe:a9fe"),
        ("metadata-alibaba-v6", "fd00:100::100:200"),
        ("metadata-akamai-v6", "fd00:a9fe:a9fe::1"),
        ("metadata-scaleway-v6", "fd00:42::42"),
        ("link-local-v6", "fe80::1"),
        ("last-link-local-v6", "febf::1"),
        ("worker", "172.20.0.10"),
        ("last-worker", "172.20.255.255"),
        ("node-among-workers", "172.20.255.7"),
        ("private-10", "10.0.0.1"),
        ("last-private-10", "10.255.255.255"),
        ("private-172", "172.16.0.1"),
        ("last-private-172", "172.31.255.255"),
        ("private-192", "192.168.0.1"),
        ("last-private-192", "192.168.255.255"),
        ("private-100", "100.64.0.1"),
        ("last-private-100", "100.127.255.255"),
        ("private-v6", "fc00::1"),
        ("last-private-v6", "fdff::1"),
        ("nat64-private-10", "64:ff9b::10.0.0.1"),
        ("nat64-last-private-10", "64:ff9b::10.255.255.255"),
        ("nat64-private-172", "64:ff9b::172.16.0.1"),
        ("nat64-last-private-172", "64:ff9b::172.31.255.255"),
        ("nat64-last-private-192", "64:ff9b::192.168.255.255"),
        ("nat64-private-100", "64:ff9b::100.64.0.1"),
        ("nat64-last-private-100", "64:ff9b::100.127.255.255"),
        ("nat64-pod", "64:ff9b::10.1.0.3"),
        ("nat64-last-pod", "64:ff9b::10.1.255.255"),
        ("nat64-service", "64:ff9b::10.96.0.1"),
        ("nat64-last-service", "64:ff9b::10.96.255.255"),
        ("nat64-link-local", "64:ff9b::169.254.0.1"),
        ("nat64-node", "64:ff9b::192.168.0.7"),
        ("nat64-apiserver", "64:ff9b::192.168.9.9"),
        ("nat64-metadata", "64:ff9b::169.254.169.254"),
        ("nat64-alibaba", "64:ff9b::100.100.100.200"),
        ("nat64-azure", "64:ff9b::168.63.129.16"),
        ("nat64-oracle", "64:ff9b::192.0.0.192"),
        ("nat64-private-198", "64:ff9b::198.18.0.1"),
        ("nat64-last-private-198", "64:ff9b::198.19.255.255"),
        ("nat64-private-240", "64:ff9b::240.0.0.1"),
        ("nat64-last-private-240", "64:ff9b::255.255.255.254"),
        ("private-198", "198.18.0.1"),
        ("last-private-198", "198.19.255.255"),
        ("private-240", "240.0.0.1"),
        ("last-private-240", "255.255.255.254"),
        ("6to4-pod", "2002:a01:3::1"),
        ("last-6to4", "2002:ffff::1"),
        ("own-nat64", "64:ff9b:1::1"),
        ("last-own-nat64", "64:ff9b:1:ffff::1"),
        ("nat64-internet", "64:ff9b::203.0.113.9"),
        ("internet", "203.0.113.9"),
        ("internet-v6", "2001:db8::1"),
    ];
    pods.into_iter().chain(addresses.map(|(name, address)| Party { name, pod: None, address })).collect()
}

/// The ports of the list; those beside them, which a range would take in; and the last one.
pub(super) fn ports() -> impl Iterator<Item = (Protocol, u16)> {
    let listed = [53, 443, 2379, 2380, 2381, 6443, 8443, 9000, 10257, 10259];
    let ports: BTreeSet<u16> = listed.into_iter().flat_map(|port| [port - 1, port, port + 1]).chain([65535]).collect();
    ports.into_iter().flat_map(|port| [(Protocol::Tcp, port), (Protocol::Udp, port)])
}

/// Every connection that has an end in acme's namespace and is allowed: `from to ports`, by TCP unless it says otherwise. `ingress:` is
/// what would be let in, but is not let out.
const ALLOWED: &str = "
    apiserver            etcd etcd-1             2379
    operator             etcd etcd-1             2379
    backup               etcd etcd-1             2379
    backup               dns                     53 53/UDP
    backup               internet                9000
    etcd                 etcd-1                  2380
    etcd-1               etcd                    2380
    prometheus           etcd etcd-1             2381
    prometheus           controller-manager      10257
    prometheus           scheduler               10259
    controller-manager scheduler                                         apiserver  6443
    operator operators-neighbour operator-by-name operator-by-component  apiserver  6443
    other-backup                                                         apiserver  6443
    false-operator dns dns-neighbour                                     apiserver  6443
    false-dns prometheus foreign other-etcd other-apiserver              apiserver  6443
    ingress: etcd etcd-1 stray backup                                    apiserver  6443
    node meta-service meta-apiserver metadata metadata-alibaba           apiserver  6443
    metadata-azure metadata-oracle metadata-v6 link-local-v6             apiserver  6443
    first-pod last-pod last-service link-local last-link-local-v6        apiserver  6443
    nat64-last-pod nat64-last-service nat64-link-local                   apiserver  6443
    pod-identity-v6 metadata-google-v6 metadata-oracle-v6                apiserver  6443
    metadata-alibaba-v6 metadata-akamai-v6 metadata-scaleway-v6          apiserver  6443
    nat64-pod nat64-service nat64-node nat64-apiserver nat64-metadata    apiserver  6443
    nat64-alibaba nat64-azure nat64-oracle nat64-internet                apiserver  6443
    webhook webhooks-neighbour false-webhook                             apiserver  6443
    gateway gateways-neighbour false-gateway                             apiserver  6443
    worker last-worker node-among-workers internet internet-v6           apiserver  6443
    private-10 private-172 private-192 private-100 private-v6            apiserver  6443
    last-private-10 last-private-172 last-private-192 last-private-100   apiserver  6443
    last-private-v6 nat64-private-10 nat64-private-172                   apiserver  6443
    nat64-last-private-10 nat64-last-private-172 nat64-private-100       apiserver  6443
    nat64-last-private-192 nat64-last-private-100                        apiserver  6443
    private-198 last-private-198 private-240 last-private-240            apiserver  6443
    nat64-private-198 nat64-last-private-198 nat64-private-240           apiserver  6443
    nat64-last-private-240 6to4-pod last-6to4 own-nat64 last-own-nat64   apiserver  6443
    apiserver            dns                     53 53/UDP
    apiserver            webhook                 8443
    apiserver            worker last-worker internet internet-v6 nat64-internet  any
";

/// Without `backups.peers`, what is in the place of the row with the store.
const STORES_ANYWHERE: &str = "
    backup  internet internet-v6 nat64-internet worker last-worker                                      9000
    backup  private-10 last-private-10 private-172 last-private-172 private-192 last-private-192        9000
    backup  private-100 last-private-100 private-198 last-private-198 private-240 last-private-240      9000
    backup  private-v6 last-private-v6 last-6to4 own-nat64 last-own-nat64                               9000
    backup  nat64-private-10 nat64-last-private-10 nat64-private-172 nat64-last-private-172             9000
    backup  nat64-last-private-192 nat64-private-100 nat64-last-private-100 nat64-private-198           9000
    backup  nat64-last-private-198 nat64-private-240 nat64-last-private-240                             9000
";

pub(super) fn allowed() -> BTreeSet<Connection> {
    connections(ALLOWED)
}

/// Likewise where nobody says where stores are.
pub(super) fn allowed_without_peers() -> BTreeSet<Connection> {
    let is_store = |line: &&str| line.trim().starts_with("backup ") && line.contains(" internet ");
    let others: Vec<&str> = ALLOWED.lines().filter(|line| !is_store(line)).collect();
    connections(&[&others.join("\n"), STORES_ANYWHERE].concat())
}

/// Who of all that reach the API servers still does where clients come through the gateway.
const THROUGH_THE_GATEWAY: &str = "
    controller-manager scheduler gateway operator prometheus             apiserver  6443
";

/// Likewise where the platform's gateway is the only way in.
pub(super) fn allowed_through_the_gateway() -> BTreeSet<Connection> {
    let others: Vec<&str> = ALLOWED.lines().filter(|line| !line.ends_with(" apiserver  6443")).collect();
    connections(&[&others.join("\n"), THROUGH_THE_GATEWAY].concat())
}

fn connections(list: &str) -> BTreeSet<Connection> {
    let parties = parties();
    let party = |name: &str| parties.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("{name}"));
    let mut all = BTreeSet::new();
    for line in list.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (only_in, line) = line.strip_prefix("ingress: ").map_or((false, line), |rest| (true, rest));
        let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        let [from, to, ports] = columns.as_slice() else { panic!("{line}") };
        for (from, to) in from.split(' ').flat_map(|f| to.split(' ').map(move |t| (party(f), party(t)))) {
            for (protocol, port) in self::ports().filter(|(protocol, port)| listed(ports, *protocol, *port)) {
                let connection = |side| (side, from.name, to.name, protocol, port);
                all.extend((from.is_acmes() && !only_in).then(|| connection("egress")));
                all.extend(to.is_acmes().then(|| connection("ingress")));
            }
        }
    }
    all
}

fn listed(column: &str, protocol: Protocol, port: u16) -> bool {
    let name = match protocol {
        Protocol::Tcp => port.to_string(),
        Protocol::Udp => format!("{port}/UDP"),
    };
    column == "any" || column.split(' ').any(|p| p == name)
}
