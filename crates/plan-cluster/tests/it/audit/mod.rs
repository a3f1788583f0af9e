//! What kube-apiserver refuses of `spec.apiServer.audit.policy` is refused by Berth, what Berth takes is taken, and kube-apiserver starts with
//! each kubeconfig of a webhook as Berth writes it.
//!
//! kube-apiserver reads both files before it connects to anything, and tells of all rules of a policy at once: one process judges all.

mod cases;

use crate::server::{SERVICE_ACCOUNTS, Server, last_words};
use berth_plan_cluster::audit_policy_faults;
use cases::{POLICIES, TYPES, kubeconfigs, rules};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The oldest and the newest minor.
const VERSIONS: [&str; 2] = ["v1.34.4", "v1.36.3"];

/// Where the process ends that has taken the policy: it reads the webhook's file afterwards.
const AFTER_POLICY: &str = "initializing audit webhook";
/// Where it ends that has taken both: it asks etcd afterwards, for twenty seconds.
const AFTER_WEBHOOK: &str = "error creating storage factory";

/// What kube-apiserver says as it ends.
fn words_of(server: &Server, policy: &Value, kubeconfig: Option<&str>) -> String {
    std::fs::write(server.file("policy"), policy.to_string()).unwrap();
    if let Some(kubeconfig) = kubeconfig {
        std::fs::write(server.file("kubeconfig"), kubeconfig).unwrap();
    }
    let webhook = server.file(if kubeconfig.is_some() { "kubeconfig" } else { "none" });
    last_words(server.command().args([
        format!("--service-account-issuer={SERVICE_ACCOUNTS}"),
        format!("--audit-policy-file={}", server.file("policy")),
        format!("--audit-webhook-config-file={webhook}"),
    ]))
}

fn policy(rules: &[Value]) -> Value {
    json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})
}

/// The rules that a text names.
fn named<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<usize> {
    let of = |text: &'a str| text.split("rules[").skip(1).filter_map(|rest| rest.split_once(']')?.0.parse().ok());
    texts.into_iter().flat_map(of).collect()
}

#[test]
fn kube_apiserver_and_berth_refuse_the_same_rules() {
    let rules = rules();
    assert!(rules.len() > 300, "{}", rules.len());
    let faults: Vec<String> = audit_policy_faults(&policy(&rules)).iter().map(ToString::to_string).collect();
    let ours = named(faults.iter().map(String::as_str));
    let good: Vec<Value> = (0..rules.len()).filter(|at| !ours.contains(at)).map(|at| rules[at].clone()).collect();
    assert!(ours.len() > 50 && good.len() > 50, "{} of {}", ours.len(), rules.len());
    for version in VERSIONS {
        let server = Server::new(version);
        let said = words_of(&server, &policy(&rules), None);
        let theirs = named([&*said]);
        assert_eq!(theirs.difference(&ours).collect::<Vec<_>>(), Vec::<&usize>::new(), "{version}: only it refuses");
        // Newer minors take * for all groups, and older ones end with it: a policy has to outlast the way back.
        let is_known = |at: &&usize| version != VERSIONS[0] && rules[**at].to_string().contains("\"group\":\"*\"");
        let only_ours: Vec<_> = ours.difference(&theirs).filter(|at| !is_known(at)).map(|at| &rules[*at]).collect();
        assert!(only_ours.is_empty(), "{version}: only Berth refuses {only_ours:#?}");
        let said = words_of(&server, &policy(&good), None);
        assert!(said.contains(AFTER_POLICY), "{version}: {said}");
    }
}

/// It ends at the first value of another type, and passes over what it does not know.
#[test]
fn what_kube_apiserver_judges_one_at_a_time_is_refused_by_both_or_by_berth_alone() {
    let server = Server::new(VERSIONS[1]);
    let all = TYPES.iter().map(|(at, value)| {
        let mut policy = policy(&[json!({"level": "Metadata", "resources": [{"group": "apps"}]})]);
        *policy.pointer_mut(at).unwrap() = serde_json::from_str(value).unwrap();
        (policy, true)
    });
    let more = POLICIES.iter().map(|(policy, theirs)| (serde_json::from_str(policy).unwrap(), *theirs));
    for (policy, theirs) in all.chain(more) {
        let said = words_of(&server, &policy, None);
        assert_eq!(!said.contains(AFTER_POLICY), theirs, "{policy}: {said}");
        assert!(!audit_policy_faults(&policy).is_empty(), "{policy}");
    }
}

#[test]
fn kube_apiserver_starts_with_each_kubeconfig_that_berth_takes() {
    let policy = &policy(&[json!({"level": "Metadata"})]);
    let starts = |kubeconfig: &str| words_of(&Server::new(VERSIONS[1]), policy, Some(kubeconfig));
    std::thread::scope(|scope| {
        for kubeconfig in kubeconfigs() {
            scope.spawn(move || {
                let written = berth_pki::webhook_kubeconfig(kubeconfig.to_string().as_bytes()).unwrap();
                let said = starts(written.expose());
                assert!(said.contains(AFTER_WEBHOOK), "{kubeconfig}: {said}");
            });
        }
    });
    // The test can fail.
    let said = starts("{\"apiVersion\": \"v1\", \"kind\": \"Config\"}");
    assert!(!said.contains(AFTER_WEBHOOK), "{said}");
}
