//! What the operator may do in Argo CD's namespace, and what of it elsewhere.

use super::*;
use berth_pki::{CertSpec, Usage};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;

/// Argo CD, and who is registered there.
pub(crate) const ON: [&str; 2] = ["registration.argoCD.namespace=argocd", "registration.argoCD.projects.team-a=shops"];

/// What stands for a CA, a certificate or a key.
const PART: &str = "QUFBQUFBQUFB";

/// What Argo CD is told, with that as its CA.
fn config(ca: &str) -> String {
    format!(r#"{{"tlsClientConfig":{{"caData":"{ca}", "certData":"{PART}",  "keyData":"{PART}"}}}}"#)
}

/// What Argo CD would be told by somebody who has the operator's token, wherever that is in a group of three bytes.
fn other_configs() -> Vec<String> {
    let good = config(PART);
    let exec = r#""execProviderConfig":{"command":"sh"}"#;
    let mut all = vec![
        String::new(),
        "{}".to_owned(),
        good.replace("{\"tls", &format!("{{{exec},\"tls")),
        // Keys of JSON are the same in capitals, and with escapes.
        good.replace("{\"tls", "{\"EXECPROVIDERCONFIG\":{\"command\":\"sh\"},\"tls"),
        good.replace("{\"tls", "{\"exec\\u0050roviderConfig\":{\"command\":\"sh\"},\"tls"),
        good.replace("\"caData", "\"serverName\":\"x\",\"caData"),
        good.replace("\"caData", "\"insecure\":true,\"caData"),
        good.replace("\"keyData", "\"more\":\"x\",\"keyData"),
        good.replace("\",  \"keyData", "\",\"keyData"),
    ];
    for spaces in 0..3 {
        let spaces = " ".repeat(spaces);
        all.push(good.replace("}}", &format!("}},{spaces}{exec}}}")));
        all.push(good.replace("}}", &format!("}},{spaces}\"awsAuthConfig\":{{\"clusterName\":\"x\"}}}}")));
        all.push(good.replace("}}", &format!(",{spaces}\"insecure\":true}}}}")));
        all.push(format!("{good}{spaces} "));
        for before in ["", "A", "AA"] {
            let ca = format!("{before}\"}},{spaces}{exec},\"x\":{{\"y\":\"AAAAAA");
            all.push(config(&format!("{ca}{}", "A".repeat(ca.len().next_multiple_of(3) - ca.len()))));
        }
    }
    all
}

/// As the API tells of it.
fn base64(text: &str) -> String {
    let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
    json!(bytes).as_str().expect("base64").to_owned()
}

#[test]
fn the_pattern_is_what_berth_tells_argo_cd_and_nothing_else() {
    let pattern = berth_testkit::fixtures::package().join("../charts/berth/files/argocd-config.regex");
    let pattern =
        regex::Regex::new(std::fs::read_to_string(pattern).expect("the chart's file").trim()).expect("a pattern");
    let now = jiff::Timestamp::now();
    let ca = berth_pki::issue_ca(&CertSpec::new("ca", Usage::Ca, berth_pki::CA_LIFETIME), now).expect("a CA");
    for groups in 0..9 {
        let mut spec = CertSpec::new("berth:argocd", Usage::Client, berth_pki::LEAF_LIFETIME);
        // Of another length each.
        spec.organizations = vec!["a".repeat(1 + groups)];
        let leaf = berth_pki::issue(&spec, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), now).expect("a leaf");
        let kubeconfig = berth_pki::Kubeconfig {
            cluster_name: "acme".into(),
            server: "https://a".into(),
            ca_pem: ca.cert_pem.repeat(1 + groups % 3),
            user: "berth:argocd".into(),
            cert_pem: leaf.cert_pem,
            key_pem: leaf.key_pem,
        };
        let told = berth_pki::argocd_cluster(kubeconfig.to_yaml().as_bytes()).expect("what Argo CD is told");
        let config = base64(told.config.expose());
        assert!(pattern.is_match(&config) && config.len() <= 32_768, "{} bytes", config.len());
    }
    assert!(pattern.is_match(&base64(&config(PART))));
    for other in other_configs() {
        assert!(!pattern.is_match(&base64(&other)), "{other}");
    }
}

/// A Secret as the operator registers a tenant, but for what `change` says.
fn secret(name: &str, change: &Value) -> Secret {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"name": "YQ==", "server": "aHR0cHM6Ly9hLnN2Yw==", "project": "c2hvcHM="},
        "stringData": {"config": config(PART)},
        "metadata": {
            "name": name,
            "labels": {(labels::MANAGED_BY): "berth", (labels::ARGOCD_SECRET_TYPE): labels::ARGOCD_CLUSTER, "env": "prod"},
        },
    });
    merge(&mut secret, change);
    berth_testkit::fixtures::from_json(secret)
}

fn merge(into: &mut Value, change: &Value) {
    let Some(fields) = change.as_object() else { return into.clone_from(change) };
    for (key, value) in fields {
        match value {
            Value::Null => drop(into.as_object_mut().and_then(|all| all.remove(key))),
            value => merge(&mut into[key], value),
        }
    }
}

fn secrets(client: Client) -> Api<Secret> {
    Api::namespaced(client, "argocd")
}

/// Ok once the policy of this page refuses.
pub(crate) async fn in_force(server: &ApiServer) -> Result<(), String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    let _ = create(&server.client(), "Namespace", "", namespace, false).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    denied(secrets(operator(server)).create(&dry, &secret("probe", &json!({}))).await)
}

async fn look(of: &Api<Secret>, name: &str) -> kube::Result<Secret> {
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    of.patch(name, &dry, &Patch::Merge(json!({}))).await
}

#[tokio::test]
async fn it_registers_changes_looks_at_and_takes_back() {
    let server = server().await;
    let (mine, name) = (secrets(operator(server)), format!("berth-{}", server.unique("acme")));
    let made = mine.create(&PostParams::default(), &secret(&name, &json!({}))).await.expect("create");
    assert_eq!(look(&mine, &name).await.expect("its own").data, made.data);
    let change = json!({"data": {"project": "b3RoZXI="}, "metadata": {"labels": {"env": null, "tier": "gold"}}});
    mine.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.expect("change");
    for wrong in [
        json!({"metadata": {"labels": {(labels::MANAGED_BY): null}}}),
        json!({"metadata": {"labels": {(labels::ARGOCD_SECRET_TYPE): "repository"}}}),
        json!({"metadata": {"labels": {"argocd.argoproj.io/more": "yes"}}}),
        json!({"data": {"project": null}}),
        json!({"data": {"project": ""}}),
        json!({"data": {"server": null}}),
        json!({"data": {"server": "aHR0cHM6Ly9rdWJlcm5ldGVzLmRlZmF1bHQuc3Zj"}}),
    ] {
        refusal(mine.patch(&name, &PatchParams::default(), &Patch::Merge(wrong)).await);
    }
    let tell = |config: &str| Patch::Merge(json!({"stringData": {"config": config}}));
    for other in other_configs() {
        refusal(mine.patch(&name, &PatchParams::default(), &tell(&other)).await);
    }
    // What somebody else told Argo CD it may look at, and set back.
    let admin = secrets(server.client());
    admin.patch(&name, &PatchParams::default(), &tell(&other_configs()[2])).await.expect("an administrator's edit");
    look(&mine, &name).await.expect("its own");
    mine.patch(&name, &PatchParams::default(), &tell(&config(PART))).await.expect("set back");
    mine.delete(&name, &DeleteParams::default()).await.expect("delete");
}

#[tokio::test]
async fn there_it_writes_and_reads_nothing_else() {
    let server = server().await;
    let (mine, admin) = (secrets(operator(server)), secrets(server.client()));
    let of = |change: Value| (format!("berth-{}", server.unique("other")), change);
    let labelled = |labels: Value| of(json!({"metadata": {"labels": labels}}));
    for (name, change) in [
        (server.unique("other"), json!({})),
        labelled(json!({(labels::MANAGED_BY): "somebody"})),
        labelled(json!({(labels::ARGOCD_SECRET_TYPE): null})),
        labelled(json!({(labels::ARGOCD_SECRET_TYPE): "repository"})),
        labelled(json!({(labels::ARGOCD_SECRET_TYPE): "repo-creds"})),
        of(json!({"type": "cluster.x-k8s.io/secret"})),
        // A kubeconfig as it publishes them elsewhere.
        of(json!({"type": "cluster.x-k8s.io/secret", "metadata": {"labels": {(labels::ARGOCD_SECRET_TYPE): null}}})),
        of(json!({"type": "berth.dev/app"})),
    ] {
        let other = secret(&name, &change);
        refusal(mine.create(&PostParams::default(), &other).await);
        admin.create(&PostParams::default(), &other).await.expect("somebody else's");
        assert!(refusal(look(&mine, &name).await).contains("not created by Berth"), "{change}");
        refusal(mine.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"data": {"name": "Yg=="}}))).await);
        refusal(mine.delete(&name, &DeleteParams::default()).await);
        refusal(mine.get(&name).await);
    }
    refusal(mine.list(&ListParams::default()).await);
}

/// Where Argo CD was before, by the chart's value.
#[tokio::test]
async fn elsewhere_it_takes_back_what_it_registered_and_registers_nothing() {
    let server = server().await;
    let former = server.namespace("former-argocd").await;
    let [mine, admin] = [operator(server), server.client()].map(|client| Api::<Secret>::namespaced(client, &former));
    let registered = secret("berth-acme", &json!({}));
    refusal(mine.create(&PostParams::default(), &registered).await);
    let made = admin.create(&PostParams::default(), &registered).await.expect("create");
    assert_eq!(look(&mine, "berth-acme").await.expect("it was its own").data, made.data);
    let change = json!({"data": {"name": "Yg=="}});
    refusal(mine.patch("berth-acme", &PatchParams::default(), &Patch::Merge(change)).await);
    mine.delete("berth-acme", &DeleteParams::default()).await.expect("delete");
}
