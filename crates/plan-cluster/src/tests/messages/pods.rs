//! Situations of pods: that come up, and that end.

use super::*;

pub(super) const PODS: &[Case] = &[
    ("a new version: kube-apiserver rolls out", |f| {
        f.cluster.spec.version = "1.36.3".into();
        f.cluster.spec.api_server.replicas = Some(2);
        f.reconcile();
        let d = f.live(Kind::Deployment, names::APISERVER);
        d["status"] = json!({"observedGeneration": d["metadata"]["generation"], "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2});
    }),
    ("a new version: the old pod of kube-apiserver ends", |f| {
        f.cluster.spec.version = "1.36.3".into();
        f.reconcile();
        let d = f.live(Kind::Deployment, names::APISERVER);
        d["status"] = json!({"observedGeneration": d["metadata"]["generation"], "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1});
        let pod = Fixture::key(Kind::Pod, "kube-apiserver-7d9f8-x2x4z");
        let labels = json!({(labels::COMPONENT): names::APISERVER});
        f.world.put(
            pod.clone(),
            json!({"metadata": {"name": pod.name, "labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        );
    }),
    ("an image is being pulled", |f| {
        let since = f.world.now - SignedDuration::from_secs(40);
        let true_since = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": since});
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        f.pod_says(
            names::SCHEDULER,
            json!({"conditions": [true_since("PodScheduled"), true_since("PodReadyToStartContainers")],
                "containerStatuses": [{"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.36.2", "state": waiting}]}),
        );
    }),
    ("kubelet cannot mount a pod's volumes", |f| {
        let since = f.world.now - SignedDuration::from_secs(40);
        let since = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": since});
        f.pod_says(
            names::SCHEDULER,
            json!({"conditions": [since("PodScheduled", "True"), since("PodReadyToStartContainers", "False")]}),
        );
    }),
    ("kube-scheduler's pod is not ready", |f| {
        f.live(Kind::Deployment, names::SCHEDULER)["status"]["availableReplicas"] = json!(0);
    }),
    ("an image does not exist", |f| {
        f.unserved(json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}));
    }),
    ("a container ends again and again", |f| {
        let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "Error: unknown flag: --nope"}});
        let waiting =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}});
        f.pod_says(
            names::SCHEDULER,
            json!({"containerStatuses": [{"name": "kube-scheduler", "state": waiting, "lastState": last}]}),
        );
    }),
    ("a component does not take a flag's value", |f| {
        let said = r#"Error: invalid argument "Nope=true" for "--feature-gates" flag: unrecognized feature gate: Nope"#;
        let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": said}});
        f.pod_says(
            names::SCHEDULER,
            json!({"containerStatuses": [{"name": "kube-scheduler", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last}]}),
        );
    }),
    ("a container needs more memory than its limit", |f| {
        let last = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let waiting =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}});
        f.pod_says(
            names::SCHEDULER,
            json!({"containerStatuses": [{"name": "kube-scheduler", "resources": {"limits": {"memory": "20Mi"}}, "state": waiting, "lastState": last}]}),
        );
    }),
    ("what approves kubelets' certificates needs more memory than its limit", |f| {
        let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let status = json!([{"name": names::APPROVER, "resources": {"limits": {"memory": "64Mi"}}, "state": killed}]);
        f.pod_says(names::CONTROLLER_MANAGER, json!({"containerStatuses": status}));
    }),
    ("a container without a limit is ended for its memory", |f| {
        let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        f.pod_says(
            names::SCHEDULER,
            json!({"containerStatuses": [{"name": "kube-scheduler", "resources": {}, "state": killed}]}),
        );
    }),
    ("no node fits a pod", |f| {
        let said = json!({"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient memory."});
        f.pod_says(names::SCHEDULER, json!({"conditions": [said]}));
    }),
    ("a pod is not scheduled, and the scheduler says nothing", |f| {
        f.pod_says(names::SCHEDULER, json!({"conditions": [{"type": "PodScheduled", "status": "False"}]}));
    }),
    ("a quota refuses pods", |f| {
        let why = r#"pods "kube-scheduler-7d9f8-" is forbidden: exceeded quota: small"#;
        let d = f.live(Kind::Deployment, names::SCHEDULER);
        d["status"]["availableReplicas"] = json!(0);
        d["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "message": why}]);
    }),
    ("a quota asks for a limit that no container has", |f| {
        f.refuses_schedulers("failed quota: q: must specify limits.cpu for: install-agent,kube-scheduler");
    }),
    ("a quota is used up by what is asked for", |f| {
        f.refuses_schedulers(
            "exceeded quota: q, requested: limits.memory=1Gi, used: limits.memory=8Gi, limited: limits.memory=8Gi",
        );
    }),
    ("a LimitRange bounds requests and limits", |f| {
        f.refuses_schedulers("[minimum cpu usage per Container is 20m, but request is 10m, maximum memory usage per Container is 512Mi, but limit is 1Gi, memory max limit to request ratio per Container is 4, but provided ratio is 14.222222]");
    }),
    ("somebody deletes a Deployment that has a finalizer", |f| {
        f.live(Kind::Deployment, names::SCHEDULER)["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }),
];

impl Fixture {
    /// Pods of the scheduler are refused.
    fn refuses_schedulers(&mut self, why: &str) {
        let why = format!("pods \"kube-scheduler-7d9f8-\" is forbidden: {why}");
        let d = self.live(Kind::Deployment, names::SCHEDULER);
        d["status"]["availableReplicas"] = json!(0);
        d["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "message": why}]);
    }
}

/// What is not reached by carrying a plan out to its end.
pub(super) const DELETION: &[Case] = &[
    ("deletion: a pod does not end", |f| {
        f.cluster.spec.deletion.protected = false;
        f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
        let pod = Fixture::key(Kind::Pod, "kube-apiserver-7d9f8-x2x4z");
        let due = f.world.now - SignedDuration::from_mins(1);
        f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "deletionTimestamp": due}}));
    }),
    ("deletion: somebody's finalizer keeps a pod", |f| {
        f.cluster.spec.deletion.protected = false;
        f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
        let pod = Fixture::key(Kind::Pod, "kube-apiserver-7d9f8-x2x4z");
        let held = json!({"deletionTimestamp": f.world.now, "finalizers": ["example.com/hold"]});
        f.world.put(pod.clone(), json!({"metadata": held}));
    }),
    ("deletion: data may not be kept", |f| {
        f.cluster.spec.deletion.protected = false;
        f.cluster.spec.deletion.data_policy = berth_api::cluster::DataPolicy::Retain;
        f.settings.writers.retain = berth_plan::settings::Retain::Refused;
        f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
    }),
    ("deletion: something is left in the namespace", |f| {
        f.cluster.spec.deletion.protected = false;
        f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
        f.world.observed.objects.retain(|k, _| k.kind == Kind::Namespace);
        let left = json!({"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: things.example.com has 1 resource instances"});
        let home = f.home_object();
        home["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        home["status"] = json!({"conditions": [left]});
    }),
];
