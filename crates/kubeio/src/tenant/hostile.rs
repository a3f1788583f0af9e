//! Every read of a tenant, and every write into it, by a tenant that answers whatever it likes.
//!
//! | what is asked | what becomes of the answer |
//! |---|---|
//! | listings of Berth's objects | compared with what is wanted, and shown to nobody; UIDs go back as preconditions |
//! | `Lease`s | times and numbers |
//! | pods of add-ons | `TenantText`: their names and what they say; never in a command |
//! | webhook configurations | matched; names and rules as `TenantText`, in a command only if they are names; slices of their Services are counted |
//! | `nodes` as a table | counts, parsed versions and addresses; names as `TenantText` |
//! | `/version` | parsed: short and plain, or no version |
//! | `/readyz`, `APIService`s as a table, a dry run | `TenantText` |
//! | `/metrics` | three metrics, of whose labels plain characters are kept; numbers |
//! | an Event of Berth's own | its count, within bounds |
//! | where a list goes on | encoded, or the list ends |
//! | errors of all these, and of writes | `IoError`, which is one short line; `TenantText` |
//!
//! What `kubectl berth` reads goes through the same calls; `join-command` parses the address that it prints.

use super::tests::target;
use super::*;
use berth_api::text::{TenantText, printable};
use berth_plan::admission::Write;
use berth_plan::asked::Facts;
use berth_plan_cluster::LookRequest;
use berth_render::{Kind, Object, ObjectKey, TenantSet};
use kube::client::Body;
use serde_json::json;

/// What a shell, a terminal or a log would take for something else than text, and more than anybody reads.
fn words() -> Vec<String> {
    let short = [
        ";id>/tmp/owned;",
        "$(id)`id`",
        "\n2026-01-01 INFO all is well",
        "\r\u{1b}[8m\u{1b}[1A",
        "\u{9b}2J",
        "\u{202e}x",
    ];
    short.into_iter().map(str::to_owned).chain(["y".repeat(1 << 20), "\u{1b}".repeat(1 << 20)]).collect()
}

/// What it answers, whatever it is asked: a refusal; well-formed, with the word wherever a text may be; or the word.
#[derive(Clone, Copy, Debug)]
enum How {
    Refuse(u16),
    Everywhere {
        /// Whether a list goes on.
        more: bool,
    },
    Bare,
}

const HOW: [How; 7] = [
    How::Refuse(403),
    How::Refuse(404),
    How::Refuse(409),
    How::Refuse(500),
    How::Everywhere { more: true },
    How::Everywhere { more: false },
    How::Bare,
];

/// Each word of an answer that holds many: of a longer answer the client reads no more than [`super::LONGEST`].
const MANY: usize = 8 << 10;

fn body(word: &str, how: How) -> Vec<u8> {
    let word = if matches!(how, How::Everywhere { .. }) { &word[..word.floor_char_boundary(MANY)] } else { word };
    let columns = ["Name", "Status", "Version", "Internal-IP", "Available"].map(|name| json!({"name": name}));
    let answer = match how {
        How::Bare => {
            return format!(
                "{word}\napiserver_requested_deprecated_apis{{group=\"{word}\",removed_release=\"1.36\"}} 1\n"
            )
            .into();
        }
        How::Refuse(code) => {
            json!({"kind": "Status", "status": "Failure", "message": word, "reason": word, "code": code})
        }
        How::Everywhere { more } => json!({
            "kind": word, "apiVersion": word, "gitVersion": word, "major": word, "minor": word, "emulationMajor": word,
            "emulationMinor": word, "status": word, "message": word,
            "metadata": {"continue": if more { word } else { "" }, "name": word, "uid": word, "resourceVersion": word, "labels": {(word): word}},
            "items": [{"metadata": {"name": word, "namespace": word, "uid": word}, "data": {(word): word}, "webhooks": [{
                "name": word, "clientConfig": {"service": {"namespace": word, "name": word}},
                "rules": [{"apiGroups": ["*", word], "apiVersions": [word], "operations": ["*"], "resources": ["*/*"]}],
            }]}],
            "columnDefinitions": columns, "rows": [{"cells": [word, word, word, "192.0.2.1", word]}],
        }),
    };
    answer.to_string().into_bytes()
}

fn hostile(word: &str, how: How) -> FencedClient {
    let (status, body) = (if let How::Refuse(code) = how { code } else { 200 }, body(word, how));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        assert!(query.len() < 16 << 10 && !query.contains([';', '$', '`']), "{query:.200}");
        let answer = Response::builder().status(status).body(Body::from(body.clone()));
        async move { answer }
    });
    FencedClient::new(kube::Client::new(service, "default"), Fence::open())
}

/// All that is said of what was found.
fn of_facts(facts: Facts) -> Vec<String> {
    let mut all: Vec<TenantText> = vec![];
    let mut plain = vec![];
    for said in facts.servers.into_values() {
        match said {
            Err(why) => all.push(why),
            Ok(server) => {
                all.extend(server.unwell);
                plain.push(server.version.version);
                plain.extend(server.metrics.features.into_iter().flat_map(|(name, stage)| [name, stage]));
                let deprecated = server.metrics.deprecated.into_iter();
                plain.extend(deprecated.flat_map(|api| [api.group_version, api.resource]));
            }
        }
    }
    match facts.services_down {
        Err(why) => all.push(why),
        Ok(down) => all.extend(down.into_iter().flat_map(|(name, why)| [name, why])),
    }
    all.extend(facts.admission.err());
    assert!(plain.iter().all(|text| text.len() <= 300 && !text.contains([';', '$', '`', ' '])), "{plain:.80?}");
    all.into_iter().map(String::from).chain(plain).collect()
}

fn of_probe(probe: ApiProbe) -> Vec<String> {
    match probe {
        ApiProbe::NotAsked => vec![],
        ApiProbe::Unable(why) => vec![why],
        ApiProbe::Failed(why) | ApiProbe::Refused(why) => vec![why.into()],
        ApiProbe::Answered { version, read } => {
            let nodes = read.nodes.into_iter().flat_map(|nodes| nodes.addresses).map(|(name, _)| name.into());
            let pods = read.pods.into_values().map(String::from);
            nodes.chain(pods).chain(version.map(|version| version.version)).collect()
        }
    }
}

/// What each call says, by what it is called here.
async fn said(word: &str, how: How) -> Vec<(&'static str, Vec<String>)> {
    let client = hostile(word, how);
    let same = client.clone();
    let connect: Connect = Arc::new(move |_| {
        let client = same.clone();
        Box::pin(async move { Ok(client) })
    });
    let target = target("https://192.0.2.1:6443".into(), None);
    let calls = Arc::<Calls>::default();
    let mut all = vec![];
    for (name, questions) in [
        ("listings", Questions { listings: TenantSet::LISTINGS.into(), ..Questions::default() }),
        ("nodes", Questions { nodes: true, ..Questions::default() }),
        ("pods", Questions { pods: vec!["kube-dns"], ..Questions::default() }),
        ("version", Questions { version: true, ..Questions::default() }),
    ] {
        let (probe, _) = probe_tenant(&connect, target.clone(), questions, calls.clone()).await;
        all.push((name, of_probe(probe)));
    }
    let io = Io::new(client, calls.clone(), DEADLINE);
    let asked =
        LookRequest { servers: vec![("pod".into(), "https://192.0.2.2:6443".into())], ..LookRequest::default() };
    all.push(("look", of_facts(look(&connect, &target, &io, &asked, &calls, jiff::Timestamp::UNIX_EPOCH).await)));
    let webhooks = admission::all_webhooks(&io).await;
    let named = webhooks.iter().flatten().flat_map(|webhook| {
        let rules = Write::ALL.into_iter().filter_map(|write| webhook.rule(write).cloned());
        let commands = webhook.in_a_command().map(str::to_owned);
        assert!(commands.is_none_or(|name| !name.contains([';', '$', '`', ' '])));
        [webhook.configuration.clone(), webhook.name.clone()].into_iter().chain(rules).map(String::from)
    });
    let unknown = webhooks.as_ref().err().map(ToString::to_string);
    all.push(("webhooks", named.chain(unknown).collect()));
    let errors = |error: Option<IoError>| {
        error
            .map(|error| vec![error.to_string(), error.failure().message, error.message, error.what])
            .unwrap_or_default()
    };
    let key = ObjectKey::namespaced(Kind::ConfigMap, "kube-system", "a");
    let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}});
    let object = Object::new(value.clone()).unwrap();
    all.push(("get", errors(io.get(&key).await.err())));
    all.push(("apply", errors(io.apply(&object, "berth").await.err())));
    all.push(("create", errors(io.create(&key, &value, "berth").await.err())));
    all.push(("merge", errors(io.merge(&key, "", "", &value).await.err())));
    let now = jiff::Timestamp::UNIX_EPOCH;
    all.push(("tell", errors(told::tell(&io, &key, "u", "Berth set back /data", now).await.err())));
    all.push(("delete", errors(io.delete(&key, "u", None).await.err())));
    all
}

#[tokio::test]
async fn what_a_tenant_says_is_one_short_line_wherever_it_is_told() {
    let mut told = std::collections::BTreeSet::new();
    for word in words() {
        for how in HOW {
            for (call, texts) in said(&word, how).await {
                for text in texts {
                    told.insert(call);
                    assert!(text.len() <= 9000, "{call} {how:?}: {} bytes", text.len());
                    assert_eq!(text, printable(&text), "{call} {how:?}");
                    assert!(!text.contains(['\n', '\r', '\u{1b}', '\u{9b}', '\u{202e}']), "{call} {how:?}: {text:?}");
                }
            }
        }
    }
    // Each of them says something, or this would show nothing.
    let calls = [
        "apply", "create", "delete", "get", "listings", "look", "merge", "nodes", "pods", "tell", "version", "webhooks",
    ];
    assert_eq!(told.into_iter().collect::<Vec<_>>(), calls);
}
