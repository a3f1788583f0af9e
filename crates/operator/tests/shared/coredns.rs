//! CoreDNS in a tenant: the number of its pods is left to others, and its zones are served by the real one.

use crate::common::{SOON, Team, shared_operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType;
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// Berth's field manager.
const BERTH: &str = berth_api::labels::MANAGER_CLUSTER;

async fn deployments(team: &Team) -> Api<Deployment> {
    let system = format!("{}-system", team.tenant().await.unwrap());
    Api::namespaced(team.client.clone(), &system)
}

async fn replicas(all: &Api<Deployment>) -> Option<i32> {
    all.get("coredns").await.unwrap().spec.unwrap().replicas
}

/// Whether the number of pods is noted as Berth's.
async fn is_berths(all: &Api<Deployment>) -> bool {
    let fields = all.get("coredns").await.unwrap().metadata.managed_fields.unwrap();
    fields.iter().filter(|entry| entry.manager.as_deref() == Some(BERTH)).any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| fields.0.clone()).unwrap_or_default();
        !fields["f:spec"]["f:replicas"].is_null()
    })
}

/// Asks for so much memory, and waits until that is written: then the Deployment was applied anew.
async fn applied_anew(team: &Team, all: &Api<Deployment>, memory: &str) {
    team.merge("acme", &json!({"spec": {"addons": {"coreDNS": {"resources": {"limits": {"memory": memory}}}}}})).await;
    let attempt = async || -> Result<()> {
        let live = serde_json::to_value(all.get("coredns").await?)?;
        let found = live.pointer("/spec/template/spec/containers/0/resources/limits/memory");
        ensure!(found == Some(&json!(memory)), "{found:?}");
        Ok(())
    };
    eventually(SOON, "another limit of memory", attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
}

#[tokio::test]
async fn the_number_of_pods_is_left_to_whoever_scales_and_kept_where_it_is_asked_for() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let all = deployments(&team).await;
    assert_eq!((replicas(&all).await, is_berths(&all).await), (Some(2), true), "of a new one");

    // As an autoscaler, and `kubectl scale`, do.
    let scale = |n: i32| json!({"spec": {"replicas": n}});
    let by = PatchParams { field_manager: Some("autoscaler".into()), ..PatchParams::default() };
    all.patch_scale("coredns", &by, &Patch::Merge(scale(5))).await.expect("scaled");
    applied_anew(&team, &all, "200Mi").await;
    assert_eq!((replicas(&all).await, is_berths(&all).await), (Some(5), false));

    // A tenant that was made before: the number is Berth's alone.
    let mine: Value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns"}, "spec": {"replicas": 3}});
    let live = serde_json::to_value(all.get("coredns").await.unwrap()).unwrap();
    let mut before = mine.clone();
    before["spec"]["selector"] = live["spec"]["selector"].clone();
    before["spec"]["template"] = live["spec"]["template"].clone();
    before["spec"]["template"]["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
    all.patch("coredns", &PatchParams::apply(BERTH).force(), &Patch::Apply(before)).await.expect("applied");
    assert_eq!((replicas(&all).await, is_berths(&all).await), (Some(3), true));
    applied_anew(&team, &all, "220Mi").await;
    assert_eq!((replicas(&all).await, is_berths(&all).await), (Some(3), false), "not the API server's default of one");

    // Asked for, it is kept; and given up again, it stays.
    team.merge("acme", &json!({"spec": {"addons": {"coreDNS": {"replicas": 4}}}})).await;
    let asked = async || {
        let now = replicas(&all).await;
        ensure!(now == Some(4), "{now:?}");
        Ok(())
    };
    eventually(SOON, "four pods", asked).await.unwrap_or_else(|e| panic!("{e:#}"));
    all.patch_scale("coredns", &by, &Patch::Merge(scale(6))).await.expect("scaled");
    team.touch().await;
    eventually(SOON, "four pods again", asked).await.unwrap_or_else(|e| panic!("{e:#}"));
    team.merge("acme", &json!({"spec": {"addons": {"coreDNS": {"replicas": null}}}})).await;
    let given_up = async || {
        ensure!(!is_berths(&all).await, "it is Berth's");
        Ok(())
    };
    eventually(SOON, "the number given up", given_up).await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(replicas(&all).await, Some(4));
}

#[tokio::test]
async fn zones_are_checked_and_end_up_in_the_corefile() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let zones = |name: &str, server: &str| json!({"spec": {"addons": {"coreDNS": {"zones": [{"name": name, "servers": [server]}]}}}});
    // What is no name, or no address by its characters, the API server refuses at once.
    for (name, server) in [
        ("a{", "192.0.2.53"),
        ("a\nb", "192.0.2.53"),
        ("a.", "192.0.2.53"),
        ("a", "dns.example"),
        ("a", "192.0.2.53 }"),
    ] {
        let refused = team.spec(zones(name, server)["spec"].clone()).await.expect_err("refused");
        assert!(refused.to_string().contains("spec.addons.coreDNS.zones[0]"), "{refused}");
    }
    team.merge("acme", &zones("svc.cluster.local", "192.0.2.53")).await;
    let says = team.says_of(ConditionType::Ready, "InvalidSpec", "zones[0].name").await;
    assert!(says.contains("the tenant's own zone cluster.local"), "{says}");
    team.merge("acme", &zones("corp.example", "192.0.2.53:5353")).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let system = format!("{}-system", team.tenant().await.unwrap());
    let maps: Api<ConfigMap> = Api::namespaced(team.client.clone(), &system);
    let data = maps.get("coredns").await.unwrap().data.context("data").unwrap();
    let corefile = &data["Corefile"];
    let (of_templates, of_zones) =
        corefile.split_once("import /etc/coredns-custom/*.server\n").context("the import").unwrap();
    assert!(of_templates.contains("cluster.local"), "{corefile}");
    answers(of_zones).await.unwrap_or_else(|e| panic!("{e:#}: {corefile}"));
}

/// The real CoreDNS serves the zone by asking its server.
async fn answers(of_zones: &str) -> Result<()> {
    let [here, there] = berth_testkit::ports::ports();
    let served =
        of_zones.replace(":53 {", &format!(":{here} {{")).replace("192.0.2.53:5353", &format!("127.0.0.1:{there}"));
    ensure!(served.contains(&format!("127.0.0.1:{there}")), "its server is not there");
    let its_server = "{\n    template IN A {\n        answer \"{{ .Name }} 60 IN A 192.0.2.7\"\n    }\n}\n";
    let folder = tempfile::tempdir()?;
    let conf = folder.path().join("Corefile");
    std::fs::write(&conf, format!("{served}corp.example:{there} {its_server}"))?;
    let program = berth_testkit::apiserver::binary("tools", "coredns-1.14.2", "coredns")?;
    let mut command = tokio::process::Command::new(program);
    let _running = command.arg("-conf").arg(&conf).stdout(std::process::Stdio::null()).kill_on_drop(true).spawn()?;
    let attempt = async || {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(("127.0.0.1", here)).await?;
        // An A record of a.corp.example, asked for recursively.
        let mut query = b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04corp\x07example\x00".to_vec();
        query.extend([0, 1, 0, 1]);
        socket.send(&query).await?;
        let mut answer = [0; 512];
        let length = tokio::time::timeout(std::time::Duration::from_secs(2), socket.recv(&mut answer)).await??;
        ensure!(answer[..length].ends_with(&[192, 0, 2, 7]), "{:?}", &answer[..length]);
        Ok(())
    };
    eventually(SOON, "an answer", attempt).await
}
