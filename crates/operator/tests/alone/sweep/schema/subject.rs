//! An object whose spec is swept, and everything that is made of it.

use crate::common::state::{dump_by, dumper, mask, settled, without_counters};
use crate::common::team::{ACME, counted};
use crate::common::{SOON, Team};
use anyhow::{Context as _, Result, bail};
use berth_api::names;
use berth_testkit::oracle::{Dump, Dumper, diff};
use berth_testkit::{ApiServer, FaultPlan};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cluster,
    Etcd,
}

impl Kind {
    /// Name of the kind.
    pub(crate) fn name(self) -> &'static str {
        if self == Self::Cluster { "Cluster" } else { "EtcdCluster" }
    }

    fn plural(self) -> &'static str {
        if self == Self::Cluster { "clusters" } else { "etcdclusters" }
    }

    /// The schema of its spec, as it is generated.
    pub(crate) fn schema(self) -> Value {
        let crds = berth_api::crds::all();
        let crd = crds.iter().find(|c| c.spec.names.kind == self.name()).expect("its CRD");
        let crd = serde_json::to_value(crd).expect("JSON");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
    }

    /// The spec from which every sweep starts, and to which it comes back.
    pub(crate) fn first(self) -> Value {
        match self {
            Self::Cluster => json!({"version": "1.36.3", "deletion": {"protected": false}}),
            Self::Etcd => json!({"version": "3.6.16", "clients": [{"name": "app"}]}),
        }
    }
}

/// What the operator says of a spec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// All is as the spec wants it.
    Ready,
    /// Something is wrong.
    Refused(String),
    /// Something is waited for that does not come.
    Waits(String),
}

/// One object in a namespace of its own.
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) team: Team,
}

impl Subject {
    pub(crate) async fn new(kind: Kind, server: &ApiServer) -> Self {
        let team = Team::new(server).await;
        // What `apiServer.audit.webhook` names.
        let sink = json!({
            "metadata": {"name": "sink"}, "type": berth_api::cluster::AUDIT_SECRET,
            "stringData": {"kubeconfig": r#"{"clusters": [{"name": "c", "cluster": {"server": "https://audit.example.com"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}"#},
        });
        let secrets: Api<Secret> = Api::namespaced(team.client.clone(), &team.ns);
        let sink = serde_json::from_value(sink).expect("a Secret");
        secrets.create(&PostParams::default(), &sink).await.expect("create");
        Self { kind, team }
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        let ns = &self.team.ns;
        format!("/apis/berth.dev/v1alpha1/namespaces/{ns}/{}{rest}", self.kind.plural())
    }

    /// Likewise, of the object itself.
    pub(crate) fn its_url(&self, rest: &str) -> String {
        self.url(&format!("/{ACME}{rest}"))
    }

    pub(crate) async fn send(
        &self,
        request: http::request::Builder,
        type_: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let request = request.header("content-type", type_).body(serde_json::to_vec(body).unwrap()).unwrap();
        self.team.client.request(request).await.map_err(|e| e.to_string())
    }

    /// The whole object.
    pub(crate) fn object(&self, spec: &Value) -> Value {
        json!({"apiVersion": "berth.dev/v1alpha1", "kind": self.kind.name(), "metadata": {"name": ACME}, "spec": spec})
    }

    /// Creates it. Fields that are not in the schema are an error.
    pub(crate) async fn create(&self, spec: &Value, dry: bool) -> Result<Value, String> {
        let request = http::Request::post(self.url(query(dry)));
        self.send(request, "application/json", &self.object(spec)).await
    }

    /// Exchanges the spec for another one, nulls included.
    pub(crate) async fn replace(&self, spec: &Value, dry: bool) -> Result<Value, String> {
        let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
        let request = http::Request::patch(self.its_url(query(dry)));
        self.send(request, "application/json-patch+json", &patch).await
    }

    pub(crate) async fn get(&self) -> Result<Value> {
        let request = http::Request::get(self.its_url("")).body(vec![])?;
        Ok(self.team.client.request(request).await?)
    }

    /// Waits until the operator has done for the present spec what it can.
    pub(crate) async fn verdict(&self, plan: &FaultPlan) -> Result<Verdict> {
        let (began, mut quiet, mut calls) = (Instant::now(), Instant::now(), None);
        loop {
            let now = plan.at_rest();
            if now.is_none() || now != calls {
                (calls, quiet) = (now, Instant::now());
            }
            let object = self.get().await?;
            let status = &object["status"];
            let seen = status["observedGeneration"] == object["metadata"]["generation"];
            let condition = |type_: &str| {
                let mut all = status["conditions"].as_array().into_iter().flatten();
                all.find(|c| c["type"] == type_).cloned().unwrap_or_default()
            };
            let says = |c: &Value| {
                format!("{}: {}", c["reason"].as_str().unwrap_or("?"), c["message"].as_str().unwrap_or("?"))
            };
            let (ready, degraded) = (condition("Ready"), condition("Degraded"));
            if ready["message"].as_str().is_some_and(|m| m.contains("every API server to answer at")) {
                self.take_up_certificates().await?;
            }
            let rests = quiet.elapsed() > Duration::from_millis(150);
            let cp_namespace = if self.kind == Kind::Cluster { &self.team.cp_namespace } else { &self.team.ns };
            if seen && rests && ready["status"] == "True" && counted(&self.team.client, cp_namespace).await.is_ok() {
                return Ok(Verdict::Ready);
            }
            // While the only member of etcd is replaced, or cannot be, there is no quorum; and no host of a sample is in DNS. The value
            // was taken.
            let taken = ["QuorumLost", "APINotReachable"].iter().any(|reason| degraded["reason"] == *reason);
            let refused = degraded["status"] == "True" && !taken;
            if seen && rests && refused {
                return Ok(Verdict::Refused(says(&degraded)));
            }
            if seen && quiet.elapsed() > Duration::from_secs(4) {
                return Ok(Verdict::Waits(says(&ready)));
            }
            if began.elapsed() > 2 * SOON {
                bail!("no end: {status:#}");
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Real API servers show a new certificate after some minutes. Here they restart in their place.
    async fn take_up_certificates(&self) -> Result<()> {
        let selector = ListParams::default().labels("app.kubernetes.io/component=kube-apiserver");
        self.team.inside::<Pod>().delete_collection(&DeleteParams::default(), &selector).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(())
    }

    /// Everything that is there, Secrets by their digests.
    pub(crate) async fn dump(&self, plan: &FaultPlan) -> Result<Dump> {
        settled(plan).await;
        let mut dump = match self.kind {
            Kind::Cluster => dump_by(&self.team, dumper(&self.team).await?.with_secret_hashes()).await?,
            Kind::Etcd => {
                let ns = &self.team.ns;
                let mut dumper = Dumper::of([&**ns]).rename(ns, "TEAM").with_secret_hashes();
                let services = Api::<Service>::namespaced(self.team.client.clone(), ns);
                for service in services.list(&ListParams::default()).await? {
                    let ip = service.spec.as_ref().and_then(|s| s.cluster_ip.clone()).unwrap_or_default();
                    if ip != "None" {
                        dumper = dumper.rename(ip, format!("<address of {}>", service.name_any()));
                    }
                }
                let mut dump = dumper.take(&self.team.client).await?;
                dump.values_mut().for_each(mask);
                dump
            }
        };
        without_counters(&mut dump);
        Ok(renumbered(dump))
    }

    /// Creates it and waits until it is up; the state.
    pub(crate) async fn up(&self, spec: &Value, plan: &FaultPlan) -> Result<Dump> {
        self.create(spec, false).await.map_err(anyhow::Error::msg)?;
        let began = Instant::now();
        loop {
            match self.verdict(plan).await? {
                Verdict::Ready => return self.dump(plan).await,
                // A world that is slow looks like one that is waited for.
                Verdict::Waits(_) if began.elapsed() < SOON => {}
                other => bail!("{spec}: {other:?}"),
            }
        }
    }

    /// Back to a spec, and to the state that it had but for certificates that were issued since; Err: what is left over.
    pub(crate) async fn back(&self, spec: &Value, state: &Dump, plan: &FaultPlan) -> Result<Dump> {
        self.replace(spec, false).await.map_err(anyhow::Error::msg).context("back to the first spec")?;
        let expected = without_digests(state.clone());
        let began = Instant::now();
        loop {
            let verdict = self.verdict(plan).await?;
            let now = self.dump(plan).await?;
            let left = diff(&expected, &without_digests(now.clone()));
            if verdict == Verdict::Ready && left.is_empty() {
                return Ok(now);
            }
            if began.elapsed() > SOON {
                bail!("back to the first spec it does not become what it was: {verdict:?}\n{left}");
            }
        }
    }

    /// Takes it away without the operator's help.
    pub(crate) async fn wipe(&self) {
        let patch = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
        let delete = http::Request::delete(self.its_url(""));
        let _ = self.send(delete, "application/json", &json!({})).await;
        let free = http::Request::patch(self.its_url(""));
        let _ = self.send(free, "application/json-patch+json", &patch).await;
        self.team.wipe().await;
    }
}

/// The world counts the pods of a Deployment on: which numbers are left depends on what came before.
fn renumbered(dump: Dump) -> Dump {
    let (mut all, most) = (Dump::new(), dump.len());
    for (key, mut object) in dump {
        let Some((start, _)) = key.split_once("<hash>-").filter(|_| key.contains("/Pod/")) else {
            all.insert(key, object);
            continue;
        };
        object["metadata"]["name"] = json!("<numbered>");
        let free = (0..most).map(|n| format!("{start}<hash>-{n}")).find(|k| !all.contains_key(k));
        all.insert(free.expect("some number is free"), object);
    }
    all
}

fn query(dry: bool) -> &'static str {
    if dry { "?fieldValidation=Strict&dryRun=All" } else { "?fieldValidation=Strict" }
}

/// Certificates and what is made of them differ from one issue to the next; and so do names of copies of audit webhooks' Secrets, which tell nothing of
/// what they hold.
pub(crate) fn without_digests(dump: Dump) -> Dump {
    fn named(text: &str) -> String {
        let begin = names::audit_webhook("");
        match text.find(&begin) {
            Some(at) => {
                let (before, rest) = text.split_at(at + begin.len());
                let rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
                format!("{before}<digest>{rest}")
            }
            None => text.to_owned(),
        }
    }
    fn walk(value: &mut Value) {
        match value {
            Value::String(text) if text.starts_with("sha256:") => "<present>".clone_into(text),
            Value::String(text) => *text = named(text),
            Value::Array(list) => list.iter_mut().for_each(walk),
            Value::Object(map) => map.values_mut().for_each(walk),
            _ => {}
        }
    }
    let masked = dump.into_iter().map(|(key, mut value)| {
        walk(&mut value);
        (named(&key), value)
    });
    masked.collect()
}
