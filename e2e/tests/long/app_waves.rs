//! An App in twelve tenants, in three waves: each version, and each change of a Secret with values, goes wave by wave and so many at once; a bad
//! version stops after `maxFailed` with the later waves as they were, and set back it goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use berth_api::app::{APP_SECRET, phase};
use berth_e2e::{
    Charts, Tenant, TheApp, World, apps_jobs::at_work_everywhere, core, run, tenant::condition, until, until_within,
};
use serde_json::{Value, json};

/// Label `ring` of a wave's tenants. Those of the last one have none.
const RINGS: [Option<&str>; 3] = [Some("canary"), Some("early"), None];
/// In each wave, in the order in which they get it.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const AT_ONCE: usize = 2;
const MAX_FAILED: usize = 2;
/// Nobody pushed it.
const MISSING: &str = "9.9.9";
/// The API server refuses what is in it.
const REFUSED: &str = "2.0.0";
/// For a whole fleet on two cores.
const LONG: Duration = Duration::from_mins(20);
const NAMESPACE: &str = "shop";

#[test]
#[ignore = "make test-all: twelve tenants, each of which gets an app several times"]
fn twelve_tenants_get_it_wave_by_wave_and_a_bad_version_stops_in_the_first() {
    Charts::programs().expect("crane and Helm 4");
    run("app_waves", |world| {
        let charts = Charts::serve(world, 5079)?;
        charts.install(world)?;
        for version in ["1.0.0", "1.1.0", "1.2.0"] {
            charts.push("web", version, GOOD)?;
        }
        charts.push("web", REFUSED, &format!("{GOOD}{NOT_VALID}"))?;
        let tenants = create(world)?;
        works(world, &charts, &tenants)
    });
}

fn works(world: &World, charts: &Charts, tenants: &[(usize, Tenant<'_>)]) -> Result<()> {
    println!("    a first installation, in tenants that are older than the App");
    let waves: Vec<Value> = RINGS
        .iter()
        .flatten()
        .map(|ring| json!({"name": ring, "clusterSelector": {"matchLabels": {"ring": ring}}}))
        .collect();
    let spec = json!({
        "clusterSelector": {}, "chart": charts.chart("web", "1.0.0"), "namespace": NAMESPACE,
        "waves": waves, "maxConcurrent": AT_ONCE, "maxFailed": MAX_FAILED,
        "valuesFrom": [{"secretRef": {"name": "words"}}],
        // Looks take no place, and are not what is counted here.
        "drift": {"mode": "Ignore"},
    });
    let secrets = core(&tenants[0].1.namespace, "secrets");
    let words = |word: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "words"}, "type": APP_SECRET,
            "stringData": {"values.yaml": format!("word: {word}")},
        })
    };
    world.kube.create(&secrets, &words("one"))?;
    let app = TheApp::create(&tenants[0].1, "web", &spec)?;
    let fleet = Fleet { world, tenants, app };
    fleet.all_get(&Wanted::new("1.0.0", "one"))?;
    println!("    another version");
    fleet.app.change(&json!({"chart": charts.chart("web", "1.1.0")}))?;
    fleet.all_get(&Wanted::new("1.1.0", "one"))?;
    println!("    another Secret");
    let before = fleet.secret()?;
    world.kube.merge(&format!("{secrets}/words"), &words("two"))?;
    fleet.all_get(&Wanted { not: Some(before), ..Wanted::new("1.1.0", "two") })?;

    for (version, why) in [(MISSING, "chart oci://"), (REFUSED, "selector")] {
        println!("    {version}, which fails, and back");
        let failed = fleet.stops_at(charts, version, why)?;
        let before = fleet.records()?;
        fleet.app.change(&json!({"chart": charts.chart("web", "1.1.0")}))?;
        fleet.all_are_deployed(&Wanted::new("1.1.0", "two"), &mut Seen::default())?;
        for (name, record) in fleet.records()? {
            let is_same = record.job == before[&name].job && record.release == before[&name].release;
            ensure!(is_same != failed.contains(&name), "{name}: {:?}, then {record:?}", before[&name]);
        }
    }
    println!("    and on");
    fleet.app.change(&json!({"chart": charts.chart("web", "1.2.0")}))?;
    fleet.all_get(&Wanted::new("1.2.0", "two"))?;

    println!("    uninstalled");
    fleet.app.delete()?;
    for (_, tenant) in fleet.tenants {
        let left = tenant.api()?.find(&format!("{}/web", core(NAMESPACE, "configmaps")))?;
        ensure!(left.is_none(), "{}: {left:?}", tenant.name);
        tenant.let_go()?;
    }
    world.kube.delete(&format!("{secrets}/words"))?;
    Ok(())
}

/// Each wave at once: all twelve would be too many for two cores.
fn create(world: &World) -> Result<Vec<(usize, Tenant<'_>)>> {
    let mut fleet = vec![];
    for (wave, ring) in RINGS.iter().enumerate() {
        let mut together = vec![];
        for name in NAMES {
            let tenant = Tenant::create(world, &format!("ring-{wave}-{name}"), &json!({}))?;
            if let Some(ring) = ring {
                world.kube.merge(&tenant.path(), &json!({"metadata": {"labels": {"ring": ring}}}))?;
            }
            together.push((wave, tenant));
        }
        for (_, tenant) in &together {
            tenant.wait_ready()?;
        }
        fleet.extend(together);
    }
    Ok(fleet)
}

struct Fleet<'a> {
    world: &'a World,
    tenants: &'a [(usize, Tenant<'a>)],
    app: TheApp<'a>,
}

/// What is recorded of a tenant: what it is to have, which Job said something last, and what that said.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    version: String,
    spec: Value,
    job: Value,
    release: Value,
    failures: i64,
    message: String,
}

/// What all are to have.
struct Wanted {
    version: &'static str,
    /// In the Secret.
    word: &'static str,
    /// The digest of what was in the Secret before. None: that has not changed.
    not: Option<String>,
}

impl Wanted {
    fn new(version: &'static str, word: &'static str) -> Self {
        Self { version, word, not: None }
    }

    /// Whether an installation was told of it.
    fn is_newest(&self, live: &Value) -> bool {
        let is_other = self.not.as_ref().is_none_or(|not| secret_of(live) != not);
        live["spec"]["release"]["chart"]["version"] == self.version && is_other
    }
}

/// The digest of what an installation was told of the Secret.
fn secret_of(live: &Value) -> &str {
    live["spec"]["secrets"][0]["digest"].as_str().unwrap_or_default()
}

/// What was seen at all moments.
#[derive(Default)]
struct Seen {
    most: usize,
    out_of_order: Vec<String>,
}

impl Fleet<'_> {
    fn wave_of(&self, tenant: &str) -> Result<usize> {
        let found = self.tenants.iter().find(|(_, of)| of.name == tenant);
        Ok(found.with_context(|| format!("{tenant} is none of them"))?.0)
    }

    /// By the tenant's name, which is the order of a wave.
    fn records(&self) -> Result<BTreeMap<String, Record>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let one = |live: &Value| {
            let status = &live["status"];
            let record = Record {
                version: text(&live["spec"]["release"]["chart"]["version"]),
                spec: live["spec"].clone(),
                job: status["job"].clone(),
                release: status["release"].clone(),
                failures: status["failures"].as_i64().unwrap_or_default(),
                message: text(&status["message"]),
            };
            (text(&live["spec"]["cluster"]["name"]), record)
        };
        Ok(self.app.installations()?.iter().map(one).collect())
    }

    /// What all were told of the Secret.
    fn secret(&self) -> Result<String> {
        let all = self.app.installations()?;
        let first = all.first().map(secret_of).unwrap_or_default();
        ensure!(!first.is_empty() && all.iter().all(|live| secret_of(live) == first), "{all:?}");
        Ok(first.to_owned())
    }

    /// Nobody has it whose earlier waves are not through, and no more work than may. How many have it.
    fn look(&self, wanted: &Wanted, seen: &mut Seen) -> Result<usize> {
        seen.most = seen.most.max(at_work_everywhere(self.world)?);
        let mut has_it = [false; RINGS.len()];
        let mut through = [0; RINGS.len()];
        for live in self.app.installations()? {
            let wave = self.wave_of(live["spec"]["cluster"]["name"].as_str().context("a Cluster")?)?;
            let (status, is_newest) = (&live["status"], wanted.is_newest(&live));
            let is_observed = status["observedGeneration"] == live["metadata"]["generation"];
            let is_there = status["phase"] == phase::DEPLOYED && status["release"]["version"] == wanted.version;
            has_it[wave] |= is_newest;
            through[wave] += usize::from(is_newest && is_observed && is_there);
        }
        let first = through.iter().position(|count| *count < NAMES.len()).unwrap_or(RINGS.len());
        if has_it.iter().skip(first + 1).any(|has_it| *has_it) {
            seen.out_of_order.push(format!("it is in these waves: {has_it:?}, and deployed in so many: {through:?}"));
        }
        Ok(through.iter().sum())
    }

    fn all_are_deployed(&self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let Wanted { version, word, .. } = wanted;
        until_within(LONG, &format!("all to have {version} and word {word}"), || {
            let has_it = self.look(wanted, seen)?;
            ensure!(has_it == self.tenants.len(), "{has_it} have it");
            let app = self.app.get()?;
            let ready = condition(&app, "Ready")?;
            ensure!(app["status"]["observedGeneration"] == app["metadata"]["generation"], "{ready}");
            ensure!(app["status"]["deployed"] == self.tenants.len() && ready["status"] == "True", "{ready}");
            ensure!(app["status"]["wave"].is_null(), "{}", app["status"]);
            Ok(())
        })?;
        for (name, record) in self.records()? {
            ensure!(record.release["version"] == *version, "{name}: {record:?}");
        }
        for (_, tenant) in self.tenants {
            let map = tenant.api()?.get(&format!("{}/web", core(NAMESPACE, "configmaps")))?;
            ensure!(map["data"] == json!({"version": version, "word": word}), "{}: {}", tenant.name, map["data"]);
        }
        Ok(())
    }

    /// A good version.
    fn all_get(&self, wanted: &Wanted) -> Result<()> {
        let mut seen = Seen::default();
        self.all_are_deployed(wanted, &mut seen)?;
        ensure!(seen.out_of_order.is_empty(), "{:#?}", seen.out_of_order);
        ensure!(seen.most > 0 && seen.most <= AT_ONCE, "{} worked at once", seen.most);
        let mut order = vec![];
        for (name, record) in self.records()? {
            let since = record.release["since"].as_str().context("since when")?.to_owned();
            order.push((since, self.wave_of(&name)?));
        }
        order.sort();
        ensure!(order.iter().map(|(_, wave)| wave).is_sorted(), "deployed in this order: {order:?}");
        Ok(())
    }

    /// A bad version; who got it. All others are as they were, also after those were tried again.
    fn stops_at(&self, charts: &Charts, version: &str, why: &str) -> Result<Vec<String>> {
        let before = self.records()?;
        self.app.change(&json!({"chart": charts.chart("web", version)}))?;
        let got_it = |records: &BTreeMap<String, Record>| -> Vec<String> {
            records.iter().filter(|(_, record)| record.version == version).map(|(name, _)| name.clone()).collect()
        };
        let failed = until("it to have stopped", || {
            // Who got it is read later than what is said of it.
            let app = self.app.get()?;
            let failed = got_it(&self.records()?);
            let (status, ready) = (&app["status"], condition(&app, "Ready")?);
            ensure!(status["observedGeneration"] == app["metadata"]["generation"], "{ready}");
            ensure!(failed.len() >= MAX_FAILED && status["failed"] == failed.len(), "{failed:?}: {status}");
            let said = ready["message"].as_str().unwrap_or_default();
            ensure!(ready["reason"] == "AppFailed" && said.contains("Nobody else gets it"), "{ready}");
            for name in &failed {
                ensure!(said.contains(&format!("/{name}")), "{name}: {said}");
                let listed = status["clusters"].as_array().into_iter().flatten();
                let mut listed = listed.filter(|one| one["name"] == name.as_str() && one["state"] == "Failed");
                ensure!(listed.next().is_some(), "{name}: {}", status["clusters"]);
            }
            Ok(failed)
        })?;
        // One may have begun when the last but one failed.
        ensure!(failed.len() < MAX_FAILED + AT_ONCE, "{failed:?}");
        let first: Vec<String> = NAMES.iter().map(|name| format!("ring-0-{name}")).take(failed.len()).collect();
        ensure!(failed == first, "{failed:?}, not {first:?}");
        until("each to have been tried again", || {
            let records = self.records()?;
            for name in &failed {
                let record = &records[name];
                ensure!(record.failures > 1 && record.message.contains(why), "{name}: {record:?}");
            }
            Ok(())
        })?;
        let after = self.records()?;
        ensure!(got_it(&after) == failed, "{:?}, not {failed:?}", got_it(&after));
        for (name, record) in after.iter().filter(|(name, _)| !failed.contains(name)) {
            ensure!(*record == before[name], "{name}: {:?}, then {record:?}", before[name]);
        }
        ensure!(self.app.get()?["status"]["wave"] == 1, "{}", self.app.get()?["status"]);
        Ok(failed)
    }
}

const GOOD: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  version: {{ .Chart.Version | quote }}
  word: {{ .Values.word | quote }}
";

const NOT_VALID: &str = "---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: other}}
    spec:
      containers: [{name: c, image: \"registry.k8s.io/pause:3.10.1\"}]
";
