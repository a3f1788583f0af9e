//! VPCs: two with the same subnet, and pods with the same address in each.

use std::{fs, path::Path, process::Output, time::Duration};

use berth_devcluster::{Cluster, Config, Vpc, binaries, versions};
use serde_json::{Value, json};

use super::{Up, etcd, require_real, traces::Traces, until};

const NAME: &str = "t-vpcs";
const ADDRESS: &str = "172.20.0.10";
const FAR: &str = "172.20.0.12";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const STATUS: &str = "jsonpath={.metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status}";

#[test]
fn pods_of_two_vpcs_with_one_subnet_do_not_meet() {
    require_real();
    let mut cluster = Up::with(&config(NAME, 1, &["a"]));
    // A cluster that runs is given another one.
    cluster.0 = Cluster::up(&config(NAME, 1, &["a", "b"])).unwrap();
    let vpcs = ["a", "b"].map(|name| cluster.0.vpc(name).unwrap());
    attach_a_pod_to_each(&cluster, &vpcs);
    each_vpc_has_its_own(&cluster, &vpcs);
    a_pool_gives_addresses(&cluster, &vpcs);
    what_cannot_be_attached_says_why(&cluster, &vpcs[0]);
    del_needs_no_api(&cluster, &vpcs);

    drop(cluster);
    assert_eq!(Traces::find().of(NAME), Vec::<String>::new());
}

#[test]
#[ignore = "make test-all: as what needs several nodes with real pods"]
fn a_vpc_reaches_over_nodes_and_outlives_their_power() {
    require_real();
    let cluster = Up::with(&config("t-vpcs-far", 2, &["a", "b"]));
    let vpcs = ["a", "b"].map(|name| cluster.0.vpc(name).unwrap());
    attach_a_pod_to_each(&cluster, &vpcs);
    let [a, b] = &vpcs;
    let far = || answers_at(a, FAR);
    assert_eq!(far(), "", "nobody is there yet");
    cluster.apply(&pod_on(&cluster.0.nodes()[1], "far-a", &asked(&a.master(), &format!("{FAR}/24"))));
    until("the pod on the other node", || far().contains(" far-a,"));
    assert_eq!(answers_at(b, FAR), "", "the other VPC has nobody there");
    cluster.0.kill_node(2).unwrap();
    assert_eq!(far(), "", "its node is off");
    cluster.0.start_node(2).unwrap();
    until("the pod of the node that is back", || far().contains(" far-a,"));
    cluster.0.stop().unwrap();
    cluster.0.start(Duration::from_mins(2)).unwrap();
    until("all pods after a stop", || {
        far().contains(" far-a,") && answers(a).contains(" own-a,") && answers(b).contains(" own-b,")
    });
}

fn config(name: &str, nodes: u8, vpcs: &[&str]) -> Config {
    let vpcs = vpcs.iter().map(|vpc| vpc.parse().unwrap()).collect();
    Config { volumes: 0, nodes, vpcs, ..Config::named(name) }
}

fn attach_a_pod_to_each(cluster: &Up, vpcs: &[Vpc]) {
    for vpc in vpcs {
        cluster.apply(&vpc.definition("default").to_string());
        cluster.apply(&pod(cluster, &format!("own-{}", vpc.name()), &asks(vpc, ADDRESS)));
    }
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/own-a", "pod/own-b", "--timeout=90s"]);
}

/// The address is the same, who answers is not.
fn each_vpc_has_its_own(cluster: &Up, vpcs: &[Vpc]) {
    for vpc in vpcs {
        let name = format!("own-{}", vpc.name());
        until(&format!("{name} to answer in its VPC"), || answers(vpc).contains(&format!(" {name},")));
        let status: Vec<Value> = serde_json::from_str(&cluster.kubectl(&["get", "pod", &name, "-o", STATUS])).unwrap();
        let ip = cluster.kubectl(&["get", "pod", &name, "-o", "jsonpath={.status.podIP}"]);
        assert_eq!((&status[0]["default"], &status[0]["ips"]), (&json!(true), &json!([ip])), "{status:?}");
        let expected = json!({
            "name": format!("default/{}", vpc.master()), "default": false, "interface": "net1", "ips": [ADDRESS], "dns": {},
            "mac": mac(vpc),
        });
        assert_eq!(status[1], expected);
        assert_eq!(neighbour(vpc), mac(vpc), "who answered in VPC {}", vpc.name());
    }
}

/// A pod that asks for no address has one of the pool, and says which.
fn a_pool_gives_addresses(cluster: &Up, [a, b]: &[Vpc; 2]) {
    cluster.apply(&a.pool_definition("default").to_string());
    cluster.apply(&pod(cluster, "given-a", &format!("{}-pool", a.master())));
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/given-a", "--timeout=90s"]);
    let status: Vec<Value> = serde_json::from_str(&cluster.kubectl(&["get", "pod", "given-a", "-o", STATUS])).unwrap();
    assert_eq!(status[1]["ips"], json!(["172.20.0.201"]));
    assert!(answers_at(a, "172.20.0.201").contains(" given-a,"));
    assert_eq!(answers_at(b, "172.20.0.201"), "", "the other VPC has nobody there");
}

/// An Event of the pod names the object and the field, nothing stays attached, and the pod can be deleted.
fn what_cannot_be_attached_says_why(cluster: &Up, vpc: &Vpc) {
    let before = attachments(cluster);
    let definition = |name: &str, config: &str| {
        let definition = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config},
        });
        cluster.apply(&definition.to_string());
    };
    let of_team = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "of-team", "namespace": "kube-public"}, "spec": {"config": "{}"},
    });
    cluster.apply(&of_team.to_string());
    definition("no-json", "{");
    definition("no-plugin", r#"{"type": "nothing"}"#);
    definition("no-master", r#"{"type": "macvlan", "master": "vpc-z", "ipam": {"type": "static"}}"#);
    let ignores = json!({
        "type": "macvlan", "master": vpc.master(), "ipam": {"type": "static", "addresses": [{"address": "172.20.0.99/24"}]},
    });
    definition("ignores", &ignores.to_string());
    let cases = [
        (
            "isolated",
            "kube-public/of-team".to_owned(),
            "namespaceIsolation is on, and it asks for NetworkAttachmentDefinition kube-public/of-team",
        ),
        ("missing", "missing".to_owned(), "NetworkAttachmentDefinition default/missing: the API server says 404"),
        ("no-json", "no-json".to_owned(), "NetworkAttachmentDefinition default/no-json: spec.config is no JSON"),
        (
            "no-plugin",
            "no-plugin".to_owned(),
            "NetworkAttachmentDefinition default/no-plugin: type nothing: there is no such program",
        ),
        ("no-master", "no-master".to_owned(), "NetworkAttachmentDefinition default/no-master: plugin macvlan: "),
        (
            "ignores",
            asked("ignores", "172.20.0.11/24"),
            "asks for ips 172.20.0.11/24 and the plugin gave 172.20.0.99/24",
        ),
        ("address", asked(&vpc.master(), "172.20.0.300/24"), "[0].ips[0]: `172.20.0.300/24` is no address"),
    ];
    for (name, networks, _) in &cases {
        cluster.apply(&pod(cluster, name, networks));
    }
    for (name, _, said) in &cases {
        let events = format!("--field-selector=reason=FailedCreatePodSandBox,involvedObject.name={name}");
        until(&format!("an Event of {name} with `{said}`"), || {
            cluster.kubectl(&["get", "events", &events, "-o", "jsonpath={.items[*].message}"]).contains(said)
        });
        cluster.kubectl(&["delete", "pod", name, "--wait=false"]);
    }
    for (name, _, _) in &cases {
        cluster.kubectl(&["wait", "--for=delete", &format!("pod/{name}"), "--timeout=60s"]);
    }
    until("nothing to be left of them", || attachments(cluster) == before);
    assert!(answers(vpc).contains(" own-a,"), "the pod that is attached is left alone");
}

/// What was attached is known on the node. The address is free again then, and the other VPC's pod notices nothing.
fn del_needs_no_api(cluster: &Up, vpcs: &[Vpc]) {
    let before = attachments(cluster).len();
    let (kubeconfig, away) = (cluster.0.dir().join("cni.kubeconfig"), cluster.0.dir().join("away"));
    fs::rename(&kubeconfig, &away).unwrap();
    cluster.kubectl(&["delete", "pod", "own-a", "--timeout=60s"]);
    until("the pod to be detached", || attachments(cluster).len() == before - 1);
    until("nobody to answer", || answers(&vpcs[0]).is_empty());
    assert!(answers(&vpcs[1]).contains(" own-b,"), "the other VPC");
    // The positive control: without credentials it cannot attach, and the pod says so.
    cluster.apply(&pod(cluster, "next-a", &asks(&vpcs[0], ADDRESS)));
    let events = "--field-selector=reason=FailedCreatePodSandBox,involvedObject.name=next-a";
    until("an Event that names the kubeconfig", || {
        let said = cluster.kubectl(&["get", "events", events, "-o", "jsonpath={.items[*].message}"]);
        said.contains(&kubeconfig.display().to_string())
    });
    fs::rename(&away, &kubeconfig).unwrap();
    until("the next pod with that address", || answers(&vpcs[0]).contains(" next-a,"));
}

/// An etcd of that name on the first node.
fn pod(cluster: &Up, name: &str, networks: &str) -> String {
    pod_on(&cluster.0.nodes()[0], name, networks)
}

fn pod_on(node: &str, name: &str, networks: &str) -> String {
    let annotations = json!({NETWORKS: networks});
    let pod = etcd(name, "").replacen("labels:", &format!("annotations: {annotations}, labels:"), 1);
    pod.replacen("spec:\n", &format!("spec:\n  nodeName: {node}\n"), 1)
}

fn asks(vpc: &Vpc, address: &str) -> String {
    json!([{"name": vpc.master(), "ips": [format!("{address}/24")], "mac": mac(vpc)}]).to_string()
}

fn asked(name: &str, address: &str) -> String {
    json!([{"name": name, "ips": [address]}]).to_string()
}

fn mac(vpc: &Vpc) -> String {
    format!("02:00:00:00:00:0{}", vpc.name())
}

/// The members of whichever etcd has the address, asked from inside a VPC; nothing if none answers.
fn answers(vpc: &Vpc) -> String {
    answers_at(vpc, ADDRESS)
}

fn answers_at(vpc: &Vpc, address: &str) -> String {
    let etcdctl = binaries::path("etcd", versions::ETCD, "etcdctl").unwrap();
    let endpoint = format!("--endpoints=http://{address}:2379");
    let arguments = [&*endpoint, "--dial-timeout=1s", "--command-timeout=2s", "member", "list"];
    said(&vpc.command(&etcdctl.to_string_lossy()).args(arguments).output().unwrap())
}

/// The hardware address that the router has seen.
fn neighbour(vpc: &Vpc) -> String {
    let all = said(&vpc.command("ip").args(["neigh", "show", ADDRESS]).output().unwrap());
    all.split_whitespace().skip_while(|word| *word != "lladdr").nth(1).unwrap_or_default().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The sandboxes that are attached.
fn attachments(cluster: &Up) -> Vec<String> {
    let entries = fs::read_dir(Path::new(cluster.0.dir()).join("attachments")).unwrap();
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
