//! A cluster of three nodes: what passes between them, and what a node that loses its power takes with it.

use std::{
    net::{SocketAddr, TcpStream},
    path::Path,
    thread,
    time::Duration,
};

use berth_devcluster::{Cluster, Config};

use super::{Up, claim, etcd, http_get, require_real, traces::Traces, until, until_within};

const NAME: &str = "t-nodes";

#[test]
#[ignore = "make test-all: as what needs three nodes with real pods, the e2e test `ha`"]
fn nodes_reach_each_other_and_one_can_lose_its_power() {
    require_real();
    let cluster = Up::with(&Config { volumes: 5, nodes: 3, ..Config::named(NAME) });
    assert_eq!(cluster.0.nodes(), ["t-nodes-1", "t-nodes-2", "t-nodes-3"]);
    let zones = "jsonpath={range .items[*]}{.spec.podCIDR} {.metadata.labels.topology\\.kubernetes\\.io/zone};{end}";
    let zones = cluster.kubectl(&["get", "nodes", "-o", zones]);
    let slot = cluster.0.slot();
    let expected: Vec<_> = (1..=3).map(|n| format!("{} zone-{n};", slot.pod_cidr_of_node(n))).collect();
    assert_eq!(zones, expected.concat());

    for number in 1..=3 {
        let name = format!("on-{number}");
        cluster.apply(&format!("{}\n---\n{}", claim(&name), etcd_on(&cluster, number)));
        cluster.apply(&format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: default}},
               spec: {{type: LoadBalancer, selector: {{app: {name}}}, ports: [{{port: 2379}}]}}}}"
        ));
    }
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/on-1", "pod/on-2", "pod/on-3", "--timeout=120s"]);
    volumes_are_on_their_nodes(&cluster);
    everybody_reaches_everybody(&cluster);
    cluster.kubectl(&["exec", "on-3", "--", "etcdctl", "put", "key", "survives"]);
    a_killed_node_is_gone_until_it_is_started(&cluster);
    until("the data of the pod on the node that was off", || {
        try_exec(&cluster, &["on-3", "--", "etcdctl", "get", "key"]).contains("survives")
    });
    everybody_reaches_everybody(&cluster);

    cluster.0.stop().unwrap();
    assert_eq!(Traces::find().processes_of(NAME), Vec::<String>::new());
    cluster.0.start(Duration::from_mins(3)).unwrap();
    until("the data of all pods", || try_exec(&cluster, &["on-3", "--", "etcdctl", "get", "key"]).contains("survives"));
    everybody_reaches_everybody(&cluster);

    // Also what a node leaves that is off at the time.
    cluster.0.kill_node(2).unwrap();
    drop(cluster);
    let after = Traces::find();
    assert_eq!(after.of(NAME), Vec::<String>::new());
    assert_eq!(after.of_free_slot(slot), Vec::<String>::new());
}

#[test]
fn a_cluster_without_nodes_is_a_control_plane_that_comes_back() {
    require_real();
    let cluster = Up::with(&Config { nodes: 0, ..Config::named("t-none") });
    assert_eq!(cluster.0.nodes(), Vec::<String>::new());
    cluster.kubectl(&["create", "configmap", "kept"]);
    cluster.0.stop().unwrap();
    cluster.0.start(Duration::from_mins(1)).unwrap();
    cluster.kubectl(&["get", "configmap", "kept"]);
    assert_eq!(cluster.kubectl(&["get", "nodes,pv", "-o", "name"]), "");
    let components: Vec<_> =
        cluster.0.status().unwrap().components.into_iter().map(|component| component.name).collect();
    assert_eq!(components, ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "supervisor"]);
    drop(cluster);
    assert_eq!(Traces::find().of("t-none"), Vec::<String>::new());
}

fn volumes_are_on_their_nodes(cluster: &Up) {
    for number in 1..=3 {
        let pv = cluster.kubectl(&["get", "pvc", &format!("on-{number}"), "-o", "jsonpath={.spec.volumeName}"]);
        let index: u8 = pv.trim_start_matches("local-").parse().unwrap();
        assert_eq!((index - 1) % 3 + 1, number, "the volume of the pod on node {number} is {pv}");
    }
}

/// Pods by address and by name from every node to every node, and the host by node ports and load balancers.
fn everybody_reaches_everybody(cluster: &Up) {
    for from in 1..=3 {
        for to in 1..=3 {
            let address = || pod_address(cluster, to);
            let service = format!("http://on-{to}.default.svc:2379");
            until(&format!("the pod on node {from} to reach the one on node {to}, by address and by name"), || {
                [format!("http://{}:2379", address()), service.clone()].iter().all(|url| {
                    let pod = format!("on-{from}");
                    let flag = format!("--endpoints={url}");
                    try_exec(cluster, &[&pod, "--", "etcdctl", &flag, "endpoint", "health"]).contains("is healthy")
                })
            });
        }
        let field =
            |path: &str| cluster.kubectl(&["get", "service", &format!("on-{from}"), "-o", &format!("jsonpath={path}")]);
        let node_port = field("{.spec.ports[0].nodePort}");
        let balancer = field("{.status.loadBalancer.ingress[0].ip}");
        let mut addresses: Vec<_> = (1..=3).map(|n| format!("{}:{node_port}", cluster.0.node_address(n))).collect();
        addresses.push(format!("{balancer}:2379"));
        for address in addresses {
            until(&format!("the host to reach node {from}'s pod at {address}"), || {
                http_get(&address, "/health").contains("true")
            });
        }
    }
}

fn a_killed_node_is_gone_until_it_is_started(cluster: &Up) {
    let addresses = [format!("{}:10250", cluster.0.node_address(3)), format!("{}:2379", pod_address(cluster, 3))];
    for address in &addresses {
        assert!(answers(address), "{address} before the node is killed");
    }
    cluster.0.kill_node(3).unwrap();
    for address in &addresses {
        assert!(!answers(address), "{address} after");
    }
    let directory = berth_devcluster::paths::state().join(NAME).join("n3");
    let left = || {
        let mut traces = Traces::processes_of_node(&directory);
        let places =
            ["/run/netns/berth-t-nodes.n3", "/sys/fs/cgroup/berth-t-nodes/n3", "/sys/fs/cgroup/cpu/berth-t-nodes/n3"];
        traces.extend(places.iter().filter(|place| Path::new(place).exists()).map(ToString::to_string));
        traces
    };
    assert_eq!(left(), Vec::<String>::new());
    let status = cluster.0.status().unwrap();
    assert_eq!(status.killed, ["t-nodes-3"]);
    assert!(status.components.iter().all(|component| component.alive), "{status:?}");
    // As long as several reconciles of the supervisor.
    thread::sleep(Duration::from_secs(2));
    Cluster::up(&Config::named(NAME)).unwrap();
    assert_eq!(left(), Vec::<String>::new(), "neither the supervisor nor another `up` starts it");
    assert!(cluster.0.load_images(&[]).is_err(), "an image would be missing on that node");
    let minutes = Duration::from_mins(4);
    until_within(minutes, "the killed node to be called not ready", || ready(cluster, 3) == "Unknown");
    assert_eq!([ready(cluster, 1), ready(cluster, 2)], ["True", "True"]);

    cluster.0.start_node(3).unwrap();
    until_within(minutes, "the node that was started to be ready", || ready(cluster, 3) == "True");
    assert_eq!(cluster.0.status().unwrap().killed, Vec::<String>::new());
    cluster.0.start_node(3).unwrap();
}

/// A pod with an etcd and a volume, on one node by its label: a volume is chosen for a pod that is scheduled.
fn etcd_on(cluster: &Up, number: u8) -> String {
    let (name, node) = (format!("on-{number}"), cluster.0.nodes()[usize::from(number) - 1].clone());
    let selector = format!("spec:\n  nodeSelector: {{kubernetes.io/hostname: {node}}}");
    etcd(&name, &name).replacen("spec:", &selector, 1)
}

fn pod_address(cluster: &Up, number: u8) -> String {
    cluster.kubectl(&["get", "pod", &format!("on-{number}"), "-o", "jsonpath={.status.podIP}"])
}

fn ready(cluster: &Up, number: u8) -> String {
    let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    cluster.kubectl(&["get", "node", &format!("{NAME}-{number}"), "-o", path])
}

/// What a command in a pod says; nothing of one that fails.
fn try_exec(cluster: &Up, arguments: &[&str]) -> String {
    let output = cluster.0.kubectl().unwrap().arg("exec").args(arguments).output().unwrap();
    if output.status.success() {
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    } else {
        String::new()
    }
}

fn answers(address: &str) -> bool {
    let address: SocketAddr = address.parse().unwrap();
    TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok()
}
