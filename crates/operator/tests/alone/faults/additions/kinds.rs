//! Kinds of additions, and the ways in which people make them.

#![allow(clippy::needless_pass_by_value, reason = "json! is written in place")]

use crate::common::Team;
use anyhow::Result;
use berth_api::labels;
use berth_kubeio::Io;
use berth_render::{Kind, ObjectKey};
use http::Request;
use serde_json::{Value, json};

/// How something is added.
pub(super) enum How {
    /// By `kubectl patch`, `set`, `edit` and the like.
    Patch(Value),
    /// Likewise, with the name of Berth's container, or something else of what is there.
    PatchOf(Box<dyn Fn(&Value) -> Value>),
    /// By server-side apply, as that field manager or as somebody of one's own.
    Apply(Box<dyn Fn(&Value) -> Value>, Option<&'static str>),
    /// By a patch as Berth's field manager.
    AsBerth(Value),
    /// By a patch, after which nobody is noted as a writer any more.
    Unnoted(Value),
}

fn pods(spec: Value) -> How {
    How::Patch(json!({"spec": {"template": {"spec": spec}}}))
}

/// In Berth's container, which has the workload's name; the first one may be somebody's, who is on the way out.
pub(super) fn container(fields: fn(&str) -> Value) -> How {
    How::PatchOf(Box::new(move |live| of_container(live, fields)))
}

fn of_container(live: &Value, fields: fn(&str) -> Value) -> Value {
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let mut container = fields(name);
    container["name"] = name.into();
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn proxy() -> Value {
    json!({"name": "proxy", "image": "registry.example.com/proxy:1"})
}

/// Everything that is set, with `hostNetwork`: the whole object is somebody's.
fn whole(live: &Value) -> Value {
    let (mut spec, meta) = (live["spec"].clone(), &live["metadata"]);
    spec["template"]["spec"]["hostNetwork"] = true.into();
    let meta = json!({"name": meta["name"], "labels": meta["labels"], "annotations": meta["annotations"]});
    json!({"metadata": meta, "spec": spec})
}

/// What is added, by its name.
#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn all() -> Vec<(&'static str, How)> {
    let mut sidecar = proxy();
    sidecar["restartPolicy"] = "Always".into();
    let labelled = json!({"matchLabels": {"a": "b"}});
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": labelled.clone()}]}});
    let spread =
        json!([{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labelled}]);
    vec![
        ("env", container(|_| json!({"env": [{"name": "FOO", "value": "bar"}]}))),
        (
            "env from a field",
            container(|_| json!({"env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]})),
        ),
        ("envFrom", container(|_| json!({"envFrom": [{"configMapRef": {"name": "more", "optional": true}}]}))),
        ("container", pods(json!({"containers": [proxy()]}))),
        ("init container", pods(json!({"initContainers": [proxy()]}))),
        ("sidecar", pods(json!({"initContainers": [sidecar]}))),
        ("volume", pods(json!({"volumes": [{"name": "more", "emptyDir": {}}]}))),
        (
            "hostPath with a mount",
            How::PatchOf(Box::new(|live| {
                let mut all = of_container(live, |_| json!({"volumeMounts": [{"name": "host", "mountPath": "/host"}]}));
                all["spec"]["template"]["spec"]["volumes"] = json!([{"name": "host", "hostPath": {"path": "/"}}]);
                all
            })),
        ),
        ("hostNetwork", pods(json!({"hostNetwork": true}))),
        ("hostPID", pods(json!({"hostPID": true}))),
        ("hostIPC", pods(json!({"hostIPC": true}))),
        ("hostUsers", pods(json!({"hostUsers": false}))),
        ("shareProcessNamespace", pods(json!({"shareProcessNamespace": true}))),
        (
            "annotation of pods",
            How::Patch(json!({"spec": {"template": {"metadata": {"annotations": {"example.com/a": "b"}}}}})),
        ),
        ("label of pods", How::Patch(json!({"spec": {"template": {"metadata": {"labels": {"example.com/a": "b"}}}}}))),
        ("nodeSelector", pods(json!({"nodeSelector": {"disk": "ssd"}}))),
        ("nodeName", pods(json!({"nodeName": "node-7"}))),
        ("tolerations", pods(json!({"tolerations": [{"key": "a", "operator": "Exists"}]}))),
        ("affinity", pods(json!({"affinity": affinity}))),
        ("topologySpreadConstraints", pods(json!({"topologySpreadConstraints": spread}))),
        ("priorityClassName", pods(json!({"priorityClassName": "system-node-critical"}))),
        ("schedulerName", pods(json!({"schedulerName": "mine"}))),
        ("runtimeClassName", pods(json!({"runtimeClassName": "kata"}))),
        ("dnsPolicy", pods(json!({"dnsPolicy": "Default"}))),
        ("dnsConfig", pods(json!({"dnsConfig": {"nameservers": ["192.0.2.53"]}}))),
        ("hostAliases", pods(json!({"hostAliases": [{"ip": "192.0.2.1", "hostnames": ["more.example.com"]}]}))),
        ("imagePullSecrets", pods(json!({"imagePullSecrets": [{"name": "more"}]}))),
        ("serviceAccountName", pods(json!({"serviceAccountName": "mine"}))),
        ("hostname and subdomain", pods(json!({"hostname": "a", "subdomain": "b"}))),
        ("setHostnameAsFQDN", pods(json!({"setHostnameAsFQDN": true}))),
        ("os", pods(json!({"os": {"name": "linux"}}))),
        ("readinessGates", pods(json!({"readinessGates": [{"conditionType": "example.com/ready"}]}))),
        ("preemptionPolicy", pods(json!({"preemptionPolicy": "Never"}))),
        ("sysctls", pods(json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "0"}]}}))),
        ("supplementalGroups", pods(json!({"securityContext": {"supplementalGroups": [7]}}))),
        ("port", container(|_| json!({"ports": [{"containerPort": 7}]}))),
        ("hook", container(|_| json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}))),
        ("tty", container(|_| json!({"tty": true, "stdin": true}))),
        ("workingDir", container(|_| json!({"workingDir": "/tmp"}))),
        ("capabilities", container(|_| json!({"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}))),
        ("limit", container(|_| json!({"resources": {"limits": {"ephemeral-storage": "1Gi"}}}))),
        ("terminationMessagePath", container(|_| json!({"terminationMessagePath": "/tmp/end"}))),
        ("imagePullPolicy", container(|_| json!({"imagePullPolicy": "Always"}))),
        ("minReadySeconds", How::Patch(json!({"spec": {"minReadySeconds": 1}}))),
        (
            "a field of the workload's own",
            How::PatchOf(Box::new(|live| match live["kind"].as_str() {
                Some("Deployment") => json!({"spec": {"progressDeadlineSeconds": 7}}),
                _ => {
                    json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}})
                }
            })),
        ),
        (
            "paused, or history",
            How::PatchOf(Box::new(|live| match live["kind"].as_str() {
                Some("Deployment") => json!({"spec": {"paused": true}}),
                _ => {
                    json!({"spec": {"template": {"spec": {"activeDeadlineSeconds": null, "enableServiceLinks": true}}}})
                }
            })),
        ),
        (
            "applied by another",
            How::Apply(
                Box::new(|live| of_container(live, |_| json!({"env": [{"name": "FOO", "value": "bar"}]}))),
                None,
            ),
        ),
        (
            "hostNetwork, applied by another",
            How::Apply(Box::new(|_| json!({"spec": {"template": {"spec": {"hostNetwork": true}}}})), None),
        ),
        ("all of it, applied by another", How::Apply(Box::new(whole), None)),
        ("all of it, applied as Berth", How::Apply(Box::new(whole), Some("berth"))),
        ("patched as Berth", How::AsBerth(json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}))),
        (
            "noted of nobody",
            How::Unnoted(
                json!({"spec": {"template": {"spec": {"hostPID": true, "volumes": [{"name": "more", "emptyDir": {}}]}}}}),
            ),
        ),
    ]
}

/// Adds it to a workload.
pub(super) async fn add(team: &Team, io: &Io, key: &ObjectKey, how: &How, somebody: &str) -> Result<()> {
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    let live = io.get(key).await?.unwrap_or_default();
    let berth = if key.kind == Kind::Deployment { labels::MANAGER_CLUSTER } else { labels::MANAGER_ETCD };
    let (manager, patch, content) = match how {
        How::Patch(patch) | How::Unnoted(patch) => (somebody, patch.clone(), STRATEGIC),
        How::PatchOf(patch) => (somebody, patch(&live), STRATEGIC),
        How::AsBerth(patch) => (berth, patch.clone(), STRATEGIC),
        How::Apply(patch, by) => {
            let mut object = patch(&live);
            object["apiVersion"] = key.kind.api_version().into();
            object["kind"] = key.kind.name().into();
            (by.map_or(somebody, |_| berth), object, "application/apply-patch+yaml&force")
        }
    };
    let (content, force) = content.split_once('&').map_or((content, ""), |(content, _)| (content, "&force=true"));
    let url = format!(
        "/apis/apps/v1/namespaces/{}/{}/{}?fieldManager={manager}{force}",
        team.cp_namespace,
        key.kind.plural(),
        key.name
    );
    let request = |content: &str, url: String, body: &Value| {
        Request::patch(url).header("content-type", content).body(serde_json::to_vec(body).unwrap_or_default())
    };
    team.client.request_text(request(content, url.clone(), &patch)?).await?;
    if matches!(how, How::Unnoted(_)) {
        let forget = json!({"metadata": {"managedFields": [{}]}});
        team.client.request_text(request("application/merge-patch+json", url, &forget)?).await?;
    }
    Ok(())
}
