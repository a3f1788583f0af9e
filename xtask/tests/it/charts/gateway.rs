//! The gateway: what the chart renders for it, and who may tell it where a server name leads.

use super::protection::{in_one_namespace, merge};
use super::*;
use berth_testkit::fixtures::from_yaml;
use kube::api::ListParams;

/// Values that turn it on.
pub(crate) const ON: [&str; 2] = ["gateway.enabled=true", "gateway.domain=api.example.com"];

/// Label, and annotation, of what it looks at (`berth_contract::gateway`).
const KEY: &str = "berth.dev/gateway";
const ENDPOINT_SLICES: &str = "system:serviceaccount:kube-system:endpointslice-controller";
const GATEWAY: &str = "system:serviceaccount:berth-gateway:berth-gateway";

fn on(more: &[&str]) -> Vec<Value> {
    let set: Vec<&str> = ON.iter().chain(more).flat_map(|value| ["--set", value]).collect();
    render("berth", &set)
}

/// The gateway's objects, without the policy.
fn its_own(objects: &[Value]) -> Vec<&Value> {
    objects.iter().filter(|o| o["metadata"]["labels"]["app.kubernetes.io/component"] == "gateway").collect()
}

fn the<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    let of = its_own(objects).into_iter().find(|o| o["kind"] == kind);
    of.unwrap_or_else(|| panic!("no {kind}"))
}

fn configuration(objects: &[Value]) -> Value {
    let map = objects.iter().find(|o| o["kind"] == "ConfigMap" && o["metadata"]["name"] == "berth-operator");
    from_yaml(map.and_then(|m| m["data"]["config.yaml"].as_str()).expect("the operator's ConfigMap"))
}

#[test]
fn without_it_nothing_of_it_is_there() {
    let objects = render("berth", &["--set", "gateway.domain=api.example.com,metrics.serviceMonitor=true"]);
    // Routes that there may be from before can be removed.
    let text = |o: &Value| o.to_string().replace("gateway.networking.k8s.io", "");
    let named: Vec<_> = objects.iter().filter(|o| text(o).contains("gateway")).collect();
    assert!(named.is_empty(), "{named:?}");
}

#[test]
fn the_operator_is_told_its_domain_and_port() {
    let told = |more: &[&str]| configuration(&on(more))["gateway"].clone();
    let of = |port: u16, named: u16| {
        let engines = ["Berth"];
        json!({"domain": "api.example.com", "port": port, "namedPort": named, "engines": engines, "namespace": "berth-gateway"})
    };
    assert_eq!(told(&[]), of(6443, 6444));
    assert_eq!(told(&["gateway.port=443", "gateway.namedPort=444"]), of(443, 444));
    assert_eq!(told(&["gateway.engines=null"]), of(6443, 6444), "values of an older chart");
}

/// A Gateway of the platform's own.
pub(crate) const PARENT: [&str; 3] =
    ["gateway.parents[0].namespace=edge", "gateway.parents[0].name=tls", "gateway.parents[0].sectionName=a"];

fn with_engines(engines: &str, more: &[&str]) -> Vec<Value> {
    on(&[&[engines], &PARENT[..], more].concat())
}

/// Verbs for TLSRoutes by ClusterRole.
fn of_routes(objects: &[Value]) -> Vec<(String, Vec<Value>)> {
    let roles = objects.iter().filter(|o| o["kind"] == "ClusterRole");
    let verbs = |role: &Value| -> Vec<Value> {
        let rules = role["rules"].as_array().into_iter().flatten();
        rules.filter(|rule| rule["resources"] == json!(["tlsroutes"])).map(|rule| rule["verbs"].clone()).collect()
    };
    let named = |role: &Value| (role["metadata"]["name"].as_str().unwrap_or_default().to_owned(), verbs(role));
    roles.map(named).filter(|(_, verbs)| !verbs.is_empty()).collect()
}

#[test]
fn each_engine_brings_its_own_and_no_more() {
    let home = |verbs: Vec<Value>| ("berth-control-plane-namespace".to_owned(), verbs);
    let (always, remove) = (json!(["list", "delete"]), json!(["get", "create", "patch"]));
    for objects in [render("berth", &[]), on(&[])] {
        assert_eq!(of_routes(&objects), [home(vec![always.clone()])], "what it made before it can remove");
    }
    let watched = ("berth-operator".to_owned(), vec![json!(["list", "watch"])]);
    let access = ["access.enabled=true", "access.tls.secretName=x", "gateway.exclusive=true"];
    for (engines, own) in [("gateway.engines={GatewayAPI}", false), ("gateway.engines={Berth,GatewayAPI}", true)] {
        let objects = with_engines(engines, &access);
        assert_eq!(of_routes(&objects), [watched.clone(), home(vec![always.clone(), remove.clone()])]);
        assert_eq!(!its_own(&objects).is_empty(), own, "{engines}");
        let told = configuration(&objects);
        assert_eq!(told["gateway"]["parents"], json!([{"namespace": "edge", "name": "tls", "sectionName": "a"}]));
        assert_eq!(told["gateway"]["engines"].as_array().map(Vec::len), Some(1 + usize::from(own)));
        assert_eq!(told["gateway"]["onlyFrom"], "berth-gateway");
        assert_eq!(told["gateway"]["namespace"].is_string(), own, "{engines}");
        assert_eq!(told["access"]["gateway"].is_string(), own, "{engines}");
        // The policy that holds the label of names is there with either.
        assert!(
            objects
                .iter()
                .any(|o| o["kind"] == "ValidatingAdmissionPolicy" && o["metadata"]["name"] == "berth-gateway")
        );
        let dials = |o: &Value| {
            o["kind"] == "NetworkPolicy"
                && o["metadata"]["name"] == "berth-access"
                && o.to_string().contains("berth-gateway")
        };
        assert_eq!(objects.iter().any(dials), own, "{engines}");
    }
}

/// It is told of it without a gateway, too: tenants whose host is a name have the add-on as well.
#[test]
fn the_operator_is_told_the_image_of_the_add_on_for_nodes() {
    let told = |more: &[&str]| {
        let set: Vec<&str> = more.iter().flat_map(|value| ["--set", value]).collect();
        configuration(&render("berth", &set))["apiProxy"].clone()
    };
    assert_eq!(told(&[]), json!({"image": "ghcr.io/berth-dev/api-proxy:0.1.0"}));
    let own = told(&["apiProxy.image.repository=r.example.com/berth/api-proxy", "apiProxy.image.tag=mine"]);
    assert_eq!(own, json!({"image": "r.example.com/berth/api-proxy:mine"}));
}

#[test]
fn its_port_for_names_is_where_pods_listen_and_policies_let_in() {
    let objects = on(&["gateway.namedHostPort=444"]);
    let container = the(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0].clone();
    let listens =
        |address: &str| container["args"].as_array().is_some_and(|args| args.iter().any(|arg| arg == address));
    assert!(listens("--listen-named=0.0.0.0:8444") && listens("--listen-named=[::]:8444"));
    let named = json!({"name": "named", "containerPort": 8444, "protocol": "TCP", "hostPort": 444});
    assert_eq!(container["ports"][1], named);
    let ports = the(&objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"].clone();
    assert_eq!(ports, json!([{"protocol": "TCP", "port": 8443}, {"protocol": "TCP", "port": 8444}]));
    assert_eq!(the(&objects, "Namespace")["metadata"]["labels"][ENFORCE], "privileged", "as for the other port");
}

#[test]
fn limits_are_given_where_there_are_some() {
    let args = |more: &[&str]| {
        let objects = on(more);
        let args = the(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        let all: Vec<String> = serde_json::from_value(args).expect("a list");
        all.into_iter().filter(|arg| arg.starts_with("--max")).collect::<Vec<_>>()
    };
    let most = ["--max-connections=10000", "--max-rate=500", "--max-connections-in-all=50000"];
    let source = ["--max-connections-per-source=5000", "--max-rate-per-source=200", "--max-opening-per-source=256"];
    let held = ["--max-held=1000", "--max-held-per-tenant=50"];
    assert_eq!(args(&[]), [&most[..], &source, &held].concat());
    let told = args(&[
        "gateway.maxRateInAll=1000000",
        "gateway.maxConnectionsPerSource=2000000",
        "gateway.maxRatePerSource=0",
        "gateway.maxHeld=0",
    ]);
    let more = ["--max-rate-in-all=1000000", "--max-connections-per-source=2000000", "--max-rate-per-source=0"];
    assert_eq!(told, [&most[..], &more, &["--max-opening-per-source=256", "--max-held=0", held[1]]].concat());
}

#[test]
fn where_it_is_the_only_way_the_operator_is_told_its_namespace() {
    let told = |more: &[&str]| configuration(&on(more))["gateway"]["onlyFrom"].clone();
    assert_eq!(told(&["gateway.exclusive=true"]), "berth-gateway");
    assert_eq!(told(&["gateway.exclusive=true", "gateway.namespace=edge"]), "edge");
}

#[test]
fn it_may_list_and_watch_two_kinds_and_write_leases_of_its_own_and_do_nothing_else() {
    let objects = on(&[]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    assert_eq!(the(&objects, "ClusterRole")["rules"], rules);
    let account = the(&objects, "ServiceAccount");
    let subjects =
        json!([{"kind": "ServiceAccount", "namespace": account["metadata"]["namespace"], "name": "berth-gateway"}]);
    assert_eq!(the(&objects, "ClusterRoleBinding")["subjects"], subjects);
    assert_eq!(the(&objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"], "berth-gateway");
    let bound = |o: &&Value| o["kind"] == "RoleBinding" && o["subjects"].to_string().contains("berth-gateway");
    let all: Vec<_> = objects.iter().filter(bound).collect();
    let [binding] = &all[..] else { panic!("{all:?}") };
    assert_eq!(
        (&binding["metadata"]["namespace"], &binding["roleRef"]["kind"]),
        (&json!("berth-gateway"), &json!("Role"))
    );
    let role = |name: &str| {
        let role = objects.iter().find(|o| o["kind"] == "Role" && o["metadata"]["name"] == name);
        role.filter(|o| o["metadata"]["namespace"] == "berth-gateway").expect("a Role")["rules"].clone()
    };
    let leases =
        |verbs: &[&str]| json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs});
    assert_eq!(role("berth-gateway"), json!([leases(&["get", "create", "update"])]));
    let mut own = leases(&["get", "update"]);
    own["resourceNames"] = json!(["berth-gateway-operator"]);
    assert_eq!(role("berth-operator-gateway"), json!([leases(&["list", "watch", "create"]), own]));
}

/// By Leases two know each other, and in these namespaces others are known by theirs.
#[test]
fn in_a_namespace_that_others_trust_it_tells_nobody() {
    let access = ["access.enabled=true", "access.tls.secretName=x"];
    for (more, tells) in [
        (&[][..], true),
        (&access, true),
        (&["gateway.namespace=berth-system"], false),
        (&[access[0], access[1], "gateway.namespace=berth-access"], false),
        (&["gateway.namespace=berth-access"], true),
    ] {
        let objects = on(more);
        assert_eq!(configuration(&objects)["gateway"]["namespace"].is_string(), tells, "{more:?}");
        let of = |o: &&Value| o["kind"] == "Role" && o["metadata"]["name"].to_string().contains("gateway");
        assert_eq!(objects.iter().filter(of).count(), if tells { 2 } else { 0 }, "{more:?}");
        let container = the(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0].clone();
        assert_eq!(container["env"].is_array(), tells, "{more:?}");
        let ingress = the(&objects, "NetworkPolicy")["spec"]["ingress"].as_array().expect("rules").clone();
        let operator = ingress.iter().find(|rule| rule["ports"][0]["port"] == 9443);
        assert_eq!(operator.is_some(), tells, "{more:?}");
        let peers = operator.map(|rule| rule["from"].as_array().expect("peers").len());
        assert_eq!(peers, tells.then_some(1), "the operator alone");
    }
}

#[test]
fn it_is_alone_in_a_namespace_and_all_that_selects_its_pods_is_there() {
    let objects = on(&["metrics.serviceMonitor=true", "gateway.namespace=edge", "gateway.podLabels.a=b"]);
    assert_eq!(the(&objects, "Namespace")["metadata"]["name"], "edge");
    let pod = the(&objects, "Deployment")["spec"]["template"]["metadata"]["labels"].clone();
    let mut selectors = 0;
    for object in its_own(&objects).into_iter().filter(|o| !o["metadata"]["namespace"].is_null()) {
        assert_eq!(object["metadata"]["namespace"], "edge", "{object}");
        let spec = &object["spec"];
        let selector = match object["kind"].as_str() {
            Some("Service") => &spec["selector"],
            Some("NetworkPolicy") => &spec["podSelector"]["matchLabels"],
            Some("PodDisruptionBudget" | "Deployment") => &spec["selector"]["matchLabels"],
            _ => continue,
        };
        let asked = selector.as_object().expect("labels");
        assert!(!asked.is_empty() && asked.iter().all(|(key, value)| pod.get(key) == Some(value)), "{object}");
        selectors += 1;
    }
    assert_eq!(selectors, 5, "Deployment, PodDisruptionBudget, NetworkPolicy, two Services");
    // Where somebody else makes the namespace, or it is Berth's own.
    for value in ["gateway.createNamespace=false", "gateway.namespace=berth-system"] {
        assert!(on(&[value]).iter().all(|o| o["kind"] != "Namespace"), "{value}");
    }
    // NetworkPolicies of tenants let pods in that have these (plan-cluster/src/isolation). The operator's own selectors find none of them.
    assert_eq!(
        (&pod["app.kubernetes.io/name"], &pod["app.kubernetes.io/component"]),
        (&json!("berth"), &json!("gateway"))
    );
}

#[test]
fn it_has_time_to_let_connections_go() {
    for (more, grace) in [
        (&[][..], 15 + 600 + 5 + 9 + 15),
        (
            &["gateway.drainSeconds=7200", "gateway.preStopSeconds=0", "gateway.dialTimeoutSeconds=10"],
            7200 + 5 + 30 + 15,
        ),
    ] {
        let objects = on(more);
        let deployment = &the(&objects, "Deployment")["spec"];
        assert_eq!(deployment["template"]["spec"]["terminationGracePeriodSeconds"], grace);
        assert!(deployment["progressDeadlineSeconds"].as_i64().is_some_and(|deadline| deadline > grace));
    }
}

#[test]
fn a_port_of_nodes_is_free_before_the_next_pod_has_it() {
    let strategy = |more: &[&str]| {
        let objects = on(more);
        let spec = &the(&objects, "Deployment")["spec"];
        let ports = spec["template"]["spec"]["containers"][0]["ports"].clone();
        let level = the(&objects, "Namespace")["metadata"]["labels"][ENFORCE].clone();
        (spec["strategy"]["rollingUpdate"].clone(), ports[0]["hostPort"].clone(), level)
    };
    let (surge, none, restricted) = strategy(&[]);
    assert_eq!((surge, none), (json!({"maxUnavailable": 0, "maxSurge": 1}), Value::Null));
    assert_eq!(restricted, "restricted");
    let (surge, port, privileged) = strategy(&["gateway.hostPort=443", "gateway.service.type=ClusterIP"]);
    assert_eq!((surge, port), (json!({"maxUnavailable": 1, "maxSurge": 0}), json!(443)));
    assert_eq!(privileged, "privileged");
}

#[test]
fn its_service_is_of_the_kind_that_is_asked_for() {
    let spec = |more: &[&str]| {
        let mut spec = on(more)
            .iter()
            .find(|o| o["kind"] == "Service" && o["metadata"]["name"] == "berth-gateway")
            .expect("it")["spec"]
            .clone();
        spec.as_object_mut().expect("fields").remove("selector");
        spec
    };
    let port = json!([
        {"name": "tls", "port": 6443, "targetPort": "tls"}, {"name": "named", "port": 6444, "targetPort": "named"},
    ]);
    assert_eq!(spec(&[]), json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": port}));
    assert_eq!(
        spec(&[
            "gateway.service.type=ClusterIP",
            "gateway.service.nodePort=30443",
            "gateway.service.namedNodePort=30444",
            "gateway.service.loadBalancerClass=a"
        ]),
        json!({"type": "ClusterIP", "ports": port})
    );
    let all = [
        "gateway.port=443",
        "gateway.service.nodePort=30443",
        "gateway.service.namedNodePort=30444",
        "gateway.service.loadBalancerClass=a",
        "gateway.service.loadBalancerSourceRanges={10.0.0.0/8}",
        "gateway.service.externalTrafficPolicy=Cluster",
    ];
    assert_eq!(
        spec(&all),
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "loadBalancerClass": "a",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [{"name": "tls", "port": 443, "targetPort": "tls", "nodePort": 30443},
                {"name": "named", "port": 6444, "targetPort": "named", "nodePort": 30444}]})
    );
}

#[test]
fn values_of_it_that_make_no_sense_are_refused() {
    let long = format!("gateway.domain={}", ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join("."));
    for (values, why) in [
        (&["gateway.enabled=true"][..], "/gateway/domain"),
        (&["gateway.domain=*.example.com"], "/gateway/domain"),
        (&["gateway.domain=Example.com"], "/gateway/domain"),
        (&["gateway.domain=example.com."], "/gateway/domain"),
        (&["gateway.domain=10.0.0.1"], "/gateway/domain"),
        (&[&*long], "/gateway/domain"),
        (&["gateway.port=0"], "/gateway/port"),
        (&["gateway.namedPort=0"], "/gateway/namedPort"),
        (&["gateway.service.namedNodePort=70000"], "/gateway/service/namedNodePort"),
        (&["gateway.namedHostPort=0"], "/gateway/namedHostPort"),
        (
            &["gateway.enabled=true", "gateway.domain=a.b", "gateway.port=6444"],
            "gateway.namedPort: 6444 is gateway.port",
        ),
        (&["gateway.hostPort=70000"], "/gateway/hostPort"),
        (&["gateway.engines={}"], "/gateway/engines"),
        (&["gateway.engines={Envoy}"], "/gateway/engines"),
        (&["gateway.engines={Berth,Berth}"], "/gateway/engines"),
        (&["gateway.parents[0].name=a"], "/gateway/parents/0"),
        (&["gateway.parents[0].namespace=a", "gateway.parents[0].name=A"], "/gateway/parents/0/name"),
        (
            &["gateway.enabled=true", "gateway.domain=a.b", "gateway.engines={GatewayAPI}"],
            "gateway.parents: it is empty, and gateway.engines has GatewayAPI. Set namespace and name",
        ),
        (
            &["gateway.enabled=true", "gateway.domain=a.b", PARENT[0], PARENT[1]],
            "gateway.parents: it is set, and gateway.engines has no GatewayAPI. Add that, or remove",
        ),
        (
            &[
                "gateway.enabled=true",
                "gateway.domain=a.b",
                "gateway.engines={GatewayAPI}",
                PARENT[0],
                PARENT[1],
                PARENT[2],
                "gateway.parents[1].namespace=edge",
                "gateway.parents[1].name=tls",
            ],
            "gateway.parents[1]: edge/tls is there twice. Remove one",
        ),
        (&["gateway.service.type=ExternalName"], "/gateway/service/type"),
        (&["gateway.proxyProtocolFrom={10.0.0.1}"], "/gateway/proxyProtocolFrom"),
        (&["gateway.proxyProtocolFrom={10.0.0.0/33}"], "/gateway/proxyProtocolFrom"),
        (&["gateway.proxyProtocolFrom={fd00::/129}"], "/gateway/proxyProtocolFrom"),
        (&["gateway.drain=10m"], "drain"),
        (&["gateway.maxConnections=0"], "/gateway/maxConnections"),
        (&["gateway.maxRateInAll=0"], "/gateway/maxRateInAll"),
        (&["gateway.maxRate=0"], "/gateway/maxRate"),
        (&["gateway.maxConnectionsInAll=0"], "/gateway/maxConnectionsInAll"),
        (&["gateway.maxConnectionsPerSource=-1"], "/gateway/maxConnectionsPerSource"),
        (&["gateway.maxRatePerSource=-1"], "/gateway/maxRatePerSource"),
        (&["gateway.maxOpeningPerSource=0"], "/gateway/maxOpeningPerSource"),
    ] {
        let set: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
        let output = helm(&[&["template", "berth", "berth", "--kube-version=1.36.0"][..], &set].concat());
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && complaint.contains(why), "{values:?}: {complaint}");
    }
}

fn service(labelled: bool, says: Option<&str>) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-apiserver"},
        "spec": {"ports": [{"port": 6443}]}});
    if labelled {
        service["metadata"]["labels"] = json!({KEY: "true"});
    }
    if let Some(says) = says {
        service["metadata"]["annotations"] = json!({KEY: says});
    }
    service
}

fn slice(labelled: bool) -> Value {
    let mut slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "kube-apiserver-1",
        "labels": {"kubernetes.io/service-name": "kube-apiserver"}}, "addressType": "IPv4", "endpoints": [], "ports": []});
    if labelled {
        slice["metadata"]["labels"][KEY] = "true".into();
    }
    slice
}

/// Ok once the policy of this page refuses.
pub(crate) async fn in_force(server: &ApiServer) -> Result<(), String> {
    let root = in_one_namespace(server, "root-of-gateway", "default").await;
    denied(create(&root, "Service", "default", service(true, None), true).await)
}

#[tokio::test]
async fn its_account_lists_what_it_watches_and_reads_and_writes_nothing_else() {
    let server = server().await;
    let groups = ["system:serviceaccounts", "system:serviceaccounts:berth-gateway"];
    let it = server.client_as(GATEWAY, &groups);
    let labelled = ListParams::default().labels(&format!("{KEY}=true"));
    for kind in ["Service", "EndpointSlice"] {
        dynamic(&it, kind, "").list(&labelled).await.unwrap_or_else(|e| panic!("{kind}: {e}"));
        refusal(dynamic(&it, kind, "default").get("kubernetes").await);
    }
    for kind in ["Secret", "ConfigMap", "Namespace", "Cluster", "Pod"] {
        refusal(dynamic(&it, kind, "").list(&ListParams::default()).await);
    }
    refusal(create(&it, "Service", "berth-gateway", service(true, None), true).await);
    refusal(create(&it, "EndpointSlice", "berth-gateway", slice(true), true).await);
}

#[tokio::test]
async fn where_a_server_name_leads_is_said_by_berth_alone() {
    let server = server().await;
    let team = server.namespace("team").await;
    let (root, admin) = (in_one_namespace(server, "root-of-names", &team).await, server.client());
    let made = async || create(&root, "Service", &team, service(false, Some("{}")), true).await;
    eventually(Duration::from_secs(5), "rights", made).await.expect("without the label nothing counts");
    for says in [None, Some("{}")] {
        let message = refusal(create(&root, "Service", &team, service(true, says), true).await);
        let named =
            format!("only Berth sets the label berth.dev/gateway of Service kube-apiserver in namespace {team}");
        assert!(message.contains(&named) && message.contains("leave the label out"), "{message}");
    }
    create(&root, "Service", &team, service(false, Some("{}")), false).await.expect("made");
    let labels = |value: Value| json!({"metadata": {"labels": {KEY: value}}});
    let annotations = |value: Value| json!({"metadata": {"annotations": {KEY: value}}});
    refusal(merge(&root, "Service", &team, "kube-apiserver", labels("true".into())).await);
    // By the status, too.
    let status = dynamic(&root, "Service", &team);
    let patch = Patch::Merge(labels("true".into()));
    refusal(status.patch_status("kube-apiserver", &PatchParams::default(), &patch).await);
    // Who may everywhere, as the operator.
    merge(&admin, "Service", &team, "kube-apiserver", labels("true".into())).await.expect("a cluster-admin");
    for change in [labels("false".into()), annotations("x".into()), annotations(Value::Null)] {
        refusal(merge(&root, "Service", &team, "kube-apiserver", change).await);
    }
    let other = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"sessionAffinity": "ClientIP"}});
    merge(&root, "Service", &team, "kube-apiserver", other).await.expect("both are left as they are");
    merge(&root, "Service", &team, "kube-apiserver", labels(Value::Null)).await.expect("then it does not count");

    let (me, home) = (operator(server), cp_namespace(server).await);
    binding(&me, &home, names::OPERATOR_NAMESPACE_ROLE, &["berth-operator"], false).await.expect("binding");
    let made = async || create(&me, "Service", &home, service(true, Some("{}")), false).await;
    eventually(Duration::from_secs(5), "rights in its namespace", made).await.expect("the operator");
    merge(&me, "Service", &home, "kube-apiserver", annotations("x".into())).await.expect("the operator");
}

#[tokio::test]
async fn slices_that_it_reads_are_written_by_kubernetes() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, "root-of-slices", &team).await;
    let made = async || create(&root, "EndpointSlice", &team, slice(false), true).await;
    eventually(Duration::from_secs(5), "rights", made).await.expect("one of no gateway's");
    let message = refusal(create(&root, "EndpointSlice", &team, slice(true), true).await);
    assert!(
        message.contains(&format!("EndpointSlice kube-apiserver-1 in namespace {team} has the label")),
        "{message}"
    );
    let controller =
        server.client_as(ENDPOINT_SLICES, &["system:serviceaccounts", "system:serviceaccounts:kube-system"]);
    let mut made =
        create(&controller, "EndpointSlice", &team, slice(true), false).await.expect("Kubernetes' controller");
    let addresses = json!([{"addresses": ["192.0.2.7"]}]);
    refusal(merge(&root, "EndpointSlice", &team, "kube-apiserver-1", json!({"endpoints": addresses})).await);
    made.data["endpoints"] = addresses;
    // It may update, and not patch.
    let slices = dynamic(&controller, "EndpointSlice", &team);
    slices.replace("kube-apiserver-1", &PostParams::default(), &made).await.expect("Kubernetes' controller");
}
