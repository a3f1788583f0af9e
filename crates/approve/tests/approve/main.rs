//! `berth-approve` against a real API server: what it approves, what it leaves, and what its certificate is good for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod keep;
mod rights;

use std::time::{Duration, Instant};

use berth_api::names;
use berth_testkit::ApiServer;
use cluster::*;
use jiff::{SignedDuration, Timestamp};

const N1: &[(&str, &str)] = &[("Hostname", "n1"), ("InternalIP", "172.20.0.5"), ("InternalDNS", "n1.example.com")];

#[tokio::test]
async fn kubelets_get_what_is_their_own_and_nothing_else() {
    let server = ApiServer::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    grant(&server).await.unwrap();
    credential(&server, names::APPROVER_USER, dir.path()).unwrap();
    let _signer = signer(&server, dir.path()).unwrap();
    let _approver = approver(&server, dir.path()).unwrap();
    let client = server.client();
    node(&client, "n1", N1).await.unwrap();
    node(&client, "n2", &[("Hostname", "n2"), ("InternalIP", "172.20.0.6")]).await.unwrap();

    // The first one waits for both programs to be up.
    ask_as_node(&server, "n1", "first", (&["n1"], &["172.20.0.5"])).await.unwrap();
    until("the first certificate", LONG, async || certificate(&client, "first").await).await;
    let start = Instant::now();
    ask_as_node(&server, "n1", "second", (&["n1", "n1.example.com"], &["172.20.0.5"])).await.unwrap();
    until("approval", SOON, async || decided(&client, "second").await).await;
    println!("approved after {:?}", start.elapsed());
    let signed = until("a certificate", SOON, async || certificate(&client, "second").await).await;
    let (_, signed) = x509_parser::pem::parse_x509_pem(&signed).unwrap();
    let signed = signed.parse_x509().unwrap();
    assert_eq!(signed.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 3);

    // Kubelets write the addresses of their own Node.
    let more =
        [N1, &[("ExternalIP", "192.0.2.10"), ("ExternalIP", "10.96.0.1"), ("InternalIP", "172.20.0.6")]].concat();
    let names = [("ExternalDNS", "api.example.com"), ("ExternalDNS", "hook.team.svc"), ("Hostname", "kubernetes")];
    tell(&client, "n1", &[&more[..], &names].concat()).await.unwrap();
    let refused: [(&str, &[&str], &[&str], &str); 6] = [
        ("api-address", &["n1"], &["172.20.0.5", "192.0.2.10"], "192.0.2.10, which is the API's"),
        ("api-name", &["api.example.com"], &[], "api.example.com, which is the API's"),
        ("api-inside", &["kubernetes"], &["172.20.0.5"], "kubernetes, which is the API's"),
        ("service-address", &[], &["10.96.0.1"], "10.96.0.1, which is a Service's"),
        ("service-name", &["hook.team.svc"], &[], "hook.team.svc, which is a Service's"),
        ("loopback", &["n1"], &["127.0.0.1"], "127.0.0.1, which is no machine's alone"),
    ];
    for (name, names, addresses, _) in refused {
        ask_as_node(&server, "n1", name, (names, addresses)).await.unwrap();
    }
    let others = server.client_as("alice", &["system:masters"]);
    let token = server.client_as("system:bootstrap:abcdef", &["system:bootstrappers", "system:masters"]);
    let good = pem("n1", &["n1"], &["172.20.0.5"]).unwrap();
    ask(&others, "somebody", SERVING, &USAGES, &good).await.unwrap();
    ask(&token, "bootstrap", SERVING, &USAGES, &good).await.unwrap();
    let second = server.client_as("system:node:n2", &["system:nodes", "system:masters"]);
    ask(&second, "for-another", SERVING, &USAGES, &good).await.unwrap();
    ask(&second, "client", SERVING, &["digital signature", "client auth"], &good).await.unwrap();
    let said_of = async |name: &str| until(name, LONG, async || said(&client, name).await).await;
    for (name, _, _, why) in refused {
        assert_eq!(said_of(name).await, format!("not approved: it asks for {why}"));
    }
    for (name, why) in [
        ("somebody", "alice is no node"),
        ("bootstrap", "system:bootstrap:abcdef is no node"),
        (
            "for-another",
            "its subject is \"O=system:nodes, CN=system:node:n1\" and not \"O=system:nodes, CN=system:node:n2\"",
        ),
        ("client", "its usages are digital signature, client auth"),
    ] {
        assert_eq!(said_of(name).await, format!("not approved: {why}"));
    }

    // What nodes say may change.
    ask_as_node(&server, "n1", "taken", (&["n1"], &["172.20.0.6"])).await.unwrap();
    ask_as_node(&server, "n1", "not-yet", (&["n1"], &["172.20.0.7"])).await.unwrap();
    assert_eq!(said_of("taken").await, "not approved: it asks for 172.20.0.6, which is also of Node n2");
    let status = "not approved: it asks for 172.20.0.7, which is not among the addresses in the status of Node n1";
    assert_eq!(said_of("not-yet").await, status);
    tell(&client, "n1", &[N1, &[("InternalIP", "172.20.0.7")]].concat()).await.unwrap();
    until("approval", LONG, async || certificate(&client, "not-yet").await).await;
    for name in ["api-address", "api-name", "taken", "somebody", "bootstrap", "for-another", "client"] {
        assert!(!is_decided(&client, name).await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn a_node_that_tells_its_address_late_waits_no_longer_than_others() {
    let (server, dir) = (ApiServer::start().await.unwrap(), tempfile::tempdir().unwrap());
    grant(&server).await.unwrap();
    credential(&server, names::APPROVER_USER, dir.path()).unwrap();
    let client = server.client();
    // Two of them, as beside two controller-managers.
    let second = tempfile::tempdir().unwrap();
    credential(&server, names::APPROVER_USER, second.path()).unwrap();
    let _both = [approver(&server, dir.path()).unwrap(), approver(&server, second.path()).unwrap()];
    ask_as_node(&server, "n1", "early", (&["n1"], &["172.20.0.5"])).await.unwrap();
    let mark = server.audit_mark();
    until("a look", LONG, async || {
        let looks = server.audit_since(mark).iter().filter(|e| e.user == names::APPROVER_USER).count();
        anyhow::ensure!(looks > 3, "{looks} calls");
        Ok(())
    })
    .await;
    node(&client, "n1", N1).await.unwrap();
    until("approval", SOON, async || decided(&client, "early").await).await;
}

#[tokio::test]
async fn it_goes_on_with_a_new_certificate_and_after_the_api_server() {
    let (server, dir) = (ApiServer::start().await.unwrap(), tempfile::tempdir().unwrap());
    grant(&server).await.unwrap();
    credential(&server, "stranger", dir.path()).unwrap();
    let mut approver = approver(&server, dir.path()).unwrap();
    let client = server.client();
    node(&client, "n1", N1).await.unwrap();
    ask_as_node(&server, "n1", "one", (&["n1"], &[])).await.unwrap();
    let log = dir.path().join("berth-approve.log");
    let logged = async |text: &str| {
        until(text, LONG, async || {
            let log = std::fs::read_to_string(&log)?;
            anyhow::ensure!(log.contains(text), "{log}");
            Ok(())
        })
        .await;
    };
    logged("\"stranger\" cannot list resource").await;
    credential(&server, names::APPROVER_USER, dir.path()).unwrap();
    until("approval", LONG, async || decided(&client, "one").await).await;

    server.stop_apiserver();
    logged("Connect").await;
    // More than one try is in vain.
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.start_apiserver().await.unwrap();
    ask_as_node(&server, "n1", "two", (&["n1"], &["172.20.0.5"])).await.unwrap();
    until("approval", SOON, async || decided(&client, "two").await).await;
    approver.check().unwrap();
    println!("{}", std::fs::read_to_string(log).unwrap());
}

#[tokio::test]
async fn a_join_line_adds_a_node_and_takes_none_over() {
    let server = ApiServer::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    grant(&server).await.unwrap();
    credential(&server, names::APPROVER_USER, dir.path()).unwrap();
    // It signs, and approves nothing.
    let _signer = signer(&server, dir.path()).unwrap();
    let _approver = approver(&server, dir.path()).unwrap();
    let client = server.client();
    let ago = |minutes| Timestamp::now() - SignedDuration::from_mins(minutes);
    for (name, status, since) in [("n1", "True", 60), ("n2", "False", 60), ("n3", "Unknown", 1), ("n4", "Unknown", 60)]
    {
        node(&client, name, &[("Hostname", name)]).await.unwrap();
        reports(&client, name, status, ago(since)).await.unwrap();
    }
    node(&client, "n5", &[]).await.unwrap();

    let token = ["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:masters"];
    let token = server.client_as("system:bootstrap:abcdef", &token);
    let join = async |request: &str, node: &str| {
        ask(&token, request, CLIENT, &CLIENT_USAGES, &pem(node, &[], &[]).unwrap()).await.unwrap();
    };
    // One that nobody has; one that was not heard of for an hour; one that was made beforehand.
    for name in ["n6", "n4", "n5"] {
        join(&format!("joins-{name}"), name).await;
        let signed = until("a certificate", LONG, async || certificate(&client, &format!("joins-{name}")).await).await;
        let (_, signed) = x509_parser::pem::parse_x509_pem(&signed).unwrap();
        let subject = signed.parse_x509().unwrap().subject().to_string();
        assert_eq!(subject, format!("O=system:nodes, CN=system:node:{name}"));
    }
    for name in ["n1", "n2", "n3"] {
        join(&format!("takes-{name}"), name).await;
        let (what, why) = until("a decision", SOON, async || decision(&client, &format!("takes-{name}")).await).await;
        assert_eq!(what, "Denied", "{name}: {why}");
        assert!(why.contains(&format!("kubectl delete node {name}")), "{why}");
        assert!(certificate(&client, &format!("takes-{name}")).await.is_err());
    }
    // As the message says.
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client.clone());
    nodes.delete("n2", &kube::api::DeleteParams::default()).await.unwrap();
    join("again-n2", "n2").await;
    until("a certificate", SOON, async || certificate(&client, "again-n2").await).await;

    // Nodes renew their own, and no other's; others are left to the tenant's admins.
    let own = server.client_as("system:node:n1", &["system:nodes", "system:masters"]);
    for (name, node) in [("renews", "n1"), ("takes-another", "n9")] {
        ask(&own, name, CLIENT, &CLIENT_USAGES, &pem(node, &[], &[]).unwrap()).await.unwrap();
    }
    until("a certificate", SOON, async || certificate(&client, "renews").await).await;
    let other = ["system:bootstrappers", "system:bootstrappers:other", "system:masters"];
    let other = server.client_as("system:bootstrap:fedcba", &other);
    ask(&other, "other-token", CLIENT, &CLIENT_USAGES, &pem("n7", &[], &[]).unwrap()).await.unwrap();
    let said_of = async |name: &str| until(name, LONG, async || said(&client, name).await).await;
    let why = said_of("other-token").await;
    assert_eq!(why, "not approved: system:bootstrap:fedcba is no node, and has no bootstrap token for nodes");
    assert!(said_of("takes-another").await.contains("and not \"O=system:nodes, CN=system:node:n1\""));
    for name in ["other-token", "takes-another"] {
        assert!(!is_decided(&client, name).await.unwrap(), "{name}");
    }
}
