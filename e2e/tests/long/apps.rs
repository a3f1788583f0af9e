//! An app in a tenant, from a registry: installed, upgraded, taken up after a Job that died, uninstalled.

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_devcluster::{binaries, binaries::Selection};
use berth_e2e::operator::Options;
use berth_e2e::{Kube, Tenant, World, apps, core, images, run, until};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};

#[test]
#[ignore = "make test-all: Helm in pods, and a registry; what the program does is tested in its crate with a real API server"]
fn a_chart_comes_goes_and_is_taken_up_where_a_job_died() {
    binaries::build(&Selection::Named(vec!["crane".to_owned(), "helm4".to_owned()])).expect("crane and Helm 4");
    run("apps", |world| {
        let address = world.cluster.host_address();
        let place = tempfile::tempdir()?;
        let registry = Registry::serve(&format!("{address}:5077"), place.path())?;
        let tag = images::load_apps(&world.cluster)?;
        let values = [
            "apps.enabled=true".to_owned(),
            format!("apps.image.tag={tag}"),
            format!("apps.peers[0].ipBlock.cidr={address}/32"),
            format!("writers.apps.sources={{oci://{}/charts/*}}", registry.host),
        ];
        world.install(&Options { values: values.into(), ..Options::default() })?;
        registry.push("1.0.0")?;
        registry.push("1.1.0")?;
        work(world, &registry)
    });
}

fn work(world: &World, registry: &Registry<'_>) -> Result<()> {
    let tenant = Tenant::ready(world, "apps", &json!({}))?;
    let inside = Kube::new(&tenant.kubeconfig()?)?;
    let home = names::control_plane_namespace(&tenant.namespace, "apps");
    let path = format!("/apis/berth.dev/v1alpha1/namespaces/{}/apps", tenant.namespace);
    let installation = format!(
        "/apis/berth.dev/v1alpha1/namespaces/{}/appinstallations/{}",
        tenant.namespace,
        names::app_installation(&tenant.namespace, "web", "apps")
    );
    let status = || -> Result<Value> { Ok(world.kube.get(&installation)?["status"].clone()) };
    let says = |wanted: &str| {
        until("the ConfigMap to say so", || {
            let live = inside.get(&format!("{}/web", core("shop", "configmaps")))?;
            ensure!(live["data"]["word"] == wanted, "{live}");
            Ok(())
        })
    };
    let deployed = |revision: i64, version: &str| {
        until("the installation to be deployed", || {
            let status = status()?;
            let release = &status["release"];
            ensure!(status["phase"] == "Deployed" && release["revision"] == revision, "{status}");
            ensure!(release["version"] == version, "{status}");
            Ok(())
        })
    };

    println!("    a source that is not allowed");
    let chart = |version: &str| json!({"oci": format!("oci://{}/charts/web", registry.host), "version": version, "plainHTTP": true});
    let app = |chart: Value| {
        json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web"},
            "spec": {"clusterSelector": {}, "chart": chart, "namespace": "shop", "values": {"word": "one"}},
        })
    };
    world.kube.ensure(&path, &app(json!({"oci": "oci://192.0.2.1/x", "version": "1.0.0"})))?;
    until("it to be refused", || {
        let live = world.kube.get(&format!("{path}/web"))?;
        let ready =
            live["status"]["conditions"].as_array().and_then(|all| all.iter().find(|c| c["type"] == "Ready").cloned());
        ensure!(ready.is_some_and(|ready| ready["reason"] == "NotAllowed"), "{live}");
        Ok(())
    })?;
    ensure!(world.kube.find(&installation)?.is_none(), "an installation of what is refused");

    println!("    installed");
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"chart": chart("1.0.0")}}))?;
    deployed(1, "1.0.0")?;
    says("one")?;
    until("its Job to be gone", || {
        let jobs = world.kube.list(&format!("/apis/batch/v1/namespaces/{home}/jobs"))?;
        ensure!(jobs.is_empty(), "{jobs:?}");
        let pods = world.kube.list(&format!(
            "{}?labelSelector=app.kubernetes.io/component={}",
            core(&home, "pods"),
            names::APPS
        ))?;
        ensure!(pods.is_empty(), "{pods:?}");
        Ok(())
    })?;

    println!("    upgraded by a value, and by a version");
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"values": {"word": "two"}}}))?;
    deployed(2, "1.0.0")?;
    says("two")?;
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"chart": chart("1.1.0")}}))?;
    deployed(3, "1.1.0")?;

    println!("    a revision that somebody died on");
    pending(&inside)?;
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"values": {"word": "three"}}}))?;
    says("three")?;
    until("what was mended to be said", || {
        let status = status()?;
        let told = status["message"].as_str().unwrap_or_default();
        ensure!(status["phase"] == "Deployed" && told.contains("pending-upgrade"), "{status}");
        Ok(())
    })?;

    drift(world, &inside, &path, &status)?;

    println!("    nobody but Berth writes an installation, and a bad version fails with its reason");
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"chart": chart("9.9.9")}}))?;
    until("it to have failed", || {
        let live = world.kube.get(&format!("{path}/web"))?;
        ensure!(live["status"]["failed"] == 1, "{}", live["status"]);
        Ok(())
    })?;
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"chart": chart("1.1.0")}}))?;
    until("it to be well again", || {
        let live = world.kube.get(&format!("{path}/web"))?;
        ensure!(live["status"]["deployed"] == 1, "{}", live["status"]);
        Ok(())
    })?;

    println!("    uninstalled");
    world.kube.delete(&format!("{path}/web"))?;
    until("all of it to be gone", || {
        ensure!(world.kube.find(&format!("{path}/web"))?.is_none(), "the App is there");
        ensure!(inside.find(&format!("{}/web", core("shop", "configmaps")))?.is_none(), "the ConfigMap is there");
        ensure!(inside.find(&format!("{}/web", apps("shop", "deployments")))?.is_none(), "the Deployment is there");
        Ok(())
    })?;
    until("the rights to be gone", || {
        let binding = inside.find("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/berth:apps")?;
        ensure!(binding.is_none(), "{binding:?}");
        let policy = world
            .kube
            .find(&format!("/apis/networking.k8s.io/v1/namespaces/{home}/networkpolicies/{}", names::APPS))?;
        ensure!(policy.is_none(), "{policy:?}");
        Ok(())
    })?;
    tenant.nothing_restarted()?;
    tenant.delete()
}

/// What somebody edits and deletes in the tenant is said, and then set back.
fn drift(world: &World, inside: &Kube, path: &str, status: &dyn Fn() -> Result<Value>) -> Result<()> {
    let app = format!("{path}/web");
    let (map, deployment) =
        (format!("{}/web", core("shop", "configmaps")), format!("{}/web", apps("shop", "deployments")));
    let before = status()?["release"].clone();
    let found = |count: i64, mended: bool| {
        until("the drift to be said", || {
            let drift = status()?["drift"].clone();
            ensure!(
                drift["count"] == count && drift["objects"].as_array().is_some_and(|all| all.len() == 2),
                "{drift}"
            );
            ensure!(
                drift["objects"].as_array().into_iter().flatten().all(|one| (one["mended"] == true) == mended),
                "{drift}"
            );
            let live = world.kube.get(&app)?["status"].clone();
            ensure!(live["drifted"] == i64::from(count > 0) && live["deployed"] == 1, "{live}");
            Ok(())
        })
    };
    println!("    an object that is edited and one that is deleted are said");
    inside.merge(&map, &json!({"data": {"word": "edited"}}))?;
    inside.delete(&deployment)?;
    world.kube.merge(&app, &json!({"metadata": {"annotations": {"berth.dev/check": "1"}}}))?;
    found(2, false)?;
    ensure!(inside.get(&map)?["data"]["word"] == "edited", "a look changed it");

    println!("    and set back");
    world.kube.merge(&app, &json!({"spec": {"drift": {"mode": "Repair"}}}))?;
    found(0, true)?;
    ensure!(inside.get(&map)?["data"]["word"] == "three", "{}", inside.get(&map)?);
    ensure!(inside.find(&deployment)?.is_some(), "the Deployment is missing");
    let after = status()?["release"].clone();
    ensure!(before == after, "{before} {after}: there is another revision");
    Ok(())
}

/// The newest revision looks as one does on which whoever upgraded died: Helm goes by this label.
fn pending(inside: &Kube) -> Result<()> {
    let all = inside.list(&format!("{}?labelSelector=owner=helm,name=web", core("shop", "secrets")))?;
    let newest = all.iter().max_by_key(|secret| {
        secret["metadata"]["labels"]["version"].as_str().and_then(|version| version.parse::<i64>().ok())
    });
    let name = newest.and_then(|secret| secret["metadata"]["name"].as_str()).context("a release")?.to_owned();
    let path = format!("{}/{name}", core("shop", "secrets"));
    let mut secret = inside.get(&path)?;
    let release = helm_release(&secret)?;
    secret["data"]["release"] = with_status(&release, "pending-upgrade")?.into();
    inside
        .merge(&path, &json!({"data": secret["data"], "metadata": {"labels": {"status": "pending-upgrade"}}}))
        .map(drop)
}

/// A release as Helm keeps it: JSON, zipped, in base64, which the API has in base64 once more.
fn helm_release(secret: &Value) -> Result<Value> {
    let text = secret["data"]["release"].as_str().context("a release")?;
    Ok(serde_json::from_slice(&pipe("base64 -d | base64 -d | gzip -dc", text.as_bytes())?)?)
}

fn with_status(release: &Value, status: &str) -> Result<String> {
    let mut release = release.clone();
    release["info"]["status"] = status.into();
    Ok(String::from_utf8(pipe("gzip -c | base64 -w0 | base64 -w0", release.to_string().as_bytes())?)?)
}

fn pipe(script: &str, input: &[u8]) -> Result<Vec<u8>> {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("its input")?;
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output()?;
    writer.join().ok().context("its input")??;
    ensure!(output.status.success(), "{script}");
    Ok(output.stdout)
}

/// A registry without TLS, which pods reach at the host's address.
struct Registry<'p> {
    host: String,
    place: &'p Path,
    process: Child,
}

impl Drop for Registry<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl<'p> Registry<'p> {
    fn serve(host: &str, place: &'p Path) -> Result<Self> {
        let disk = place.join("registry");
        fs::create_dir_all(&disk)?;
        // Ends with this test, however that ends.
        let mut registry = Command::new("setpriv");
        registry.args(["--pdeathsig", "KILL"]).arg(binaries::crane()?);
        registry.args(["registry", "serve", "--address", host, "--disk"]).arg(disk);
        let process = registry.spawn()?;
        let registry = Self { host: host.to_owned(), place, process };
        until("the registry to listen", || Ok(TcpStream::connect(&registry.host).map(drop)?))?;
        Ok(registry)
    }

    /// Packs a small chart, and pushes it.
    fn push(&self, version: &str) -> Result<()> {
        let chart = self.place.join(format!("web-{version}"));
        fs::create_dir_all(chart.join("templates"))?;
        fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: web\nversion: {version}\n"))?;
        fs::write(chart.join("values.yaml"), "word: none\n")?;
        fs::write(chart.join("templates/all.yaml"), CHART)?;
        let helm = |arguments: &[&str]| -> Result<()> {
            let mut helm = Command::new(binaries::helm4()?);
            let output = helm.args(arguments).env("HOME", self.place).output()?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        };
        let place = self.place.display().to_string();
        helm(&["package", &chart.display().to_string(), "--destination", &place])?;
        let archive = format!("{place}/web-{version}.tgz");
        helm(&["push", &archive, &format!("oci://{}/charts", self.host), "--plain-http"])
    }
}

const CHART: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  word: {{ .Values.word | quote }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: registry.k8s.io/pause:3.10.1}]
";
