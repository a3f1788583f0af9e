use super::*;

/// A part with its pods, which take what they are told at once.
struct Played {
    part: Part,
    pods: Vec<SizedPod>,
    known: Known,
    minute: i64,
    may_shrink: bool,
    /// Minutes in which pods were resized, and to what.
    resized: Vec<(i64, Size)>,
}

impl Played {
    fn new(pods: &[&str]) -> Self {
        let pods = pods.iter().map(|name| pod(name, size(100, 256))).collect();
        Self { part: usual(), pods, known: Known::default(), minute: 0, may_shrink: true, resized: vec![] }
    }

    /// A minute in which each pod uses that.
    fn minute(&mut self, used: Size) {
        let names: Vec<_> = self.pods.iter().map(|pod| (pod.name.clone(), used)).collect();
        let names: Vec<_> = names.iter().map(|(name, used)| (&**name, *used)).collect();
        self.with(Some(&usage(&names)));
    }

    fn with(&mut self, usage: Option<&Usage>) {
        let pods: Vec<&SizedPod> = self.pods.iter().collect();
        let when = (at(self.minute), self.may_shrink);
        let all = step(&self.part, &pods, usage, &mut self.known, when);
        for resize in all {
            let pod = self.pods.iter_mut().find(|pod| pod.uid == resize.uid).unwrap();
            pod.containers.get_mut("kube-apiserver").unwrap().requests = resize.size;
            self.resized.push((self.minute, resize.size));
        }
        self.minute += 1;
    }

    fn minutes(&mut self, n: i64, used: Size) {
        (0..n).for_each(|_| self.minute(used));
    }
}

#[test]
fn up_after_a_minute_in_steps_of_a_half_and_no_further_than_max() {
    let mut played = Played::new(&["a"]);
    played.minute(size(300, 200));
    assert_eq!(played.resized, [], "a moment is no minute");
    played.minutes(2, size(300, 200));
    // 300m and a fifth: 25, 38, 57, 86, 129, 194, 291, 437.
    assert_eq!(played.resized, [(1, size(437, 256))]);
    played.minutes(3, size(5000, 4000));
    assert_eq!(played.resized[1..], [(4, size(2000, 2048))], "both at most max");
}

#[test]
fn one_busy_minute_alone_changes_nothing() {
    let mut played = Played::new(&["a"]);
    for _ in 0..60 {
        played.minute(size(900, 1000));
        played.minute(size(60, 100));
    }
    assert_eq!(played.resized, []);
}

#[test]
fn down_after_six_hours_and_not_before() {
    let mut played = Played::new(&["a"]);
    played.minutes(360, size(20, 60));
    assert_eq!(played.resized, []);
    played.minute(size(20, 60));
    // 24m and 72 MiB are wanted.
    assert_eq!(played.resized, [(360, size(25, 96))]);
    played.minutes(600, size(20, 60));
    assert_eq!(played.resized.len(), 1);
}

#[test]
fn a_peak_counts_for_six_hours() {
    let mut played = Played::new(&["a"]);
    played.minutes(300, size(20, 60));
    played.minutes(2, size(300, 60));
    assert_eq!(played.resized, [(301, size(437, 256))]);
    played.minutes(1000, size(20, 60));
    let down: Vec<_> = played.resized[1..].iter().map(|(minute, _)| *minute).collect();
    // Memory, of which it never used more, and then CPU once no hour of the last six has the peak.
    assert_eq!(down, [360, 12 * 60]);
    assert_eq!(played.resized[2].1, size(25, 96));
}

#[test]
fn a_load_that_comes_and_goes_moves_nothing_to_and_fro() {
    let mut played = Played::new(&["a"]);
    for _ in 0..48 {
        played.minutes(30, size(400, 900));
        played.minutes(30, size(10, 100));
    }
    assert_eq!(played.resized, [(1, size(656, 1094))], "in two days");
    let mut played = Played::new(&["a"]);
    // About the border of a step.
    for minute in 0..3000 {
        played.minute(size(if minute % 7 < 3 { 107 } else { 109 }, 100));
    }
    assert!(played.resized.len() <= 3, "two steps of CPU, and memory once: {:?}", played.resized);
}

#[test]
fn what_nobody_knows_takes_nothing_away() {
    let mut played = Played::new(&["a"]);
    played.minutes(200, size(20, 60));
    (0..30).for_each(|_| played.with(None));
    played.minutes(200, size(20, 60));
    assert_eq!(played.resized, [], "a gap begins anew, as a new operator does");
    (0..200).for_each(|_| played.with(None));
    assert_eq!(played.resized, []);
    played.minutes(361, size(20, 60));
    assert_eq!(played.resized.len(), 1);
}

#[test]
fn down_only_when_it_may() {
    let mut played = Played::new(&["a"]);
    played.may_shrink = false;
    played.minutes(900, size(20, 60));
    assert_eq!(played.resized, []);
    played.minutes(2, size(300, 60));
    assert_eq!(played.resized, [(901, size(437, 256))], "up at any time");
    played.part.bounds.max = size(200, 256);
    played.minutes(10, size(20, 60));
    assert_eq!(played.resized.len(), 1, "also where the bounds take it away");
    played.may_shrink = true;
    played.minute(size(20, 60));
    assert_eq!(played.resized[1].1.cpu, 200);
}

#[test]
fn all_pods_of_a_part_have_the_size_of_the_busiest() {
    let mut played = Played::new(&["a", "b"]);
    for _ in 0..2 {
        played.with(Some(&usage(&[("a", size(300, 60)), ("b", size(10, 60))])));
    }
    assert_eq!(played.resized, [(1, size(437, 256)), (1, size(437, 256))]);
    // One that is new, with the size of its template.
    played.pods[1] = pod("c", size(100, 256));
    played.with(Some(&usage(&[("a", size(300, 60))])));
    assert_eq!(played.resized[2..], [(2, size(437, 256))]);
}

#[test]
fn a_new_operator_goes_by_what_the_pods_have() {
    let mut played = Played::new(&["a", "b"]);
    played.pods[0] = pod("a", size(437, 384));
    played.known = Known::default();
    played.minute(size(20, 60));
    assert_eq!(played.resized, [(0, size(437, 384))], "the new pod gets what the other has");
}

#[test]
fn min_and_max_count_at_once() {
    let mut played = Played::new(&["a"]);
    played.part.bounds = Bounds { min: size(150, 512), max: size(200, 600) };
    played.minute(size(1, 1));
    assert_eq!(played.resized, [(0, size(150, 512))]);
    played.part.bounds = Bounds { min: size(10, 64), max: size(50, 128) };
    played.minute(size(1, 1));
    assert_eq!(played.resized[1..], [(1, size(50, 128))]);
}

#[test]
fn the_class_of_a_pod_never_changes() {
    let mut played = Played::new(&["a"]);
    played.pods[0].class = "Guaranteed".into();
    played.minutes(3, size(900, 60));
    assert_eq!(played.resized, []);
    // Burstable, and with that size it would not be.
    let mut played = Played::new(&["a"]);
    played.pods[0].containers.remove("beside");
    played.pods[0].containers.get_mut("kube-apiserver").unwrap().limits = size(437, 2048);
    played.minutes(3, size(300, 3000));
    assert_eq!(played.resized, []);
}

#[test]
fn a_refusal_is_not_repeated_each_minute() {
    let (part, pods) = (usual(), [pod("a", size(100, 256))]);
    let (pods, mut known, mut tried) = (pods.iter().collect::<Vec<_>>(), Known::default(), vec![]);
    for minute in 0..600 {
        let used = usage(&[("a", size(900, 200))]);
        for resize in step(&part, &pods, Some(&used), &mut known, (at(minute), true)) {
            tried.push(minute);
            known.refused(&resize, "exceeded quota".into(), at(minute));
        }
    }
    assert_eq!(tried, [1, 11, 31, 71, 151, 271, 391, 511]);
    let other = pod("b", size(100, 256));
    assert_eq!(step(&part, &[&other], None, &mut known, (at(601), true)).len(), 1, "another pod is asked for anew");
}

#[test]
fn what_is_remembered_does_not_grow() {
    let mut played = Played::new(&["a"]);
    played.minutes(5, size(20, 60));
    let before = std::mem::size_of_val(&played.known);
    played.minutes(3000, size(20, 60));
    assert!(std::mem::size_of_val(&played.known) == before && before < 512, "{before} bytes");
}

#[test]
fn memory_never_becomes_less_than_what_is_used() {
    let mut played = Played::new(&["a"]);
    played.part.bounds.max = size(2000, 128);
    played.minutes(500, size(20, 120));
    assert!(played.resized.iter().all(|(_, size)| size.memory == 256 * MIB), "{:?}", played.resized);
    played.minute(size(20, 100));
    assert_eq!(played.resized.last().unwrap().1.memory, 128 * MIB, "max counts once there is room");
    played.minutes(900, size(20, 120));
    assert_eq!(played.resized.last().unwrap().1.memory, 128 * MIB);
}

#[test]
fn a_pod_whose_use_nobody_knows_keeps_what_it_has() {
    let mut played = Played::new(&["a", "b"]);
    for _ in 0..900 {
        played.with(Some(&usage(&[("a", size(20, 60))])));
    }
    assert_eq!(played.resized, [], "b may be the one that uses most");
    // A new one has no usage at first, and then its own.
    let mut played = Played::new(&["a"]);
    played.minutes(361, size(20, 60));
    assert_eq!(played.resized, [(360, size(25, 96))]);
    played.pods[0] = SizedPod { since: Some(at(361)), ..pod("c", size(100, 256)) };
    played.with(Some(&usage(&[])));
    played.minute(size(20, 200));
    assert_eq!(played.resized[1..], [(362, size(25, 256))], "its memory is in use");
}

#[test]
fn another_wish_is_tried_at_once_after_a_refusal() {
    let (mut part, pods, mut known) = (usual(), [pod("a", size(100, 256))], Known::default());
    let pods: Vec<_> = pods.iter().collect();
    part.bounds = Bounds { min: size(1900, 64), max: size(2000, 512) };
    let refused = step(&part, &pods, None, &mut known, (at(0), true));
    known.refused(&refused[0], "no node has so much".into(), at(0));
    assert_eq!(step(&part, &pods, None, &mut known, (at(1), true)), []);
    part.bounds = Bounds { min: size(150, 64), max: size(200, 512) };
    let other = step(&part, &pods, None, &mut known, (at(2), true));
    assert_eq!(other.iter().map(|one| one.size).collect::<Vec<_>>(), [size(200, 256)]);
}

#[test]
fn init_containers_count_for_the_class() {
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "150m", "memory": "256Mi"}});
    let of = |init: Value| {
        let pod = json!({
            "metadata": {"namespace": "acme-1", "name": "a", "uid": "a"},
            "spec": {"containers": [{"name": "kube-apiserver", "resources": resources}], "initContainers": [{"name": "net", "resources": init}]},
            "status": {"phase": "Running", "qosClass": "Burstable", "containerStatuses": [runs("kube-apiserver")]},
        });
        let (pod, mut part) = (SizedPod::of(&pod).unwrap(), usual());
        part.bounds = Bounds { min: size(150, 256), max: size(150, 256) };
        step(&part, &[&pod], None, &mut Known::default(), (at(0), true)).len()
    };
    assert_eq!(of(json!({"requests": {"cpu": "5m"}})), 1);
    let whole = json!({"cpu": "5m", "memory": "8Mi"});
    assert_eq!(of(json!({"requests": whole, "limits": whole})), 0, "it would be Guaranteed");
}
