//! The texts in the planners' sources, and whether a situation shows each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files and folders whose texts have a table of their own, of which situations show some. Place, the table.
const TABLES: &[(&str, &str)] = &[
    ("plan-cluster/validate/jwt/", "validate/jwt/tests.rs, and tests/it/jwt with the real kube-apiserver"),
    ("plan-cluster/validate/audit.rs", "validate/audit.rs, and tests/it/audit with the real kube-apiserver"),
    ("plan-cluster/validate/admission/", "the tests in it, and tests/it/admission with the real kube-apiserver"),
    ("plan-cluster/validate/trusted_ca.rs", "the tests in it"),
    ("plan-cluster/validate/kubelet/", "validate/kubelet/tests.rs, and tests/it/kubelet with the real kubelet"),
    ("plan-cluster/inside/edited.rs", "what Events inside a tenant say: the tests in it"),
    ("plan-cluster/access.rs", "what the login tells who calls a tenant: tests/access.rs"),
    ("plan-cluster/users/", "users/tests.rs, and the operator's tests with a real kube-apiserver"),
    ("plan-apps/values/", "values/tests.rs"),
    ("plan/room/", "room/tests.rs, and the tests in room/scheduler.rs"),
    ("plan/workload/last_words.rs", "what components say as they end: the tests beside it"),
];

/// Texts that are not part of a condition's message, or of none that a world in memory can have. Crate, beginning, reason.
const NOT_SHOWN: &[(&str, &str, &str)] = &[
    ("plan-backup", "it sleeps since {asleep", "the tests in schedule/ready.rs"),
    ("plan-cluster", "is not one of Berth's, or is being deleted", "somebody took its name: sleep/backup.rs"),
    ("plan-cluster", "a pod of kube-apiserver came back", "the tests in sleep/decide/tests.rs"),
    ("plan-cluster", "the backup before it was not proven", "the tests in sleep/decide/tests.rs"),
    ("plan-cluster", "{field}: it stays awake, since clients in its VPC", "what its VPC lacks is said first"),
    ("plan-etcd", "{on}; then it sleeps", "what keeps it awake is said first"),
    ("plan-etcd", "what is under way to end", "what is under way is said first"),
    ("plan-etcd", "the upkeep of its databases to be done", "likewise"),
    ("plan-etcd", "an alarm to be disarmed", "the alarm is said first"),
    ("plan-etcd", "all members to be ready: ", "the members are said first"),
    ("plan-etcd", "the replacement of its pods to be through", "the replacement is said first"),
    ("plan-cluster", "the rollout of the newest release to end", "the rollout is said first"),
    ("plan-cluster", "waiting for the tenant to be awake", "what starts is said first"),
    ("plan-cluster", "the tenant to come up for the first time", "what it comes up with is said first"),
    ("plan-cluster", "all pods of {} to be ready", "the rollout is said first"),
    ("plan-cluster", "EtcdCluster etcd to be ready: ", "etcd is said first"),
    ("plan-cluster", "{first} to finish its rollout first", "kube-apiserver's own rollout is said first"),
    ("plan-cluster", "Temporary failure in name resolution", "what a C library says, to compare with"),
    ("plan-cluster", "Try again", "what a C library says, to compare with"),
    ("plan", "{}m CPU and ", "what the operator's log has of a resize"),
    ("plan", "{}m CPU, {}Mi", "what kubectl berth status shows"),
    ("plan", "nodePort: Invalid value: ", "what an API server says, to compare with"),
    ("plan-cluster", "EtcdCluster etcd to be created", "its object is written in the same stage, which says that"),
    ("plan-cluster", "{} to be recorded", "the object that is written is said first"),
    ("plan-cluster", "a client certificate for the API", "the CA that lacks is said first"),
    ("plan-cluster", "the certificate in {ca}", "without the CA the API is not asked"),
    ("plan", "writers.apps.sources: ", "the operator does not start; its log says it"),
    ("plan-apps", "deployed in {count} Clusters", "the tests in app/tests.rs"),
    ("plan-apps", "it is not selected any more; that it loses", "the tests in app/tests/removal.rs"),
    ("plan-apps", "{turn}: failed in {failed}", "the tests in app/tests/words.rs"),
    ("plan-apps", "a Job is about to begin", "`kubectl berth plan`"),
    ("plan-apps", "the right to read what is in namespace {}", "the right that lacks is said in its place"),
    ("plan-apps", "what is asked for to be recorded", "it is recorded in the same reconcile"),
    ("plan-apps", "the last try failed", "what it failed for is said"),
    ("plan-apps", "its result to be recorded", "the result itself is said"),
    ("plan-backup", "its result to be recorded", "the result itself is said"),
    ("plan-backup", "Berth to record why it failed", "the failure itself is said"),
    ("plan-backup", "Berth to record that it is restored", "that it is restored is said"),
    ("plan-backup", "the backup of the surviving members", "that backup says it first"),
    ("plan-backup", "data written since the backup", "`kubectl berth etcd restore`, of a snapshot in a store"),
    ("plan-etcd", "EtcdRestore {}/{name} to be created", "it is created in the same reconcile, and says what it does"),
    ("plan-etcd", "a majority of the members lost", "what to do about the members is said in its place"),
    ("plan-etcd", "no store for backups is configured", "likewise"),
    ("plan-etcd", "there is no verified EtcdBackup of it", "likewise"),
    ("plan-backup", "{} --survivors STORE", "`kubectl berth etcd restore`, which knows no store"),
    ("plan-backup", "--claim {}", "a flag, like that for a Secret"),
    ("plan", "it failed", "what it failed for is kept"),
    ("plan-etcd", "Berth to record the next step of the restore", "the object that is written is said first"),
    ("plan-etcd", "a newer operator restores", "what only a newer build knows is not read as a restore"),
    ("plan-cluster", "spec.upgrade.window.start: {start} is no time", "the API server refuses it"),
    ("plan-cluster", "spec.upgrade.window.duration: ", "the API server refuses it"),
    ("plan-cluster", "spec.upgrade.window.start: {start} never comes", "every week has each day"),
    ("plan", "rollouts.waveSoak: ", "the operator does not start; its log says it"),
    ("plan", "backups.stores: ", "the operator does not start; its log says it"),
    ("plan", "two stores have this name", "the operator does not start; its log says it"),
    ("plan", "endpoint: {endpoint} is no URL", "the operator does not start; its log says it"),
    ("plan", "writers.backups.endpoints: ", "the operator does not start; its log says it"),
    ("plan", "backups.default", "the operator does not start; its log says it"),
    ("plan", "no store {store} is in", "the operator does not start; its log says it"),
    ("plan", "with nothing to keep", "the operator does not start; its log says it"),
    ("plan", "name, bucket and secretName", "the operator does not start; its log says it"),
    ("plan", "{host} is ", "the operator's log, and how a store is found there"),
    ("plan", "{value}: {}. NetworkPolicies keep", "the operator's log"),
    ("plan", "writers.limits.{field}: ", "the operator does not start; its log says it"),
    ("plan", "writers.hosts: ", "the operator does not start; its log says it"),
    ("plan", "gateway.domain: ", "the operator does not start; its log says it"),
    ("plan", "gateway.engines: ", "the operator does not start; its log says it"),
    ("plan", "gateway.parents: ", "the operator does not start; its log says it"),
    ("plan", "gateway.parents: ", "the operator does not start; its log says it"),
    ("plan", "gateway.parents[{at}]: ", "the operator does not start; its log says it"),
    ("plan", "gateway.parents[{at}]: ", "the operator does not start; its log says it"),
    ("plan", "access.namespace: ", "the operator does not start; its log says it"),
    ("plan", "gateway.{field}: ", "the operator does not start; its log says it"),
    ("plan", "gateway.namedPort: ", "the operator does not start; its log says it"),
    ("plan", "image \"", "what kubelet says, from which the image is read"),
    ("plan", "tenants.proxy.{field}: ", "the operator does not start; its log says it"),
    ("plan", "{field}: ", "the operator does not start; its log says it"),
    ("plan", "{}: name at least one", "the operator does not start; its log says it"),
    ("plan", "kinds: {kind} is none of", "the operator does not start; its log says it"),
    ("plan", "paths: {path} ", "the operator does not start; its log says it"),
    ("plan", "is no path, such as ", "the operator does not start; its log says it"),
    ("plan", "is not, and not below, one of ", "the operator does not start; its log says it"),
    ("plan", "{field}.{of}", "the operator does not start; its log says it"),
    ("plan-etcd", "Berth to record the next step with member", "the object that is written is said first"),
    ("plan-etcd", "the volume of member {member}", "its claim is said to be deleted in the same reconcile"),
    ("plan-etcd", "there is no leader at the moment", "without a leader there is no quorum, which is said first"),
    ("plan-etcd", "its Service has no address yet", "the stage of Services says it first"),
    ("plan-etcd", "pod {stuck}, which no node takes,", "that its pod finds no node is said first"),
    ("plan-etcd", "its pod is being replaced", "a pod that ends says that first"),
    (
        "plan-etcd",
        "PersistentVolumeClaim data-{name} of a member that stays is being",
        "a volume that is being deleted says that first",
    ),
    ("plan-etcd", "{needed} members have to be well", "who of those that stay is not well is said first"),
    ("plan-etcd", "no other member is well", "who of those that stay is not well is said first"),
    ("plan-etcd", "the Secrets with the CAs", "the stage of certificates says it first"),
    ("plan-etcd", "pod {stuck}, whose image", "that pod's problem is said first"),
    ("plan-etcd", "the members' hashes of their data", "the call fails, which is said first"),
    ("plan-etcd", "{via} to hand over leadership", "it is done in the same reconcile"),
    (
        "plan-etcd",
        "Berth to record the next step of the change of the version",
        "the object that is written is said first",
    ),
    ("plan-etcd", "pod {failed} to go back", "that pod's problem is said first"),
    ("plan-etcd", "all members to be ready, without ", "what is wrong with them is said first"),
    ("plan-etcd", "to get a pod", "the StatefulSet's controller is as fast as the simulator"),
    ("plan-etcd", "member {} to have been ready", "it is said for five seconds"),
    ("plan-etcd", "all members to have etcd", "a pod that was lost comes back in its own version"),
    ("plan-etcd", "member {} runs etcd {says}", "an image that holds another version than its tag says"),
    ("plan-etcd", "member {} was not ready within", "ten minutes; what is wrong with its pod is said first"),
    ("plan-etcd", "etcd changes from {} to {} one minor", "there are templates of two minors"),
    ("plan", "have {key} grow", "`kubectl berth plan`"),
    ("plan", "mark {key} as damaged", "`kubectl berth plan`"),
    ("plan", "scale {key}", "`kubectl berth plan`"),
    ("plan", "{} of {etcd} through {via}", "`kubectl berth plan`"),
    ("plan", "compare hashes at revision", "`kubectl berth plan`"),
    ("plan", "compact at revision", "`kubectl berth plan`"),
    ("plan", "disarm alarm {alarm}", "`kubectl berth plan`"),
    ("plan", "add learner {peer_url}", "`kubectl berth plan`"),
    ("plan", "move leadership to member", "`kubectl berth plan`"),
    ("plan", "write a key", "the alarm is over by then, and nothing is wrong"),
    ("plan", "delete {key} in the tenant", "`kubectl berth plan`"),
    ("plan", "create an Event about {} in the tenant", "`kubectl berth plan`"),
    ("plan", "publish {key}", "`kubectl berth plan`"),
    ("plan", "register the tenant by {}", "`kubectl berth plan`"),
    ("plan", "registration.argoCD.namespace: ", "the operator does not start; its log says it"),
    ("plan", "registration.argoCD.projects: ", "the operator does not start; its log says it"),
    ("plan", "registration.argoCD.projects.{team}: ", "the operator does not start; its log says it"),
    ("plan-apps", "{} was to be gone by", "the operator's log: names of nodes are the platform's"),
    ("plan", "certificate {name}", "`kubectl berth plan`"),
    ("plan", "copy of the CA", "`kubectl berth plan`"),
    ("plan", "copy of {of} of", "`kubectl berth plan`"),
    ("plan", "service-account key", "`kubectl berth plan`"),
    ("plan", "encryption key", "`kubectl berth plan`"),
    ("plan", "kubeconfig of {source}", "`kubectl berth plan`"),
    ("plan", "kubeconfig ({why})", "`kubectl berth plan`"),
    ("plan", "there are no nodes yet", "the operator's log: how the agent gets into pods"),
    ("plan", "node {name}: kubelet", "the operator's log: how the agent gets into pods"),
    ("plan", "BEGIN CERTIFICATE", "what a PEM file has"),
    ("plan", "the CA in {issuer}", "the CA that lacks is said first"),
    ("plan", "there is none", "`kubectl berth plan`"),
];

/// What a planner's messages are made in.
const PLANNERS: [&str; 5] = ["plan", "plan-apps", "plan-backup", "plan-etcd", "plan-cluster"];

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
    let sources: Vec<_> = PLANNERS.iter().flat_map(|planner| named(planner)).collect();
    for (place, table) in TABLES {
        assert!(sources.iter().any(|(name, _)| name.starts_with(place)), "{place} ({table}) is not there");
    }
    let has_no_table = |(name, _): &&(String, PathBuf)| !TABLES.iter().any(|(place, _)| name.starts_with(place));
    for (name, file) in sources.iter().filter(has_no_table) {
        let text = std::fs::read_to_string(file).unwrap();
        for literal in literals(production(&text)).into_iter().filter(|l| l.contains(' ')) {
            let listed =
                |(of, start, _): &(&str, &str, &str)| name.starts_with(&format!("{of}/")) && literal.starts_with(start);
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
