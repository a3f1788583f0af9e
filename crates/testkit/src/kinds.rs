//! One object of every kind that the oldest minor serves by default, to be read again after another one served.

use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An object of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Where it is created.
    pub collection: String,
    /// Where it is read.
    pub path: String,
    /// What is created.
    pub object: Value,
}

/// One object of every kind, whose names contain `name`; lower-case letters.
///
/// Whatever controllers do with them is done soon: nothing has pods, nothing binds, nothing is scheduled.
///
/// # Panics
/// If a row of the table is no JSON.
pub fn samples(name: &str) -> Vec<Sample> {
    // For what is named by an address; another one for another name.
    let byte = name.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)).to_string();
    let one = |(collection, kind, body): &(&str, &str, &str)| {
        let body = body.replace("NAME", name).replace("BYTE", &byte);
        let mut object: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{kind}: {e}: {body}"));
        let (version, _) = version_and_plural(collection);
        object["apiVersion"] = version.into();
        object["kind"] = (*kind).into();
        if object["metadata"]["name"].is_null() {
            object["metadata"] = json!({"name": name});
        }
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        Sample { collection: (*collection).to_owned(), path, object }
    };
    KINDS.iter().map(one).collect()
}

/// An object of the kind that the `CustomResourceDefinition` of these [`samples`] defines.
pub fn custom(name: &str) -> Sample {
    let collection = format!("/apis/example.com/v1/namespaces/default/{name}s");
    let object = json!({
        "apiVersion": "example.com/v1", "kind": format!("Kind{name}"), "metadata": {"name": name}, "spec": {"a": ["b", 1]},
    });
    Sample { path: format!("{collection}/{name}"), collection, object }
}

/// What of a `APIResourceList` can be created and read and is not in [`samples`], whatever its version: `group/plural`.
pub fn without_sample(list: &Value) -> Vec<String> {
    let group_of = |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let known: BTreeSet<(String, &str)> = KINDS
        .iter()
        .map(|(collection, ..)| version_and_plural(collection))
        .map(|(version, plural)| (group_of(version), plural))
        .collect();
    let group = group_of(list["groupVersion"].as_str().unwrap_or_default());
    let may = |resource: &Value, verb: &str| resource["verbs"].as_array().is_some_and(|v| v.contains(&verb.into()));
    let kept = list["resources"].as_array().into_iter().flatten().filter(|r| may(r, "create") && may(r, "get"));
    let plurals = kept.filter_map(|resource| resource["name"].as_str()).filter(|plural| !plural.contains('/'));
    plurals
        .filter(|plural| !known.contains(&(group.clone(), plural)))
        .map(|plural| format!("{group}/{plural}"))
        .collect()
}

/// How an object differs from what it was, but for what controllers write into its status, and into the taints of a node. None: it does not.
pub fn difference(before: &Value, now: &Value) -> Option<String> {
    let kept = |object: &Value| {
        let mut kept = object.clone();
        if before["status"].is_object() || now["status"].is_object() {
            kept["status"] = Value::Null;
            for field in ["resourceVersion", "managedFields"] {
                kept["metadata"][field] = Value::Null;
            }
        }
        if kept["kind"] == "Node" {
            kept["spec"]["taints"] = Value::Null;
        }
        kept
    };
    (kept(before) != kept(now)).then(|| format!("it was {before}, and is {now}"))
}

/// `v1` or `group/version`, and the plural, of a collection's path.
fn version_and_plural(collection: &str) -> (&str, &str) {
    let (before, plural) = collection.rsplit_once('/').unwrap_or_default();
    let before = before.split_once("/namespaces/").map_or(before, |(before, _)| before);
    (before.trim_start_matches("/apis/").trim_start_matches("/api/"), plural)
}

/// Collections, kinds and what is created; `NAME` and `BYTE` are replaced.
const KINDS: &[(&str, &str, &str)] = &[
    ("/api/v1/namespaces", "Namespace", "{}"),
    (
        "/api/v1/nodes",
        "Node",
        r#"{"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"Unknown"},{"type":"MemoryPressure","status":"Unknown"},{"type":"DiskPressure","status":"Unknown"},{"type":"PIDPressure","status":"Unknown"}],"nodeInfo":{"kubeletVersion":"v1.34.4"}}}"#,
    ),
    (
        "/api/v1/persistentvolumes",
        "PersistentVolume",
        r#"{"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"storageClassName":"none","csi":{"driver":"example.com","volumeHandle":"NAME"}}}"#,
    ),
    ("/api/v1/namespaces/default/configmaps", "ConfigMap", r#"{"data":{"a":"b"}}"#),
    ("/api/v1/namespaces/default/secrets", "Secret", r#"{"stringData":{"a":"b"}}"#),
    ("/api/v1/namespaces/default/serviceaccounts", "ServiceAccount", "{}"),
    ("/api/v1/namespaces/default/resourcequotas", "ResourceQuota", r#"{"spec":{"hard":{"pods":"10"}}}"#),
    (
        "/api/v1/namespaces/default/limitranges",
        "LimitRange",
        r#"{"spec":{"limits":[{"type":"PersistentVolumeClaim","max":{"storage":"2Gi"}}]}}"#,
    ),
    ("/api/v1/namespaces/default/services", "Service", r#"{"spec":{"ports":[{"port":80}]}}"#),
    (
        "/api/v1/namespaces/default/endpoints",
        "Endpoints",
        r#"{"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":80}]}]}"#,
    ),
    ("/api/v1/namespaces/default/events", "Event", r#"{"involvedObject":{"namespace":"default"},"reason":"Kept"}"#),
    (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        "PersistentVolumeClaim",
        r#"{"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","resources":{"requests":{"storage":"1Gi"}}}}"#,
    ),
    (
        "/api/v1/namespaces/default/pods",
        "Pod",
        r#"{"spec":{"schedulerName":"none","containers":[{"name":"c","image":"a","resources":{"requests":{"cpu":"1"}}}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/podtemplates",
        "PodTemplate",
        r#"{"template":{"metadata":{"labels":{"a":"NAME"}},"spec":{"containers":[{"name":"c","image":"a"}]}}}"#,
    ),
    (
        "/api/v1/namespaces/default/replicationcontrollers",
        "ReplicationController",
        r#"{"spec":{"replicas":0,"selector":{"a":"NAME"},"template":{"metadata":{"labels":{"a":"NAME"}},"spec":{"containers":[{"name":"c","image":"a"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        "Deployment",
        r#"{"spec":{"replicas":0,"selector":{"matchLabels":{"a":"NAME"}},"template":{"metadata":{"labels":{"a":"NAME"}},"spec":{"containers":[{"name":"c","image":"a"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/daemonsets",
        "DaemonSet",
        r#"{"spec":{"selector":{"matchLabels":{"a":"NAME"}},"template":{"metadata":{"labels":{"a":"NAME"}},"spec":{"nodeSelector":{"a":"b"},"containers":[{"name":"c","image":"a"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/replicasets",
        "ReplicaSet",
        r#"{"spec":{"replicas":0,"selector":{"matchLabels":{"b":"NAME"}},"template":{"metadata":{"labels":{"b":"NAME"}},"spec":{"containers":[{"name":"c","image":"a"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/statefulsets",
        "StatefulSet",
        r#"{"spec":{"replicas":0,"serviceName":"NAME","selector":{"matchLabels":{"a":"NAME"}},"template":{"metadata":{"labels":{"a":"NAME"}},"spec":{"containers":[{"name":"c","image":"a"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/controllerrevisions",
        "ControllerRevision",
        r#"{"data":{"a":"b"},"revision":1}"#,
    ),
    (
        "/apis/batch/v1/namespaces/default/cronjobs",
        "CronJob",
        r#"{"spec":{"suspend":true,"schedule":"0 0 * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"a"}]}}}}}}"#,
    ),
    (
        "/apis/batch/v1/namespaces/default/jobs",
        "Job",
        r#"{"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"a"}]}}}}"#,
    ),
    (
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        r#"{"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"NAME"}}}"#,
    ),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "PodDisruptionBudget",
        r#"{"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"none"}}}}"#,
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        "Ingress",
        r#"{"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}}"#,
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        "NetworkPolicy",
        r#"{"spec":{"podSelector":{}}}"#,
    ),
    ("/apis/networking.k8s.io/v1/ingressclasses", "IngressClass", r#"{"spec":{"controller":"example.com/a"}}"#),
    (
        "/apis/networking.k8s.io/v1/ipaddresses",
        "IPAddress",
        r#"{"metadata":{"name":"192.0.2.BYTE"},"spec":{"parentRef":{"resource":"services","namespace":"default","name":"NAME"}}}"#,
    ),
    ("/apis/networking.k8s.io/v1/servicecidrs", "ServiceCIDR", r#"{"spec":{"cidrs":["198.18.BYTE.0/24"]}}"#),
    (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        "EndpointSlice",
        r#"{"addressType":"IPv4","endpoints":[],"ports":[]}"#,
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "FlowSchema",
        r#"{"spec":{"priorityLevelConfiguration":{"name":"NAME"},"matchingPrecedence":9000}}"#,
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        r#"{"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject"}}}}"#,
    ),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", "Role", r#"{"rules":[]}"#),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        "RoleBinding",
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"NAME"}}"#,
    ),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRole", r#"{"rules":[]}"#),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "ClusterRoleBinding",
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"NAME"}}"#,
    ),
    (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "CertificateSigningRequest",
        r#"{"spec":{"request":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHT01FSUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWEyVndkREFxTUFVR0F5dGxjQU1oQUdjRTV4amMvUHdRZlg5awo1WDZPNVFMUmhzMCtPZlMrOWMyMHBQSlJTSGgrb0FBd0JRWURLMlZ3QTBFQTc3VmdweUY0ZHh6RlJaa2FKTngyCjIxOEJRT2hWL3I5dWRkMklPNWRhbmUzYndub3lvZU44ZndSSXZLczhkN1FuZVordTY0bnEySThPcGdXNXUzNWoKQVE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K","signerName":"example.com/a","usages":["client auth"]}}"#,
    ),
    ("/apis/storage.k8s.io/v1/storageclasses", "StorageClass", r#"{"provisioner":"a"}"#),
    ("/apis/storage.k8s.io/v1/csidrivers", "CSIDriver", r#"{"spec":{}}"#),
    ("/apis/storage.k8s.io/v1/csinodes", "CSINode", r#"{"spec":{"drivers":[]}}"#),
    (
        "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
        "CSIStorageCapacity",
        r#"{"storageClassName":"NAME"}"#,
    ),
    (
        "/apis/storage.k8s.io/v1/volumeattachments",
        "VolumeAttachment",
        r#"{"spec":{"attacher":"example.com","nodeName":"NAME","source":{"inlineVolumeSpec":{"accessModes":["ReadWriteOnce"],"csi":{"driver":"example.com","volumeHandle":"NAME"}}}}}"#,
    ),
    (
        "/apis/storage.k8s.io/v1/volumeattributesclasses",
        "VolumeAttributesClass",
        r#"{"driverName":"example.com","parameters":{"a":"b"}}"#,
    ),
    ("/apis/resource.k8s.io/v1/deviceclasses", "DeviceClass", r#"{"spec":{}}"#),
    (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        "ResourceClaim",
        r#"{"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"NAME"}}]}}}"#,
    ),
    (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
        "ResourceClaimTemplate",
        r#"{"spec":{"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"NAME"}}]}}}}"#,
    ),
    (
        "/apis/resource.k8s.io/v1/resourceslices",
        "ResourceSlice",
        r#"{"spec":{"driver":"example.com","allNodes":true,"pool":{"name":"NAME","generation":1,"resourceSliceCount":1},"devices":[{"name":"a"}]}}"#,
    ),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "Lease", r#"{"spec":{"holderIdentity":"a"}}"#),
    (
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "Event",
        r#"{"metadata":{"name":"NAME.newer"},"eventTime":"2026-01-01T00:00:00.000000Z","action":"Keep","reason":"Kept","type":"Normal","reportingController":"example.com/a","reportingInstance":"a","regarding":{"namespace":"default"}}"#,
    ),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", r#"{"value":1}"#),
    ("/apis/node.k8s.io/v1/runtimeclasses", "RuntimeClass", r#"{"handler":"a"}"#),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        r#"{"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["a"]}]},"validations":[{"expression":"true"}]}}"#,
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        r#"{"spec":{"policyName":"NAME","validationActions":["Deny"]}}"#,
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        r#"{"webhooks":[{"name":"kept.example.com","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"https://kept.example.com/"},"rules":[{"apiGroups":["example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["a"]}]}]}"#,
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        r#"{"webhooks":[{"name":"kept.example.com","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"https://kept.example.com/"},"rules":[{"apiGroups":["example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["a"]}]}]}"#,
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "CustomResourceDefinition",
        r#"{"metadata":{"name":"NAMEs.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"NAMEs","kind":"KindNAME"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#,
    ),
    (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "APIService",
        r#"{"metadata":{"name":"v1.NAME.example.com"},"spec":{"group":"NAME.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":15}}"#,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_of_its_group_whatever_its_version() {
        let (a, b) = (samples("a"), samples("b"));
        assert!(a.iter().zip(&b).all(|(a, b)| a.path != b.path && a.collection == b.collection));
        let paths: BTreeSet<_> = a.iter().map(|sample| &sample.path).collect();
        assert_eq!(paths.len(), KINDS.len());
        let resource = |name: &str, verbs: &[&str]| json!({"name": name, "verbs": verbs});
        let resources = [
            resource("deployments", &["create", "get"]),
            resource("deployments/status", &["get"]),
            resource("reviews", &["create"]),
            resource("novelties", &["create", "get"]),
        ];
        let list = json!({"groupVersion": "apps/v2", "resources": resources});
        assert_eq!(without_sample(&list), ["apps/novelties"]);
        assert_eq!(
            without_sample(&json!({"groupVersion": "v1", "resources": [resource("deployments", &["create", "get"])]})),
            ["/deployments"]
        );
    }

    #[test]
    fn only_a_status_may_differ() {
        let object = |a: &str, version: &str, ready: &Value| json!({"kind": "A", "metadata": {"resourceVersion": version}, "spec": {"a": a}, "status": ready});
        let (ready, not) = (json!({"ready": 1}), json!({"ready": 0}));
        assert_eq!(difference(&object("a", "1", &ready), &object("a", "2", &not)), None);
        assert!(difference(&object("a", "1", &ready), &object("b", "2", &ready)).is_some());
        assert!(
            difference(&object("a", "1", &Value::Null), &object("a", "2", &Value::Null)).is_some(),
            "somebody wrote"
        );
    }
}
