//! Namespaces of tenants with `spec.vpc`: how they are made, and what pods there may be.

use super::*;
use k8s_openapi::api::core::v1::Pod;

/// As the planner writes it.
fn vpc_home(team: &str, name: &str) -> Value {
    let mut home = home(team, name);
    let all = home["metadata"]["labels"].as_object_mut().expect("labels");
    all.insert(labels::VPC.into(), "true".into());
    all.insert(ENFORCE.into(), "privileged".into());
    all.insert("pod-security.kubernetes.io/audit".into(), "restricted".into());
    home["metadata"]["annotations"][labels::VPC_IMAGES] = labels::VPC_IMAGES_PLATFORM.into();
    home
}

async fn made(server: &ApiServer) -> String {
    namespace(server, vpc_home("team", &server.unique("vpc"))).await
}

async fn namespace(server: &ApiServer, home: Value) -> String {
    let name =
        create(&operator(server), "Namespace", "", home, false).await.expect("as the planner writes it").name_any();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    create(&server.client(), "ServiceAccount", &name, account, false).await.expect("account");
    name
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "i:1", "securityContext": {
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}})
}

/// An API server's pod, as the templates of the newest minor have it.
fn api_server() -> Value {
    let version = "1.36.3".parse().expect("a version");
    let catalog = berth_render::Catalog::builtin();
    let set = catalog.kubernetes(berth_api::version::Version::minor(version)).expect("a set");
    let mut values = berth_render::values::ApiServerValues {
        slot: Some(0),
        advertise_address: "172.20.0.2".into(),
        service_cidrs: vec!["10.112.0.0/16".into()],
        dns_domain: "cluster.local".into(),
        service_account_issuers: vec!["https://kubernetes.default.svc".into()],
        ..Default::default()
    };
    values.meta.namespace = "acme-0a1b2c3d".into();
    values.workload.version = version;
    values.workload.image = "registry.k8s.io/kube-apiserver:v1.36.3".into();
    values.workload.agent_image = "ghcr.io/berth-dev/agent:0.1.0".into();
    values.workload.run_as_user = 100_123;
    values.workload.replicas = 1;
    values.etcd.endpoints = vec!["https://etcd-0:2379".into()];
    for name in [&mut values.secrets.ca, &mut values.secrets.front_proxy_ca, &mut values.secrets.service_account] {
        *name = "s".into();
    }
    values.secrets.pki = "s".into();
    values.secrets.encryption = "s".into();
    values.etcd.client_secret = "s".into();
    values.vpc = berth_render::values::VpcSlot {
        interface: "net1".into(),
        address: "172.20.0.2/24".into(),
        runs: true,
        sidecar: true,
        image: values.workload.agent_image.clone(),
    };
    let objects = berth_render::render_apiserver(set, &values).expect("renders");
    let set = objects.iter().find(|o| o.key().kind == berth_render::Kind::StatefulSet).expect("a StatefulSet");
    let spec = set.value()["spec"]["template"]["spec"].clone();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kube-apiserver-0-0"}, "spec": spec})
}

#[tokio::test]
async fn a_namespace_for_a_vpc_is_made_so_and_stays_so() {
    // Two policies refuse it, and either is told.
    const LABEL: &str = "berth.dev/vpc";
    let server = server().await;
    let me = operator(server);
    let namespaces = dynamic(&me, "Namespace", "");
    let name = made(server).await;
    let patch = async |who: &Api<DynamicObject>, labels: Value| {
        who.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": labels}}))).await
    };
    for (changed, why) in [
        (json!({labels::VPC: null, ENFORCE: "restricted"}), LABEL),
        (json!({labels::VPC: null}), LABEL),
        (json!({labels::VPC: "false"}), LABEL),
        (json!({ENFORCE: "baseline"}), "changes neither afterwards"),
        (json!({ENFORCE: "restricted"}), "changes neither afterwards"),
        (json!({ENFORCE: null}), "changes neither afterwards"),
        (json!({"pod-security.kubernetes.io/warn": "privileged"}), "sets only Berth's own labels"),
        (json!({"pod-security.kubernetes.io/enforce-version": "v1.0"}), "sets only Berth's own labels"),
    ] {
        let said = refusal(patch(&namespaces, changed.clone()).await);
        assert!(said.contains(why), "{changed}: {said}");
    }
    patch(&namespaces, json!({labels::CLUSTER_UID: "00000000-e89b-42d3-a456-426614174000"})).await.expect("adopted");
    // Nobody takes away what the policy for pods goes by.
    let admin = dynamic(&server.client(), "Namespace", "");
    assert!(refusal(patch(&admin, json!({labels::VPC: null})).await).contains("the label berth.dev/vpc stays"));

    // One that is there, and another's, become none.
    let restricted = cp_namespace(server).await;
    for changed in [json!({labels::VPC: "true"}), json!({labels::VPC: "true", ENFORCE: "privileged"})] {
        let patched = Patch::Merge(json!({"metadata": {"labels": changed}}));
        refusal(namespaces.patch(&restricted, &PatchParams::default(), &patched).await);
    }
    let mut no_label = vpc_home("team", &server.unique("vpc"));
    no_label["metadata"]["labels"].as_object_mut().expect("labels").remove(labels::VPC);
    refusal(create(&me, "Namespace", "", no_label, true).await);
    namespaces.delete(&name, &DeleteParams::default()).await.expect("its own");
}

/// Each is refused to whoever makes it: a cluster-admin, and so every controller.
#[tokio::test]
async fn pods_for_a_vpc_are_held_to_restricted_but_for_one_container() {
    let server = server().await;
    let name = made(server).await;
    let pods = server.client();
    let good = api_server();
    let in_force = async || {
        let mut pod = good.clone();
        pod["spec"]["hostNetwork"] = true.into();
        denied(create(&pods, "Pod", &name, pod, true).await)
    };
    eventually(Duration::from_secs(30), "the policy to be in force", in_force).await.expect("in force");
    let try_ = async |pod: Value| create(&pods, "Pod", &name, pod, true).await;
    try_(good.clone()).await.expect("an API server's pod");
    let digest = format!("ghcr.io/berth-dev/agent@sha256:{}", "0".repeat(64));
    for image in ["ghcr.io/berth-dev/agent:0.0.9-rc.1", &digest] {
        let mut other = good.clone();
        other["spec"]["initContainers"][0]["image"] = image.into();
        try_(other).await.expect("an agent of another build");
    }

    let plain = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": {
        "automountServiceAccountToken": false, "containers": [container("c")],
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}});
    try_(plain.clone()).await.expect("a restricted pod");
    let mut named = plain.clone();
    named["spec"]["containers"][0]["name"] = "vpc".into();
    try_(named.clone()).await.expect("a restricted container of that name");

    // What restricted refuses, in any pod, and of the API server's in any container but one.
    let root = json!({"runAsNonRoot": false, "runAsUser": 0});
    let mut cases: Vec<(&str, &Value, &str, Value)> = vec![];
    for (pod, at) in [
        (&plain, "/spec/containers/0"),
        (&good, "/spec/containers/0"),
        (&good, "/spec/initContainers/1"),
        (&named, "/spec/containers/0"),
    ] {
        for (field, value) in [
            ("privileged", json!(true)),
            ("allowPrivilegeEscalation", json!(true)),
            ("allowPrivilegeEscalation", Value::Null),
            ("capabilities", json!({"drop": ["ALL"], "add": ["NET_ADMIN"]})),
            ("capabilities", json!({"drop": ["NET_RAW"]})),
            ("capabilities", Value::Null),
            ("runAsNonRoot", json!(false)),
            ("runAsUser", json!(0)),
            ("procMount", json!("Unmasked")),
            ("seccompProfile", json!({"type": "Unconfined"})),
            ("seLinuxOptions", json!({"type": "spc_t"})),
            ("appArmorProfile", json!({"type": "Unconfined"})),
        ] {
            cases.push((at, pod, field, value));
        }
    }
    for (at, pod, field, value) in cases {
        let mut bad = pod.clone();
        if field == "privileged" {
            // Validation asks for both.
            bad.pointer_mut(at).expect("a container")["securityContext"]["allowPrivilegeEscalation"] = true.into();
        }
        bad.pointer_mut(at).expect("a container")["securityContext"][field] = value.clone();
        if field == "procMount" {
            bad["spec"]["hostUsers"] = false.into();
        }
        denied(try_(bad).await).unwrap_or_else(|e| panic!("{at} {field}: {value}: {e}"));
    }
    for (at, value) in [
        ("/spec/hostNetwork", json!(true)),
        ("/spec/hostPID", json!(true)),
        ("/spec/hostIPC", json!(true)),
        ("/spec/securityContext/runAsNonRoot", json!(false)),
        ("/spec/securityContext/runAsUser", json!(0)),
        ("/spec/securityContext/seccompProfile", Value::Null),
        ("/spec/securityContext/sysctls", json!([{"name": "net.ipv4.ip_forward", "value": "1"}])),
        ("/spec/volumes", json!([{"name": "h", "hostPath": {"path": "/"}}])),
        ("/spec/volumes", json!([{"name": "h", "nfs": {"server": "s", "path": "/"}}])),
        ("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 80}])),
        ("/metadata/annotations", json!({"container.apparmor.security.beta.kubernetes.io/c": "unconfined"})),
    ] {
        let mut bad = plain.clone();
        let (parent, field) = at.rsplit_once('/').expect("a path");
        bad.pointer_mut(parent).expect("its parent")[field] = value.clone();
        denied(try_(bad).await).unwrap_or_else(|e| panic!("{at}: {value}: {e}"));
    }
    // The form of the one container.
    let init = "/spec/initContainers/0";
    for (field, value) in [
        ("image", json!("busybox:1")),
        ("image", json!("ghcr.io/berth-dev/agents:0.1.0")),
        ("image", json!("evil.example.com/ghcr.io/berth-dev/agent:0.1.0")),
        ("image", json!("evil.example.com/agent:0.1.0")),
        ("command", json!(["/bin/sh"])),
        ("command", json!(["/berth-agent", "install"])),
        ("command", Value::Null),
        ("args", json!(["exec", "sh"])),
        ("restartPolicy", Value::Null),
        ("env", json!([{"name": "LD_PRELOAD", "value": "x"}])),
        ("envFrom", json!([{"secretRef": {"name": "acme-ca"}}])),
        ("ports", json!([{"containerPort": 1}])),
        ("lifecycle", json!({"preStop": {"exec": {"command": ["sh"]}}})),
        ("livenessProbe", json!({"exec": {"command": ["sh"]}})),
        ("startupProbe", json!({"exec": {"command": ["sh"]}})),
        ("stdin", json!(true)),
        ("volumeMounts", json!([{"name": "pki", "mountPath": "/etc/berth/vpc", "readOnly": true}])),
        ("volumeMounts", json!([{"name": "vpc", "mountPath": "/etc/berth/vpc"}])),
        ("volumeMounts", json!([{"name": "vpc", "mountPath": "/", "readOnly": true}])),
        ("name", json!("other")),
    ] {
        let mut bad = good.clone();
        let one = bad.pointer_mut(init).expect("it");
        one[field] = value.clone();
        if field == "restartPolicy" {
            // Of others validation asks for none.
            one["startupProbe"] = Value::Null;
        }
        denied(try_(bad).await).unwrap_or_else(|e| panic!("vpc {field}: {value}: {e}"));
    }
    for (field, value) in [
        ("readOnlyRootFilesystem", json!(false)),
        ("allowPrivilegeEscalation", json!(true)),
        ("capabilities", json!({"drop": ["ALL"], "add": ["NET_ADMIN", "SYS_ADMIN"]})),
        ("capabilities", json!({"add": ["NET_ADMIN"]})),
        ("seccompProfile", json!({"type": "Unconfined"})),
        ("seLinuxOptions", json!({"type": "container_t"})),
        ("appArmorProfile", json!({"type": "Unconfined"})),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(init).expect("it")["securityContext"][field] = value.clone();
        denied(try_(bad).await).unwrap_or_else(|e| panic!("vpc {field}: {value}: {e}"));
    }
    let mut bad = good.clone();
    for volume in bad["spec"]["volumes"].as_array_mut().expect("volumes").iter_mut().filter(|v| v["name"] == "vpc") {
        *volume = json!({"name": "vpc", "secret": {"secretName": "acme-ca"}});
    }
    denied(try_(bad).await).expect("it reads no Secret");
    let mut bad = good.clone();
    bad["spec"]["initContainers"][1] = root_container(&root);
    denied(try_(bad).await).expect("no other is root");
    let mut bad = good.clone();
    bad["spec"]["containers"][0]["name"] = "vpc".into();
    bad["spec"]["containers"][0]["securityContext"] = good["spec"]["initContainers"][0]["securityContext"].clone();
    bad["spec"]["initContainers"][0]["name"] = "first".into();
    denied(try_(bad).await).expect("only an init container is the one");

    // A container that is added to a pod which runs.
    create(&pods, "Pod", &name, plain, false).await.expect("a pod");
    let add = async |security: Value| {
        let one = json!({"name": "debug", "image": "i:1", "securityContext": security});
        let patch = Patch::Strategic(json!({"spec": {"ephemeralContainers": [one]}}));
        let api = Api::<Pod>::namespaced(pods.clone(), &name);
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        api.patch_subresource("ephemeralcontainers", "other", &parameters, &patch).await
    };
    denied(add(json!({"privileged": true})).await).expect("held, too");
    denied(add(json!({})).await).expect("held, too");
    add(container("c")["securityContext"].clone()).await.expect("a restricted one");
}

fn root_container(root: &Value) -> Value {
    let mut one = container("another");
    one["securityContext"].as_object_mut().expect("fields").extend(root.as_object().expect("fields").clone());
    one
}

/// What ran when Berth was upgraded is made again, and nothing else of a team's registry.
#[tokio::test]
async fn a_registry_of_the_spec_counts_for_what_ran_before_and_no_more() {
    let server = server().await;
    let (me, client) = (dynamic(&operator(server), "Namespace", ""), server.client());
    let mut home = vpc_home("team", &server.unique("vpc"));
    home["metadata"]["annotations"].as_object_mut().expect("annotations").remove(labels::VPC_IMAGES);
    let (before, new) = (namespace(server, home).await, made(server).await);
    let try_ = async |namespace: &str, image: &str| {
        let mut pod = api_server();
        pod["spec"]["initContainers"][0]["image"] = image.into();
        create(&client, "Pod", namespace, pod, true).await
    };
    let refused = async |namespace: &str, image: &str| {
        let is_refused = async || denied(try_(namespace, image).await);
        eventually(Duration::from_secs(30), "the API server to see the annotation", is_refused).await.expect("refused");
    };
    let note = async |images: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {(labels::VPC_IMAGES): images}}}));
        me.patch(&before, &PatchParams::default(), &patch).await
    };
    let [ran, other] = ["mirror.example.com/k8s/agent:0.1.0", "mirror.example.com/k8s/agent:0.1.1"];
    refused(&new, ran).await;
    for image in [ran, other] {
        try_(&before, image).await.expect("until Berth has looked");
    }
    refused(&before, "other.example.com/k8s/agent:0.1.0").await;
    note(format!("{ran},other.example.com/k8s/agent:0.1.0").into()).await.expect("Berth looked");
    refused(&before, other).await;
    try_(&before, ran).await.expect("what ran");
    refused(&before, "other.example.com/k8s/agent:0.1.0").await;
    for more in [Value::Null, "".into(), other.into(), format!("{ran},{other}").into()] {
        let said = refusal(note(more.clone()).await);
        assert!(said.contains("gets no further image"), "{more}: {said}");
    }
    note(labels::VPC_IMAGES_PLATFORM.into()).await.expect("none is left");
    refused(&before, ran).await;
    refusal(note(ran.into()).await);
}

fn policy_for_pods(objects: &[Value]) -> &Value {
    let is_it = |o: &&Value| o["kind"] == "ValidatingAdmissionPolicy" && o["metadata"]["name"] == "berth-vpc-pods";
    objects.iter().find(is_it).expect("the policy")
}

/// Registries are as crates/plan reads them, and the agent's name in them as crates/render makes it.
#[test]
fn the_agent_comes_from_repositories_that_the_values_name() {
    let values = [
        "agent.image.repository=r.example.com:5000/berth/agent",
        "writers.images.registries={mirror.example.com/k8s,m2.example.com/*,m3.example.com*}",
        "admissionPolicies.agentRepositories={old.example.com/agent}",
    ];
    let set: Vec<_> = values.iter().flat_map(|value| ["--set", value]).collect();
    let objects = render("berth", &set);
    let policy = policy_for_pods(&objects);
    let all = policy["spec"]["validations"].as_array().expect("validations");
    let expression =
        all.iter().filter_map(|v| v["expression"].as_str()).find(|e| e.contains(".matches(r'")).expect("it");
    let patterns = expression.split(".matches(r'").skip(1).map(|rest| rest.split_once('\'').expect("its end").0);
    let patterns = patterns.map(|text| regex::Regex::new(text).expect("a regular expression"));
    let [platforms, writers] = patterns.collect::<Vec<_>>().try_into().expect("two patterns");
    let agent = "r.example.com:5000/berth/agent:1.0";
    let of_writers = ["mirror.example.com/k8s", "m2.example.com/a/b", "m2.example.com/", "m3.example.com:5000/b"];
    let of_writers = of_writers.map(|registry| berth_render::relocated(registry, agent));
    let old = "old.example.com/agent:1.0@sha256:00".to_owned();
    for (pattern, other, images) in
        [(&platforms, &writers, &[agent.to_owned(), old][..]), (&writers, &platforms, &of_writers[..])]
    {
        for image in images {
            assert!(pattern.is_match(image) && !other.is_match(image), "{image} by {pattern}, not {other}");
        }
    }
    for image in [
        "",
        "agent:1.0",
        "r-example.com:5000/berth/agent:1.0",
        "r.example.com:5000/berth/agent/x:1.0",
        "mirror.example.com/other/agent:1.0",
        "mirror.example.com/k8s/agent-x:1.0",
        "m2.example.com.evil.test/agent:1.0",
        "x/old.example.com/agent:1.0",
    ] {
        assert!(!platforms.is_match(image) && !writers.is_match(image), "{image} by {platforms} or {writers}");
    }
    // Where writers may ask for no registry, nothing of one passes.
    let text = policy_for_pods(&render("berth", &[])).to_string();
    let none = text.split(".matches(r'").nth(2).and_then(|rest| rest.split_once('\'')).expect("a pattern").0;
    let none = regex::Regex::new(none).expect("a regular expression");
    assert!(["", ":1.0", "agent:1.0", "-"].iter().all(|image| !none.is_match(image)), "{none}");
}

#[test]
fn keys_without_a_value_are_refused_and_the_operator_knows_its_policies() {
    for (values, why) in [
        ("writers.vpc={example.com/ip}", "writers/vpc"),
        ("writers.vpc={example.com/ip=172.*}", "writers/vpc"),
        ("writers.vpc={*=x}", "writers/vpc"),
        ("vpc.rules=None", "rules"),
    ] {
        let output = helm(&["template", "berth", "berth", "--set", values]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && complaint.contains(why), "{values}: {complaint}");
    }
    for (enabled, policies) in [("true", 2), ("false", 0)] {
        let objects = render("berth", &["--set", &format!("admissionPolicies.enabled={enabled}")]);
        let named = |o: &&Value| {
            o["kind"] == "ValidatingAdmissionPolicy"
                && o["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("berth-vpc-"))
        };
        assert_eq!(objects.iter().filter(named).count(), policies);
        let map = objects.iter().find(|o| o["kind"] == "ConfigMap" && o["metadata"]["name"] == "berth-operator");
        let text = map.and_then(|m| m["data"]["config.yaml"].as_str()).expect("the operator's ConfigMap");
        let config = berth_plan::settings::Config::parse(text).expect("understood");
        assert_eq!(config.vpc.pods_are_held, enabled == "true");
        assert!(config.unknown.is_empty(), "{:?}", config.unknown);
    }
}
