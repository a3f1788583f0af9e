//! What may happen amid an installation or an upgrade of an App, at each step of it: the Job's pod dies or is deleted, the operator dies, the
//! tenant is restored to before, or the meta cluster forgets. Each time it comes to one release, deployed, at the revision that follows from what
//! happened, and never do two pods work at once.
//!
//! A hook of the chart holds Helm until the test lets it go on, and the registry can be stopped: nothing here depends on who is quicker.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use berth_api::{app::phase, labels};
use berth_e2e::{
    Charts, Jobs, Kube, Options, SYSTEM, Tenant, TheApp, World, apps, apps_release as release, core,
    network::processes_of, operator::NAME as OPERATOR, run, s3, tenant::name_of, until, until_within,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

/// Of the App, of its release, and of the namespace that is for.
const APP: &str = "web";
const NAMESPACE: &str = "shop";
/// Helm gives a hook five minutes, and one whose tenant was restored meanwhile waits for all of them.
const LONG: Duration = Duration::from_mins(15);

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and an S3 server is built"]
fn whoever_dies_amid_an_app_it_comes_to_one_release() {
    Charts::programs().expect("crane and Helm 4");
    run("app_faults", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        let charts = Charts::serve(world, 5080)?;
        let store = s3::options(world);
        world.install(&Options { values: [store.values, charts.values.clone()].concat(), ..Options::default() })?;
        s3::credentials(world, "secret")?;
        charts.push(APP, "1.0.0", &format!("{CHART}{}", release::GATE))?;
        let result = work(world, &charts);
        s3::end(world, &["etcdrestores", "etcdbackups"])?;
        result
    });
}

fn work(world: &World, charts: &Charts) -> Result<()> {
    let tenant = Tenant::ready(world, "app-faults", &json!({}))?;
    let inside = tenant.api()?;
    release::namespace(&inside, NAMESPACE)?;
    charts.registry.stop()?;
    let mark = world.audit_mark()?;
    let spec = json!({
        "clusterSelector": {}, "chart": charts.chart(APP, "1.0.0"), "namespace": NAMESPACE, "values": {"word": "one"},
        // A look for drift is a Job, too.
        "drift": {"mode": "Ignore"},
    });
    let app = TheApp::create(&tenant, APP, &spec)?;
    let jobs = Jobs::of(&tenant, &app.installation_name(&tenant));
    let watch = jobs.watch();
    let it = Faults { world, tenant: &tenant, inside, installation: app.installation(&tenant), app, jobs };
    it.dies_as_it_installs(charts, mark)?;
    it.dies_as_it_upgrades(charts)?;
    it.operators_die()?;
    it.is_forgotten()?;
    it.is_put_back()?;
    it.goes_back()?;
    watch.end()?;
    it.app.delete()?;
    tenant.let_go()
}

struct Faults<'w> {
    world: &'w World,
    tenant: &'w Tenant<'w>,
    inside: Kube,
    app: TheApp<'w>,
    /// Path of its `AppInstallation`.
    installation: String,
    jobs: Jobs<'w>,
}

impl Faults<'_> {
    fn status(&self) -> Result<Value> {
        Ok(self.world.kube.get(&self.installation)?["status"].clone())
    }

    /// Asks for an upgrade; from where to count its Jobs.
    fn asks(&self, word: &str) -> Result<u64> {
        let mark = self.world.audit_mark()?;
        self.app.change(&json!({"values": {"word": word}}))?;
        Ok(mark)
    }

    /// Asks for an upgrade, and waits until Helm has begun it; the revision that it is at.
    fn begins(&self, word: &str) -> Result<(u64, i64)> {
        let mark = self.asks(word)?;
        Ok((mark, self.is_held("pending-upgrade")?))
    }

    fn is_held(&self, status: &str) -> Result<i64> {
        release::is_held(&self.inside, NAMESPACE, APP, status)
    }

    /// Whoever waits at the hook goes on, and the end is that revision with that word, by so many Jobs.
    fn ends(&self, word: &str, revision: i64, mark: u64, jobs: usize) -> Result<()> {
        until_within(LONG, &format!("revision {revision}, which says {word}"), || {
            release::open(&self.inside, NAMESPACE)?;
            let status = self.status()?;
            ensure!(status["phase"] == phase::DEPLOYED && status["release"]["revision"] == revision, "{status}");
            let map = self.inside.get(&format!("{}/web", core(NAMESPACE, "configmaps")))?;
            ensure!(map["data"]["word"] == word, "{}", map["data"]);
            let app = self.app.get()?["status"].clone();
            ensure!(app["deployed"] == 1, "{app}");
            Ok(())
        })?;
        release::is_the_only_one(&self.inside, NAMESPACE, APP, revision)?;
        self.jobs.are_gone()?;
        let made = self.jobs.made_since(mark)?;
        ensure!(made == jobs, "{made} Jobs, not {jobs}");
        Ok(())
    }

    /// Before Helm wrote anything, and amid its installation.
    fn dies_as_it_installs(&self, charts: &Charts, mark: u64) -> Result<()> {
        println!("    killed before Helm has a chart");
        self.jobs.kill()?;
        let history = release::history(&self.inside, NAMESPACE, APP)?;
        ensure!(history.is_empty(), "{history:?}");
        charts.registry.go_on()?;
        println!("    killed as it installs");
        let begun = self.is_held("pending-install")?;
        ensure!(begun == 1, "it is at revision {begun}");
        self.jobs.kill()?;
        self.ends("one", 2, mark, 1)?;
        self.is_said_to_be_mended("pending-install")
    }

    fn is_said_to_be_mended(&self, state: &str) -> Result<()> {
        let status = self.status()?;
        ensure!(status["message"].as_str().is_some_and(|said| said.contains(state)), "{status}");
        Ok(())
    }

    fn dies_as_it_upgrades(&self, charts: &Charts) -> Result<()> {
        println!("    killed before Helm has the chart of an upgrade");
        let before = release::history(&self.inside, NAMESPACE, APP)?;
        charts.registry.stop()?;
        let mark = self.asks("two")?;
        self.jobs.kill()?;
        let history = release::history(&self.inside, NAMESPACE, APP)?;
        ensure!(history == before, "{history:?}");
        charts.registry.go_on()?;
        self.ends("two", 3, mark, 1)?;

        println!("    its pod is deleted as it upgrades");
        let (mark, begun) = self.begins("three")?;
        self.jobs.evict()?;
        self.ends("three", begun + 1, mark, 1)?;
        self.is_said_to_be_mended("pending-upgrade")?;

        println!("    its Job is deleted as it upgrades");
        let (mark, begun) = self.begins("four")?;
        self.jobs.delete()?;
        self.ends("four", begun + 1, mark, 2)?;
        self.is_said_to_be_mended("pending-upgrade")?;

        println!("    killed after Helm is done, and before it says so");
        let (mark, begun) = self.begins("five")?;
        self.jobs.freeze()?;
        until("Helm to be done", || {
            release::open(&self.inside, NAMESPACE)?;
            release::is_the_only_one(&self.inside, NAMESPACE, APP, begun)
        })?;
        let status = self.status()?;
        ensure!(status["phase"] == phase::RUNNING && status["release"]["revision"] == begun - 1, "{status}");
        self.jobs.kill()?;
        // What is not on record is upgraded once more, from what is.
        self.ends("five", begun + 1, mark, 1)
    }

    fn operators_die(&self) -> Result<()> {
        let world = self.world;
        println!("    the operator is killed");
        let (mark, begun) = self.begins("six")?;
        for process in processes_of(&self.operators()?[0], "operator")? {
            kill(Pid::from_raw(process), Signal::SIGKILL)?;
        }
        self.ends("six", begun, mark, 1)?;

        println!("    of two operators the one that leads goes");
        world.kubectl(&["-n", SYSTEM, "scale", &format!("deployment/{OPERATOR}"), "--replicas=2"])?;
        until("two operators", || {
            let status = world.kube.get(&format!("{}/{OPERATOR}", apps(SYSTEM, "deployments")))?["status"].clone();
            ensure!(status["availableReplicas"] == 2 && status["replicas"] == 2, "{status}");
            self.leader().map(drop)
        })?;
        let (mark, begun) = self.begins("seven")?;
        let before = self.leader()?;
        let delete = ["-n", SYSTEM, "delete", "pod", &before, "--grace-period=0", "--force", "--wait=false"];
        world.kubectl(&delete)?;
        until("another one to lead", || {
            let now = self.leader()?;
            ensure!(now != before, "{before} leads");
            Ok(())
        })?;
        self.ends("seven", begun, mark, 1)?;
        world.start_operator()?;

        println!("    no operator when its Job is through, and nobody left who says how");
        let (mark, begun) = self.begins("eight")?;
        world.stop_operator()?;
        release::open(&self.inside, NAMESPACE)?;
        self.jobs.lose_the_result()?;
        world.start_operator()?;
        // The first one counts as failed, so there is another one a minute later, which upgrades from what is on record.
        self.ends("eight", begun + 1, mark, 2)
    }

    fn operators(&self) -> Result<Vec<Value>> {
        let all =
            self.world.kube.list(&format!("{}?labelSelector=app.kubernetes.io/name=berth", core(SYSTEM, "pods")))?;
        ensure!(!all.is_empty(), "no operator is there");
        Ok(all)
    }

    /// The pod of the operator that leads, which is there.
    fn leader(&self) -> Result<String> {
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{OPERATOR}");
        let lease = self.world.kube.get(&lease)?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let found = self.operators()?.iter().map(name_of).find(|name| !holder.is_empty() && holder.contains(name));
        found.with_context(|| format!("{holder:?} holds the Lease"))
    }

    /// The meta cluster was restored without a status, or to before the installation was there.
    fn is_forgotten(&self) -> Result<()> {
        let world = self.world;
        let revision = self.status()?["release"]["revision"].as_i64().context("a revision")?;
        println!("    its status is lost");
        world.stop_operator()?;
        let mark = world.audit_mark()?;
        let left = world.kube.merge(&format!("{}/status", self.installation), &json!({"status": null}))?;
        ensure!(left["status"]["release"].is_null(), "{}", left["status"]);
        world.start_operator()?;
        self.ends("eight", revision, mark, 1)?;

        println!("    its AppInstallation is lost");
        world.stop_operator()?;
        let mark = world.audit_mark()?;
        self.lose_the_installation()?;
        world.start_operator()?;
        self.ends("eight", revision, mark, 1)?;

        println!("    its AppInstallation is lost as it upgrades");
        let (mark, begun) = self.begins("nine")?;
        ensure!(begun == revision + 1, "revision {begun} comes after {revision}");
        let pod = self.jobs.at_work()?;
        world.stop_operator()?;
        self.lose_the_installation()?;
        world.start_operator()?;
        // The Job of the former one goes before anybody lets Helm go on, and what it has begun is marked as failed.
        self.jobs.has_ended(&pod)?;
        self.ends("nine", begun + 1, mark, 2)?;
        self.is_said_to_be_mended("pending-upgrade")
    }

    /// Nobody is asked to uninstall anything. The operator must not run.
    fn lose_the_installation(&self) -> Result<()> {
        let kube = &self.world.kube;
        kube.merge(&self.installation, &json!({"metadata": {"finalizers": null}}))?;
        kube.delete(&self.installation)?;
        ensure!(kube.find(&self.installation)?.is_none(), "it is there");
        Ok(())
    }

    /// The meta cluster was restored with all statuses to before the last upgrade: what is recorded fits what is asked for, and not the tenant.
    /// A look for drift finds it.
    fn is_put_back(&self) -> Result<()> {
        println!("    put back with its status to before an upgrade");
        let world = self.world;
        let (app, installation) = (self.app.get()?, world.kube.get(&self.installation)?);
        let (mark, begun) = self.begins("ten")?;
        self.ends("ten", begun, mark, 1)?;
        world.stop_operator()?;
        let mark = world.audit_mark()?;
        self.app.change(&app["spec"])?;
        let now = world.kube.merge(&self.installation, &json!({"spec": installation["spec"]}))?;
        // A restore of etcd has the generation from before, too.
        let mut status = installation["status"].clone();
        status["observedGeneration"] = now["metadata"]["generation"].clone();
        for status in [Value::Null, status] {
            world.kube.merge(&format!("{}/status", self.installation), &json!({"status": status}))?;
        }
        world.start_operator()?;
        let look = json!({
            "metadata": {"annotations": {(labels::CHECK): "after the restore"}}, "spec": {"drift": {"mode": "Repair"}},
        });
        world.kube.merge(&self.app.path(), &look)?;
        // One that looks, and one that deploys what the App says again.
        self.ends("nine", begun + 1, mark, 2)?;
        self.app.change(&json!({"drift": {"mode": "Ignore"}}))
    }

    /// The tenant's etcd is restored to two revisions before, as Helm is at the third one.
    fn goes_back(&self) -> Result<()> {
        println!("    the tenant is restored to before, as it upgrades");
        let (world, tenant) = (self.world, self.tenant);
        let revision = self.status()?["release"]["revision"].as_i64().context("a revision")?;
        s3::taken(world, tenant, "before", "Verified")?;
        let (mark, begun) = self.begins("eleven")?;
        self.ends("eleven", begun, mark, 1)?;
        let (mark, begun) = self.begins("twelve")?;
        ensure!(begun == revision + 2, "revision {begun}, two after {revision}");
        s3::put_back(world, tenant, "before")?;
        tenant.wait_ready()?;
        // The first Job ends without what it began; the other one is of what is there now, which it upgrades once.
        self.ends("twelve", revision + 1, mark, 2)?;
        let history = release::history(&self.inside, NAMESPACE, APP)?;
        let pending = history.iter().find(|(number, status)| *number > revision && status.starts_with("pending"));
        ensure!(pending.is_none(), "{history:?}");
        Ok(())
    }
}

const CHART: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  word: {{ .Values.word | quote }}
";
