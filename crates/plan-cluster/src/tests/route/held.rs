//! A host that a team gave up: nobody else gets it as long as it leads to the team's tenant.

use super::*;
use berth_api::gateway::ClusterName;
use berth_plan::gateway_hosts::{self, selectors};

const HOST: &str = "api.acme.example";

/// Whether another tenant that asks for it is told that it is this one's, by what the API server finds for the selectors.
fn is_held(f: &Fixture, host: &str) -> bool {
    let service = f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).unwrap();
    let has = |selector: &String| {
        let (key, value) = selector.split_once('=').map_or((&**selector, None), |(key, value)| (key, Some(value)));
        let live = service["metadata"]["labels"][key].as_str();
        live.is_some() && value.is_none_or(|value| live == Some(value))
    };
    let found: Vec<Value> = if selectors(host).iter().any(has) { vec![service.clone()] } else { vec![] };
    let other = ClusterName { namespace: "team-b".into(), name: "other".into() };
    gateway_hosts::other(&found, host, &other).is_some()
}

fn in_route(f: &Fixture, host: &str) -> bool {
    route(f).is_some_and(|route| route["spec"]["hostnames"].as_array().unwrap().contains(&json!(host)))
}

/// A tenant that was reached by a host for long, and whose API server's pod runs: it may show its certificate from before for a while.
fn long_since(engines: &[Engine]) -> Fixture {
    let mut f = up(engines, json!({"type": "Gateway", "host": HOST}));
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-1");
    let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
    f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
    f.world.run_pod(&pod);
    f.seconds(600);
    f.rest();
    assert!(is_held(&f, HOST));
    f
}

#[test]
fn until_kubeconfigs_have_another_name() {
    for (engines, asks) in [
        (BOTH, json!({"type": "Gateway"})),
        (BOTH, json!({"type": "Gateway", "host": "b.acme.example"})),
        (&[Engine::Berth], json!({"type": "Gateway", "host": "b.acme.example"})),
        (BOTH, json!({})),
        (&[Engine::Berth], json!({})),
    ] {
        let mut f = long_since(engines);
        let before = server(&f);
        ask(&mut f, asks.clone());
        f.reconcile();
        f.reconcile();
        let waits = server(&f) == before;
        assert!(waits || asks["host"].is_null(), "the pod may show the certificate from before");
        assert_eq!(is_held(&f, HOST), waits, "{asks}: {}", server(&f));
        f.seconds(151);
        f.rest();
        assert_ne!(server(&f), before);
        assert!(!is_held(&f, HOST) && !in_route(&f, HOST), "{asks}");
        assert_eq!(is_held(&f, "b.acme.example"), asks["host"] == "b.acme.example", "{asks}");
    }
}

/// No step in between, as others see them, has a name in the route that somebody else may have.
#[test]
fn and_until_it_is_out_of_the_route() {
    for asks in [json!({"type": "Gateway"}), json!({"type": "Gateway", "host": "b.acme.example"}), json!({})] {
        let mut f = long_since(BOTH);
        ask(&mut f, asks.clone());
        for _ in 0..40 {
            f.others();
            f.seconds(10);
            let planned = f.plan();
            for action in planned.plan.actions() {
                f.world.apply_action(action);
                assert!(!in_route(&f, HOST) || is_held(&f, HOST), "{asks}: after {}", action.describe());
            }
        }
        assert!(!is_held(&f, HOST) && !in_route(&f, HOST), "{asks}");
    }
}
