use super::*;
use crate::settings::Limits;

fn bounds(asked: &Value, resources: &Value) -> (Size, Size) {
    let Bounds { min, max } = part_of(asked, resources).unwrap().bounds;
    (min, max)
}

#[test]
fn bounds_come_from_the_template_where_nobody_sets_them() {
    let on = json!({"mode": "InPlace"});
    let resources = json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}});
    assert_eq!(bounds(&on, &resources), (size(25, 64), size(400, 2048)));
    let large = json!({"requests": {"cpu": "800m", "memory": "256Mi"}});
    assert_eq!(bounds(&on, &large), (size(200, 64), size(2000, 1024)), "no more than writers may ask for");
    let larger = json!({"requests": {"cpu": "3", "memory": "256Mi"}});
    assert_eq!(bounds(&on, &larger).1.cpu, 3000, "as it was made");
    let set = json!({"mode": "InPlace", "min": {"cpu": "50m", "memory": "3Gi"}, "max": {"cpu": 1, "memory": "4Gi"}});
    assert_eq!(bounds(&set, &resources), (size(50, 2048), size(1000, 2048)), "never above the limit");
    assert_eq!(bounds(&json!({"mode": "InPlace", "min": {"cpu": 0}}), &resources).0.cpu, 25);
    let more = bounds(&json!({"mode": "InPlace", "min": {"cpu": 1}}), &resources);
    assert_eq!((more.0.cpu, more.1.cpu), (1000, 1000), "a min that is set is no less than it says");
}

#[test]
fn nothing_is_asked_for_where_it_is_off_or_cannot_be() {
    let resources = json!({"requests": {"cpu": "100m", "memory": "256Mi"}});
    for off in [json!({}), json!({"mode": "Off"}), json!({"mode": "InPlace", "min": {"cpu": 2}, "max": {"cpu": "1"}})] {
        assert_eq!(part_of(&off, &resources), None, "{off}");
    }
    let asked: Autoscaling = serde_json::from_value(json!({"mode": "InPlace"})).unwrap();
    assert_eq!(part(("etcd", ("a", "b")), "etcd", &asked, None, &Limits::default()), None);
    assert_eq!(part(("etcd", ("a", "b")), "etcd", &asked, Some(&workload(&resources)), &Limits::default()), None);
    assert_eq!(usual().field, "spec.apiServer.autoscaling");
}
