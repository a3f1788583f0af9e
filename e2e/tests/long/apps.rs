//! An app in a tenant, from a registry: installed, upgraded, taken up after a Job that died, uninstalled.

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_e2e::{Charts, Kube, Tenant, WEB, World, apps, core, run, until};
use serde_json::{Value, json};
use std::process::Command;

#[test]
#[ignore = "make test-all: Helm in pods, and a registry; what the program does is tested in its crate with a real API server"]
fn a_chart_comes_goes_and_is_taken_up_where_a_job_died() {
    Charts::programs().expect("crane and Helm 4");
    run("apps", |world| {
        let charts = Charts::serve(world, 5077)?;
        charts.install(world)?;
        charts.push("web", "1.0.0", WEB)?;
        charts.push("web", "1.1.0", WEB)?;
        work(world, &charts)
    });
}

fn work(world: &World, charts: &Charts) -> Result<()> {
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
    let has_word = |wanted: &str| {
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
    let chart = |version: &str| charts.chart("web", version);
    let app = |chart: Value| {
        json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web"},
            "spec": {"clusterSelector": {}, "chart": chart, "namespace": "shop", "values": {"word": "one"}, "required": true},
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
    let says = |status: &str, reason: &str, text: &str| -> Result<()> {
        until("AppsReady to say so", || {
            let said = tenant.wait_condition("AppsReady", status, reason)?;
            ensure!(said.contains(text), "{said}");
            Ok(())
        })?;
        tenant.wait_condition("Ready", status, reason).map(drop)
    };
    says("False", "AppsNotReady", "are not allowed in this namespace")?;

    println!("    installed");
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"chart": chart("1.0.0")}}))?;
    deployed(1, "1.0.0")?;
    has_word("one")?;
    says("True", "AsExpected", "are deployed")?;
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
    has_word("two")?;
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"chart": chart("1.1.0")}}))?;
    deployed(3, "1.1.0")?;

    println!("    a revision that somebody died on");
    pending(&inside)?;
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"values": {"word": "three"}}}))?;
    has_word("three")?;
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
    says("False", "AppsNotReady", "has failed since")?;
    world.kube.merge(&format!("{path}/web"), &json!({"spec": {"chart": chart("1.1.0")}}))?;
    until("it to be well again", || {
        let live = world.kube.get(&format!("{path}/web"))?;
        ensure!(live["status"]["deployed"] == 1, "{}", live["status"]);
        Ok(())
    })?;
    says("True", "AsExpected", "are deployed")?;

    println!("    one after another, with values of the tenant");
    let later = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "later"},
        "spec": {
            "clusterSelector": {}, "chart": chart("1.1.0"), "namespace": "later", "releaseName": "web", "after": [{"name": "first"}],
            "valuesTemplate": "word: {{ cluster.name ~ \"-\" ~ cluster.labels.tier|default(\"none\") }}\n",
        },
    });
    world.kube.ensure(&path, &later)?;
    until("the later one to wait for the first", || {
        let live = world.kube.get(&format!("{path}/later"))?;
        ensure!(live["status"].to_string().contains(&format!("App {}/first", tenant.namespace)), "{live}");
        Ok(())
    })?;
    let mut first = later.clone();
    first["metadata"]["name"] = "first".into();
    first["spec"].as_object_mut().context("a spec")?.remove("after");
    first["spec"]["namespace"] = "first".into();
    world.kube.ensure(&path, &first)?;
    let word_of = |namespace: &str, wanted: &str| {
        until("the word of the tenant", || {
            let live = inside.get(&format!("{}/web", core(namespace, "configmaps")))?;
            ensure!(live["data"]["word"] == wanted, "{live}");
            Ok(())
        })
    };
    word_of("later", "apps-none")?;
    word_of("first", "apps-none")?;
    let cluster = format!("/apis/berth.dev/v1alpha1/namespaces/{}/clusters/apps", tenant.namespace);
    world.kube.merge(&cluster, &json!({"metadata": {"labels": {"tier": "gold"}}}))?;
    word_of("later", "apps-gold")?;
    world.kube.delete(&format!("{path}/later"))?;
    world.kube.delete(&format!("{path}/first"))?;

    println!("    uninstalled");
    world.kube.delete(&format!("{path}/web"))?;
    until("all of it to be gone", || {
        let left = world.kube.list(&path)?;
        ensure!(left.is_empty(), "Apps are there: {left:?}");
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
