//! The simulated world for tests, with real keys: what is refused fails the test, and a test may put anything there.

use berth_plan::{Action, Observed, Plan, SecretEntry, SecretFacts, SecretPlan};
use berth_render::{ObjectKey, TemplateSet};
use berth_sim::{self as sim, Choices};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// What there is.
#[derive(Clone, Debug)]
pub struct World {
    sim: sim::World,
    /// Every write, as `Action::describe` says it.
    pub log: Vec<String>,
    data: BTreeMap<ObjectKey, BTreeMap<String, Vec<u8>>>,
}

impl Deref for World {
    type Target = sim::World;

    fn deref(&self) -> &sim::World {
        &self.sim
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut sim::World {
        &mut self.sim
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// Tests say themselves which address a load balancer has.
    pub fn new() -> Self {
        let choices = Choices {
            uid: |n| format!("uid-{n}"),
            cluster_ip: |n, _| format!("10.96.0.{}", n % 250),
            load_balancer: None,
        };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { sim: sim::World::new(Observed::default(), choices, now), log: vec![], data: BTreeMap::new() }
    }

    /// What the controller's driver does: plans and carries out until nothing is left to write. Returns the last plan.
    pub fn settle<P>(&mut self, mut plan: impl FnMut(&Self) -> P, plan_of: impl Fn(&P) -> &Plan) -> P {
        for _ in 0..20 {
            let planned = plan(self);
            let actions: Vec<_> = plan_of(&planned).actions().cloned().collect();
            if actions.is_empty() {
                return planned;
            }
            for action in &actions {
                self.apply_action(action);
            }
        }
        panic!("plans never end; the last writes: {:#?}", self.log.iter().rev().take(20).collect::<Vec<_>>());
    }

    /// One write.
    pub fn apply_action(&mut self, action: &Action) {
        self.log.push(action.describe());
        let done = match action {
            Action::Secret(plan) => self.write(plan),
            _ => self.sim.apply_action(action),
        };
        done.unwrap_or_else(|refused| panic!("{}: {refused}", action.describe()));
    }

    fn write(&mut self, plan: &SecretPlan) -> Result<(), String> {
        let made: Vec<_> = plan.entries.iter().flat_map(|entry| self.make(entry)).collect();
        let data = self.data.entry(plan.key.clone()).or_default();
        if plan.existing.is_none() {
            data.clear();
        }
        data.extend(made);
        self.sim.write_secret(plan, SecretFacts::read(&plan.type_, data))
    }

    /// Overwrites what a Secret holds.
    pub fn set_secret(&mut self, key: &ObjectKey, entry: &str, bytes: &[u8]) {
        self.set_secret_of("Opaque", key, entry, bytes);
    }

    /// Likewise, of a Secret of that type.
    pub fn set_secret_of(&mut self, type_: &str, key: &ObjectKey, entry: &str, bytes: &[u8]) {
        let data = self.data.entry(key.clone()).or_default();
        data.insert(entry.to_owned(), bytes.to_vec());
        self.sim.observed.secrets.insert(key.clone(), SecretFacts::read(type_, data).into());
    }

    fn make(&self, entry: &SecretEntry) -> Vec<(String, Vec<u8>)> {
        let ca = |key: &ObjectKey| {
            assert!(self.observed.get(key).is_some(), "{key} is not there");
            (self.data[key]["tls.crt"].clone(), self.data[key]["tls.key"].clone())
        };
        let pair = |name: &str, p: berth_pki::KeyPairPem| {
            let key = p.key_pem.expose_bytes().to_vec();
            vec![(format!("{name}.crt"), p.cert_pem.into_bytes()), (format!("{name}.key"), key)]
        };
        match entry {
            SecretEntry::Ca(spec) => pair("tls", berth_pki::issue_ca(spec, self.sim.now).unwrap()),
            SecretEntry::Leaf { name, spec, issuer, .. } => {
                let (cert, key) = ca(issuer);
                pair(name, berth_pki::issue(spec, &cert, &key, self.sim.now).unwrap())
            }
            SecretEntry::CaCopy { name, issuer } => vec![(name.clone(), ca(issuer).0)],
            SecretEntry::Copy { name, source, of } => vec![(name.clone(), self.data[source][of].clone())],
            SecretEntry::AuditWebhook { source } => {
                let text = berth_pki::webhook_kubeconfig(&self.data[source]["kubeconfig"]).unwrap();
                vec![("kubeconfig".into(), text.expose_bytes().to_vec())]
            }
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
                let p = berth_pki::issue(spec, &cert, &key, self.sim.now).unwrap();
                let kubeconfig = berth_pki::Kubeconfig {
                    cluster_name: cluster.clone(),
                    server: server.clone(),
                    ca_pem: String::from_utf8(cert).unwrap(),
                    user: spec.common_name.clone(),
                    cert_pem: p.cert_pem,
                    key_pem: p.key_pem,
                };
                vec![("value".into(), kubeconfig.to_yaml().into_bytes())]
            }
        }
    }

    /// The pod is as kubelet says.
    pub fn pod_status(&mut self, pod: &ObjectKey, status: Value) {
        self.sim.observed.objects.get_mut(pod).unwrap()["status"] = status;
    }
}

/// The set as it was before its templates read a value: they set it themselves, for example `jwt = []`.
pub fn before(set: &TemplateSet, folder: &str, assignment: &str) -> TemplateSet {
    let mut data = set.to_data();
    let folder = format!("{}__", folder.replace('/', "__"));
    for (_, text) in data.iter_mut().filter(|(key, _)| key.starts_with(&folder)) {
        *text = format!("{{% set {assignment} %}}\n{text}");
    }
    TemplateSet::from_data(data).unwrap()
}
