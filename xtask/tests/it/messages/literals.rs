//! The texts in the planners' sources, and whether a situation shows each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Texts that are not part of a condition's message, or of none that a world in memory can have. File, beginning, reason.
const NOT_SHOWN: &[(&str, &str, &str)] = &[
    (
        "plan-cluster/components/stage.rs",
        "{first} to finish its rollout first",
        "kube-apiserver's own rollout is said first",
    ),
    (
        "plan-cluster/endpoint/answer.rs",
        "Temporary failure in name resolution",
        "what a C library says, to compare with",
    ),
    ("plan-cluster/endpoint/answer.rs", "Try again", "what a C library says, to compare with"),
    (
        "plan-cluster/etcd.rs",
        "EtcdCluster etcd to be created",
        "its object is written in the same stage, which says that",
    ),
    ("plan-cluster/revision/rollout.rs", "{} to be recorded", "the object that is written is said first"),
    ("plan-cluster/inside/stage.rs", "a client certificate for the API", "the CA that lacks is said first"),
    ("plan-cluster/inside/sets.rs", "the certificate in {ca}", "without the CA the API is not asked"),
    ("plan-backup/backup/outcome.rs", "its result to be recorded", "the result itself is said"),
    ("plan-backup/restore/mod.rs", "Berth to record why it failed", "the failure itself is said"),
    ("plan-backup/restore/mod.rs", "Berth to record that it is restored", "that it is restored is said"),
    ("plan-backup/restore/source.rs", "the backup of the members that are left", "that backup says it first"),
    (
        "plan-backup/restore/held.rs",
        "all that was written since the backup",
        "`kubectl berth etcd restore`, of a snapshot in a store",
    ),
    (
        "plan-etcd/recovery/act.rs",
        "EtcdRestore {}/{name} to be created",
        "it is created in the same reconcile, and says what it does",
    ),
    (
        "plan-etcd/recovery/mod.rs",
        "a majority of the members lost",
        "what to do about the members is said in its place",
    ),
    ("plan-etcd/recovery/mod.rs", "no store for backups is configured", "likewise"),
    ("plan-etcd/recovery/mod.rs", "there is no verified EtcdBackup of it", "likewise"),
    ("plan-backup/restore/held.rs", "{} --survivors STORE", "`kubectl berth etcd restore`, which knows no store"),
    ("plan-backup/restore/held.rs", "--claim {claim}", "a flag, like that for a Secret"),
    ("plan/verdicts.rs", "it failed", "what it failed for is kept"),
    (
        "plan-etcd/members.rs",
        "Berth to record the next step of the restore",
        "the object that is written is said first",
    ),
    ("plan-etcd/restore/mod.rs", "a newer operator restores", "what only a newer build knows is not read as a restore"),
    ("plan-cluster/window.rs", "spec.upgrade.window.start: {start} is no time", "the API server refuses it"),
    ("plan-cluster/window.rs", "spec.upgrade.window.duration: ", "the API server refuses it"),
    ("plan-cluster/window.rs", "spec.upgrade.window.start: {start} never comes", "every week has each day"),
    ("plan/settings/rollouts.rs", "rollouts.waveSoak: ", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "backups.stores: ", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "two stores have this name", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "endpoint: {endpoint} is no URL", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "writers.backups.endpoints: ", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "backups.default", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "no store {store} is in", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "with nothing to keep", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "name, bucket and secretName", "the operator does not start; its log says it"),
    ("plan/settings/backups.rs", "{host} is ", "the operator's log, and how a store is found there"),
    ("plan/settings/backups.rs", "{value}: {}. NetworkPolicies keep", "the operator's log"),
    (
        "plan/workload/pods.rs",
        "flag provided but not defined: ",
        "how etcd complains of a flag, which nobody can set yet",
    ),
    ("plan/workload/pods.rs", "invalid value ", "how etcd complains of a flag, which nobody can set yet"),
    ("plan/settings/config.rs", "writers.limits.{field}: ", "the operator does not start; its log says it"),
    ("plan/settings/config.rs", "{field}: ", "the operator does not start; its log says it"),
    ("plan/objects/diff.rs", ".spec differs", "quoted after `a mutating webhook or policy changes what Berth writes`"),
    (
        "plan/objects/diff.rs",
        "{path} is missing",
        "quoted after `a mutating webhook or policy changes what Berth writes`",
    ),
    ("plan-etcd/members.rs", "Berth to record the next step with member", "the object that is written is said first"),
    ("plan-etcd/members.rs", "the volume of member {member}", "its claim is said to be deleted in the same reconcile"),
    (
        "plan-etcd/membership/operation.rs",
        "there is no leader at the moment",
        "without a leader there is no quorum, which is said first",
    ),
    ("plan-etcd/membership/operation.rs", "its Service has no address yet", "the stage of Services says it first"),
    ("plan-etcd/membership/operation.rs", "its pod is being replaced", "a pod that ends says that first"),
    (
        "plan-etcd/membership/mod.rs",
        "PersistentVolumeClaim data-{name} of a member that stays is being",
        "a volume that is being deleted says that first",
    ),
    (
        "plan-etcd/membership/operation.rs",
        "{needed} members have to be well",
        "who of those that stay is not well is said first",
    ),
    (
        "plan-etcd/membership/operation.rs",
        "no other member is well",
        "who of those that stay is not well is said first",
    ),
    ("plan-etcd/members.rs", "the Secrets with the CAs", "the stage of certificates says it first"),
    ("plan-etcd/roll.rs", "pod {stuck}, whose image", "that pod's problem is said first"),
    ("plan-etcd/upgrade/act.rs", "the members' hashes of their data", "the call fails, which is said first"),
    ("plan-etcd/upgrade/act.rs", "{via} to hand over leadership", "it is done in the same reconcile"),
    (
        "plan-etcd/upgrade/act.rs",
        "Berth to record the next step of the change of the version",
        "the object that is written is said first",
    ),
    ("plan-etcd/roll.rs", "pod {failed} to go back", "that pod's problem is said first"),
    ("plan-etcd/upgrade/mod.rs", "all members to be ready, without ", "what is wrong with them is said first"),
    ("plan-etcd/upgrade/mod.rs", "to get a pod", "the StatefulSet's controller is as fast as the simulator"),
    ("plan-etcd/upgrade/mod.rs", "member {} to have been ready", "it is said for five seconds"),
    ("plan-etcd/upgrade/mod.rs", "all members to have etcd", "a pod that was lost comes back in its own version"),
    ("plan-etcd/upgrade/mod.rs", "member {} runs etcd {says}", "an image that holds another version than its tag says"),
    (
        "plan-etcd/upgrade/mod.rs",
        "member {} was not ready within",
        "ten minutes; what is wrong with its pod is said first",
    ),
    ("plan-etcd/validate.rs", "etcd changes from {} to {} one minor", "there are templates of two minors"),
    ("plan/model/action.rs", "have {key} grow", "`kubectl berth plan`"),
    ("plan/model/action.rs", "mark {key} as damaged", "`kubectl berth plan`"),
    ("plan/model/action.rs", "scale {key}", "`kubectl berth plan`"),
    ("plan/model/action.rs", "{} of {etcd} through {via}", "`kubectl berth plan`"),
    ("plan/model/etcd_call.rs", "compare hashes at revision", "`kubectl berth plan`"),
    ("plan/model/etcd_call.rs", "compact at revision", "`kubectl berth plan`"),
    ("plan/model/etcd_call.rs", "disarm alarm {alarm}", "`kubectl berth plan`"),
    ("plan/model/etcd_call.rs", "add learner {peer_url}", "`kubectl berth plan`"),
    ("plan/model/etcd_call.rs", "promote member {id}", "`kubectl berth plan`"),
    ("plan/model/etcd_call.rs", "move leadership to member", "`kubectl berth plan`"),
    ("plan/model/etcd_call.rs", "write a key", "the alarm is over by then, and nothing is wrong"),
    ("plan/model/action.rs", "apply {} in the tenant", "`kubectl berth plan`"),
    ("plan/model/action.rs", "delete {key} in the tenant", "`kubectl berth plan`"),
    ("plan/model/action.rs", "publish {key}", "`kubectl berth plan`"),
    ("plan/model/secret.rs", "certificate {name}", "`kubectl berth plan`"),
    ("plan/model/secret.rs", "copy of the CA", "`kubectl berth plan`"),
    ("plan/model/secret.rs", "copy of {name} of", "`kubectl berth plan`"),
    ("plan/model/secret.rs", "service-account key", "`kubectl berth plan`"),
    ("plan/model/secret.rs", "encryption key", "`kubectl berth plan`"),
    ("plan/model/secret.rs", "kubeconfig ({why})", "`kubectl berth plan`"),
    ("plan/meta_cluster/nodes.rs", "there are no nodes yet", "the operator's log: how the agent gets into pods"),
    ("plan/meta_cluster/nodes.rs", "node {name}: kubelet", "the operator's log: how the agent gets into pods"),
    ("plan/secrets/facts.rs", "BEGIN CERTIFICATE", "what a PEM file has"),
    ("plan/secrets/mod.rs", "the CA in {issuer}", "the CA that lacks is said first"),
    ("plan/secrets/mod.rs", "there is none", "`kubectl berth plan`"),
];

/// What a planner's messages are made in.
const PLANNERS: [&str; 4] = ["plan", "plan-backup", "plan-etcd", "plan-cluster"];

/// The sources of a crate, as `crate/path`.
fn named(package: &str) -> Vec<(String, PathBuf)> {
    let source = super::crates().join(package).join("src");
    let name = |file: &PathBuf| format!("{package}/{}", file.strip_prefix(&source).unwrap().display());
    files(&source).into_iter().map(|file| (name(&file), file)).collect()
}

/// Every text of the source is in a message, or is listed above; and what is listed is there, and in no message.
pub(super) fn are_met(messages: &[&str]) {
    let mut unused: Vec<_> = NOT_SHOWN.iter().collect();
    let mut missing = vec![];
    for (name, file) in PLANNERS.iter().flat_map(|planner| named(planner)) {
        let text = std::fs::read_to_string(&file).unwrap();
        for literal in literals(production(&text)).into_iter().filter(|l| l.contains(' ')) {
            let listed = |(file, start, _): &(&str, &str, &str)| name == *file && literal.starts_with(start);
            let met = messages.iter().any(|message| is_in(&literal, message));
            match (NOT_SHOWN.iter().any(listed), met) {
                (false, false) => missing.push(format!("{name}: {literal}")),
                (true, false) => unused.retain(|row| !listed(row)),
                (true, true) => panic!("{name}: `{literal}` is in a message: take it off NOT_SHOWN"),
                (false, true) => {}
            }
        }
    }
    assert!(unused.is_empty(), "not in the source: {unused:#?}");
    assert!(
        missing.is_empty(),
        "no situation in tests/messages.rs shows these; add one, or list them in messages/literals.rs: {missing:#?}"
    );
}

/// What the operator logs, as (level, text), from the error to the least.
pub(super) fn logs() -> BTreeSet<(&'static str, String)> {
    let mut all = BTreeSet::new();
    for text in of_the_operator() {
        for level in ["error", "warn", "info"] {
            for call in production(&text).split(&format!("tracing::{level}!(")).skip(1) {
                all.extend(literals(call).into_iter().find(|l| l.contains(' ')).map(|said| (level, said)));
            }
        }
    }
    all
}

/// Whether the operator or kubeio has a text of its own that makes a part of this message; a few words in a row are none.
pub(super) fn is_of_the_operator(message: &str) -> bool {
    let own = |literal: &String| pieces(literal).concat().len() > 15 && is_in(literal, message);
    of_the_operator().iter().any(|text| literals(production(text)).iter().any(own))
}

/// The source of the operator and of kubeio.
fn of_the_operator() -> Vec<String> {
    let source = |name| super::crates().join(name).join("src");
    let all = ["operator", "kubeio"].into_iter().flat_map(|name| files(&source(name)));
    all.map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// All of a folder but what only tests build.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.file_name().and_then(|n| n.to_str()).unwrap() {
            "tests" | "tests.rs" => {}
            _ if path.is_dir() => all.extend(files(&path)),
            _ => all.push(path),
        }
    }
    all.sort();
    all
}

/// A file up to its tests.
fn production(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// String literals, as they are written.
fn literals(text: &str) -> Vec<String> {
    let (mut all, mut rest) = (vec![], text);
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, here) = rest.split_at(at);
        rest = if here.starts_with("//") {
            here.split_once('\n').map_or("", |(_, next)| next)
        } else if let Some(raw) = here.strip_prefix('"').filter(|_| before.ends_with(['r', '#'])) {
            let hashes = "#".repeat(before.len() - before.trim_end_matches('#').len());
            raw.split_once(&format!("\"{hashes}")).map_or("", |(_, next)| next)
        } else if let Some(inner) = here.strip_prefix('"') {
            let end = end_of(inner);
            all.push(inner[..end].replace("\\\"", "\""));
            &inner[end + 1..]
        } else if here.starts_with("'\\") {
            &here[here[3..].find('\'').map_or(3, |end| end + 4)..]
        } else if here.starts_with('\'') && here.chars().nth(2) == Some('\'') {
            &here[here.char_indices().nth(3).map_or(here.len(), |(i, _)| i)..]
        } else {
            &here[1..]
        };
    }
    all
}

/// Where a string ends whose quote is open.
fn end_of(inner: &str) -> usize {
    let mut escaped = false;
    let closes = |c: char| {
        let end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        end
    };
    inner.find(closes).unwrap_or(inner.len() - 1)
}

/// Whether `message` has the literal's words in their order, with anything for its placeholders.
fn is_in(literal: &str, message: &str) -> bool {
    let mut rest = message;
    pieces(literal).iter().all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// A format string without its placeholders.
fn pieces(literal: &str) -> Vec<String> {
    let plain = literal.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let ends = plain.split('{').map(|part| part.rsplit('}').next().unwrap_or_default());
    ends.map(|part| part.replace('\u{1}', "{").replace('\u{2}', "}")).collect()
}

#[test]
fn literals_are_found_and_placeholders_are_anything() {
    let source = r##"
        // "a comment"
        let (a, b) = ('"', '\''); // it's
        fn f<'a>(x: &'a str) -> String { format!("{x}: said \"no\" to {}", y) }
        const R: &str = r#"raw "text" here"#;
    "##;
    assert_eq!(literals(source), [r#"{x}: said "no" to {}"#]);
    assert!(is_in("{x}: waits for {}", "etcd: waits for a pod") && is_in("a {{b}}", "a {b}"));
    assert!(!is_in("waits for {} and {y} more", "waits for a pod"));
}
