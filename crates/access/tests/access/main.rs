//! `berth-access` between real API servers: who gets in, as whom, and who does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod alerts;
mod client;
mod platform;

use client::{Said, call, raw, send, steal};
use http::Method;
use http_body_util::BodyExt as _;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::DeleteParams;
use platform::{Platform, create, grant, sign, until, user};
use serde_json::json;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

const ACME: &str = "/clusters/team-a/acme";

fn acme(path: &str) -> String {
    format!("{ACME}{path}")
}

async fn get(p: &Platform, token: &str, path: &str) -> Said {
    call(p, token, Method::GET, path, &[]).await
}

#[tokio::test]
async fn a_person_calls_a_tenant_by_the_platforms_login_and_nobody_else_does() {
    let p = Platform::start().await.unwrap();
    let (alice, mallory) = (p.login("alice").await, p.login("mallory").await);
    p.allow("alice", &["get", "list", "watch"]).await;
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces", "configmaps"], "verbs": ["get", "list", "watch", "create"]}]);
    let name = "access:system:serviceaccount:team-a:alice";
    grant(&p.tenant, "", "alice", &user(name), &rules).await;

    // RBAC of both is taken up a moment later.
    until("alice gets in", async || get(&p, &alice, &acme("/api/v1/namespaces")).await.code == 200).await;
    let mark = p.tenant.audit_mark();
    let said = get(&p, &alice, &acme("/api/v1/namespaces?limit=1")).await;
    assert_eq!((said.code, &said.body["kind"]), (200, &json!("NamespaceList")));
    let seen = p.tenant.audit_since(mark);
    assert!(seen.iter().any(|event| event.user == name && event.verb == "list"), "{seen:?}");
    assert_eq!(p.operator.signed.load(Relaxed), 1, "one pass for all calls");
    let line = r#""user":"system:serviceaccount:team-a:alice","tenant":"team-a/acme","verb":"list","resource":"namespaces","method":"GET","code":200"#;
    until("a line of it", async || p.access.says(line)).await;
    assert!(!p.access.log().contains(&alice), "no token is written down");

    // What the platform allows is one thing, what the tenant allows another.
    let said = call(&p, &alice, Method::POST, &acme("/api/v1/namespaces"), &[]).await;
    assert_eq!(said.code, 403);
    let message = said.body["message"].as_str().unwrap();
    assert!(message.contains("may not create in the tenant acme: grant the verb create for clusters/api"), "{message}");
    let said = get(&p, &alice, &acme("/api/v1/secrets")).await;
    assert_eq!(said.code, 403);
    assert!(said.body["message"].as_str().unwrap().contains(&format!("User \"{name}\" cannot list")), "{said:?}");
    // The tenant judges who may be whom.
    let said = call(&p, &alice, Method::GET, &acme("/api/v1/namespaces"), &[("Impersonate-User", "admin")]).await;
    assert_eq!(said.code, 403, "{said:?}");

    // What a call does counts, however it is written.
    let (bob, carol) = (p.login("bob").await, p.login("carol").await);
    p.allow("bob", &["get"]).await;
    p.allow("carol", &["get", "create"]).await;
    until("bob may get", async || get(&p, &bob, &acme("/api/v1/namespaces")).await.code == 403).await;
    for path in ["/api/v1/namespaces", "/%61pi/v1/namespaces", "/api/v1/namespaces?watch=1"] {
        let said = get(&p, &bob, &acme(path)).await;
        assert!(
            said.code == 403 && said.body.to_string().contains("in the tenant acme: grant the verb"),
            "{path} {said:?}"
        );
    }
    until("carol may get", async || get(&p, &carol, &acme("/api/v1/namespaces")).await.code == 403).await;
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    let said = call(&p, &carol, Method::DELETE, &acme("/api/v1/namespaces/default"), &upgrade).await;
    assert!(said.code == 403 && said.body.to_string().contains("grant the verb delete"), "{said:?}");
    let said = call(&p, &alice, Method::TRACE, &acme("/api"), &[]).await;
    assert_eq!(said.code, 404, "no method of Kubernetes'");

    // One and the same answer for all that is not there or not theirs.
    let nothing = get(&p, "", &acme("/api")).await;
    assert_eq!((nothing.code, &nothing.body["reason"]), (404, &json!("NotFound")));
    for (token, path) in [
        ("", "/clusters"),
        ("wrong", ACME),
        (&mallory, ACME),
        (&alice, "/clusters/team-b/other/api"),
        (&alice, "/clusters/team-a/none/api"),
        (&alice, "/api"),
        (&alice, "/clusters/team-a/acme/../../team-b/other/api"),
        (&alice, "/clusters/team-a/acme/%2e%2e/other/api"),
    ] {
        let said = get(&p, token, path).await;
        assert_eq!((said.code, &said.body), (404, &nothing.body), "{path}");
    }
    for header in [
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
        ("Connection", "X-Remote-User"),
        ("x_remote_user", "a"),
    ] {
        let said = call(&p, &alice, Method::GET, &acme("/api"), &[header]).await;
        assert_eq!((said.code, &said.body), (404, &nothing.body), "{header:?}");
    }
    // Two lengths, of which one hides a second call.
    let smuggled = format!(
        "POST {ACME}/api HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {mallory}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET {ACME}/api HTTP/1.1\r\nX-Remote-User: admin\r\nHost: a\r\n\r\n"
    );
    let answers = raw(&p, &smuggled).await;
    assert!(!answers.contains(" 200 ") && (answers.contains(" 404 ") || answers.contains(" 400 ")), "{answers}");

    // Each sees their own.
    let said = get(&p, &alice, "/clusters").await;
    assert_eq!((said.code, said.body), (200, json!({"clusters": [{"namespace": "team-a", "name": "acme"}]})));
    assert_eq!(get(&p, &mallory, "/clusters").await.body, json!({"clusters": []}));
    assert_eq!(get(&p, "", "/login").await.body, json!({"exec": {"command": "get-token"}}));
}

#[tokio::test]
async fn a_stolen_certificate_is_nobody_by_itself() {
    let p = Platform::start().await.unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let certificate = sign(&request, &p.proxy_ca);
    let key = key.serialize_pem();
    assert_eq!(steal(&p, &certificate, &key, &[]).await, 401, "a dropped header is nobody, and no administrator");
    assert_eq!(
        steal(&p, &certificate, &key, &[("X-Remote-Group", "system:masters")]).await,
        401,
        "nor is a group alone"
    );
    assert_eq!(
        steal(&p, &certificate, &key, &[("X-Remote-User", "access:bob")]).await,
        403,
        "with the header it is who that says"
    );
    // So it is worth as much as the tenant: docs/threat-model.md says so.
    let anybody = [("X-Remote-User", "anybody"), ("X-Remote-Group", "system:masters")];
    assert_eq!(steal(&p, &certificate, &key, &anybody).await, 200, "whoever that is");
}

#[tokio::test]
async fn rights_that_are_taken_away_end_what_is_open_and_without_the_operator_calls_go_on() {
    let p = Platform::start().await.unwrap();
    let alice = p.login("alice").await;
    p.allow("alice", &["*"]).await;
    let rules = json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]);
    grant(&p.tenant, "", "alice", &user("access:system:serviceaccount:team-a:alice"), &rules).await;
    let all = json!([{"apiGroups": ["berth.dev"], "resources": ["clusters/api"], "verbs": ["*"]}]);
    let subject = json!({"kind": "ServiceAccount", "namespace": "team-a", "name": "alice"});
    grant(&p.meta, "team-b", "alice", &subject, &all).await;
    until("alice gets in", async || get(&p, &alice, &acme("/api/v1/configmaps")).await.code == 200).await;
    let mut watch = send(&p, &alice, Method::GET, &acme("/api/v1/configmaps?watch=true"), &[]).await;
    assert_eq!(watch.status().as_u16(), 200);
    create(&p.tenant, "v1", "ConfigMap", "default", &json!({"metadata": {"name": "news"}})).await;
    let mut heard = String::new();
    while !heard.contains(r#""name":"news""#) {
        let frame = watch.frame().await.unwrap().unwrap();
        heard += str::from_utf8(frame.data_ref().unwrap()).unwrap();
    }

    // Templates from before say so.
    until("the other tenant", async || get(&p, &alice, "/clusters/team-b/other/api").await.code != 404).await;
    let said = get(&p, &alice, "/clusters/team-b/other/api").await;
    assert_eq!((said.code, &said.body["message"]), (503, &json!("set Newest")));
    // Without the operator a tenant that was called goes on, and no other begins.
    p.operator.stop();
    until("it knows", async || p.access.says("the operator's connection")).await;
    assert_eq!(get(&p, &alice, &acme("/api/v1/configmaps")).await.code, 200);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let said = get(&p, &alice, "/clusters/team-b/other/api").await;
    assert!(said.code == 503 && said.body["message"].as_str().unwrap().contains("operator"), "{said:?}");

    let bindings: Api<RoleBinding> = Api::namespaced(p.meta.client(), "team-a");
    bindings.delete("alice", &DeleteParams::default()).await.unwrap();
    until("no new call", async || get(&p, &alice, &acme("/api/v1/configmaps")).await.code == 404).await;
    let cut = async { while let Some(Ok(_)) = watch.frame().await {} };
    tokio::time::timeout(std::time::Duration::from_mins(1), cut).await.unwrap();
}

/// Nobody keeps the operator out by connections that say nothing, or that are no operator's.
#[tokio::test]
async fn an_operator_that_comes_anew_gets_in_however_many_others_wait_there() {
    let p = Platform::start().await.unwrap();
    p.operator.stop();
    let connected = || p.access.log().matches("the operator is connected").count();
    let mut silent = vec![];
    for _ in 0..200 {
        silent.push(TcpStream::connect(&p.access.for_operator).await.unwrap());
    }
    p.operator.connect(&p.meta, &p.tenant, &p.proxy_ca);
    until("the operator is connected again", async || connected() > 1).await;
    // The first have made room, and are told so.
    assert_eq!(silent[0].read(&mut [0]).await.unwrap_or_default(), 0);
    assert!(p.access.says("made room for a newer one"));
}
