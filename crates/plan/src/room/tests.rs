//! What is asked for, and nodes that have it or not.

use super::*;

fn node(name: &str, more: &Value) -> Node {
    let mut object = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8137248Ki", "pods": "110"}},
    });
    for (path, value) in more.as_object().into_iter().flatten() {
        *object.pointer_mut(path).unwrap() = value.clone();
    }
    Node::of(&object)
}

fn tainted(name: &str, taints: &Value) -> Node {
    Node::of(&json!({
        "metadata": {"name": name, "labels": {"pool": name}}, "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi"}},
    }))
}

fn judged(
    resources: &Value,
    placement: &Value,
    nodes: &[Node],
    volume: Option<&Volume>,
) -> Result<(), (String, String, String)> {
    let resources: Resources = serde_json::from_value(resources.clone()).unwrap();
    let placement: Placement = serde_json::from_value(placement.clone()).unwrap();
    let need = Need { resources: Some(&resources), placement: &placement };
    let place = volume.map(|volume| Place { volume, beside: BTreeMap::new(), times: 1 });
    need.on(nodes, place.as_ref()).map(|_| ()).map_err(|no| (no.field, no.why, no.nodes))
}

/// Teams learn what no node has, and the platform team alone which nodes there are, and what they have.
#[test]
fn what_no_node_has_is_named_and_nodes_for_the_platform_alone() {
    let nodes = [
        node("a", &json!({})),
        node("b", &json!({"/status/allocatable/cpu": "7910m", "/status/allocatable/memory": "1Gi"})),
        tainted("c", &json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])),
    ];
    let tolerates = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
    for (resources, placement, wanted) in [
        (json!({"requests": {"cpu": "7910m"}}), json!({}), None),
        (json!({"limits": {"cpu": "4", "memory": "7Gi"}}), json!({}), None),
        (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "64"}}), json!({}), None),
        (json!({"requests": {"cpu": "64"}}), tolerates.clone(), None),
        (
            json!({"requests": {"cpu": "8"}}),
            json!({}),
            Some((
                "resources.requests.cpu",
                "8 is asked for, and no node that it may run on has as much",
                "most cpu has node b: 7910m",
            )),
        ),
        (
            json!({"limits": {"memory": "8Gi"}}),
            json!({}),
            Some((
                "resources.limits.memory",
                "8192Mi is asked for, and no node that it may run on has as much",
                "most memory has node a: 7946Mi",
            )),
        ),
        (
            json!({"requests": {"cpu": "5", "memory": "4Gi"}}),
            json!({}),
            Some((
                "resources.requests",
                "no node that it may run on has all of this: 5 cpu, 4096Mi memory",
                "most cpu has node b: 7910m, most memory has node a: 7946Mi",
            )),
        ),
        (
            json!({"requests": {"example.com/gpu": 1}}),
            json!({}),
            Some((
                "resources.requests.example.com/gpu",
                "1 is asked for, and no node that it may run on has any",
                "most example.com/gpu has node b: 0",
            )),
        ),
        (
            json!({"requests": {"cpu": "65"}}),
            tolerates,
            Some((
                "resources.requests.cpu",
                "65 is asked for, and no node that it may run on has as much",
                "most cpu has node c: 64",
            )),
        ),
        (
            json!({}),
            json!({"nodeSelector": {"pool": "none", "a": "b"}}),
            Some(("placement.nodeSelector", "no node has labels a=b,pool=none", "3 nodes are known")),
        ),
        (
            json!({}),
            json!({"nodeSelector": {"pool": "c"}}),
            Some((
                "placement.tolerations",
                "each node with label pool=c has a taint that is not tolerated",
                "taint gpu=yes:NoSchedule of node c",
            )),
        ),
        (
            json!({"requests": {"cpu": "5"}}),
            json!({"nodeSelector": {"pool": "a"}}),
            Some((
                "resources.requests.cpu",
                "5 is asked for, and no node that it may run on has as much",
                "most cpu has node a: 4",
            )),
        ),
    ] {
        let wanted = wanted.map_or(Ok(()), |(field, why, nodes): (&str, &str, &str)| {
            Err((field.to_owned(), why.to_owned(), nodes.to_owned()))
        });
        assert_eq!(judged(&resources, &placement, &nodes, None), wanted, "{resources} {placement}");
        assert_eq!(judged(&resources, &placement, &[], None), Ok(()), "no node is known");
    }
}

#[test]
fn what_passes_keeps_nobody_away() {
    let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
    for (taints, fits) in [
        (taint("node.kubernetes.io/unschedulable", "NoSchedule"), true),
        (taint("node.kubernetes.io/not-ready", "NoExecute"), true),
        (taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"), true),
        (taint("dedicated", "PreferNoSchedule"), true),
        (taint("dedicated", "NoExecute"), false),
    ] {
        assert_eq!(judged(&json!({}), &json!({}), &[tainted("c", &taints)], None).is_ok(), fits, "{taints}");
    }
    // One that has just joined does not say what it has.
    let young = [node("a", &json!({"/status/allocatable": {}}))];
    assert_eq!(judged(&json!({"requests": {"cpu": "9"}}), &json!({}), &young, None), Ok(()));
}

#[test]
fn a_taint_is_tolerated_as_the_scheduler_says() {
    for (toleration, fits) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "gpu", "operator": "Exists"}), true),
        (json!({"key": "gpu", "value": "yes"}), true),
        (json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}), true),
        (json!({"key": "gpu", "value": "yes", "effect": "NoExecute"}), false),
        (json!({"key": "gpu", "value": "no"}), false),
        (json!({"key": "gpu"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
    ] {
        let nodes = [tainted("c", &json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]))];
        let judged = judged(&json!({}), &json!({"tolerations": [toleration.clone()]}), &nodes, None);
        assert_eq!(judged.is_ok(), fits, "{toleration}");
    }
}

#[test]
fn a_volume_ties_its_pod_to_the_nodes_that_have_it() {
    let volume = |key: &str, operator: &str, values: &Value| Volume {
        claim: "data-etcd-0".into(),
        name: "pv-1".into(),
        affinity: json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]}}),
        ..Volume::default()
    };
    let nodes = [node("a", &json!({})), node("b", &json!({"/status/allocatable/cpu": "32"}))];
    let of_a = volume("kubernetes.io/hostname", "In", &json!(["a"]));
    let on = |resources: &Value, placement: &Value, volume: &Volume| judged(resources, placement, &nodes, Some(volume));
    assert_eq!(on(&json!({"requests": {"cpu": "4"}}), &json!({}), &of_a), Ok(()));
    let (field, _, nodes) = on(&json!({"requests": {"cpu": "5"}}), &json!({}), &of_a).unwrap_err();
    assert_eq!((&*field, &*nodes), ("resources.requests.cpu", "most cpu has node a: 4"));
    let (field, why, nodes) = on(&json!({}), &json!({"nodeSelector": {"pool": "b"}}), &of_a).unwrap_err();
    assert_eq!(field, "placement.nodeSelector");
    assert_eq!(why, "no node with label pool=b has the volume of PersistentVolumeClaim data-etcd-0");
    assert_eq!(nodes, "PersistentVolume pv-1, which only node a has");
    let large = json!({"requests": {"cpu": "9"}});
    for (elsewhere, fits) in [
        (volume("kubernetes.io/hostname", "In", &json!(["gone"])), true),
        (volume("pool", "NotIn", &json!(["a"])), true),
        (volume("pool", "Exists", &json!([])), true),
        (volume("pool", "DoesNotExist", &json!([])), true),
        (volume("pool", "NotIn", &json!(["b"])), false),
        (volume("pool", "Gt", &json!(["1"])), true),
        (Volume::default(), true),
    ] {
        assert_eq!(on(&large, &json!({}), &elsewhere).is_ok(), fits, "{elsewhere:?}");
    }
    let by_name = json!({"required": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}});
    assert!(on(&large, &json!({}), &Volume { affinity: by_name, ..Volume::default() }).is_err());
}

#[test]
fn on_its_one_node_others_count_and_all_pods_that_have_to_be_there() {
    let hostname = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}});
    let volume = Volume { affinity, ..Volume::default() };
    let nodes = [node("a", &json!({})), node("b", &json!({}))];
    assert_eq!(volume.node(&nodes).unwrap().name, "a");
    assert_eq!((Volume::default().node(&nodes), volume.node(&nodes[1..])), (None, None));
    let placement = Placement::default();
    let judge = |cpu: &str, beside: &str, times: i128| {
        let resources: Resources = serde_json::from_value(json!({"requests": {"cpu": cpu}})).unwrap();
        let beside = BTreeMap::from([("cpu".to_owned(), quantity::nanos(beside).unwrap())]);
        let need = Need { resources: Some(&resources), placement: &placement };
        let judged = need.on(&nodes, Some(&Place { volume: &volume, beside, times }));
        judged.map(|_| ()).map_err(|no| (no.why, no.nodes))
    };
    assert_eq!(judge("1", "3", 1), Ok(()));
    assert_eq!(judge("1", "1", 3), Ok(()));
    for (cpu, beside, times, why, has) in [
        (
            "1",
            "3001m",
            1,
            "1 is asked for, and no node that it may run on has as much left",
            "most cpu has node a: 999m, beside what other pods there ask for",
        ),
        (
            "2",
            "0",
            3,
            "2 is asked for by each of 3 pods there, and no node that it may run on has as much",
            "most cpu has node a: 4",
        ),
        (
            "1",
            "5",
            1,
            "1 is asked for, and no node that it may run on has as much left",
            "most cpu has node a: 0, beside what other pods there ask for",
        ),
    ] {
        assert_eq!(judge(cpu, beside, times), Err((why.to_owned(), has.to_owned())));
    }
}

#[test]
fn more_is_asked_for_where_fewer_nodes_would_take_it() {
    let template = |pod: Value| json!({"spec": pod});
    let runs = template(json!({
        "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}}],
        "nodeSelector": {"pool": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }));
    let same = json!({"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]});
    for (resources, placement, more) in [
        (json!({}), same.clone(), false),
        (json!({"requests": {"cpu": "0.5", "memory": "1024Mi"}}), same.clone(), false),
        (json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "8"}}), same.clone(), false),
        (json!({"limits": {"cpu": "501m"}}), same.clone(), true),
        (json!({"requests": {"memory": "1.5Gi"}}), same.clone(), true),
        (json!({"requests": {"ephemeral-storage": "1Gi"}}), same.clone(), true),
        (json!({}), json!({"tolerations": same["tolerations"]}), false),
        (json!({}), json!({"nodeSelector": {"pool": "b"}, "tolerations": same["tolerations"]}), true),
        (json!({}), json!({"nodeSelector": {"pool": "a"}}), true),
        (
            json!({}),
            json!({"tolerations": [{"key": "gpu", "operator": "Exists"}, {"key": "x", "operator": "Exists"}]}),
            false,
        ),
    ] {
        let resources: Resources = serde_json::from_value(resources).unwrap();
        let placement: Placement = serde_json::from_value(placement).unwrap();
        let need = Need { resources: Some(&resources), placement: &placement };
        assert_eq!(need.is_more_than(&runs), more, "{resources:?} {placement:?}");
    }
}

#[test]
fn nodes_that_do_not_tell_allow_nothing() {
    let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let template = |cpu: &str| json!({"spec": {"containers": [{"resources": asks(cpu)}]}});
    let young = [node("a", &json!({"/status/allocatable": {}}))];
    let hostname = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["gone"]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}});
    let away = Volume { affinity, ..Volume::default() };
    let placement = Placement::default();
    let four = [node("a", &json!({}))];
    for (case, asked, runs, nodes, volume, wanted) in [
        ("it has as much", "4", "1", &four[..], None, Some(true)),
        ("it has not", "5", "1", &four[..], None, None),
        ("nor has it what runs", "6", "5", &four[..], None, Some(false)),
        ("it has as much, though not what runs", "4", "5", &four[..], None, Some(true)),
        ("none is known", "5", "1", &[][..], None, Some(false)),
        ("the volume's is away", "5", "1", &four[..], Some(&away), Some(false)),
        ("it does not say what it has", "5", "1", &young[..], None, Some(false)),
    ] {
        let resources: Resources = serde_json::from_value(asks(asked)).unwrap();
        let need = Need { resources: Some(&resources), placement: &placement };
        let place = volume.map(|volume| Place { volume, beside: BTreeMap::new(), times: 1 });
        assert_eq!(need.beside(&template(runs), nodes, place.as_ref()).ok(), wanted, "{case}");
    }
}
