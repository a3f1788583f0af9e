//! From a line of a tenant's audit log to the client, as `docs/one-address.md` says.

use super::*;
use berth_testkit::ApiServer;
use berth_testkit::apiserver::Options;
use berth_testkit::fixtures::until;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};

/// The tenant; its API server's certificate has `api.example.com`.
const TENANT: &str = "api";

/// Creates an object through the gateway and is gone. `claims`: whose call it says that it passes on.
async fn creates(world: &World, server: &ApiServer, name: &str, claims: &str) {
    let mut config = server.config();
    config.cluster_url = format!("https://{}", world.address).parse().unwrap();
    config.tls_server_name = Some(format!("{TENANT}.example.com"));
    config.headers.push(("x-forwarded-for".parse().unwrap(), claims.parse().unwrap()));
    let all: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), "default");
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    all.create(&PostParams::default(), &object).await.unwrap();
}

/// The event of that object's creation.
fn event(server: &ApiServer, name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(server.dir().join("audit.log")).unwrap();
    let mut events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.find(|event| event["verb"] == "create" && event["objectRef"]["name"] == name)
}

#[tokio::test]
async fn an_audit_line_leads_to_the_client_by_the_gateways_line() {
    // So an API server logs each call with its address and port.
    let apiserver_args = vec!["--v=3".to_owned()];
    let server = ApiServer::start_with(Options { apiserver_args, ..Options::default() }).await.unwrap();
    let world = World::start(limits());
    let address = server.url().strip_prefix("https://").unwrap().parse().unwrap();
    world.has(&[(TENANT, &[(address, true)])]);
    let mut lines = vec![];
    for name in ["first", "second"] {
        creates(&world, &server, name, "198.51.100.9").await;
        lines.push(world.line().await);
    }
    let created = async |name| {
        until(SOON, "an event", async || event(&server, name).is_some()).await;
        event(&server, name).unwrap()
    };
    let own = |line: &Value| line["gateway"].as_str().unwrap().parse::<SocketAddr>().unwrap();

    let first = created("first").await;
    // What the client says of itself comes first, and the gateway last; no port.
    let sources: Vec<_> = first["sourceIPs"].as_array().unwrap().iter().map(|ip| ip.as_str().unwrap()).collect();
    assert_eq!(sources, ["198.51.100.9", &own(&lines[0]).ip().to_string()]);
    // So by the event alone each connection comes into question that was open then: the lines have their times.
    let at = first["requestReceivedTimestamp"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let was_open = |line: &&Value| {
        let end: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        let began = end - Duration::from_secs_f64(line["seconds"].as_f64().unwrap());
        began - Duration::from_secs(1) <= at && at <= end + Duration::from_secs(1)
    };
    assert!(lines.iter().any(|line| was_open(&line) && own(line) == own(&lines[0])));
    assert!(!was_open(&&json!({"time": "2026-01-01T00:00:00Z", "seconds": 5.0})), "not all of them do");

    // By the API server's own log, one.
    let log = async |id: &str| {
        let text = || std::fs::read_to_string(server.dir().join("kube-apiserver.log")).unwrap();
        let of = || text().lines().find(|l| l.contains(&format!("audit-ID=\"{id}\""))).map(str::to_owned);
        until(SOON, "a line of its own log", async || of().is_some()).await;
        of().unwrap()
    };
    for (name, line) in ["first", "second"].iter().zip(&lines) {
        let said = log(created(name).await["auditID"].as_str().unwrap()).await;
        let found: Vec<_> = lines.iter().filter(|line| said.contains(&format!("srcIP=\"{}\"", own(line)))).collect();
        assert_eq!(found, [line], "{name}: {said}");
        assert_eq!((&line["tenant"], &line["apiServer"]), (&json!("team-a/api"), &json!(address.to_string())));
    }
    assert_ne!(lines[0]["client"], lines[1]["client"]);
}
