//! Webhooks of the tenant's own that are in the way.

use super::*;
use crate::{AdmissionLook, admission_look};
use berth_api::cluster::TurnState;
use berth_api::labels;
use berth_api::revision::RevisionOutcome;
use berth_plan::admission::{Admission, Failing, Webhook, Write};
use berth_plan::failure::Failure;
use jiff::SignedDuration;

const DELETE: &str = "kubectl berth connect acme -n team-a -- kubectl delete validatingwebhookconfiguration slow";

/// One that takes everything, of a configuration of that name.
pub(super) fn webhook(configuration: &str, target: &Value) -> Webhook {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]});
    let one = json!({"name": "slow.example.com", "failurePolicy": "Ignore", "timeoutSeconds": 30, "clientConfig": target, "rules": [rule]});
    let configuration = json!({"metadata": {"name": configuration}, "webhooks": [one]});
    Webhook::of("validatingwebhookconfiguration", &configuration).remove(0)
}

impl Fixture {
    /// A look finds that these writes never end, and these webhooks.
    pub(super) fn hangs(&mut self, writes: &[Write], webhooks: Vec<Webhook>) {
        let at = self.world.now;
        let why = |write: &Write| format!("write {write} in a dry run: no answer within 5s").into();
        let failing = writes.iter().map(|write| (*write, Failing { since: at, why: why(write) })).collect();
        let look = Admission { at, failing, webhooks: Ok(webhooks), idle: [("policy".into(), "engine".into())].into() };
        self.world.observed.admission = Some(look.into());
    }

    fn slow(&mut self, writes: &[Write]) {
        self.hangs(writes, vec![webhook("slow", &json!({"url": "https://192.0.2.1/x"}))]);
    }
}

#[test]
fn the_webhook_is_named_with_its_rule_and_what_removes_it() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.electors(3600);
    f.reconcile();
    f.lose(names::CONTROLLER_MANAGER);
    f.slow(&[Write::Lease, Write::Pod]);
    f.reconcile();
    let (status, reason, message) = f.condition("Degraded");
    assert_eq!((&*status, &*reason), ("True", "WebhookInTheWay"), "{message}");
    for part in [
        DELETE,
        "webhook slow.example.com of validatingwebhookconfiguration slow in the tenant is in the way of leases since 2026-01-01T00:01:00Z",
        "Its rule is * of */* in apiGroups \"*\"; it calls a URL with timeoutSeconds 30 and failurePolicy Ignore",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(f.condition("Ready"), ("False".into(), reason, message));
    assert_eq!(f.condition("ControlPlaneAvailable").1, "NotLeading");
    assert_eq!(f.condition("Available").0, "True");

    // Leases are renewed, and Berth's objects are not written.
    f.world.now += SignedDuration::from_mins(1);
    f.look_at("", 0);
    f.slow(&[Write::Pod, Write::Own]);
    f.reconcile();
    assert!(f.condition("Ready").2.contains("is in the way of configmaps since"), "{:?}", f.condition("Ready"));
    assert_eq!(f.condition("ControlPlaneAvailable").0, "True");
    f.hangs(&[], vec![]);
    f.reconcile();
    assert_eq!((f.condition("Ready").0, f.condition("Degraded").0), ("True".into(), "False".into()));
}

#[test]
fn a_write_that_hangs_is_explained_if_it_was_in_the_tenant() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.slow(&[Write::Own]);
    let of = |reason, message: &str, in_tenant| Failure { reason, message: message.into(), in_tenant };
    let hangs = of(Reason::Error, "apply ConfigMap kube-system/a: no answer within 5s", true);
    let degraded = |f: &Fixture, failure: &Failure| {
        let degraded = status_of(f, failure).into_iter().find(|c| c.type_ == "Degraded").unwrap();
        (degraded.reason, degraded.message)
    };
    let (reason, message) = degraded(&f, &hangs);
    assert_eq!(reason, "WebhookInTheWay");
    assert!(message.starts_with(&hangs.message) && message.contains(DELETE), "{message}");
    // What the meta cluster refuses is no matter of the tenant's webhooks.
    let refused =
        of(Reason::Rejected, "apply Deployment acme-9201d5e7/kube-apiserver: policy denied the request", false);
    assert_eq!(degraded(&f, &refused), ("Rejected".into(), refused.message.clone()));
    f.hangs(&[Write::Own], vec![]);
    assert!(status_of(&f, &hangs).iter().all(|c| c.reason != "WebhookInTheWay"));
}

fn status_of(f: &Fixture, failure: &Failure) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    status(f.input(), &f.plan(), Some(failure)).conditions
}

#[test]
fn a_tenants_words_are_part_of_no_command() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.hangs(&[Write::Lease], vec![webhook("x;id\n", &json!({"service": {"namespace": "policy", "name": "engine"}}))]);
    f.reconcile();
    let message = f.condition("Degraded").2;
    assert!(message.ends_with("Narrow its rules, or delete it"), "{message}");
    assert!(message.contains("Service policy/engine, which has no endpoint that is ready"), "{message}");
}

/// A new version, of which the first API server does not become ready; its container crashes, or not.
fn stuck(crashes: bool) -> Fixture {
    let mut f = Fixture::two_of_each();
    f.cluster.spec.version = "1.36.3".into();
    *f.cluster.metadata.generation.as_mut().unwrap() += 1;
    f.reconcile();
    f.stuck(names::APISERVER, 2);
    if !crashes {
        f.world.observed.objects.retain(|key, _| key.kind != Kind::Pod);
    }
    f.reconcile();
    f
}

#[test]
fn only_what_berth_needs_excuses_a_release_and_nothing_does_whose_pods_fail() {
    let back = Some(RevisionOutcome::RolledBack);
    let noted = ("False".to_owned(), "WebhookInTheWay".to_owned());
    let named = ("True".to_owned(), "WebhookInTheWay".to_owned());
    let failing = ("True".to_owned(), "ContainerFailing".to_owned());
    for (writes, crashes, degraded, outcome) in [
        (&[Write::Own][..], false, &named, None),
        (&[Write::Lease, Write::Pod], false, &named, None),
        (&[Write::Pod], false, &noted, back),
        (&[Write::Node, Write::Pod, Write::Token], false, &noted, back),
        (&[Write::Pod], true, &failing, back),
        (&[Write::Own], true, &failing, back),
        (&[Write::Lease], true, &failing, back),
    ] {
        let mut f = stuck(crashes);
        f.seconds(120);
        f.slow(writes);
        f.reconcile();
        let (status, reason, message) = f.condition("Degraded");
        assert_eq!((status, reason), *degraded, "{writes:?} {crashes} {message}");
        f.seconds(301);
        f.slow(writes);
        f.reconcile();
        assert_eq!(f.recorded().last().unwrap().2, outcome, "{writes:?} {crashes}");
    }
}

#[test]
fn a_canary_that_fails_is_taken_back_whatever_webhooks_do() {
    for fails in [canary::is_lost, canary::answers_badly] {
        let mut f = Fixture::two_of_each();
        canary::serves(&mut f);
        f.slow(&[Write::Own]);
        f.reconcile();
        fails(&mut f);
        f.slow(&[Write::Own]);
        f.reconcile();
        assert_eq!(f.condition("Ready").1, "RolledBack");
    }
}

#[test]
fn a_release_that_meets_one_waits_and_is_not_blamed() {
    let mut f = stuck(false);
    let turn = |f: &Fixture| f.cluster.status.as_ref().unwrap().turn.clone().map(|turn| turn.state);
    assert_eq!(turn(&f), Some(TurnState::Running));
    f.seconds(120);
    f.slow(&[Write::Own]);
    f.reconcile();
    assert_eq!(turn(&f), Some(TurnState::Blocked), "others of the fleet need not wait");
    f.seconds(3600);
    f.slow(&[Write::Own]);
    f.reconcile();
    assert_eq!(f.recorded().last().unwrap().2, None, "it is still rolled out");
    assert_eq!(f.condition("Degraded").1, "WebhookInTheWay");
    // Once it is gone there is the whole time again.
    f.hangs(&[], vec![]);
    f.reconcile();
    f.seconds(299);
    f.reconcile();
    assert_eq!((f.recorded().last().unwrap().2, turn(&f)), (None, Some(TurnState::Running)));
    f.seconds(1);
    f.reconcile();
    assert_eq!(f.recorded().last().unwrap().2, Some(RevisionOutcome::RolledBack), "then it is its own fault");
}

#[test]
fn a_release_goes_on_despite_one_if_the_platform_says_so() {
    let says = |f: &mut Fixture, generation: &str| {
        let annotation = (labels::DESPITE_WEBHOOK.to_owned(), generation.to_owned());
        f.cluster.metadata.annotations = Some([annotation].into());
    };
    let turn = |f: &Fixture| f.cluster.status.as_ref().unwrap().turn.clone().map(|turn| turn.state);
    // All runs the new version, and its controllers do not lead.
    let mut f = Fixture::two_of_each();
    f.cluster.spec.version = "1.36.3".into();
    f.cluster.spec.upgrade.soak = "10m".into();
    *f.cluster.metadata.generation.as_mut().unwrap() += 1;
    f.rest();
    f.electors(3600);
    f.lose(names::CONTROLLER_MANAGER);
    let lasts = |f: &mut Fixture, seconds: i64| {
        f.seconds(seconds);
        f.electors(3600);
        f.look_at(names::CONTROLLER_MANAGER, 3600);
        f.slow(&[Write::Lease]);
        f.reconcile();
    };
    lasts(&mut f, 1);
    lasts(&mut f, 120);
    assert_eq!((f.recorded().last().unwrap().2, turn(&f)), (None, Some(TurnState::Blocked)));
    let asks = "kubectl annotate clusters.berth.dev acme -n team-a berth.dev/despite-webhook=2 --overwrite";
    assert!(f.condition("Degraded").2.contains(asks), "{}", f.condition("Degraded").2);
    says(&mut f, "1");
    lasts(&mut f, 120);
    assert_eq!(f.recorded().last().unwrap().2, None, "it was said of another spec");
    says(&mut f, "2");
    lasts(&mut f, 1);
    assert_eq!(turn(&f), Some(TurnState::Running));
    let goes_on = "The release goes on all the same (annotation berth.dev/despite-webhook)";
    assert!(f.condition("Degraded").2.ends_with(goes_on), "{}", f.condition("Degraded").2);
    lasts(&mut f, 600);
    assert_eq!(
        (f.recorded().last().unwrap().2, turn(&f)),
        (Some(RevisionOutcome::Succeeded), Some(TurnState::Succeeded))
    );
    assert_eq!(f.condition("Ready").1, "WebhookInTheWay", "that is not hidden");

    // What does not come up counts, as without a webhook.
    let mut f = stuck(false);
    says(&mut f, "2");
    f.seconds(300);
    f.slow(&[Write::Own]);
    f.reconcile();
    assert_eq!(f.recorded().last().unwrap().2, Some(RevisionOutcome::RolledBack));
}

#[test]
fn it_is_looked_for_only_where_something_is_wrong() {
    let look = |f: &Fixture| admission_look(f.input());
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.electors(3600);
    f.reconcile();
    assert_eq!(look(&f), AdmissionLook::Not);
    f.look_at(names::SCHEDULER, 60);
    f.electors(59);
    assert_eq!(look(&f), AdmissionLook::Not, "its pods are young");
    f.electors(3600);
    assert_eq!(look(&f), AdmissionLook::Due, "nobody may lead");
    f.slow(&[]);
    assert_eq!(look(&f), AdmissionLook::Known);
    f.seconds(25);
    assert_eq!(look(&f), AdmissionLook::Due);
    f.look_at(names::SCHEDULER, 1);
    f.look_at("", 1);
    f.world.observed.leads = None;
    assert_eq!(look(&f), AdmissionLook::Not);

    f.stuck(names::SCHEDULER, 0);
    f.reconcile();
    assert_eq!(look(&f), AdmissionLook::Not, "for a moment");
    f.seconds(60);
    assert_eq!(look(&f), AdmissionLook::Due);
    f.world.observed.api = ApiProbe::Failed("refused".into());
    assert_eq!(look(&f), AdmissionLook::Not, "nothing can be tried");
    f.others();
    f.cluster.status.as_mut().unwrap().version = None;
    assert_eq!(look(&f), AdmissionLook::Not, "it comes up");
}

#[test]
fn what_only_the_tenant_writes_keeps_nothing_of_berths_from_being_done() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.reconcile();
    f.stuck(names::SCHEDULER, 0);
    f.reconcile();
    f.seconds(60);
    assert_eq!(admission_look(f.input()), AdmissionLook::Due);
    f.slow(&[Write::Node, Write::Pod, Write::Token]);
    f.unstuck(names::SCHEDULER);
    let planned = f.reconcile();
    assert_eq!((planned.plan.first_problem(), planned.requeue_after), (None, Some(SignedDuration::from_mins(1))));
    assert_eq!((f.condition("Ready").0, f.condition("Degraded").1), ("True".into(), "AsExpected".into()));
    assert_eq!(admission_look(f.input()), AdmissionLook::Not, "once more would find the same");
}
