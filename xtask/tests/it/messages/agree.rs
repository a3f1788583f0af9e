//! Conditions of one object do not deny each other, in any situation of docs/reference/messages.md.

use super::{Situation, situations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Conditions of one object, by their types.
struct Said(Vec<Condition>);

impl Said {
    fn of(&self, type_: &str) -> Option<&Condition> {
        self.0.iter().find(|c| c.type_ == type_)
    }

    fn is(&self, type_: &str, status: &str) -> bool {
        self.of(type_).is_some_and(|c| c.status == status)
    }

    fn reason(&self, type_: &str) -> &str {
        self.of(type_).map_or("", |c| &c.reason)
    }

    /// Whether any of them has one of these reasons.
    fn has(&self, reasons: &[&str]) -> bool {
        self.0.iter().any(|c| reasons.contains(&c.reason.as_str()))
    }
}

/// Those that are good when they are true, and that make up `Ready`. `VPCReady` is not among them: pods of earlier builds lack what a VPC may
/// be asked for by now, and serve.
const PARTS: [&str; 5] = ["Available", "PKIReady", "EtcdAvailable", "ControlPlaneAvailable", "MembersReady"];
/// `Degraded` has them while all is as asked for: they warn of what is to come, or may come.
const WARNINGS: [&str; 5] = [
    "AuditWebhookUnavailable",
    "CertificateAuthorityExpiring",
    "ClockSkew",
    "PermissionDenied",
    "PullSecretUnavailable",
];
/// It comes up, or is taken down, which is nothing wrong.
const FINE: [&str; 7] = ["Waiting", "Deleting", "Paused", "NotYetObserved", "Asleep", "FallingAsleep", "Waking"];

/// What is said, whether that is a denial, and conditions that are one, as type, status, reason and message.
type Rule = (&'static str, fn(&Said) -> bool, &'static [(&'static str, &'static str, &'static str, &'static str)]);

const RULES: &[Rule] = &[
    (
        "what is ready has no part that is not",
        |said| {
            let is_off = |part: &&str| said.is(part, "False") && said.reason(part) != "Asleep";
            said.is("Ready", "True") && PARTS.iter().any(is_off)
        },
        &[("Ready", "True", "AsExpected", "a"), ("MembersReady", "False", "PodsNotReady", "b")],
    ),
    (
        "what is ready is not degraded, unless by a warning",
        |said| said.is("Ready", "True") && said.is("Degraded", "True") && !WARNINGS.contains(&said.reason("Degraded")),
        &[("Ready", "True", "AsExpected", "a"), ("Degraded", "True", "QuorumLost", "b")],
    ),
    (
        "certificates are not in order beside a lost CA",
        |said| said.has(&["CertificateAuthorityLost", "CertificateAuthorityInvalid"]) && said.is("PKIReady", "True"),
        &[("Ready", "False", "CertificateAuthorityLost", "a"), ("PKIReady", "True", "AsExpected", "b")],
    ),
    (
        "something is wrong while it serves nobody",
        |said| {
            let away = |part| said.is(part, "False") && !FINE.contains(&said.reason(part));
            (away("Available") || away("EtcdAvailable"))
                && said.of("Degraded").is_some_and(|c| c.message == "nothing is wrong")
        },
        &[("Available", "False", "Restoring", "a"), ("Degraded", "False", "AsExpected", "nothing is wrong")],
    ),
    (
        "an API does not serve without its etcd",
        |said| said.is("Available", "True") && said.is("EtcdAvailable", "False"),
        &[("Available", "True", "AsExpected", "a"), ("EtcdAvailable", "False", "QuorumLost", "b")],
    ),
    (
        "members whose data is lost are not ready",
        |said| said.is("MembersReady", "True") && said.has(&["DataLost", "ForeignData"]),
        &[("MembersReady", "True", "AsExpected", "a"), ("Ready", "False", "DataLost", "b")],
    ),
    (
        "nothing is changing, or something is",
        |said| {
            said.is("Progressing", "False")
                && said.reason("Progressing") == "Settled"
                && ["RollingOut", "MembersChanging", "Waiting", "Restoring"].contains(&said.reason("Ready"))
        },
        &[("Ready", "False", "MembersChanging", "a"), ("Progressing", "False", "Settled", "nothing is changing")],
    ),
    (
        "the same words are not true and false",
        |said| {
            let of = |status: &'static str| {
                said.0.iter().filter(move |c| c.status == status && (c.type_ == "Ready" || PARTS.contains(&&*c.type_)))
            };
            of("True").any(|yes| of("False").any(|no| no.message == yes.message))
        },
        &[("Available", "True", "AsExpected", "a"), ("Ready", "False", "Waiting", "a")],
    ),
    (
        "tools that wait are told one thing",
        |said| {
            let (reconciling, stalled) = (said.is("Reconciling", "True"), said.is("Stalled", "True"));
            (reconciling && stalled) || (said.is("Ready", "True") && (reconciling || stalled))
        },
        &[("Ready", "True", "AsExpected", "a"), ("Stalled", "True", "InvalidSpec", "b")],
    ),
];

fn said(situation: &Situation) -> Said {
    Said(situation.conditions.clone())
}

#[test]
fn conditions_of_one_object_agree() {
    let mut denials = vec![];
    for situation in situations() {
        let said = said(situation);
        let broken = RULES.iter().filter(|(_, denies, _)| denies(&said)).map(|(rule, ..)| *rule);
        denials.extend(broken.map(|rule| {
            let all = said.0.iter().map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message));
            let all: Vec<_> = all.collect();
            format!("{rule}: {} ({})\n    {}", situation.text, situation.kind, all.join("\n    "))
        }));
    }
    assert!(denials.is_empty(), "{}", denials.join("\n"));
}

#[test]
fn each_rule_finds_what_it_is_for() {
    for (rule, denies, conditions) in RULES {
        let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| Condition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: (*reason).to_owned(),
            message: (*message).to_owned(),
            ..serde_json::from_value(serde_json::json!({
                "type": "", "status": "", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        };
        let all: Vec<Condition> = conditions.iter().map(condition).collect();
        assert!(denies(&Said(all.clone())), "{rule}");
        for left_out in 0..all.len() {
            let mut rest = all.clone();
            rest.remove(left_out);
            assert!(!denies(&Said(rest)), "{rule}: one condition alone is no denial");
        }
    }
}
