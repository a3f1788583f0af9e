//! The operator's TLSRoutes: which names of a platform's own `Gateway`s it may take, and where it may lead them.

use super::*;

/// Values that let it write some.
pub(crate) const ON: [&str; 5] = [
    "gateway.engines={Berth,GatewayAPI}",
    gateway::PARENT[0],
    gateway::PARENT[1],
    gateway::PARENT[2],
    "writers.hosts={*.acme.example,api.other.example}",
];

const NAME: &str = "kube-apiserver";

/// As the planner writes it.
fn route(home: &str, hosts: &[&str]) -> Value {
    let own = format!("{home}.api.example.com");
    let hosts: Vec<&str> = std::iter::once(&*own).chain(hosts.iter().copied()).collect();
    let group = "gateway.networking.k8s.io";
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "TLSRoute", "metadata": {"name": NAME},
        "spec": {
            "hostnames": hosts,
            "parentRefs": [{"group": group, "kind": "Gateway", "namespace": "edge", "name": "tls", "sectionName": "a"}],
            "rules": [{"backendRefs": [{"group": "", "kind": "Service", "name": NAME, "port": 6443, "weight": 1}]}],
        },
    })
}

/// A namespace as the operator makes it, in which it has its rights.
async fn home_of(me: &Client, name: &str) -> Result<String, String> {
    let home = home("team", name);
    let name = home["metadata"]["name"].as_str().expect("a name").to_owned();
    let _ = create(me, "Namespace", "", home, false).await;
    binding(me, &name, names::OPERATOR_NAMESPACE_ROLE, &["berth-operator"], false).await.map_err(|e| e.to_string())?;
    Ok(name)
}

/// Ok once the policy of this page refuses.
pub(crate) async fn in_force(server: &ApiServer) -> Result<(), String> {
    let me = operator(server);
    let home = home_of(&me, "probe-of-routes").await?;
    denied(create(&me, "TLSRoute", &home, route(&home, &["www.example.com"]), true).await)
}

#[tokio::test]
async fn the_operator_takes_names_of_tenants_alone_and_leads_them_to_tenants_alone() {
    const HOSTS: &str = "only with the names <control-plane namespace>.<gateway.domain>";
    const PARENTS: &str = "only for the Gateways of gateway.parents";
    const BACKENDS: &str = "only to Service kube-apiserver of their own namespace";
    let server = server().await;
    let me = operator(server);
    let home = home_of(&me, &server.unique("routes")).await.expect("a namespace");
    let fine = route(&home, &["b.acme.example", "api.other.example"]);
    let made = async || create(&me, "TLSRoute", &home, fine.clone(), true).await;
    eventually(Duration::from_secs(5), "rights in its namespace", made).await.expect("as the planner writes it");
    let with = |pointer: &str, value: Value| {
        let mut route = fine.clone();
        let (parent, field) = pointer.rsplit_once('/').expect("a field");
        route.pointer_mut(parent).expect("its place")[field] = value;
        route
    };
    let other = "acme-0e1f2a3b.api.example.com";
    let hosts = ["www.example.com", "api.example.com", other, "acme.example", "x.other.example", "*.acme.example"];
    let hosts = hosts.map(|host| (with("/spec/hostnames", json!([host])), HOSTS));
    let (parent, backend) = ("/spec/parentRefs/0", "/spec/rules/0/backendRefs/0");
    let parents =
        [("namespace", "kube-system"), ("name", "b"), ("sectionName", "b"), ("kind", "Service"), ("group", "x.y")]
            .map(|(field, value)| (with(&format!("{parent}/{field}"), value.into()), PARENTS));
    let whole = json!([{"namespace": "edge", "name": "tls"}]);
    let backends = [("name", "b"), ("namespace", "default"), ("kind", "ConfigMap"), ("group", "x.y")]
        .map(|(field, value)| (with(&format!("{backend}/{field}"), value.into()), BACKENDS));
    let more = [(with("/spec/parentRefs", whole), PARENTS), (with(&format!("{parent}/port"), 1.into()), PARENTS)];
    for (wrong, why) in hosts.into_iter().chain(parents).chain(backends).chain(more) {
        let said = refusal(create(&me, "TLSRoute", &home, wrong.clone(), true).await);
        assert!(said.contains(why), "{wrong}: {said}");
    }
    // Where a binding was put by somebody else.
    let team = server.namespace("team").await;
    let theirs = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "too-much", "namespace": team},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": names::OPERATOR_NAMESPACE_ROLE},
        "subjects": [{"kind": "ServiceAccount", "namespace": "berth-system", "name": "berth-operator"}],
    });
    apply(&server.client(), theirs).await.expect("binding");
    let refused = async || {
        let said = create(&me, "TLSRoute", &team, route(&team, &[]), true).await.expect_err("refused").to_string();
        if said.contains("only in control-plane namespaces") { Ok(()) } else { Err(said) }
    };
    eventually(Duration::from_secs(5), "rights, and the policy", refused).await.expect("refused by the policy");
}

/// After a change of the chart's values kubeconfigs have the former name for a while.
#[tokio::test]
async fn what_a_route_has_may_stay_and_nothing_like_it_may_come() {
    let server = server().await;
    let (me, admin) = (operator(server), server.client());
    let home = home_of(&me, &server.unique("former")).await.expect("a namespace");
    let mut before = route(&home, &["former.example.com"]);
    before["spec"]["parentRefs"][0]["name"] = "former".into();
    create(&admin, "TLSRoute", &home, before, false).await.expect("of other values");
    let change = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        dynamic(&me, "TLSRoute", &home).patch(NAME, &PatchParams::default(), &patch).await
    };
    let own = format!("{home}.api.example.com");
    let allowed = async || change(json!({"hostnames": [own, "former.example.com", "b.acme.example"]})).await;
    eventually(Duration::from_secs(5), "rights in its namespace", allowed).await.expect("it stays");
    refusal(change(json!({"hostnames": [own, "former.example.com", "www.example.com"]})).await);
    let parents = route(&home, &[])["spec"]["parentRefs"].clone();
    change(json!({"hostnames": [own], "parentRefs": parents})).await.expect("of now");
    refusal(change(json!({"hostnames": [own, "former.example.com"]})).await);
}
