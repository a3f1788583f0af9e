use super::*;
use berth_api::calls::Use;

fn now(minutes: i64) -> Timestamp {
    "2026-11-29T20:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

fn named(name: &str) -> ClusterName {
    ClusterName { namespace: "team-a".to_owned(), name: name.to_owned() }
}

fn acme() -> TenantId {
    id(named("acme"))
}

fn heard(pods: &[&str]) -> Heard {
    let heard = Heard::new(10);
    heard.begins(now(-10));
    runs(&heard, pods);
    heard
}

fn runs(heard: &Heard, pods: &[&str]) {
    runs_at(heard, pods, 0);
}

fn runs_at(heard: &Heard, pods: &[&str], at: i64) {
    heard.pods(now(at), pods.iter().map(|&pod| (pod.to_owned(), false)).collect());
}

/// It has counted for so many minutes, and says this of acme, if anything: connected now, and minutes ago.
fn says(heard: &Heard, stream: &Stream, counts_for: u64, acme: Option<(bool, u64)>, at: Timestamp) {
    let tenants = acme.map(|(now, ago)| Use { cluster: named("acme"), now, ago: ago * 60 }).into_iter().collect();
    heard.hears(stream, Told::Used(Used { counts_for: counts_for * 60, tenants, more: false }), at);
}

fn known(since: i64, last: Option<i64>, is_used: bool) -> Uses {
    Uses::Known { since: now(since), last: last.map(now), now: is_used }
}

fn unknown(heard: &Heard, at: i64) -> String {
    match heard.of(&acme(), now(at)).uses {
        Uses::Unknown(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn use_is_known_once_each_gateway_tells_it_and_counts_from_the_youngest() {
    let heard = heard(&["a", "b"]);
    let uses = |at| heard.of(&acme(), now(at)).uses;
    let (a, b) = (heard.opens("a"), heard.opens("b"));
    says(&heard, &a, 600, Some((false, 300)), now(0));
    assert!(unknown(&heard, 0).contains("pod b of berth-gateway"));
    let first = Used { counts_for: 60 * 5, tenants: vec![], more: true };
    heard.hears(&b, Told::Used(first), now(0));
    assert!(unknown(&heard, 0).contains("pod b"), "it has not said all");
    says(&heard, &b, 5, None, now(0));
    assert_eq!(uses(0), known(-5, Some(-300), false));
    says(&heard, &b, 6, Some((true, 0)), now(1));
    assert_eq!(uses(2), known(-5, Some(1), true), "one of them is enough");
    says(&heard, &b, 10, Some((false, 1)), now(5));
    assert_eq!(uses(5), known(-5, Some(4), false));
    // One that was never told of.
    assert_eq!(heard.of(&id(named("other")), now(5)).uses, known(-5, None, false));
}

#[test]
fn a_gateway_that_is_gone_or_silent_puts_nobody_to_sleep() {
    let heard = heard(&["a"]);
    let a = heard.opens("a");
    says(&heard, &a, 600, Some((true, 0)), now(0));
    runs(&heard, &["a", "b"]);
    assert!(unknown(&heard, 0).contains("pod b"), "an older build, or one that cannot be reached");
    runs(&heard, &["a"]);
    heard.lost(&a, now(30));
    assert!(unknown(&heard, 30).contains("pod a"));
    runs_at(&heard, &[], 31);
    assert!(unknown(&heard, 31).contains("no pod of berth-gateway runs"));
    runs_at(&heard, &["c"], 31);
    let c = heard.opens("c");
    says(&heard, &c, 1, None, now(32));
    let of = heard.of(&acme(), now(33)).uses;
    assert_eq!(of, known(31, Some(30), false), "who was connected when it went was so until then");
    assert_eq!(Heard::new(1).of(&acme(), now(0)).uses, Uses::NotYet);
}

#[test]
fn idleness_goes_on_over_a_rollout_of_the_gateway() {
    let heard = heard(&["a"]);
    let uses = |at| heard.of(&acme(), now(at)).uses;
    let a = heard.opens("a");
    says(&heard, &a, 600, Some((false, 300)), now(0));
    runs_at(&heard, &["a", "b"], 1);
    assert!(unknown(&heard, 1).contains("pod b"));
    let b = heard.opens("b");
    says(&heard, &b, 0, None, now(1));
    assert_eq!(uses(1), known(-600, Some(-300), false));
    // Somebody comes to the old one, and leaves with it.
    says(&heard, &a, 602, Some((true, 0)), now(2));
    assert_eq!(uses(3), known(-600, Some(2), true));
    says(&heard, &a, 604, Some((false, 0)), now(4));
    heard.hears(&a, Told::Over, now(4));
    heard.lost(&a, now(4));
    assert!(unknown(&heard, 4).contains("pod a"), "it may be started again");
    runs_at(&heard, &["b"], 5);
    assert_eq!(uses(5), known(-600, Some(4), false));
    // The next one ends without a word.
    runs_at(&heard, &["b", "c"], 6);
    let c = heard.opens("c");
    says(&heard, &c, 0, None, now(6));
    heard.lost(&b, now(7));
    runs_at(&heard, &["c"], 8);
    assert_eq!(uses(9), known(8, Some(4), false));
}

#[test]
fn a_tenant_that_is_gone_is_forgotten() {
    let heard = heard(&["a"]);
    let a = heard.opens("a");
    says(&heard, &a, 600, Some((true, 0)), now(0));
    heard.hears(&a, Told::Called(named("acme")), now(0));
    heard.forget(&acme());
    let of = heard.of(&acme(), now(0));
    assert_eq!((of.uses, of.call), (known(-600, None, false), None), "one of the same name begins with nothing");
    heard.lost(&a, now(1));
    assert!(heard.0.lock().last.is_empty());
}

#[test]
fn an_operator_that_begins_does_not_say_at_once_that_use_is_unknown() {
    let heard = Heard::new(1);
    heard.begins(now(0));
    assert_eq!(heard.of(&acme(), now(0)).uses, Uses::NotYet);
    assert!(unknown(&heard, 1).contains("cannot list the gateway's pods"));
}

#[test]
fn what_an_older_connection_says_counts_no_more() {
    let heard = heard(&["a"]);
    let before = heard.opens("a");
    let a = heard.opens("a");
    says(&heard, &before, 600, None, now(0));
    assert!(unknown(&heard, 0).contains("pod a"));
    says(&heard, &a, 1, None, now(0));
    heard.lost(&before, now(1));
    assert_eq!(heard.of(&acme(), now(1)).uses, known(-1, None, false));
    assert!(heard.hears(&before, Told::Called(named("acme")), now(1)).is_empty());
    assert_eq!(heard.hears(&a, Told::Called(named("acme")), now(1)), [acme()]);
    assert_eq!(heard.of(&acme(), now(1)).call, Some(Call { at: now(1), turn: true }));
}
