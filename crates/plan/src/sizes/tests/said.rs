use super::*;

fn told(pod: &SizedPod, metrics: &Metrics, known: &Known) -> Option<String> {
    say(&usual(), &[pod], metrics, known, at(10))
}

fn answered() -> Metrics {
    Metrics::Answered(usage(&[("a", size(20, 60))]))
}

#[test]
fn nothing_is_said_where_all_is_well_or_there_are_no_pods() {
    assert_eq!(told(&pod("a", size(100, 256)), &answered(), &Known::default()), None);
    assert_eq!(say(&usual(), &[], &Metrics::Missing, &Known::default(), at(10)), None);
}

#[test]
fn without_metrics_the_way_out_is_named() {
    let of = |metrics| told(&pod("a", size(100, 256)), &metrics, &Known::default()).unwrap();
    assert!(
        of(Metrics::Missing).ends_with("Install metrics-server there, or set spec.apiServer.autoscaling.mode to Off")
    );
    assert!(of(Metrics::Failed).contains("its APIService v1beta1.metrics.k8s.io"));
    assert!(of(Metrics::Denied).contains("helm upgrade"));
    assert!(of(Metrics::Answered(Usage::new())).contains("tells nothing of pod a"));
    let young = SizedPod { since: Some(at(8)), ..pod("a", size(100, 256)) };
    assert_eq!(told(&young, &Metrics::Answered(Usage::new()), &Known::default()), None);
}

#[test]
fn what_kubelet_and_the_api_server_say_is_told_with_the_pod() {
    let of = |pending: &str| {
        let pod = SizedPod { pending: Some(pending.into()), ..pod("a", size(100, 256)) };
        told(&pod, &answered(), &Known::default()).unwrap()
    };
    assert!(of("Infeasible").contains("the node of pod a can never hold"));
    assert!(of("Deferred").contains("the node of pod a has no room now"));
    let mut known = Known::default();
    let (pods, used) = (pod("a", size(100, 256)), usage(&[("a", size(900, 60))]));
    let resized =
        (0..2).flat_map(|n| step(&usual(), &[&pods], Some(&used), &mut known, (at(n), true))).collect::<Vec<_>>();
    known.refused(&resized[0], "exceeded quota: q".into(), at(1));
    let said = told(&pods, &answered(), &known).unwrap();
    assert_eq!(said, "spec.apiServer.autoscaling: the meta cluster does not resize pod a: exceeded quota: q");
    known.taken(&resized[0]);
    assert_eq!(told(&pods, &answered(), &known), None);
    let whole = SizedPod { class: "Guaranteed".into(), ..pods };
    let said = told(&whole, &answered(), &known).unwrap();
    assert!(said.contains("Set spec.apiServer.resources.limits above the requests"), "{said}");
}
