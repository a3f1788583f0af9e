//! `berth-gateway` against a real API server: what it learns by its watches, with which rights, and how it ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;

use berth_testkit::ApiServer;
use cluster::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

#[tokio::test]
#[ignore = "make test-all: real connections, until they ran on a loaded machine"]
async fn what_services_and_slices_say_is_used_at_once_and_kept_while_the_api_is_away() {
    let server = ApiServer::start().await.unwrap();
    let gateway = Gateway::start(&server).unwrap();
    // Without rights nothing is known, and nobody is told that a name is unknown.
    until("a word about it", async || gateway.says("cannot watch Services")).await;
    assert_eq!(gateway.get("/readyz").await.0, 503);
    assert_eq!(gateway.get("/healthz").await.0, 200);
    grant(&server).await;
    until("ready", async || gateway.get("/readyz").await.0 == 200).await;
    assert_eq!(gateway.ask("acme.example.com").await, Answer::UnknownName);

    let home = berth_api::names::control_plane_namespace("team-a", "acme");
    let acme = json!({"cluster": {"namespace": "team-a", "name": "acme"}, "names": ["acme.example.com"]});
    for namespace in [home.as_str(), "evil"] {
        create(&server, "v1", "Namespace", "", &json!({"metadata": {"name": namespace}})).await;
    }
    // Somebody who was first, with all that the tenant has, in a namespace of their own.
    service(&server, "evil", &json!({"cluster": acme["cluster"], "names": ["acme.example.com", "other.example.com"]}))
        .await;
    slice(&server, "evil", "192.0.2.66").await;
    service(&server, &home, &acme).await;
    slice(&server, &home, "192.0.2.10").await;
    // Nothing answers there: documentation has these addresses.
    until("the tenant", async || gateway.ask("acme.example.com").await == Answer::Reset).await;
    until("a line", async || gateway.says(r#""tenant":"team-a/acme","bytesUp":0,"bytesDown":0"#)).await;
    // Its slice may come a moment after its Service.
    until("its API server", async || {
        gateway.ask("acme.example.com").await == Answer::Reset && gateway.says(r#""ended":"Unreachable""#)
    })
    .await;
    assert_eq!(gateway.ask("other.example.com").await, Answer::UnknownName, "the one who was first does not count");
    // By a header it is the same table.
    for (name, ended) in
        [("acme.example.com", r#""ended":"Unreachable""#), ("other.example.com", r#""ended":"UnknownName""#)]
    {
        let before = gateway.count(ended);
        gateway.ask_by_header(name).await;
        until("a line of it", async || gateway.count(ended) > before).await;
    }
    let (_, metrics) = gateway.get("/metrics").await;
    for line in [r#"berth_gateway_services_ignored{reason="Foreign"} 1"#, "berth_gateway_tenants 1"] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }

    let renamed = json!({"cluster": acme["cluster"], "names": ["api.acme.example."], "sourceRanges": ["10.0.0.0/8"]});
    annotate(&server, &home, &renamed).await;
    until("the old name goes", async || gateway.ask("acme.example.com").await == Answer::UnknownName).await;
    assert_eq!(gateway.ask("api.acme.example").await, Answer::Reset);
    until("a line", async || gateway.says(r#""ended":"SourceRefused""#)).await;

    let errors = gateway.count("cannot watch");
    server.stop_apiserver();
    until("a word about it", async || gateway.count("cannot watch") > errors).await;
    assert_eq!(gateway.ask("api.acme.example").await, Answer::Reset, "what was known counts");
    until("a metric for it", async || {
        gateway.get("/metrics").await.1.contains(r#"berth_gateway_watch_failing{resource="services"} 1"#)
    })
    .await;
    assert_eq!(gateway.get("/readyz").await.0, 200);
    server.start_apiserver().await.unwrap();
    delete_service(&server, &home).await;
    until("the tenant goes", async || gateway.ask("api.acme.example").await == Answer::UnknownName).await;

    let calls: Vec<_> = server.audit().into_iter().filter(|event| event.user == USER).collect();
    let only = |event: &berth_testkit::apiserver::AuditEvent| {
        ["list", "watch"].contains(&event.verb.as_str())
            && ["services", "endpointslices"].contains(&event.resource.as_str())
    };
    assert!(calls.len() > 4 && calls.iter().all(only), "{calls:?}");
}

#[tokio::test]
#[ignore = "make test-all: real connections, until they ran on a loaded machine"]
async fn it_ends_when_it_is_told_to() {
    let server = ApiServer::start().await.unwrap();
    grant(&server).await;
    let mut gateway = Gateway::start(&server).unwrap();
    until("ready", async || gateway.get("/readyz").await.0 == 200).await;
    // One that has not said whom it wants is not waited for any longer than others are.
    let _silent = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    kill_process(Pid::from_raw(gateway.process.pid()).unwrap(), Signal::TERM).unwrap();
    until("its end", async || gateway.process.check().is_err()).await;
    let ended = gateway.process.check().unwrap_err().to_string();
    assert!(ended.contains("ended with exit status: 0"), "{ended}");
}
