use super::*;
use crate::{CA_LIFETIME, CertSpec, Usage, issue_ca};

const SECRET: &str = "dontsay";

fn base() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "audit",
        "clusters": [{"name": "sink", "cluster": {"server": "https://audit.example.com:8443/events"}}],
        "users": [{"name": "tenant", "user": {"token": "abc"}}],
        "contexts": [{"name": "audit", "context": {"cluster": "sink", "user": "tenant"}}],
    })
}

/// The base with another value at that pointer; null removes it.
fn with(pointer: &str, value: Value) -> Value {
    let mut file = base();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = file.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(name);
    } else {
        parent.insert(name.to_owned(), value);
    }
    file
}

fn read(file: &Value) -> Result<Value, String> {
    webhook_kubeconfig(file.to_string().as_bytes()).map(|text| serde_json::from_str(text.expose()).unwrap())
}

const CLUSTER: &str = "/clusters/0/cluster";
const USER: &str = "/users/0/user";

#[test]
fn what_is_taken_is_written_anew() {
    let yaml = b"# mine\nclusters:\n- {name: a, cluster: {server: http://10.0.0.1}}\ncontexts:\n- name: b\n  context: {cluster: a}\ncurrent-context: b\n";
    let kept: Value = serde_json::from_str(webhook_kubeconfig(yaml).unwrap().expose()).unwrap();
    assert_eq!(kept["clusters"][0]["cluster"], json!({"server": "http://10.0.0.1"}));
    assert_eq!((&kept["users"][0]["user"], &kept["current-context"]), (&json!({}), &json!("webhook")));
    assert_eq!(read(&kept).unwrap(), kept, "once is enough");
    assert_eq!(read(&base()).unwrap()["users"][0]["user"], json!({"token": "abc"}));

    let spec = CertSpec::new("sink", Usage::Ca, CA_LIFETIME);
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let pair = issue_ca(&spec, now).unwrap();
    let (ca, key) = (STANDARD.encode(&pair.cert_pem), STANDARD.encode(pair.key_pem.expose()));
    let file = with(&format!("{CLUSTER}/certificate-authority-data"), ca.clone().into());
    assert_eq!(read(&file).unwrap()["clusters"][0]["cluster"]["certificate-authority-data"], json!(ca));
    let both = json!({"client-certificate-data": ca, "client-key-data": key});
    assert_eq!(read(&with("/users/0/user", both.clone())).unwrap()["users"][0]["user"], both);
    let other = issue_ca(&spec, now).unwrap();
    let both = json!({"client-certificate-data": ca, "client-key-data": STANDARD.encode(other.key_pem.expose())});
    assert!(read(&with("/users/0/user", both)).unwrap_err().contains("a certificate and its key"));
    let mut insecure = file.clone();
    insecure["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = true.into();
    assert!(read(&insecure).unwrap_err().contains("Remove one of the two"));
    assert!(read(&with(&format!("{CLUSTER}/insecure-skip-tls-verify"), true.into())).is_ok());
}

#[test]
fn what_is_refused_is_named_by_its_field_and_never_repeated() {
    let cluster = |field: &str| format!("{CLUSTER}/{field}");
    let user = |field: &str| format!("{USER}/{field}");
    let two = json!([base()["clusters"][0], base()["clusters"][0]]);
    for (pointer, value, wanted) in [
        ("/clusters".into(), two, "clusters: has 2 entries, and may have one"),
        ("/clusters".into(), Value::Null, "has no entry in clusters"),
        ("/contexts".into(), json!([]), "has no entry in contexts"),
        ("/clusters".into(), json!({}), "clusters: has to be a list"),
        ("/apiVersion".into(), json!("v2"), "apiVersion: has to be v1"),
        ("/kind".into(), json!("dontsay"), "kind: has to be Config"),
        ("/current-context".into(), Value::Null, "current-context: has to be the name"),
        ("/current-context".into(), json!("dontsay"), "current-context: has to be the name"),
        ("/contexts/0/context/cluster".into(), json!("dontsay"), "contexts[0].context.cluster: has to be"),
        ("/contexts/0/context/user".into(), json!("dontsay"), "contexts[0].context.user: has to be"),
        ("/contexts/0/context/user".into(), Value::Null, "contexts[0].context.user: has to be"),
        ("/dontsay".into(), json!(1), "has a field that is not supported"),
        (user("dontsay"), json!(1), "users[0].user: has a field that is not supported"),
        (
            user("tokenFile"),
            json!("/dontsay"),
            "users[0].user.tokenFile: names a file, and the pod has none of yours. Use token",
        ),
        (user("client-key"), json!("/dontsay"), "users[0].user.client-key: names a file"),
        (cluster("certificate-authority"), json!("/x"), "Use certificate-authority-data"),
        (user("exec"), json!({"command": "dontsay"}), "users[0].user.exec: runs a program"),
        (user("auth-provider"), json!({}), "users[0].user.auth-provider: runs a program"),
        (user("as"), json!("dontsay"), "users[0].user.as: is not supported"),
        (cluster("proxy-url"), json!("http://dontsay"), "clusters[0].cluster.proxy-url: is not supported"),
        (user("token"), json!(17), "users[0].user.token: has to be a string"),
        (user("token"), json!("dontsay\nX: y"), "users[0].user.token: may have no control characters"),
        (user("username"), json!("dontsay"), "has both token and username"),
        ("/users/0/user".into(), json!({"username": "dontsay"}), "username and password go together"),
        (
            "/users/0/user".into(),
            json!({"client-key-data": "ZG9udHNheQ=="}),
            "client-certificate-data and client-key-data go together",
        ),
        (cluster("certificate-authority-data"), json!("dontsay!"), "certificate-authority-data: is not base64"),
        (cluster("certificate-authority-data"), json!("ZG9udHNheQ=="), "has to be certificates as PEM"),
        (cluster("insecure-skip-tls-verify"), json!("yes"), "has to be true or false"),
        (cluster("tls-server-name"), json!("dontsay/x"), "tls-server-name: has to be the name of a host"),
    ] {
        let said = read(&with(&pointer, value.clone())).expect_err(&pointer);
        assert!(said.contains(wanted) && !said.contains(SECRET), "{pointer} {value}: {said}");
    }
    for (text, wanted) in [
        (&b"dontsay: [".to_vec(), "is no kubeconfig"),
        (&b"\xff".to_vec(), "is not UTF-8"),
        (&b"dontsay".to_vec(), "has to be an object"),
        (&vec![b' '; LONGEST + 1], "has 65537 bytes, and may have 65536"),
        (&b"a: 1\na: 2\n".to_vec(), "is no kubeconfig"),
    ] {
        let said = webhook_kubeconfig(text).unwrap_err();
        assert!(said.contains(wanted) && !said.contains(SECRET), "{said}");
    }
}

#[test]
fn urls_are_those_of_a_server_and_nothing_more() {
    for good in ["https://a", "http://10.0.0.1:80/", "https://[fd00::1]:8443/x%20y", "https://a_b.example.com./e"] {
        assert_eq!(url_fault(good), None, "{good}");
    }
    for (bad, word) in [
        ("", "has to be a URL"),
        ("audit.example.com", "has to be a URL"),
        ("ftp://a", "has to be a URL"),
        ("https://", "has to be a URL"),
        ("https://a:0", "has to be a URL"),
        ("https://a:65536", "has to be a URL"),
        ("https://a:+1", "has to be a URL"),
        ("https://[fd00::1", "has to be a URL"),
        ("https://a b", "has to be a URL"),
        ("https://a/%zz", "has to be a URL"),
        ("https://a/\n", "has to be a URL"),
        ("https://bücher.example", "has to be a URL"),
        ("https://me:dontsay@a", "no user"),
        ("https://a/#dontsay", "no fragment"),
        ("https://a/?token=dontsay", "no query"),
    ] {
        let said = url_fault(bad).expect(bad);
        assert!(said.contains(word) && !said.contains(SECRET), "{bad}: {said}");
    }
}
