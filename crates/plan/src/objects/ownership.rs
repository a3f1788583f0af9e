//! Fields that Berth owned, and gives up without changing them.
//!
//! Server-side apply without a field that nobody else owns takes the field away: the API server sets its default again, which is one pod for a
//! Deployment. So it is first taken out of what is noted as Berth's; then nobody owns it, and it stays.

use serde_json::Value;

/// `metadata.managedFields` of what is there, with `spec.replicas` noted as no field of that manager's. None: it is not noted as one.
pub fn without_replicas(live: &Value, manager: &str) -> Option<Value> {
    let mut all = live["metadata"]["managedFields"].as_array()?.clone();
    let mut found = false;
    let own = all.iter_mut().filter(|entry| entry["manager"] == manager && entry["subresource"].is_null());
    for entry in own {
        let spec = entry.pointer_mut("/fieldsV1/f:spec").and_then(Value::as_object_mut);
        found |= spec.is_some_and(|spec| spec.remove("f:replicas").is_some());
    }
    found.then_some(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_its_own_note_of_the_one_field_goes() {
        let entry = |manager: &str, operation: &str, subresource: Value, spec: Value| {
            let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {}}, "f:spec": spec}});
            if !subresource.is_null() {
                entry["subresource"] = subresource;
            }
            entry
        };
        let both = || json!({"f:replicas": {}, "f:template": {}});
        let of = |entries: Vec<Value>| without_replicas(&json!({"metadata": {"managedFields": entries}}), "berth");
        let others = [
            entry("kubectl", "Apply", Value::Null, both()),
            entry("berth", "Update", json!("scale"), both()),
            entry("berth-status", "Update", Value::Null, both()),
        ];
        let own = |spec| [&[entry("berth", "Apply", Value::Null, spec)], &others[..]].concat();
        assert_eq!(of(own(both())), Some(own(json!({"f:template": {}})).into()));
        assert_eq!(of(own(json!({"f:template": {}}))), None);
        assert_eq!(of(others.to_vec()), None);
        assert_eq!(of(vec![]), None);
        assert_eq!(without_replicas(&json!({}), "berth"), None);
    }
}
