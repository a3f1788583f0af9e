use super::super::record::Revision;
use super::*;
use berth_api::revision::{ClusterRevisionStatus, RevisionOutcome};
use berth_render::{Kind, ObjectKey};
use serde_json::{Value, json};

const DEFAULT: &str = "https://kubernetes.default.svc.cluster.local";
const A: &str = "https://a.example.com";
const B: &str = "https://b.example.com";
const C: &str = "https://c.example.com";

const NOW: &str = "2026-06-01T00:00:00Z";
const MONTH_AGO: &str = "2026-05-01T00:00:00Z";
const LONG_AGO: &str = "2026-01-01T00:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// What is recorded of a tenant, as the planner goes on with it.
#[derive(Default)]
struct Story {
    specs: Vec<(ClusterRevisionSpec, ClusterRevisionStatus)>,
    api: Value,
}

impl Story {
    fn cluster(&self) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme", "namespace": "team-a"},
            "spec": {"version": "1.36.3", "apiServer": self.api},
        }))
        .unwrap()
    }

    fn asks(&mut self, api: Value) -> &mut Self {
        self.api = api;
        self
    }

    fn recorded(&self) -> Vec<Revision<'static>> {
        static KEY: std::sync::LazyLock<ObjectKey> =
            std::sync::LazyLock::new(|| ObjectKey::namespaced(Kind::ClusterRevision, "n", "r"));
        let of = |(spec, status): &(ClusterRevisionSpec, ClusterRevisionStatus)| Revision {
            key: &KEY,
            live: &Value::Null,
            number: spec.number,
            spec: Some(spec.clone()),
            status: status.clone(),
        };
        self.specs.iter().map(of).collect()
    }

    /// Those that are too old to be kept are gone.
    fn forgets(&mut self) {
        let old = self.specs.len().saturating_sub(super::super::record::KEPT);
        self.specs.drain(..old);
    }

    fn decided_at(&self, now: &str) -> (Release, Issuers) {
        let all = self.recorded();
        let cluster = self.cluster();
        of_release(&cluster, Release::of(&cluster.spec), &all, time(now))
    }

    /// Records what is to run, and what becomes of it. None: nothing new is to run.
    fn runs(&mut self, outcome: Option<RevisionOutcome>, since: &str) -> Option<Vec<String>> {
        let (release, Issuers { kept: kept_issuers, listed: listed_issuers }) = self.decided_at(since);
        if self.specs.last().is_some_and(|(newest, _)| newest.release == release) {
            return None;
        }
        let number = self.specs.last().map_or(1, |(newest, _)| newest.number + 1);
        let issuers = release.api_server.service_account_issuers.clone();
        let spec = ClusterRevisionSpec { number, release, kept_issuers, listed_issuers, ..Default::default() };
        self.specs
            .push((spec, ClusterRevisionStatus { outcome, since: Some(Time(time(since))), ..Default::default() }));
        Some(issuers)
    }

    fn well(&mut self, since: &str) -> Option<Vec<String>> {
        self.runs(Some(RevisionOutcome::Succeeded), since)
    }

    /// Runs all that follows, and then nothing more.
    fn settles(&mut self, since: &str) -> Vec<Vec<String>> {
        let all: Vec<_> = std::iter::from_fn(|| self.well(since)).take(9).collect();
        assert!(all.len() < 9, "it does not settle: {all:?}");
        for now in [since, "2027-05-30T00:00:00Z", "2099-01-01T00:00:00Z"] {
            let (release, _) = self.decided_at(now);
            assert_eq!(release, self.specs.last().unwrap().0.release, "a time alone changes nothing");
        }
        all
    }
}

fn issuers(all: &[&str]) -> Value {
    json!({"serviceAccountIssuers": all})
}

#[test]
fn a_tenant_that_never_changes_them_runs_what_it_asks_for() {
    for api in [json!({}), issuers(&[A]), issuers(&[A, B])] {
        let mut story = Story::default();
        let asked = story.asks(api.clone()).cluster().spec;
        assert_eq!(story.settles(NOW), std::slice::from_ref(&asked.api_server.service_account_issuers));
        // Another field, or a tenant of a build before that failed with another issuer.
        let mut other = api.clone();
        other["replicas"] = 2.into();
        assert_eq!(story.asks(other).settles(NOW), [asked.api_server.service_account_issuers]);
        assert!(story.specs.iter().all(|(spec, _)| spec.kept_issuers.is_empty()));
    }
}

#[test]
fn each_change_is_accepted_everywhere_before_it_signs_and_what_signed_stays() {
    // What is asked for one after the other, and the issuers of each release that follows.
    type Lists = &'static [&'static [&'static str]];
    let table: &[(Lists, Lists)] = &[
        (&[&[], &[A]], &[&[], &[DEFAULT, A], &[A, DEFAULT]]),
        (&[&[A], &[B]], &[&[A], &[A, B], &[B, A]]),
        (&[&[A], &[]], &[&[A], &[A, DEFAULT], &[DEFAULT, A]]),
        // By hand: nothing is done twice.
        (&[&[A], &[A, B], &[B, A]], &[&[A], &[A, B], &[B, A]]),
        (&[&[A], &[B, A]], &[&[A], &[A, B], &[B, A]]),
        // Taken out though it signed: there is nothing to do.
        (&[&[A], &[B, A], &[B]], &[&[A], &[A, B], &[B, A]]),
        // Taken out, and it never signed.
        (&[&[A, B], &[A]], &[&[A, B], &[A]]),
        // And back: it is accepted still.
        (&[&[A], &[B], &[A]], &[&[A], &[A, B], &[B, A], &[A, B]]),
        (&[&[A], &[B], &[C]], &[&[A], &[A, B], &[B, A], &[B, C, A], &[C, B, A]]),
    ];
    for (asked, runs) in table {
        let mut story = Story::default();
        let all: Vec<_> = asked.iter().flat_map(|own| story.asks(issuers(own)).settles(NOW)).collect();
        assert_eq!(all, *runs, "{asked:?}");
        // Of two that run beside each other, each accepts what the other signs.
        for pair in all.windows(2) {
            let [before, after] = pair else { continue };
            let signs = |of: &Vec<String>| of.first().cloned().unwrap_or(DEFAULT.into());
            let accepts =
                |of: &Vec<String>, issuer: &String| of.contains(issuer) || (of.is_empty() && issuer == DEFAULT);
            assert!(accepts(before, &signs(after)) && accepts(after, &signs(before)), "{asked:?}: {pair:?}");
        }
    }
}

#[test]
fn the_next_step_waits_for_the_one_before_and_one_that_failed_stays_so() {
    use RevisionOutcome::{Held, RolledBack, Superseded};
    for outcome in [None, Some(Held), Some(RolledBack)] {
        let mut story = Story::default();
        story.asks(issuers(&[A])).settles(NOW);
        story.asks(issuers(&[B]));
        assert_eq!(story.runs(outcome, NOW), Some(vec![A.to_owned(), B.to_owned()]));
        assert_eq!(story.runs(None, NOW), None, "{outcome:?}");
    }
    // The second step is taken back, and the spec is changed: what ran for a while counts.
    let mut story = Story::default();
    story.asks(issuers(&[A])).settles(NOW);
    story.asks(issuers(&[B])).well(NOW);
    assert_eq!(story.runs(Some(RolledBack), NOW), Some(vec![B.to_owned(), A.to_owned()]));
    assert_eq!(story.runs(None, NOW), None);
    assert_eq!(story.asks(issuers(&[A])).settles(NOW), [[A, B]]);
    // One that was superseded may still run, and does not accept what comes.
    let mut story = Story::default();
    story.asks(issuers(&[A])).settles(NOW);
    story.asks(issuers(&[B])).runs(Some(Superseded), NOW);
    assert_eq!(story.asks(issuers(&[C])).settles(NOW), [&[A, C][..], &[C, A]]);
}

#[test]
fn what_signed_is_kept_for_as_long_as_tokens_live_and_goes_with_the_next_release() {
    let accepted = |api: Value, then: Value| {
        let mut story = Story::default();
        story.asks(json!({"serviceAccountIssuers": [A], "extraArgs": api["extraArgs"]})).settles(LONG_AGO);
        story.asks(json!({"serviceAccountIssuers": [B], "extraArgs": api["extraArgs"]})).settles(LONG_AGO);
        story.asks(json!({"serviceAccountIssuers": [C], "extraArgs": api["extraArgs"]})).settles(MONTH_AGO);
        story.asks(then).settles(NOW);
        let last = story.specs.last().unwrap().0.release.api_server.service_account_issuers.clone();
        (last, story.decided_at(NOW).1.status())
    };
    let no_args = json!({"extraArgs": []});
    let next = json!({"serviceAccountIssuers": [C], "replicas": 2});
    let (last, said) = accepted(no_args, next.clone());
    assert_eq!(last, [C, B], "the tokens of A have ended");
    let until = |issuer: &FormerIssuer| issuer.accepted_until.as_ref().map(|Time(at)| at.to_string());
    assert_eq!(said.iter().map(until).collect::<Vec<_>>(), [Some("2026-07-30T00:00:00Z".into())]);
    let longer = json!({"extraArgs": [{"name": "service-account-extend-token-expiration", "value": "true"}]});
    assert_eq!(accepted(longer, next).0, [C, B, A]);
    let dropped = json!({"serviceAccountIssuers": [C], "formerServiceAccountIssuers": "Drop"});
    assert_eq!(accepted(json!({"extraArgs": []}), dropped).0, [C]);
}

#[test]
fn what_was_dropped_does_not_come_back() {
    let mut story = Story::default();
    story.asks(issuers(&[A])).settles(NOW);
    story.asks(issuers(&[B])).settles(NOW);
    let drop = json!({"serviceAccountIssuers": [B], "formerServiceAccountIssuers": "Drop"});
    assert_eq!(story.asks(drop).settles(NOW), [[B]]);
    assert_eq!(story.asks(issuers(&[B])).settles(NOW), [[B]]);
    assert_eq!(story.asks(issuers(&[C])).settles(NOW), [[B, C], [C, B]]);
}

#[test]
fn a_release_of_an_older_operator_is_not_made_anew_and_its_issuer_counts_later() {
    let mut story = Story::default();
    for own in [A, B] {
        let release = Release::of(&story.asks(issuers(&[own])).cluster().spec);
        let number = i64::try_from(story.specs.len()).unwrap() + 1;
        let status = ClusterRevisionStatus {
            outcome: Some(RevisionOutcome::Succeeded),
            since: Some(Time(time(MONTH_AGO))),
            ..Default::default()
        };
        story.specs.push((ClusterRevisionSpec { number, release, ..Default::default() }, status));
    }
    assert_eq!(story.well(NOW), None, "no release comes with a new operator");
    assert_eq!(story.asks(issuers(&[C])).settles(NOW), [&[B, C, A][..], &[C, B, A]]);
}

#[test]
fn a_revision_tells_what_was_asked_for() {
    let mut story = Story::default();
    let domain = "cluster.local";
    for own in [&[][..], &[A], &[], &[B, A]] {
        story.asks(issuers(own)).settles(NOW);
        for (spec, _) in story.specs.iter().rev().take(1) {
            assert_eq!(spec.asked(domain).api_server.service_account_issuers, own, "{spec:?}");
        }
    }
}

#[test]
fn what_cannot_be_with_former_ones_is_refused_with_the_way_out() {
    let refused = |first: &[&str], then: Value| {
        let mut story = Story::default();
        story.asks(issuers(first)).settles(NOW);
        let (asked, issuers) = story.asks(then).decided_at(NOW);
        issuers.refusal(&asked).map(|state| match state {
            State::Blocked { reason: Reason::InvalidSpec, message } => message,
            other => panic!("{other:?}"),
        })
    };
    let jwt =
        |url: &str| json!({"serviceAccountIssuers": [B], "authentication": {"jwt": [{}, {"issuer": {"url": url}}]}});
    let why = refused(&[A], jwt(A)).unwrap();
    for says in
        ["spec.apiServer.authentication.jwt[1].issuer.url", A, "spec.apiServer.formerServiceAccountIssuers to Drop"]
    {
        assert!(why.contains(says), "{why}");
    }
    assert_eq!(refused(&[A], jwt(C)), None);
    let many: Vec<String> = (0..16).map(|n| format!("https://{n}.example.com")).collect();
    let why = refused(&[A], json!({"serviceAccountIssuers": many})).unwrap();
    assert!(why.contains("spec.apiServer.serviceAccountIssuers: with 1") && why.contains("17 issuers"), "{why}");
    assert_eq!(refused(&[A], json!({"serviceAccountIssuers": many[1..]})), None);
}

#[test]
fn one_that_stays_in_the_list_is_known_to_have_signed_however_many_releases_follow() {
    let mut story = Story::default();
    story.asks(issuers(&[A])).settles(LONG_AGO);
    assert_eq!(story.asks(issuers(&[B, A])).settles(MONTH_AGO), [[A, B], [B, A]]);
    for replicas in (1..=12).map(|n| 1 + n % 2) {
        story.asks(json!({"serviceAccountIssuers": [B, A], "replicas": replicas})).settles(MONTH_AGO);
        story.forgets();
    }
    let of_first = |(spec, _): &(ClusterRevisionSpec, _)| spec.release.api_server.service_account_issuers[0] == A;
    assert!(!story.specs.iter().any(of_first), "nothing else tells that it signed");
    assert!(story.asks(issuers(&[B, A])).settles(NOW).len() <= 1);
    let next = json!({"serviceAccountIssuers": [B], "replicas": 3});
    assert_eq!(story.asks(next).settles(NOW), [[B, A]]);
    let until = story.decided_at(NOW).1.status()[0].accepted_until.clone();
    assert_eq!(until.map(|Time(at)| at.to_string()).as_deref(), Some("2026-07-30T00:00:00Z"));
    // Its tokens end, and it goes with the next release.
    assert_eq!(story.asks(issuers(&[B])).settles("2026-07-30T00:00:00Z"), [[B]]);
}

#[test]
fn one_that_signs_again_and_leaves_again_counts_from_the_last_time() {
    let mut story = Story::default();
    for (own, at) in [(A, LONG_AGO), (B, "2026-02-01T00:00:00Z"), (A, "2026-03-01T00:00:00Z"), (B, MONTH_AGO)] {
        story.asks(issuers(&[own])).settles(at);
        story.forgets();
    }
    let until = |story: &Story| story.decided_at(NOW).1.status()[0].accepted_until.clone();
    assert_eq!(until(&story).map(|Time(at)| at.to_string()).as_deref(), Some("2026-07-30T00:00:00Z"));
    // Listed meanwhile, and the other one signs.
    story.asks(issuers(&[B, A])).settles(NOW);
    story.asks(issuers(&[A, B])).settles(NOW);
    let (spec, _) = story.specs.last().unwrap();
    let listed: Vec<_> = spec.listed_issuers.iter().map(|listed| &*listed.issuer).collect();
    assert_eq!((listed, spec.kept_issuers.len()), (vec![B], 0));
    assert_eq!(story.asks(issuers(&[A])).settles(NOW), Vec::<Vec<String>>::new(), "B stays");
    assert_eq!(until(&story).map(|Time(at)| at.to_string()).as_deref(), Some("2026-08-30T00:00:00Z"));
}

#[test]
fn while_another_release_waits_it_is_known_until_when_they_are_accepted() {
    let mut story = Story::default();
    story.asks(issuers(&[A])).settles(LONG_AGO);
    story.asks(issuers(&[B])).settles(MONTH_AGO);
    assert_eq!(story.specs.last().unwrap().0.kept_issuers[0].signed_until, None, "it was recorded before");
    let goes_on = of_newest(&story.asks(issuers(&[C])).cluster(), &story.recorded()).status();
    let said =
        |former: &FormerIssuer| (former.issuer.clone(), former.accepted_until.clone().map(|Time(at)| at.to_string()));
    assert_eq!(goes_on.iter().map(said).collect::<Vec<_>>(), [(A.to_owned(), Some("2026-07-30T00:00:00Z".to_owned()))]);
}

#[test]
fn pods_tokens_of_a_year_are_remembered_with_their_issuer() {
    let mut story = Story::default();
    let longer = json!([{"name": "service-account-extend-token-expiration", "value": "true"}]);
    story.asks(json!({"serviceAccountIssuers": [A], "extraArgs": longer})).settles(LONG_AGO);
    story.asks(json!({"serviceAccountIssuers": [B], "extraArgs": longer})).settles(LONG_AGO);
    for replicas in (1..=12).map(|n| 1 + n % 2) {
        story.asks(json!({"serviceAccountIssuers": [B], "replicas": replicas})).settles(LONG_AGO);
        story.forgets();
    }
    assert_eq!(story.asks(json!({"serviceAccountIssuers": [B], "replicas": 3})).settles(NOW), [[B, A]]);
}
