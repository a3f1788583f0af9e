//! A world in memory for tests: carries plans out as the driver and the meta cluster would, with real keys and made-up UIDs.

use crate::model::{Action, Plan, SecretEntry, SecretPlan};
use crate::observed::{ApiProbe, Observed, Published, SecretFacts, sha256, uid};
use berth_render::{Kind, Object, ObjectKey, TemplateSet};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What there is.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) observed: Observed,
    pub(crate) now: Timestamp,
    /// Every write, as `Action::describe` says it.
    pub(crate) log: Vec<String>,
    data: BTreeMap<ObjectKey, BTreeMap<String, Vec<u8>>>,
    count: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { observed: Observed::default(), now, log: vec![], data: BTreeMap::new(), count: 0 }
    }

    /// What the controller's driver does: plans and carries out until nothing is left to write. Returns the last plan.
    pub(crate) fn settle<P>(&mut self, mut plan: impl FnMut(&Self) -> P, plan_of: impl Fn(&P) -> &Plan) -> P {
        for _ in 0..20 {
            let planned = plan(self);
            let actions: Vec<_> = plan_of(&planned).actions().cloned().collect();
            if actions.is_empty() {
                return planned;
            }
            for action in &actions {
                self.carry_out(action);
            }
        }
        panic!("plans never end; the last writes: {:#?}", self.log.iter().rev().take(20).collect::<Vec<_>>());
    }

    /// One write.
    pub(crate) fn carry_out(&mut self, action: &Action) {
        self.log.push(action.describe());
        match action {
            Action::Create(object) => {
                assert!(self.observed.get(object.key()).is_none(), "{} is there already", object.key());
                self.apply(object);
            }
            Action::Apply(object) => self.apply(object),
            Action::Secret(plan) => self.secret(plan),
            Action::Delete { key, uid: expected, .. } => {
                let live = self.observed.get(key).unwrap_or_else(|| panic!("{key} is not there"));
                assert_eq!(uid(live), expected, "{key}");
                self.remove(key);
            }
            Action::Scale { key, uid: expected, replicas } => {
                let live = self.observed.objects.get_mut(key).unwrap_or_else(|| panic!("{key} is not there"));
                assert_eq!(uid(live), expected, "{key}");
                live["spec"]["replicas"] = (*replicas).into();
            }
            Action::Disown { key, .. } => {
                let live = self.observed.objects.get_mut(key).unwrap_or_else(|| panic!("{key} is not there"));
                live["metadata"].as_object_mut().unwrap().remove("ownerReferences");
            }
            Action::TenantApply(object) => {
                let (key, mut live) = (object.key().clone(), object.value().clone());
                live["metadata"]["uid"] = self.uid().into();
                if let ApiProbe::Answered { read, .. } = &mut self.observed.api
                    && let Some(Some(former)) = read.insert(key.clone(), Some(live))
                {
                    assert_eq!(former["addressType"], object.value()["addressType"], "{key}: field is immutable");
                    assert_eq!(former["roleRef"], object.value()["roleRef"], "{key}: cannot change roleRef");
                }
            }
            Action::TenantDelete { key, uid: expected } => {
                if let ApiProbe::Answered { read, .. } = &mut self.observed.api {
                    let live = read.insert(key.clone(), None).flatten();
                    assert_eq!(live.as_ref().map(uid), Some(&**expected), "{key}");
                }
            }
            Action::PublishKubeconfig { source, labels, .. } => {
                let value = self.data.get(source).and_then(|d| d.get("value")).cloned().unwrap_or_default();
                let uid = self.uid();
                self.observed.published = Published::Ours { uid, value_sha256: sha256(&value), labels: labels.clone() };
            }
        }
    }

    fn uid(&mut self) -> String {
        self.count += 1;
        format!("uid-{}", self.count)
    }

    /// Server-side apply, near enough: what is given is laid over what is there.
    fn apply(&mut self, object: &Object) {
        self.put(object.key().clone(), object.value().clone());
    }

    /// Puts an object there, as the API server would keep it.
    pub(crate) fn put(&mut self, key: ObjectKey, value: Value) {
        let fresh = self.uid();
        let address = format!("10.96.0.{}", self.count % 250);
        let mut live = self.observed.objects.remove(&key).unwrap_or_else(
            || json!({"metadata": {"uid": fresh, "generation": 0, "creationTimestamp": self.now.to_string()}}),
        );
        let before = live["spec"].clone();
        lay(&mut live, value);
        if live["spec"] != before {
            live["metadata"]["generation"] = (live["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
        }
        if key.kind == Kind::Service && live["spec"]["clusterIP"].is_null() {
            live["spec"]["clusterIP"] = address.into();
        }
        live["metadata"]["resourceVersion"] = self.count.to_string().into();
        self.observed.put(key, live);
    }

    /// Makes an object go away, whoever did it.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.observed.objects.remove(key);
        self.observed.secrets.remove(key);
        self.data.remove(key);
    }

    /// Overwrites what a Secret holds.
    pub(crate) fn set_secret(&mut self, key: &ObjectKey, entry: &str, bytes: &[u8]) {
        let data = self.data.entry(key.clone()).or_default();
        data.insert(entry.to_owned(), bytes.to_vec());
        self.observed.secrets.insert(key.clone(), SecretFacts::read("Opaque", data).into());
    }

    fn secret(&mut self, plan: &SecretPlan) {
        let live = self.observed.get(&plan.key);
        assert_eq!(plan.existing.as_ref().map(|(u, _)| u.as_str()), live.map(uid), "{}", plan.key);
        for entry in &plan.entries {
            for (name, bytes) in self.make(entry) {
                self.data.entry(plan.key.clone()).or_default().insert(name, bytes);
            }
        }
        let facts = SecretFacts::read(&plan.type_, &self.data[&plan.key]);
        self.observed.secrets.insert(plan.key.clone(), facts.into());
        let name = json!({"name": plan.key.name, "namespace": plan.key.namespace, "labels": plan.labels});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": plan.type_, "metadata": name});
        self.put(plan.key.clone(), object);
    }

    fn make(&self, entry: &SecretEntry) -> Vec<(String, Vec<u8>)> {
        let ca = |key: &ObjectKey| (self.data[key]["tls.crt"].clone(), self.data[key]["tls.key"].clone());
        let pair = |name: &str, p: berth_pki::KeyPairPem| {
            let key = p.key_pem.expose_bytes().to_vec();
            vec![(format!("{name}.crt"), p.cert_pem.into_bytes()), (format!("{name}.key"), key)]
        };
        match entry {
            SecretEntry::Ca(spec) => pair("tls", berth_pki::issue_ca(spec, self.now).unwrap()),
            SecretEntry::Leaf { name, spec, issuer, .. } => {
                let (cert, key) = ca(issuer);
                pair(name, berth_pki::issue(spec, &cert, &key, self.now).unwrap())
            }
            SecretEntry::CaCopy { name, issuer } => vec![(name.clone(), ca(issuer).0)],
            SecretEntry::ServiceAccountKey => {
                let key = berth_pki::generate_service_account_key().unwrap();
                let private = key.private_pem.expose_bytes().to_vec();
                vec![("tls.crt".into(), key.public_pem.into_bytes()), ("tls.key".into(), private)]
            }
            SecretEntry::EncryptionConfig => {
                let key = berth_pki::generate_encryption_key().unwrap();
                let provider = json!({"secretbox": {"keys": [{"name": "key-1", "secret": key.expose()}]}});
                let text =
                    json!({"resources": [{"resources": ["secrets"], "providers": [provider, {"identity": {}}]}]});
                vec![("encryption.yaml".into(), text.to_string().into_bytes())]
            }
            SecretEntry::Kubeconfig { cluster, server, spec, issuer, .. } => {
                let (cert, key) = ca(issuer);
                let p = berth_pki::issue(spec, &cert, &key, self.now).unwrap();
                let kubeconfig = berth_pki::Kubeconfig {
                    cluster_name: cluster.clone(),
                    server: server.clone(),
                    tls_server_name: None,
                    ca: berth_pki::PemSource::Inline(String::from_utf8(cert).unwrap()),
                    user: spec.common_name.clone(),
                    credentials: berth_pki::Credentials::Inline { cert_pem: p.cert_pem, key_pem: p.key_pem },
                    namespace: None,
                };
                vec![("value".into(), kubeconfig.to_yaml().into_bytes())]
            }
        }
    }

    /// The StatefulSet's controller and kubelet: takes the template up, starts missing pods, ends superfluous ones, and all run
    /// well. A pod of an older template stays, as `OnDelete` wants it.
    pub(crate) fn run_stateful_set(&mut self, key: &ObjectKey) {
        let Some(set) = self.observed.objects.get_mut(key) else { return };
        let revision: String = sha256(set["spec"]["template"].to_string().as_bytes()).chars().take(10).collect();
        set["status"] = json!({"observedGeneration": set["metadata"]["generation"], "updateRevision": revision});
        let mut labels = set["spec"]["template"]["metadata"]["labels"].clone();
        labels["controller-revision-hash"] = revision.into();
        let claim_labels = set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"].clone();
        let replicas = set["spec"]["replicas"].as_i64().unwrap_or_default();
        for i in 0..9 {
            let name = format!("{}-{i}", key.name);
            let pod = ObjectKey { kind: Kind::Pod, name: name.clone(), ..key.clone() };
            if i >= replicas {
                self.remove(&pod);
                continue;
            }
            let meta = |name: &str, labels: &Value| json!({"metadata": {"name": name, "labels": labels}});
            let claim = format!("data-{name}");
            let volume = ObjectKey { kind: Kind::PersistentVolumeClaim, name: claim.clone(), ..key.clone() };
            if self.observed.get(&volume).is_none() {
                self.put(volume, meta(&claim, &claim_labels));
            }
            if self.observed.get(&pod).is_none() {
                self.put(pod.clone(), meta(&name, &labels));
                self.pod_runs(&pod);
            }
        }
    }

    /// The pod runs and is ready.
    pub(crate) fn pod_runs(&mut self, pod: &ObjectKey) {
        let running = json!({"name": "main", "ready": true, "state": {"running": {"startedAt": self.now.to_string()}}});
        let ready = json!([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]);
        self.pod_status(pod, json!({"containerStatuses": [running], "conditions": ready}));
    }

    /// The pod is as kubelet says.
    pub(crate) fn pod_status(&mut self, pod: &ObjectKey, status: Value) {
        self.observed.objects.get_mut(pod).unwrap()["status"] = status;
    }
}

fn lay(live: &mut Value, value: Value) {
    match (live, value) {
        (Value::Object(live), Value::Object(value)) => {
            for (k, v) in value {
                lay(live.entry(k).or_insert(Value::Null), v);
            }
        }
        (live, value) => *live = value,
    }
}

/// The set as it was before its templates read a value: they set it themselves, for example `jwt = []`.
pub(crate) fn before(set: &TemplateSet, folder: &str, assignment: &str) -> TemplateSet {
    let mut data = set.to_data();
    let folder = format!("{}__", folder.replace('/', "__"));
    for (_, text) in data.iter_mut().filter(|(key, _)| key.starts_with(&folder)) {
        *text = format!("{{% set {assignment} %}}\n{text}");
    }
    TemplateSet::from_data(data).unwrap()
}
