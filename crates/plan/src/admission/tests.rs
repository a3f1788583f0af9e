use super::*;
use serde_json::{Value, json};

const VALIDATING: &str = "validatingwebhookconfiguration";

/// One that takes everything, with something changed.
fn webhook(change: &Value) -> Webhook {
    let mut one = json!({
        "name": "slow.example.com", "failurePolicy": "Ignore", "timeoutSeconds": 30,
        "clientConfig": {"service": {"namespace": "policy", "name": "engine"}},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
    });
    one.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let configuration = json!({"metadata": {"name": "slow"}, "webhooks": [one]});
    Webhook::of(VALIDATING, &configuration).remove(0)
}

fn rule(change: Value) -> Value {
    let mut rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]});
    let Value::Object(change) = change else { panic!("{change}") };
    rule.as_object_mut().unwrap().extend(change);
    json!({"rules": [rule]})
}

fn selector(field: &str, key: &str, operator: &str, values: &[&str]) -> Value {
    json!({(field): {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}})
}

#[test]
fn a_webhook_takes_what_its_rules_and_selectors_say() {
    use Write::{Lease, Node, Own, Pod, Token};
    const NAME: &str = "kubernetes.io/metadata.name";
    let all = &[Lease, Node, Pod, Token, Own][..];
    let whole = &[Lease, Node, Pod, Own][..];
    let inside = &[Lease, Pod, Token, Own][..];
    for (change, takes) in [
        (json!({}), all),
        (json!({"rules": []}), &[]),
        (json!({"rules": null}), &[]),
        (rule(json!({"resources": ["*"]})), whole),
        (rule(json!({"resources": ["leases"]})), &[Lease]),
        (rule(json!({"resources": ["leases/*"]})), &[Lease]),
        (rule(json!({"resources": ["leases/status"]})), &[]),
        (rule(json!({"resources": ["serviceaccounts/token"]})), &[Token]),
        (rule(json!({"resources": ["*/token"]})), &[Token]),
        (rule(json!({"resources": ["serviceaccounts"]})), &[]),
        (rule(json!({"apiGroups": ["coordination.k8s.io"]})), &[Lease]),
        (rule(json!({"apiGroups": [""]})), &[Node, Pod, Token, Own]),
        (rule(json!({"apiGroups": ["apps"]})), &[]),
        (rule(json!({"operations": ["UPDATE"]})), whole),
        (rule(json!({"operations": ["CREATE"]})), all),
        (rule(json!({"operations": ["DELETE", "CONNECT"]})), &[]),
        (rule(json!({"scope": "Cluster"})), &[Node]),
        (rule(json!({"scope": "Namespaced"})), inside),
        // Equivalent takes what is written by another version, too.
        (rule(json!({"apiVersions": ["v1beta1"]})), all),
        (
            {
                let mut exact = rule(json!({"apiVersions": ["v1beta1"]}));
                exact["matchPolicy"] = json!("Exact");
                exact
            },
            &[],
        ),
        (
            {
                let mut exact = rule(json!({"apiVersions": ["v1"]}));
                exact["matchPolicy"] = json!("Exact");
                exact
            },
            all,
        ),
        (selector("namespaceSelector", NAME, "NotIn", &["kube-system"]), &[Node]),
        (selector("namespaceSelector", NAME, "In", &["kube-system", "a"]), all),
        (selector("namespaceSelector", NAME, "In", &["a"]), &[Node]),
        (selector("namespaceSelector", "policy", "DoesNotExist", &[]), all),
        (selector("namespaceSelector", "policy", "Exists", &[]), &[Node]),
        (json!({"namespaceSelector": {"matchLabels": {"policy": "on"}}}), &[Node]),
        (json!({"namespaceSelector": {}}), all),
        (selector("objectSelector", "app", "DoesNotExist", &[]), all),
        (selector("objectSelector", "app", "Exists", &[]), &[]),
        (json!({"objectSelector": {"matchExpressions": [{"operator": "Magic"}]}}), &[]),
        // What no API server would have taken.
        (json!({"rules": "*", "namespaceSelector": 7}), &[]),
    ] {
        let found: Vec<Write> = Write::ALL.into_iter().filter(|write| webhook(&change).takes(*write)).collect();
        assert_eq!(found, takes, "{change}");
    }
    assert_eq!(Webhook::of(VALIDATING, &json!([])), []);
}

fn look(failing: &[(Write, &str)], webhooks: Vec<Webhook>) -> Admission {
    let at = Timestamp::UNIX_EPOCH;
    let one = |(write, why): &(Write, &str)| (*write, Failing { since: at, why: (*why).into() });
    Admission { at, failing: failing.iter().map(one).collect(), webhooks: Ok(webhooks), idle: BTreeSet::new() }
}

fn named(name: &str, timeout: i64) -> Webhook {
    webhook(
        &json!({"name": name, "timeoutSeconds": timeout, "clientConfig": {"service": {"namespace": "policy", "name": name}}}),
    )
}

#[test]
fn of_several_the_one_that_is_named_or_idle_or_slow_is_in_the_way() {
    let late = "create Lease: no answer within 5s";
    let all = || vec![named("fast", 2), named("slow", 30), named("usual", 10)];
    let in_the_way =
        |look: &Admission| look.in_the_way().map(|found| (found.webhook.name.to_string(), found.is_idle, found.others));
    let said = |name: &str, idle, others| Some((name.to_owned(), idle, others));
    assert_eq!(in_the_way(&look(&[(Write::Lease, late)], all())), said("slow", false, 2));
    let mut idle = look(&[(Write::Lease, late)], all());
    idle.idle.insert(("policy".into(), "usual".into()));
    assert_eq!(in_the_way(&idle), said("usual", true, 2));
    let text = "admission webhook \"fast\" denied the request: no";
    idle.failing.insert(Write::Lease, Failing { since: idle.at, why: text.into() });
    assert_eq!(in_the_way(&idle), said("fast", false, 2));
    assert_eq!(in_the_way(&look(&[], all())), None, "everything goes through");
    assert_eq!(in_the_way(&look(&[(Write::Lease, late)], vec![])), None, "something else hangs");
    let of_pods = webhook(&rule(json!({"resources": ["pods"]})));
    assert_eq!(in_the_way(&look(&[(Write::Lease, late)], vec![of_pods.clone()])), None, "it takes other things");
    let both = look(&[(Write::Lease, late), (Write::Pod, late)], vec![of_pods]);
    assert_eq!(both.in_the_way().map(|found| found.write), Some(Write::Pod));
    assert_eq!(both.in_the_way_of(&[Write::Lease, Write::Own]), None);
    let both = look(&[(Write::Pod, late), (Write::Own, late)], all());
    let of = |writes: &[Write]| both.in_the_way_of(writes).map(|found| found.write);
    assert_eq!((of(&[Write::Lease, Write::Own]), of(&[Write::Lease])), (Some(Write::Own), None));
    let unknown = Admission { webhooks: Err("more than 100".into()), ..look(&[(Write::Lease, late)], vec![]) };
    assert_eq!(in_the_way(&unknown), None);
}

#[test]
fn a_webhook_that_hangs_or_fails_is_in_the_way_and_one_that_refuses_only_of_leases() {
    let failed =
        "failed calling webhook \"a\": failed to call webhook: Post \"https://a.b.svc:443\": connection refused";
    for (why, of_leases, of_pods) in [
        ("no answer within 5s", true, true),
        (failed, true, true),
        ("context deadline exceeded", true, true),
        ("admission webhook \"a\" denied the request: no label", true, false),
        ("admission webhook \"a\" does not support dry run", false, false),
        ("pods \"a\" is forbidden: violates PodSecurity", false, false),
        ("serviceaccounts \"default\" not found", false, false),
    ] {
        assert_eq!([Write::Lease, Write::Pod].map(|write| is_of_admission(write, why)), [of_leases, of_pods], "{why}");
    }
}

#[test]
fn what_fails_without_a_break_has_failed_since_it_was_found_first() {
    let first = look(&[(Write::Lease, "no answer within 5s")], vec![]);
    let later = |failing: &[(Write, &str)]| {
        let mut look = look(failing, vec![]);
        look.failing.values_mut().for_each(|failing| failing.since += jiff::SignedDuration::from_mins(1));
        look
    };
    let again =
        later(&[(Write::Lease, "no answer within 5s"), (Write::Pod, "no answer within 5s")]).since(Some(&first));
    assert_eq!(again.failing[&Write::Lease].since, first.at);
    assert_ne!(again.failing[&Write::Pod].since, first.at);
    assert_ne!(later(&[(Write::Lease, "x")]).since(Some(&later(&[]))).failing[&Write::Lease].since, first.at);
}

#[test]
fn names_that_are_none_are_part_of_no_command_and_of_no_request() {
    for name in ["a;id", "$(id)", "", "-a", "a\nb", "A", &"a".repeat(300)] {
        let change = json!({"clientConfig": {"service": {"namespace": name, "name": "engine"}}});
        assert_eq!(webhook(&change).service(), None, "{name}");
        let configuration = json!({"metadata": {"name": name}, "webhooks": [{"name": name}]});
        let webhook = Webhook::of(VALIDATING, &configuration).remove(0);
        assert_eq!(webhook.in_a_command(), None, "{name}");
        assert!(webhook.configuration.len() <= 100 && webhook.name.len() <= 100);
    }
    assert_eq!(webhook(&json!({})).in_a_command(), Some("slow"));
}
