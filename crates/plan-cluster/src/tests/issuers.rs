//! Another issuer of service-account tokens, as a whole: its releases, what runs, and what people see.

use super::*;
use berth_api::cluster::FormerIssuers;
use berth_api::revision::RevisionOutcome::{RolledBack, Succeeded};

pub(super) const A: &str = "https://a.example.com";
pub(super) const B: &str = "https://b.example.com";

impl Fixture {
    pub(super) fn issuers(&mut self, all: &[&str]) {
        self.cluster.spec.api_server.service_account_issuers = all.iter().map(|issuer| (*issuer).to_owned()).collect();
        *self.cluster.metadata.generation.as_mut().unwrap() += 1;
    }

    /// Those that the API servers have.
    fn accepted(&self) -> Vec<String> {
        let live = self.world.observed.get(&Self::key(Kind::Deployment, names::APISERVER)).unwrap();
        let args = live["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        let issuers = args.iter().filter_map(|arg| arg.as_str()?.strip_prefix("--service-account-issuer="));
        issuers.map(str::to_owned).collect()
    }

    fn former(&self) -> Vec<(String, Option<String>)> {
        let all = &self.cluster.status.as_ref().unwrap().former_service_account_issuers;
        let until = |at: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| at.0.to_string();
        all.iter().map(|former| (former.issuer.clone(), former.accepted_until.as_ref().map(until))).collect()
    }

    /// What is rolled out comes up, and has soaked.
    pub(super) fn comes_through(&mut self) {
        last(self);
        self.seconds(60);
        self.reconcile();
    }
}

#[test]
fn another_issuer_is_accepted_before_it_signs_and_the_former_one_stays() {
    let mut f = Fixture::two_of_each();
    let default = "https://kubernetes.default.svc.cluster.local";
    let before = f.component(names::APISERVER);
    let lives = before["template"]["spec"]["containers"][0]["args"].to_string();
    for flag in ["--service-account-max-token-expiration=2160h", "--service-account-extend-token-expiration=false"] {
        assert!(lives.contains(flag), "revision/issuers.rs counts on it: {lives}");
    }
    f.issuers(&[A]);
    let spec = f.cluster.spec.clone();
    f.reconcile();
    assert_eq!(f.accepted(), [default, A]);
    assert_eq!(f.former(), [(default.to_owned(), None)], "it signs");
    last(&mut f);
    assert_eq!(f.accepted(), [default, A], "it has not soaked");
    f.seconds(60);
    f.reconcile();
    assert_eq!(f.accepted(), [A, default], "in the same reconcile");
    f.comes_through();
    let succeeded = f.recorded().iter().map(|(number, _, outcome)| (*number, *outcome)).collect::<Vec<_>>();
    assert_eq!(succeeded, [(1, Some(Succeeded)), (2, Some(Succeeded)), (3, Some(Succeeded))]);
    assert_eq!((f.former().len(), f.cluster.spec == spec), (1, true), "the spec is left alone");
    assert!(f.former()[0].1.is_some(), "it is known until when");
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    // At rest, whatever the time is.
    f.world.log.clear();
    f.later(200 * 24 * 60);
    f.reconcile();
    let writes = f.world.log.iter().filter(|write| write.contains("Deployment") || write.contains("Revision"));
    assert_eq!((f.accepted(), writes.count()), (vec![A.to_owned(), default.to_owned()], 0), "{:#?}", f.world.log);
    // With the next release it goes.
    f.flag("v");
    f.comes_through();
    assert_eq!((f.accepted(), f.former()), (vec![A.to_owned()], vec![]));
}

#[test]
fn what_is_taken_back_still_accepts_all() {
    let mut f = Fixture::two_of_each();
    f.issuers(&[A]);
    last(&mut f);
    let first = f.component(names::APISERVER);
    f.seconds(60);
    f.does_not_come_up();
    assert_eq!(f.recorded()[2].2, Some(RolledBack));
    assert_eq!(f.component(names::APISERVER), first, "the same template: the old pods are of it");
    f.unstuck(names::APISERVER);
    f.rest();
    assert_eq!(f.condition("Ready").1, "RolledBack");
}

#[test]
fn dropped_by_hand_what_it_signed_is_refused_and_nothing_is_done_twice() {
    let mut f = Fixture::two_of_each();
    f.cluster.spec.api_server.former_service_account_issuers = FormerIssuers::Drop;
    f.issuers(&[A]);
    f.reconcile();
    assert_eq!((f.accepted(), f.former()), (vec![A.to_owned()], vec![]));
    f.comes_through();
    assert_eq!(f.recorded().len(), 2);
}

#[test]
fn an_authenticator_for_a_former_issuer_is_refused_before_anything_begins() {
    let mut f = Fixture::two_of_each();
    refused_authenticator(&mut f);
    let said = blocked(&f.plan(), StageId::Spec, Reason::InvalidSpec);
    assert!(said.contains("spec.apiServer.formerServiceAccountIssuers to Drop"), "{said}");
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!(f.accepted(), [B, A, "https://kubernetes.default.svc.cluster.local"]);
}

/// An authenticator has an issuer that signed tokens of service accounts.
pub(super) fn refused_authenticator(f: &mut Fixture) {
    for issuer in [A, B] {
        f.issuers(&[issuer]);
        f.comes_through();
        f.comes_through();
    }
    let mut jwt = configuration::jwt("dex.example.com");
    jwt[0]["issuer"]["url"] = A.into();
    f.cluster.spec.api_server.authentication.jwt = jwt;
}

/// With what signed before there are more than an API server is to have.
pub(super) fn too_many(f: &mut Fixture) {
    let all: Vec<String> = (0..16).map(|n| format!("https://{n}.example.com")).collect();
    f.issuers(&all.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_way_back_to_another_issuer_waits_for_no_window_and_nothing_else_is_one() {
    let mut f = Fixture::two_of_each();
    let default = "https://kubernetes.default.svc.cluster.local";
    f.issuers(&[A]);
    last(&mut f);
    f.window("03:00", "UTC");
    f.seconds(60);
    f.reconcile();
    assert_eq!(
        (f.accepted(), f.condition("Ready").1),
        (vec![default.into(), A.into()], "WaitingForWindow".into()),
        "step two"
    );
    f.cluster.spec.upgrade.window = None;
    f.reconcile();
    f.comes_through();
    f.issuers(&[B]);
    f.comes_through();
    f.comes_through();
    assert_eq!(f.accepted(), [B, A, default]);
    f.window("03:00", "UTC");
    f.flag("v");
    f.reconcile();
    assert_eq!(
        (f.accepted(), f.condition("Ready").1),
        (vec![B.into(), A.into(), default.into()], "WaitingForWindow".into())
    );
    let former = f.former();
    assert!(former.len() == 2 && former.iter().all(|(_, until)| until.is_some()), "while that waits: {former:?}");
    // What the spec asked for before. What signed since is accepted beside it, which never ran so.
    f.cluster.spec.api_server.extra_args.clear();
    f.issuers(&[]);
    f.reconcile();
    assert_eq!(f.accepted(), [default, B, A]);
    f.comes_through();
    assert_eq!((f.condition("Ready").0.as_str(), f.former().len()), ("True", 2));
    // What has ended would go with the next release, which is no way back for it.
    f.later(200 * 24 * 60);
    f.flag("v");
    f.reconcile();
    assert_eq!(
        (f.accepted(), f.condition("Ready").1),
        (vec![default.into(), B.into(), A.into()], "WaitingForWindow".into())
    );
}
