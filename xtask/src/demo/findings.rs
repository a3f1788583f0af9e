//! What a look at a cluster gave, and what it means: facts in, one screen out.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

/// The oldest Kubernetes that Berth runs on, as `charts/*/Chart.yaml` has it.
const OLDEST: (u32, u32) = (1, 34);

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// There.
    Fine,
    /// Not as it should be; the demo goes on.
    Warning,
    /// The demo cannot go on.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The thing, in a word or two.
    pub(super) what: &'static str,
    /// How it is; where it is not fine, also what that means, or the way out.
    pub(super) said: String,
}

impl Finding {
    pub(super) fn fine(what: &'static str, said: impl Into<String>) -> Self {
        Self { level: Level::Fine, what, said: said.into() }
    }

    pub(super) fn warning(what: &'static str, said: impl Into<String>) -> Self {
        Self { level: Level::Warning, what, said: said.into() }
    }

    pub(super) fn missing(what: &'static str, said: impl Into<String>) -> Self {
        Self { level: Level::Missing, what, said: said.into() }
    }
}

/// How many things keep the demo from going on.
pub(super) fn missing(findings: &[Finding]) -> usize {
    findings.iter().filter(|f| f.level == Level::Missing).count()
}

/// All findings, a line or a few for each.
pub(super) fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { level, what, said } in findings {
        let level = match level {
            Level::Fine => "ok",
            Level::Warning => "WARNING",
            Level::Missing => "MISSING",
        };
        for (number, line) in said.lines().enumerate() {
            let (level, what) = if number == 0 { (level, *what) } else { ("", "") };
            let _ = writeln!(text, "  {level:<8} {what:<16} {line}");
        }
    }
    text
}

/// An image as the chart's values have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) repository: String,
    pub(super) tag: String,
}

impl Reference {
    /// `repository:tag`. The chart takes neither digests nor `latest`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') && !repository.contains('@') && tag != "latest" => {
                Ok(Self { repository: repository.to_owned(), tag: tag.to_owned() })
            }
            _ => Err(format!("`{text}` is not repository:tag, with a tag other than `latest`")),
        }
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

/// The operator's image and the agent's: given, or beside the operator's under the name `agent`.
pub(super) fn images(operator: Option<&str>, agent: Option<&str>) -> Result<(Reference, Reference), String> {
    let Some(operator) = operator else {
        return Err(
            "set IMAGE to the operator's image, repository:tag, in a registry that the cluster's nodes reach.\n\
                    `make images` builds it and the agent's into target/images"
                .to_owned(),
        );
    };
    let operator = Reference::parse(operator)?;
    let agent = match (agent, operator.repository.strip_suffix("operator")) {
        (Some(agent), _) => Reference::parse(agent)?,
        (None, Some(before)) => Reference { repository: format!("{before}agent"), tag: operator.tag.clone() },
        (None, None) => return Err(format!("which image is the agent's is not seen from {operator}: set AGENT_IMAGE")),
    };
    Ok((operator, agent))
}

/// The API server's version, as `/version` has it.
pub(super) fn version(answer: &Value) -> Finding {
    let number = |field: &str| {
        let digits: String = answer[field].as_str()?.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    let said = answer["gitVersion"].as_str().unwrap_or("unknown");
    match (number("major"), number("minor")) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Finding::fine("version", said),
        _ => Finding::missing("version", format!("it is {said}; Berth needs {}.{} or newer", OLDEST.0, OLDEST.1)),
    }
}

/// Nodes that take pods.
pub(super) fn nodes(list: &Value) -> Finding {
    let all = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let taints = node["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
            && node["spec"]["unschedulable"] != true
            && taints.iter().all(|t| t["effect"] == "PreferNoSchedule")
    };
    match all.iter().filter(ready).count() {
        0 => Finding::missing("nodes", format!("none of {} is ready and takes pods without tolerations", all.len())),
        some => Finding::fine("nodes", format!("{some} of {} are ready and take pods", all.len())),
    }
}

/// Where the addresses of pods are, which API servers of tenants are kept from: nodes say it, or somebody.
pub(super) fn pod_addresses(list: &Value, given: Option<&str>) -> Finding {
    const WHAT: &str = "pod addresses";
    let says = |node: &Value| node["spec"]["podCIDRs"].as_array().is_some_and(|ranges| !ranges.is_empty());
    match (given, list["items"].as_array()) {
        (Some(given), _) => Finding::fine(WHAT, given),
        (None, Some(all)) if all.iter().any(says) => Finding::fine(WHAT, "nodes say them"),
        (None, _) => {
            Finding::missing(WHAT, "no node says them; set POD_CIDRS to the networks of pods, with commas between")
        }
    }
}

/// Where stores for backups are, of a Berth that is there: from this build on its Jobs reach none in this cluster, unless `backups.peers` says
/// so. `config`: the operator's configuration; `resolved`: the addresses of a name; `own`: what has an address of this cluster.
pub(super) fn stores(
    config: &Value,
    resolved: impl Fn(&str) -> Vec<IpAddr>,
    own: &BTreeMap<IpAddr, String>,
) -> Option<Finding> {
    const WHAT: &str = "backups";
    let list = |at: &str| config.pointer(at).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let stores =
        list("/backups/stores").iter().filter_map(|store| Some((store["name"].as_str()?, store["endpoint"].as_str()?)));
    let endpoints =
        list("/writers/backups/endpoints").iter().filter_map(|endpoint| Some(("of a team", endpoint.as_str()?)));
    let all: Vec<(&str, &str)> = stores.chain(endpoints).collect();
    if all.is_empty() {
        return None;
    }
    if !list("/backups/peers").is_empty() {
        return Some(Finding::fine(WHAT, "backups.peers says where stores are"));
    }
    let inside = |endpoint: &str| {
        let authority = endpoint.split_once("://")?.1.split('/').next()?;
        let host = match authority.strip_prefix('[') {
            Some(address) => address.split_once(']')?.0,
            None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
        };
        if host.split('.').skip(1).any(|part| part == "svc") {
            return Some("a Service of this cluster".to_owned());
        }
        let literal = host.parse().ok();
        let found = literal.map_or_else(|| resolved(host), |address| vec![address]);
        found.iter().find_map(|address| own.get(address)).cloned()
    };
    let lost =
        all.iter().filter_map(|(name, endpoint)| Some(format!("store {name}, {endpoint}, is {}", inside(endpoint)?)));
    let lost: Vec<String> = lost.collect();
    Some(if lost.is_empty() {
        Finding::fine(WHAT, "no store is in this cluster")
    } else {
        let way_out =
            "From this version on Jobs do not reach it there: set backups.peers in the values of Berth's chart first";
        Finding::warning(WHAT, format!("{}.\n{way_out}", lost.join(";\n")))
    })
}

/// What has an address in this cluster: Services, pods and nodes.
pub(super) fn addresses(services: &Value, pods: &Value, nodes: &Value) -> BTreeMap<IpAddr, String> {
    let name = |object: &Value| {
        let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        format!("{}/{}", of("namespace"), of("name"))
    };
    let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
    let texts = |value: &Value, field: &str| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.filter_map(|one| if field.is_empty() { one.as_str() } else { one[field].as_str() }.map(str::to_owned))
            .collect()
    };
    let services =
        items(services).into_iter().map(|s| (format!("Service {}", name(&s)), texts(&s["spec"]["clusterIPs"], "")));
    let pods = items(pods).into_iter().map(|p| (format!("pod {}", name(&p)), texts(&p["status"]["podIPs"], "ip")));
    let nodes = items(nodes)
        .into_iter()
        .map(|n| (format!("node {}", name(&n).trim_start_matches('/')), texts(&n["status"]["addresses"], "address")));
    // A pod in its node's network has the node's address.
    let all = services.chain(pods).chain(nodes);
    all.flat_map(|(what, found)| found.into_iter().filter_map(move |text| Some((text.parse().ok()?, what.clone()))))
        .collect()
}

/// The class of etcd's volume: the one that is asked for, or the default.
pub(super) fn storage_class(list: &Value, wanted: Option<&str>) -> Finding {
    let all = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |class: &Value| class["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let names = all.iter().map(name).collect::<Vec<_>>().join(", ");
    let there = if names.is_empty() { "there is none".to_owned() } else { format!("there are {names}") };
    let is_default = |c: &&Value| c["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
    match (wanted, all.iter().find(is_default)) {
        (Some(wanted), _) if all.iter().any(|c| name(c) == wanted) => Finding::fine("StorageClass", wanted),
        (Some(wanted), _) => Finding::missing("StorageClass", format!("{wanted} is not there; {there}")),
        (None, Some(class)) => Finding::fine("StorageClass", format!("{}, the default", name(class))),
        (None, None) => Finding::missing("StorageClass", format!("none is the default; set STORAGE_CLASS; {there}")),
    }
}

/// A right that the demo or its charts need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) group: String,
    pub(super) resource: String,
    /// Empty: in the whole cluster.
    pub(super) namespace: String,
    pub(super) verb: String,
}

/// What SelfSubjectAccessReviews answered.
pub(super) fn rights(answers: &[Value]) -> Finding {
    let mut denied: Vec<(String, Vec<&str>)> = vec![];
    for answer in answers.iter().filter(|a| a["status"]["allowed"] != true) {
        let of = |field: &str| answer["spec"]["resourceAttributes"][field].as_str().unwrap_or_default();
        let group = if of("group").is_empty() { String::new() } else { format!(".{}", of("group")) };
        let place = match of("namespace") {
            "" => "in the cluster".to_owned(),
            namespace => format!("in {namespace}"),
        };
        let what = format!("{}{group} {place}", of("resource"));
        match denied.iter_mut().find(|(w, _)| *w == what) {
            Some((_, verbs)) => verbs.push(of("verb")),
            None => denied.push((what, vec![of("verb")])),
        }
    }
    if answers.is_empty() {
        return Finding::missing("rights", "the cluster did not say which rights you have");
    }
    if denied.is_empty() {
        return Finding::fine("rights", format!("all {} that the charts and the demo need", answers.len()));
    }
    let lines: Vec<String> = denied.iter().map(|(what, verbs)| format!("{} {what}", verbs.join(", "))).collect();
    Finding::missing("rights", format!("you may not:\n{}", lines.join("\n")))
}

/// What a try with two pods gave: whether a connection that a NetworkPolicy forbids gets through.
pub(super) fn network_policies(enforced: bool) -> Finding {
    if enforced {
        return Finding::fine("NetworkPolicies", "enforced: a connection that one forbids did not get through");
    }
    Finding::warning(
        "NetworkPolicies",
        "not enforced: a connection that one forbids got through. Berth's policies have no effect here: tenants'\n\
         API servers reach the cluster's addresses, and any pod reaches etcd's ports (its data is behind TLS, its\n\
         metrics are not). Fine for a try; for tenants that you do not trust take a network plugin that enforces them",
    )
}

/// Whom to dial under a tenant's policies: the node of its API server and another one (kubelet), the meta cluster's API by its Service, and
/// where clouds serve credentials.
pub(super) fn targets(own: &str, nodes: &Value, api: &Value) -> Vec<(&'static str, String)> {
    let at = |ip: &str, port: u16| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
    let address = |node: &Value| {
        let all = node["status"]["addresses"].as_array().into_iter().flatten();
        all.filter(|a| a["type"] == "InternalIP").find_map(|a| a["address"].as_str()).map(|ip| at(ip, 10250))
    };
    let mut of_nodes = vec![(OWN_NODE, None), ("another node", None)];
    for node in nodes["items"].as_array().into_iter().flatten() {
        let place = usize::from(node["metadata"]["name"] != own);
        of_nodes[place].1 = of_nodes[place].1.take().or_else(|| address(node));
    }
    let mut all: Vec<_> = of_nodes.into_iter().filter_map(|(what, address)| Some((what, address?))).collect();
    all.extend(api["spec"]["clusterIP"].as_str().map(|ip| ("this API", at(ip, 443))));
    all.push(("cloud metadata", at("169.254.169.254", 80)));
    all
}

const OWN_NODE: &str = "own node";

/// What a tenant's API server reaches that its policy forbids.
pub(super) fn reach(what: &'static str, address: &str, closed: bool) -> Finding {
    if closed {
        return Finding::fine(what, format!("{address}: closed to a tenant's API server"));
    }
    let open = format!("{address}: OPEN to a tenant's API server, although its NetworkPolicy forbids it.");
    Finding::warning(
        what,
        if what == OWN_NODE {
            format!(
                "{open} Network plugins may let\na pod reach the node that it runs on, whatever policies say. Give control planes nodes of their own\n(a taint, and writers.placement), and run nothing on their network that trusts who reaches it"
            )
        } else {
            format!(
                "{open} Do not run tenants here that you\ndo not trust before the network plugin enforces egress policies"
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tenant_is_tried_on_its_own_node_another_one_the_api_and_metadata() {
        let node = |name: &str, ip: &str| json!({"metadata": {"name": name}, "status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": ip}]}});
        let nodes = json!({"items": [node("b", "192.0.2.2"), node("a", "2001:db8::1"), node("c", "192.0.2.3")]});
        let api = json!({"spec": {"clusterIP": "10.96.0.1"}});
        let all = [
            ("own node", "[2001:db8::1]:10250"),
            ("another node", "192.0.2.2:10250"),
            ("this API", "10.96.0.1:443"),
            ("cloud metadata", "169.254.169.254:80"),
        ];
        assert_eq!(targets("a", &nodes, &api), all.map(|(what, address)| (what, address.to_owned())));
        let one = json!({"items": [node("a", "192.0.2.1")]});
        assert!(targets("a", &one, &api).iter().all(|(what, _)| *what != "another node"));
        let level = |what, closed| reach(what, "192.0.2.2:10250", closed).level;
        assert_eq!((level(OWN_NODE, true), level(OWN_NODE, false)), (Level::Fine, Level::Warning));
        assert!(reach(OWN_NODE, "a:1", false).said.contains("Give control planes nodes of their own"));
    }

    #[test]
    fn stores_in_the_cluster_are_named_unless_the_values_say_where_they_are() {
        let services = json!({"items": [{"metadata": {"namespace": "stores", "name": "minio"}, "spec": {"clusterIPs": ["10.96.0.9", "None"]}}]});
        let pods = json!({"items": [{"metadata": {"namespace": "x", "name": "p"}, "status": {"podIPs": [{"ip": "10.244.0.7"}]}}]});
        let nodes = json!({"items": [{"metadata": {"name": "a"}, "status": {"addresses": [{"address": "a"}, {"address": "192.168.0.7"}]}}]});
        let own = addresses(&services, &pods, &nodes);
        let stores = |endpoints: Value, peers: Value| {
            let config =
                json!({"backups": {"stores": [], "peers": peers}, "writers": {"backups": {"endpoints": endpoints}}});
            let resolved =
                |host: &str| (host == "minio.example.com").then(|| "10.96.0.9".parse().unwrap()).into_iter().collect();
            super::stores(&config, resolved, &own)
        };
        for (endpoint, what) in [
            ("https://10.96.0.9:9000", "Service stores/minio"),
            ("https://minio.example.com", "Service stores/minio"),
            ("http://10.244.0.7/", "pod x/p"),
            ("https://192.168.0.7:9000", "node a"),
            ("https://minio.stores.svc:9000", "a Service of this cluster"),
        ] {
            let found = stores(json!([endpoint]), json!([])).unwrap();
            assert_eq!(found.level, Level::Warning, "{endpoint}");
            assert!(found.said.contains(&format!("{endpoint}, is {what}")), "{}", found.said);
            assert_eq!(stores(json!([endpoint]), json!([{}])).unwrap().level, Level::Fine);
        }
        assert_eq!(stores(json!(["https://s3.example.com"]), json!([])).unwrap().level, Level::Fine);
        assert_eq!(stores(json!([]), json!([])), None);
    }

    #[test]
    fn images_are_given_or_beside_the_operators() {
        let both = |o: &str, a| images(Some(o), a).map(|(o, a)| format!("{o} {a}"));
        assert_eq!(
            both("r.example:5000/b/operator:1.2", None).unwrap(),
            "r.example:5000/b/operator:1.2 r.example:5000/b/agent:1.2"
        );
        assert_eq!(both("r/berth-operator:1", None).unwrap(), "r/berth-operator:1 r/berth-agent:1");
        assert_eq!(both("r/berth:1", Some("r/a:2")).unwrap(), "r/berth:1 r/a:2");
        assert!(both("r/berth:1", None).unwrap_err().contains("AGENT_IMAGE"));
        for wrong in ["r.example:5000/operator", "operator", "r/operator:latest", "r/operator@sha256:00"] {
            assert!(both(wrong, None).unwrap_err().contains("repository:tag"), "{wrong}");
        }
        assert!(images(None, None).unwrap_err().contains("IMAGE"));
    }

    #[test]
    fn an_old_cluster_is_refused() {
        let of =
            |minor: &str| version(&json!({"major": "1", "minor": minor, "gitVersion": format!("v1.{minor}")})).level;
        assert_eq!([of("33"), of("34"), of("36+")], [Level::Missing, Level::Fine, Level::Fine]);
        assert_eq!(version(&json!({})).level, Level::Missing);
    }

    #[test]
    fn nodes_have_to_take_pods() {
        let node = |ready: &str, spec: Value| json!({"spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let tainted = json!({"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]});
        let of = |all: &[Value]| nodes(&json!({"items": all})).level;
        assert_eq!(
            of(&[
                node("True", tainted.clone()),
                node("False", json!({})),
                node("True", json!({"unschedulable": true}))
            ]),
            Level::Missing
        );
        assert_eq!(of(&[node("True", tainted), node("True", json!({}))]), Level::Fine);
    }

    #[test]
    fn where_pods_are_is_said_by_nodes_or_by_somebody() {
        let of = |podcidrs: Value, given| {
            let node = json!({"spec": {"podCIDRs": podcidrs}});
            pod_addresses(&json!({"items": [{"spec": {}}, node]}), given).level
        };
        assert_eq!(of(json!(["10.1.0.0/24"]), None), Level::Fine);
        assert_eq!(of(json!([]), None), Level::Missing);
        assert_eq!(of(Value::Null, None), Level::Missing);
        assert_eq!(of(Value::Null, Some("10.1.0.0/16")), Level::Fine);
    }

    #[test]
    fn a_class_is_the_default_or_asked_for() {
        let class = |name: &str, default: &str| json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default}}});
        let classes = json!({"items": [class("slow", "false"), class("fast", "false")]});
        assert_eq!(storage_class(&classes, None).level, Level::Missing);
        assert!(storage_class(&classes, None).said.contains("slow, fast"));
        assert_eq!(storage_class(&classes, Some("fast")).level, Level::Fine);
        assert_eq!(storage_class(&classes, Some("gone")).level, Level::Missing);
        assert_eq!(storage_class(&json!({"items": [class("slow", "true")]}), None).level, Level::Fine);
    }

    #[test]
    fn everything_that_is_missing_is_on_one_screen() {
        let review = |verb: &str, allowed: bool| {
            let resource =
                json!({"group": "apps", "resource": "deployments", "namespace": "berth-system", "verb": verb});
            json!({"spec": {"resourceAttributes": resource}, "status": {"allowed": allowed}})
        };
        let findings = [
            Finding::fine("API", "answers"),
            rights(&[review("get", true), review("create", false), review("patch", false)]),
            storage_class(&json!({"items": []}), None),
            network_policies(false),
        ];
        assert_eq!(missing(&findings), 2);
        let text = report(&findings);
        assert!(
            text.starts_with("  ok       API              answers\n  MISSING  rights           you may not:\n"),
            "{text}"
        );
        assert!(
            text.contains("\n                            create, patch deployments.apps in berth-system\n"),
            "{text}"
        );
        assert!(
            text.contains("  MISSING  StorageClass     none is the default; set STORAGE_CLASS; there is none\n"),
            "{text}"
        );
        assert!(text.contains("  WARNING  NetworkPolicies  not enforced"), "{text}");
        assert_eq!(rights(&[review("get", true)]).level, Level::Fine);
        assert_eq!(rights(&[]).level, Level::Missing);
    }
}
