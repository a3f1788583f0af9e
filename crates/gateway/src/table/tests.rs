use super::*;
use berth_contract::gateway::Exposed;
use jiff::Timestamp;

/// A Service of that `Cluster` of team-a in that namespace.
fn service(at: (&str, &str), cluster: &str, names: &[&str], created: i64, uid: &str) -> (Key, ServiceFacts) {
    let exposed = Exposed {
        cluster: ClusterName { namespace: "team-a".to_owned(), name: cluster.to_owned() },
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        former_names: vec![],
        source_ranges: None,
        max_connections: Some(7),
        hibernation: None,
    };
    let created = Some(Timestamp::from_second(created).unwrap());
    ((at.0.to_owned(), at.1.to_owned()), ServiceFacts { uid: uid.to_owned(), created, exposed: Some(exposed) })
}

/// The one that it has to be.
fn own(cluster: &str, names: &[&str], created: i64, uid: &str) -> (Key, ServiceFacts) {
    service((&home(cluster), "kube-apiserver"), cluster, names, created, uid)
}

fn home(cluster: &str) -> String {
    names::control_plane_namespace("team-a", cluster)
}

fn at(address: &str, pod: &str, is_ready: bool) -> Endpoint {
    Endpoint { address: address.parse().unwrap(), pod: pod.to_owned(), is_ready, ends: false }
}

fn slice(cluster: &str, name: &str, endpoints: &[Endpoint]) -> (Key, SliceFacts) {
    ((home(cluster), name.to_owned()), SliceFacts { uid: String::new(), endpoints: endpoints.to_vec() })
}

fn table<const N: usize>(services: [(Key, ServiceFacts); N], slices: &[(Key, SliceFacts)]) -> Table {
    build(&services.into(), &slices.iter().cloned().collect())
}

/// Name of the cluster, and its server names.
fn names_of(table: &Table) -> Vec<(&str, Vec<&str>)> {
    table.routes.iter().map(|r| (r.cluster.name.as_str(), r.names.iter().map(String::as_str).collect())).collect()
}

#[test]
fn a_tenant_has_its_names_and_the_addresses_of_its_own_namespace() {
    let services = [own("acme", &["Acme.Example.com.", "b.example.com"], 1, "1"), own("other", &["c"], 2, "2")];
    let slices = [
        slice("acme", "s-1", &[at("10.0.0.1:6443", "p1", true)]),
        slice("acme", "s-2", &[at("10.0.0.2:6443", "p2", false)]),
        slice("stranger", "s-1", &[at("10.0.0.9:6443", "p9", true)]),
    ];
    let table = table(services, &slices);
    assert_eq!(names_of(&table), [("acme", vec!["acme.example.com", "b.example.com"]), ("other", vec!["c"])]);
    assert_eq!(table.routes[0].endpoints, [at("10.0.0.1:6443", "p1", true), at("10.0.0.2:6443", "p2", false)]);
    assert_eq!((&table.routes[1].endpoints[..], table.routes[0].max_connections), (&[][..], Some(7)));
    assert_eq!(table.ignored, BTreeMap::new());
}

#[test]
fn a_former_name_is_whose_it_was_until_another_has_it() {
    let former = |mut of: (Key, ServiceFacts), names: &[&str]| {
        let exposed = of.1.exposed.as_mut().unwrap();
        exposed.former_names = names.iter().map(|name| (*name).to_owned()).collect();
        of
    };
    let first = former(own("a", &["a"], 1, "1"), &["X.example", "y.example"]);
    let second = former(own("b", &["b"], 2, "2"), &["x.example"]);
    let table_of = |third: &[&str]| table([first.clone(), second.clone(), own("c", third, 3, "3")], &[]);
    let both = table_of(&["c"]);
    assert_eq!(names_of(&both), [("a", vec!["a", "x.example", "y.example"]), ("b", vec!["b"]), ("c", vec!["c"])]);
    let asked = table_of(&["c", "x.example"]);
    assert_eq!(names_of(&asked), [("a", vec!["a", "y.example"]), ("b", vec!["b"]), ("c", vec!["c", "x.example"])]);
    assert_eq!((both.ignored, asked.ignored), (BTreeMap::new(), BTreeMap::new()));
}

#[test]
fn a_service_of_any_other_place_is_ignored_and_counted() {
    let mut unreadable = own("broken", &["d"], 1, "4");
    unreadable.1.exposed = None;
    let services = [
        // Somebody's own namespace; the control plane of another Cluster; a namespace that only looks like one.
        service(("evil", "kube-apiserver"), "acme", &["a"], 1, "1"),
        service((&home("other"), "kube-apiserver"), "acme", &["b"], 1, "2"),
        service(("acme-00000000", "kube-apiserver"), "acme", &["c"], 1, "3"),
        service((&home("acme"), "kube-apiserver-2"), "acme", &["e"], 1, "5"),
        unreadable,
        own("acme", &["a", "b", "c", "d", "e"], 9, "9"),
    ];
    let table = table(services, &[]);
    assert_eq!(
        names_of(&table),
        [("acme", vec!["a", "b", "c", "d", "e"])],
        "the younger one, since the others do not count"
    );
    let ignored = [(Ignored::Foreign, 3), (Ignored::OtherService, 1), (Ignored::Unreadable, 1)];
    assert_eq!(table.ignored, ignored.into());
}

#[test]
fn a_name_is_the_older_ones_and_by_its_uid_if_both_are_as_old() {
    for ((old, new), why) in [(((1, "z"), (2, "a")), "age"), (((1, "a"), (1, "z")), "UID")] {
        let services = [own("b", &["X.", "b"], old.0, old.1), own("a", &["x", "a", "A"], new.0, new.1)];
        let table = table(services, &[]);
        assert_eq!(names_of(&table), [("b", vec!["b", "x"]), ("a", vec!["a"])], "by {why}");
        assert_eq!(table.ignored, [(Ignored::NameTaken, 1)].into());
    }
    // Once the older one is gone, or leaves it.
    let left = table([own("b", &["b"], 1, "z"), own("a", &["x"], 2, "a")], &[]);
    assert_eq!((names_of(&left), left.ignored.len()), (vec![("b", vec!["b"]), ("a", vec!["x"])], 0));
    let mut timeless = own("b", &["x"], 0, "a");
    timeless.1.created = None;
    assert_eq!(names_of(&table([timeless, own("a", &["x"], 2, "z")], &[]))[0].0, "a");
}

#[test]
fn an_address_is_there_once_and_ready_if_one_slice_says_so() {
    let ready = at("10.0.0.1:6443", "new", true);
    let unready = at("10.0.0.1:6443", "old", false);
    for slices in [[&unready, &ready], [&ready, &unready]] {
        let slices = [
            slice("acme", "s-1", std::slice::from_ref(slices[0])),
            slice("acme", "s-2", std::slice::from_ref(slices[1])),
        ];
        let table = table([own("acme", &["a"], 1, "1")], &slices);
        assert_eq!(table.routes[0].endpoints, std::slice::from_ref(&ready));
    }
}

/// Slices are told by a watch of their own, before or after their Service.
#[test]
fn slices_without_their_service_lead_nowhere() {
    let slices = [slice("acme", "s-1", &[at("10.0.0.1:6443", "p1", true)])];
    assert_eq!(table([], &slices), Table::default());
    assert_eq!(table([own("acme", &["a"], 1, "1")], &slices).routes[0].endpoints.len(), 1);
}
