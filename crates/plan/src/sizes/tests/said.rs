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
fn what_metrics_server_misses_for_a_moment_is_not_told() {
    let mut known = Known::default();
    let pods = pod("a", size(100, 256));
    step(&usual(), &[&pods], answered().usage(), &mut known, (at(5), true));
    assert_eq!(told(&pods, &Metrics::Failed, &known), None);
    assert_eq!(told(&pods, &Metrics::Answered(Usage::new()), &known), None);
    assert!(say(&usual(), &[&pods], &Metrics::Failed, &known, at(16)).is_some());
}

#[test]
fn what_kubelet_says_is_told_with_the_pod() {
    let of = |reason: &str, why: &str| {
        let pod = SizedPod { pending: Some((reason.into(), why.into())), ..pod("a", size(100, 256)) };
        told(&pod, &answered(), &Known::default()).unwrap()
    };
    assert!(of("Infeasible", "").contains("the node of pod a can never hold what kube-apiserver needs (Infeasible). "));
    assert!(of("Infeasible", "swap is on").contains(" (Infeasible: swap is on). "));
    // How much is free there changes, and would be written each time.
    assert!(of("Deferred", "used: 17").contains("(Deferred). "));
}

#[test]
fn what_the_api_server_refuses_is_told_as_long_as_it_is_wanted() {
    let (pods, used, mut known) = (pod("a", size(100, 256)), usage(&[("a", size(900, 60))]), Known::default());
    let minute = |n, known: &mut Known| step(&usual(), &[&pods], Some(&used), known, (at(n), true));
    let resized = (0..2).flat_map(|n| minute(n, &mut known)).collect::<Vec<_>>();
    known.refused(&resized[0], "exceeded quota: q".into(), at(1));
    let said = told(&pods, &answered(), &known).unwrap();
    assert_eq!(said, "spec.apiServer.autoscaling: the meta cluster does not resize pod a: exceeded quota: q");
    let part = Part { bounds: Bounds { max: size(100, 256), ..usual().bounds }, ..usual() };
    assert_eq!(step(&part, &[&pods], Some(&used), &mut known, (at(2), true)), []);
    assert_eq!(told(&pods, &answered(), &known), None, "it has what is wanted by now");
}

#[test]
fn who_changes_requests_back_is_not_fought() {
    let (pods, used, mut known) = (pod("a", size(100, 256)), usage(&[("a", size(900, 60))]), Known::default());
    let mut tried = vec![];
    for n in 0..60 {
        for resize in step(&usual(), &[&pods], Some(&used), &mut known, (at(n), true)) {
            known.taken(&resize, at(n));
            tried.push(n);
        }
    }
    assert_eq!(tried, [1, 11, 31]);
    let said = told(&pods, &answered(), &known).unwrap();
    assert!(said.ends_with("kubectl -n acme-1 get pod a -o yaml --show-managed-fields"), "{said}");
    let has = pod("a", known.size.unwrap());
    step(&usual(), &[&has], Some(&used), &mut known, (at(61), true));
    assert_eq!(told(&has, &answered(), &known), None);
}

fn own(pod: &mut SizedPod) -> &mut Container {
    pod.containers.get_mut("kube-apiserver").unwrap()
}

#[test]
fn a_pod_that_may_not_be_resized_is_left_and_told() {
    let of = |change: &dyn Fn(&mut SizedPod)| {
        let (mut pods, mut known) = (pod("a", size(100, 256)), Known::default());
        change(&mut pods);
        let used = usage(&[("a", size(900, 60))]);
        for n in 0..3 {
            assert_eq!(step(&usual(), &[&pods], Some(&used), &mut known, (at(n), true)), []);
        }
        told(&pods, &answered(), &known)
    };
    let said = of(&|pod| pod.class = "Guaranteed".into()).unwrap();
    assert!(said.contains("Set spec.apiServer.resources.limits above the requests"), "{said}");
    assert!(of(&|pod| own(pod).restarts = true).unwrap().contains("(resizePolicy RestartContainer)"));
    assert!(of(&|pod| own(pod).is_told = false).unwrap().contains("Run Kubernetes 1.33 or newer on that node"));
    assert_eq!(of(&|pod| own(pod).runs = false), None, "it crashes, which others tell");
}
