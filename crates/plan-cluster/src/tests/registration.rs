//! A tenant that Argo CD knows: in which order that comes, changes and goes.

use super::*;
use berth_api::cluster::Registration;
use berth_api::labels;
use berth_plan::model::Action;
use berth_plan::observed::{Registered, RegisteredSecret};
use berth_plan::settings::ArgoCd;
use berth_render::stamp_key;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) fn argo_cd(namespace: &str) -> ArgoCd {
    ArgoCd { namespace: namespace.into(), projects: [("team-a".to_owned(), "shops".to_owned())].into() }
}

/// The spec asks for it, with these labels.
pub(super) fn ask(f: &mut Fixture, labels: Value) {
    f.cluster.spec.registration = serde_json::from_value(json!({"argoCD": {"labels": labels}})).unwrap();
}

fn off(f: &mut Fixture) {
    f.cluster.spec.registration = Registration::default();
}

/// What the operator reads in Argo CD's namespace, whatever was read before.
pub(super) fn nothing_there(f: &mut Fixture) {
    f.world.observed.registered = Registered::Absent;
}

/// A tenant that is registered with these labels, at rest.
pub(super) fn registered(labels: Value) -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.argo_cd = Some(argo_cd("argocd"));
    ask(&mut f, labels);
    nothing_there(&mut f);
    f.rest();
    f.world.log.clear();
    f
}

pub(super) fn live(f: &Fixture) -> RegisteredSecret {
    match &f.world.observed.registered {
        Registered::Ours(live) => (**live).clone(),
        other => panic!("{other:?}"),
    }
}

/// It is being deleted, and somebody's finalizer keeps it.
pub(super) fn ends(f: &mut Fixture) {
    let ends = Some(vec!["example.com/hold".to_owned()]);
    f.world.observed.registered = Registered::Ours(Box::new(RegisteredSecret { ends, ..live(f) }));
}

fn rights(f: &Fixture) -> (bool, bool) {
    let binding = ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:argocd");
    (f.world.inside.contains_key(&binding), f.world.inside.contains_key(&stamp_key("argocd")))
}

/// Writes of it, in their order.
fn written(f: &Fixture) -> Vec<String> {
    let is_of_it = |line: &&String| line.contains("argocd");
    f.world.log.iter().filter(is_of_it).map(|line| line.split(": ").next().unwrap().to_owned()).collect()
}

fn recorded(f: &Fixture) -> Option<(String, String, Option<String>)> {
    let told = f.cluster.status.as_ref()?.registration.clone()?.argo_cd?;
    Some((told.namespace, told.name, told.uid))
}

fn says(f: &Fixture) -> (String, String) {
    let (status, reason, _) = f.condition("Registered");
    (status, reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn is_published(f: &Fixture) -> bool {
    f.cluster.status.as_ref().unwrap().conditions.iter().any(|c| c.type_ == "Registered")
}

#[test]
fn the_record_comes_first_then_rights_then_the_secret_and_they_go_the_other_way_round() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.argo_cd = Some(argo_cd("argocd"));
    ask(&mut f, json!({"env": "prod"}));
    nothing_there(&mut f);
    f.world.log.clear();
    f.rest();
    let home = Fixture::cp_namespace();
    let secret = format!("Secret argocd/berth-{home}");
    assert_eq!(
        written(&f),
        [
            format!("create Secret {home}/argocd-kubeconfig"),
            "apply ClusterRoleBinding berth:argocd in the tenant".to_owned(),
            "apply ConfigMap kube-system/berth-argocd in the tenant".to_owned(),
            format!("register the tenant by {secret}"),
        ]
    );
    let told = live(&f);
    assert_eq!((&*told.name, &*told.project), ("team-a.acme", "shops"));
    assert_eq!((&*told.labels["env"], &*told.labels[labels::ARGOCD_SECRET_TYPE]), ("prod", "cluster"));
    assert_eq!(&*told.labels[labels::MANAGED_BY], "berth");
    let connection = told.connection.unwrap();
    assert_eq!((&*connection.client.common_name, connection.client.organizations.len()), ("berth:argocd", 0));
    assert_eq!(connection.server, format!("https://kube-apiserver.{home}.svc:6443"));
    assert_eq!(recorded(&f), Some(("argocd".into(), format!("berth-{home}"), Some(told.uid))));
    assert_eq!((says(&f), f.condition("Ready").0), (is("True", "AsExpected"), "True".to_owned()));

    f.world.log.clear();
    off(&mut f);
    f.rest();
    f.rest();
    assert_eq!(
        written(&f),
        [
            format!("delete {secret}"),
            "delete ConfigMap kube-system/berth-argocd in the tenant".to_owned(),
            "delete ClusterRoleBinding berth:argocd in the tenant".to_owned(),
            format!("delete Secret {home}/argocd-kubeconfig"),
        ]
    );
    assert_eq!((rights(&f), recorded(&f), is_published(&f)), ((false, false), None, false));
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn without_a_place_or_a_project_it_is_refused_and_the_tenant_goes_on() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    ask(&mut f, json!({}));
    f.rest();
    assert_eq!((says(&f), rights(&f), recorded(&f)), (is("False", "NotAllowed"), (false, false), None));
    assert!(f.condition("Registered").2.contains("registration.argoCD in the values"));
    f.settings.argo_cd = Some(ArgoCd { namespace: "argocd".into(), ..ArgoCd::default() });
    f.rest();
    assert!(f.condition("Registered").2.contains("namespace team-a has no project"));
    assert_eq!(f.condition("Ready").0, "True");
    assert!(written(&f).is_empty(), "{:?}", written(&f));
    // What was allowed is taken back once it no longer is.
    let mut f = registered(json!({}));
    f.settings.argo_cd = None;
    f.rest();
    f.rest();
    assert_eq!((says(&f), rights(&f), recorded(&f)), (is("False", "NotAllowed"), (false, false), None));
    assert_eq!(f.world.observed.registered, Registered::Absent);
}

#[test]
fn what_somebody_changes_is_set_back_and_what_they_add_stays() {
    let mut f = registered(json!({"env": "prod", "tier": "gold"}));
    assert_eq!(f.reconcile().plan.actions().count(), 0, "at rest nothing is written");
    let change = |f: &mut Fixture, change: fn(&mut RegisteredSecret)| {
        let mut other = live(f);
        change(&mut other);
        f.world.observed.registered = Registered::Ours(Box::new(other));
        f.world.log.clear();
        f.rest();
        assert_eq!(written(f).len(), 1, "{:?}", f.world.log);
        live(f)
    };
    assert_eq!(change(&mut f, |live| live.project = "others".into()).project, "shops");
    assert_eq!(change(&mut f, |live| live.name = "other".into()).name, "team-a.acme");
    assert!(change(&mut f, |live| live.connection = None).connection.is_some());
    let live = change(&mut f, |live| {
        live.labels.insert("env".into(), "test".into());
        live.labels.insert("example.com/theirs".into(), "yes".into());
    });
    assert_eq!((&*live.labels["env"], &*live.labels["example.com/theirs"]), ("prod", "yes"));
    ask(&mut f, json!({"tier": "gold"}));
    let live = change(&mut f, |_| {});
    assert!(!live.labels.contains_key("env") && live.labels.contains_key("example.com/theirs"));
    ask(&mut f, json!({}));
    let live = change(&mut f, |_| {});
    assert!(!live.labels.contains_key("tier") && live.labels.contains_key(labels::CLUSTER_NAME));
}

#[test]
fn another_place_gets_it_once_the_former_one_has_lost_it() {
    let mut f = registered(json!({}));
    f.settings.argo_cd = Some(argo_cd("gitops"));
    let looks_at = |f: &Fixture| super::super::registered_key(&f.cluster, &f.settings, &f.world.observed).unwrap();
    assert_eq!(looks_at(&f).namespace.as_deref(), Some("argocd"), "it goes by the record");
    f.rest();
    f.rest();
    assert_eq!(f.world.observed.registered, Registered::Ours(Box::new(live(&f))));
    assert_eq!(looks_at(&f).namespace.as_deref(), Some("gitops"));
    assert_eq!(recorded(&f).unwrap().0, "gitops");
    assert_eq!(says(&f), is("True", "AsExpected"));
    let deleted = f.world.log.iter().position(|line| line.starts_with("delete Secret argocd/")).unwrap();
    let made = f.world.log.iter().position(|line| line.contains("Secret gitops/")).unwrap();
    assert!(deleted < made, "{:#?}", f.world.log);
}

#[test]
fn somebody_elses_secret_is_left_alone_and_holds_nothing_up() {
    let mut f = registered(json!({}));
    f.world.observed.registered = Registered::Foreign("it does not have Berth's labels".into());
    f.rest();
    assert!(written(&f).is_empty(), "{:?}", written(&f));
    assert_eq!((says(&f), f.condition("Ready").0), (is("False", "ForeignObject"), "True".to_owned()));
    assert!(f.reconcile().due.is_some_and(|due| due <= SignedDuration::from_mins(1)), "it is looked at again");
    nothing_there(&mut f);
    f.rest();
    assert_eq!(says(&f), is("True", "AsExpected"));
    // Switched off, what is Berth's goes, and theirs stays.
    f.world.observed.registered = Registered::Foreign("it does not have Berth's labels".into());
    off(&mut f);
    f.rest();
    f.rest();
    assert_eq!((rights(&f), recorded(&f), is_published(&f)), ((false, false), None, false));
    assert!(matches!(f.world.observed.registered, Registered::Foreign(_)));
}

#[test]
fn what_argo_cds_namespace_refuses_is_said_and_holds_nothing_up() {
    let mut f = registered(json!({}));
    f.world.observed.registered = Registered::Failed("create Secret argocd/a: namespaces \"argocd\" not found".into());
    let planned = f.reconcile();
    assert_eq!((says(&f), f.condition("Ready").0), (is("False", "Rejected"), "True".to_owned()));
    assert!(planned.plan.actions().next().is_none(), "not again in the same reconcile");
    assert!(planned.due.is_some_and(|due| due <= SignedDuration::from_mins(1)));
    // Rights do not go before the Secret was seen to be gone.
    off(&mut f);
    f.rest();
    assert_eq!((rights(&f), says(&f)), ((true, true), is("False", "Rejected")));
}

#[test]
fn one_that_a_finalizer_keeps_is_waited_for_and_nobody_asks_each_second() {
    let mut f = registered(json!({}));
    ends(&mut f);
    for is_asked in [true, false] {
        if !is_asked {
            off(&mut f);
        }
        let planned = f.reconcile();
        assert!(written(&f).is_empty(), "{:?}", written(&f));
        assert!(planned.due.is_some_and(|due| due == SignedDuration::from_mins(1)), "{:?}", planned.due);
        assert_eq!(says(&f), is("False", "Waiting"));
        assert!(f.condition("Registered").2.contains("(kept by its metadata.finalizers: example.com/hold)"));
        assert_eq!(rights(&f), (true, true), "it may still be used");
    }
    nothing_there(&mut f);
    f.rest();
    f.rest();
    assert_eq!((rights(&f), recorded(&f), is_published(&f)), ((false, false), None, false));
}

#[test]
fn its_certificate_is_renewed_and_follows_the_address() {
    let mut f = registered(json!({}));
    let before = live(&f).connection.unwrap();
    f.world.now += SignedDuration::from_hours(24 * 61);
    f.rest();
    let after = live(&f).connection.unwrap();
    assert!(after.client.not_after > before.client.not_after, "{:?}", f.world.log);
    assert_eq!((says(&f), after.server), (is("True", "AsExpected"), before.server));
}

/// Argo CD knows a cluster by its URL: whoever could choose it would be handed what it keeps for another one.
#[test]
fn no_host_of_the_spec_is_told_to_argo_cd() {
    let mut f = registered(json!({}));
    let before = live(&f).connection.unwrap().server;
    f.cluster.spec.endpoint.host = Some("api.somebody-elses.example.com".into());
    f.rest();
    f.later(10);
    f.rest();
    assert_eq!(live(&f).connection.unwrap().server, before);
}

#[test]
fn paused_it_stays_as_it_is() {
    let mut f = registered(json!({}));
    f.cluster.spec.paused = true;
    off(&mut f);
    f.rest();
    assert!(written(&f).is_empty(), "{:?}", written(&f));
    assert_eq!((says(&f), rights(&f)), (is("False", "Paused"), (true, true)));
    f.cluster.spec.paused = false;
    f.rest();
    f.rest();
    assert_eq!((rights(&f), is_published(&f)), ((false, false), false));
}

#[test]
fn a_cluster_that_is_deleted_is_held_until_its_secret_is_gone() {
    let mut f = registered(json!({}));
    f.cluster.spec.deletion.protected = false;
    f.world.observed.published = Published::Absent;
    f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
    f.world.observed.objects.clear();
    // The record in the namespace is gone with it: the status has it as well.
    let uid = live(&f).uid;
    let planned = f.plan();
    let deletes: Vec<_> = planned.plan.actions().collect();
    assert!(matches!(&*deletes, [Action::Delete { uid: deleted, .. }] if *deleted == uid), "{deletes:?}");
    assert!(!planned.plan.finished);
    ends(&mut f);
    let planned = f.plan();
    assert!(planned.plan.actions().next().is_none() && !planned.plan.finished, "it was told already");
    f.world.observed.registered = Registered::Failed("patch: no answer".into());
    assert!(!f.plan().plan.finished);
    for gone in [Registered::Absent, Registered::Foreign("another".into())] {
        f.world.observed.registered = gone;
        assert!(f.plan().plan.finished);
    }
}
