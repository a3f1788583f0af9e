//! What is believed of what controllers write into a route's status, and for how long nothing is.

use super::*;

/// The API server notes that somebody wrote the route, but for its status.
fn written(f: &mut Fixture) {
    let now = f.world.now.to_string();
    let status =
        json!({"manager": "c", "operation": "Update", "subresource": "status", "time": "2099-01-01T00:00:00Z"});
    let writes = json!([{"manager": "berth-cluster", "operation": "Apply", "time": now}, status]);
    f.live(Kind::TLSRoute, names::APISERVER)["metadata"]["managedFields"] = writes;
    f.reconcile();
}

/// Type, status and reason.
type Said = (&'static str, &'static str, &'static str);

/// What controllers have written, each with its name, its conditions, their generation, and when.
fn told(f: &mut Fixture, entries: &[(&str, &[Said], i64, &str)]) {
    let entry = |(controller, of, generation, at): &(&str, &[Said], i64, &str)| {
        let mut all = conditions(of, &json!(generation));
        for condition in all.as_array_mut().unwrap() {
            condition["lastTransitionTime"] = (*at).into();
        }
        json!({"parentRef": {"namespace": "edge", "name": "tls"}, "controllerName": controller, "conditions": all})
    };
    f.live(Kind::TLSRoute, names::APISERVER)["status"]["parents"] = entries.iter().map(entry).collect();
    f.reconcile();
}

fn generation(f: &Fixture) -> i64 {
    route(f).unwrap()["metadata"]["generation"].as_i64().unwrap()
}

const REFUSED: &[Said] = &[("Accepted", "False", "NoMatchingParent"), FINE[1]];
const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

#[test]
fn of_several_controllers_the_last_word_for_a_gateway_counts() {
    let mut f = up(ALONE, json!({"type": "Gateway"}));
    ask(&mut f, json!({"type": "Gateway", "host": "api.acme.example"}));
    f.rest();
    let now = generation(&f);
    assert!(now > 1);
    for (former, new, status) in [(FINE, REFUSED, "False"), (REFUSED, FINE, "True")] {
        let older = [("a.example/old", former, now - 1, LATE), ("b.example/new", new, now, EARLY)];
        let same = [("a.example/old", former, now, EARLY), ("b.example/new", new, now, LATE)];
        for mut entries in [older, same] {
            told(&mut f, &entries);
            assert_eq!(f.condition("RouteAccepted").0, status, "{entries:?}");
            entries.reverse();
            told(&mut f, &entries);
            assert_eq!(f.condition("RouteAccepted").0, status, "{entries:?}");
        }
    }
    // One that tells no generation comes after one that means an older one.
    told(&mut f, &[("a.example/old", FINE, now - 1, LATE), ("b.example/new", REFUSED, now, EARLY)]);
    for condition in f
        .live(Kind::TLSRoute, names::APISERVER)
        .pointer_mut("/status/parents/1/conditions")
        .unwrap()
        .as_array_mut()
        .unwrap()
    {
        condition.as_object_mut().unwrap().remove("observedGeneration");
    }
    f.reconcile();
    assert_eq!(says(&f, "RouteAccepted"), is("False", "RouteNotAccepted"));
}

#[test]
fn a_controller_that_does_not_look_at_a_change_is_named_after_a_minute() {
    let mut f = up(ALONE, json!({"type": "Gateway"}));
    answer(&mut f, FINE);
    f.seconds(600);
    ask(&mut f, json!({"type": "Gateway", "host": "api.acme.example"}));
    f.rest();
    written(&mut f);
    assert_eq!((says(&f, "RouteAccepted"), says(&f, "Ready")), (is("Unknown", "Waiting"), is("False", "Waiting")));
    let due = f.plan().due.unwrap();
    assert!(due.is_positive() && due <= SignedDuration::from_secs(60), "{due}");
    f.seconds(61);
    f.reconcile();
    let late = is("False", "RouteNotAccepted");
    assert_eq!((says(&f, "RouteAccepted"), says(&f, "Ready")), (late.clone(), late));
    let why = f.condition("Ready").2;
    assert!(
        why.contains("controller example.com/c has not looked at its last change for Gateway edge/tls within"),
        "{why}"
    );
    assert!(why.contains("Check that this controller runs and look into its log"), "{why}");
    assert_eq!(hosts(&f), [OWN], "what it did before may go on");
    answer(&mut f, FINE);
    assert_eq!((says(&f, "RouteAccepted").0, hosts(&f)), ("True".to_owned(), vec!["api.acme.example"]));
}

#[test]
fn a_controller_that_does_not_decide_is_named_after_a_minute() {
    for (of, why) in [
        (
            &[("Accepted", "Unknown", "Pending"), FINE[1]][..],
            "has not decided for Gateway edge/tls within a minute: Accepted is Pending",
        ),
        (
            &[("Accepted", "True", "Accepted")],
            "has written no condition ResolvedRefs for Gateway edge/tls within a minute",
        ),
    ] {
        let mut f = up(ALONE, json!({"type": "Gateway"}));
        answer(&mut f, of);
        assert_eq!(says(&f, "RouteAccepted"), is("Unknown", "Waiting"), "{of:?}");
        f.seconds(61);
        f.reconcile();
        assert_eq!(says(&f, "RouteAccepted"), is("False", "RouteNotAccepted"), "{of:?}");
        assert!(f.condition("RouteAccepted").2.contains(why), "{}", f.condition("RouteAccepted").2);
    }
}

#[test]
fn other_parents_have_a_minute_to_answer() {
    let mut f = up(BOTH, json!({"type": "Gateway"}));
    answer(&mut f, FINE);
    f.seconds(600);
    // Not written yet: nobody can have answered.
    let more = Parent { namespace: "edge".into(), name: "b".into(), section_name: None };
    f.settings.gateway.as_mut().unwrap().parents = vec![more];
    let before = f.live(Kind::TLSRoute, names::APISERVER).clone();
    f.rest();
    written(&mut f);
    assert_eq!(says(&f, "RouteAccepted"), is("Unknown", "Waiting"));
    assert!(f.condition("RouteAccepted").2.starts_with("waiting for Gateway edge/b to answer for TLSRoute"));
    f.seconds(59);
    f.reconcile();
    assert_eq!(says(&f, "RouteAccepted"), is("Unknown", "Waiting"));
    assert!(f.plan().due.unwrap() <= SignedDuration::from_secs(1));
    f.seconds(2);
    f.reconcile();
    assert_eq!(says(&f, "RouteAccepted"), is("False", "RouteNotAccepted"));
    assert!(f.condition("RouteAccepted").2.contains("no controller has answered for Gateway edge/b. Check"));
    *f.live(Kind::TLSRoute, names::APISERVER) = before;
    let Fixture { world, cluster, settings } = &f;
    let input = Input { object: cluster, observed: &world.observed, settings, now: world.now };
    let said = status(input, &f.plan(), None);
    let accepted = said.conditions.iter().find(|condition| condition.type_ == "RouteAccepted").unwrap();
    assert_eq!((&*accepted.status, &*accepted.reason), ("Unknown", "Waiting"), "{}", accepted.message);
}
