//! Berth, a tenant, its node, a chart and what that runs, all from one registry, in a cluster that has none of their images.
//!
//! A devcluster's network has no way out in any case, so this shows that no other name is needed, and that the registry was asked for each; not
//! that a cluster with a way out would not use it. What every cluster and machine here brings (pause, the meta cluster's own CoreDNS) is imported.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_devcluster::{Worker, binaries, binaries::Selection, images as built, paths as dev, versions};
use berth_e2e::operator::{Options, SYSTEM};
use berth_e2e::tenant::name_of;
use berth_e2e::{NEWEST, Registry, Tenant, World, berth, core, images, machines, paths, run::run_bare, until};
use serde_json::json;

#[test]
#[ignore = "make test-all: a cluster of its own pulls all that it runs, and a machine joins"]
fn one_registry_has_all_that_is_needed() {
    let needed = ["crane", "helm4", "agnhost"].map(str::to_owned);
    binaries::build(&Selection::Named(needed.to_vec())).expect("crane, Helm 4 and agnhost");
    run_bare("app_air_gap", |world| {
        let place = tempfile::tempdir()?;
        let address = world.cluster.host_address();
        let registry = Registry::serve(&format!("{address}:5081"), place.path())?;
        registry.is_trusted_by(&world.cluster)?;
        mirror(world, &registry)?;
        let (tag, archive) = images::pack_apps(&world.cluster)?;
        registry.push_image(&archive, &format!("{}/berth/apps:{tag}", registry.host))?;
        registry.push_chart("hello", "1.0.0", &hello())?;
        let pushed = registry.asked()?.len();
        let values = [
            "apps.enabled=true".to_owned(),
            format!("apps.image.tag={tag}"),
            format!("apps.peers[0].ipBlock.cidr={address}/32"),
        ];
        world.install_from(&registry, &Options { values: values.into(), ..Options::default() })?;
        machines::with(world, &["air-gap"], None, &[], |workers| work(world, &registry, &workers[0]))?;
        all_was_pulled(&registry, pushed)
    });
}

/// Upstream's images, under the names that `kubectl berth images` says, and what the chart runs.
fn mirror(world: &World, registry: &Registry) -> Result<()> {
    built::all_built()?;
    let to = format!("{}/k8s", registry.host);
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(["images", "--version", NEWEST, "--to", &to]).env("KUBECONFIG", world.cluster.kubeconfig());
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pairs = String::from_utf8(output.stdout)?;
    // One that runs on nodes calls `nft`.
    let proxy = built::addons()?.pop().context("kube-proxy")?;
    let archive = |from: &str| -> PathBuf {
        let other = dev::cache().join("images").join(from.replace(['/', ':'], "_") + ".tar");
        if from.contains("/kube-proxy:") { proxy.clone() } else { other }
    };
    let upstream = pairs.lines().filter_map(|line| line.split_once(' '));
    let upstream: Vec<_> = upstream.filter(|(from, _)| from.starts_with("registry.k8s.io")).collect();
    ensure!(upstream.len() == 6, "{pairs}");
    upstream.into_iter().try_for_each(|(from, to)| registry.push_image(&archive(from), to))?;
    let all = built::of_nodes()?;
    let agnhost = all.iter().find(|path| path.to_string_lossy().contains("agnhost")).context("agnhost")?;
    registry.push_image(agnhost, &format!("{to}/agnhost:{}", versions::AGNHOST))
}

fn hello() -> String {
    let image = format!("{{{{ .Values.registry }}}}/agnhost:{}", versions::AGNHOST);
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: hello}}
spec:
  selector: {{matchLabels: {{app: hello}}}}
  template:
    metadata: {{labels: {{app: hello}}}}
    spec: {{containers: [{{name: c, image: \"{image}\", args: [pause]}}]}}
"
    )
}

fn work(world: &World, registry: &Registry, worker: &Worker) -> Result<()> {
    // Nothing leads answers back to pods, and the kernel's table of connections is not the machine's own to size.
    let config = json!({"conntrack": {"maxPerCore": 0, "min": 0}, "nftables": {"masqueradeAll": true}});
    let spec = json!({"addons": {"coreDNS": {"replicas": 1}, "kubeProxy": {"mode": "nftables", "config": config}}});
    let tenant = Tenant::ready(world, "air-gap", &spec)?;
    machines::join(&tenant, worker)?;

    println!("    an App that counts once its pod runs");
    let chart = json!({"oci": format!("oci://{}/charts/hello", registry.host), "version": "1.0.0", "plainHTTP": true});
    let app = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "hello"},
        "spec": {
            "clusterSelector": {}, "chart": chart, "wait": true,
            "valuesTemplate": "registry: {{ cluster.imageRegistry }}\n",
        },
    });
    world.kube.create(&berth(SYSTEM, "apps"), &app)?;
    let installation = names::app_installation(SYSTEM, "hello", &tenant.name);
    let installation = format!("{}/{installation}", berth(&tenant.namespace, "appinstallations"));
    until("the App to be deployed", || {
        let status = world.kube.get(&installation)?["status"].clone();
        ensure!(status["phase"] == "Deployed", "{status}");
        Ok(())
    })?;
    let api = tenant.api()?;
    let inside = until("all pods of the tenant to run", || {
        let pods = api.list(&core("", "pods"))?;
        let waits = pods.iter().find(|pod| pod["status"]["phase"] != "Running");
        ensure!(waits.is_none() && pods.len() >= 3, "{:?} of {}", waits.map(name_of), pods.len());
        Ok(pods)
    })?;
    let outside = world.kube.list(&format!("{}?fieldSelector=metadata.namespace!=kube-system", core("", "pods")))?;
    for (where_, pods, least) in [("the meta cluster", outside, 6), ("the tenant", inside, 3)] {
        let found = images::of_pods(&pods);
        let elsewhere: Vec<_> = found.iter().filter(|image| !image.starts_with(&registry.host)).collect();
        ensure!(elsewhere.is_empty() && found.len() >= least, "{where_} runs {found:?}");
    }
    tenant.nothing_restarted()?;
    tenant.delete()
}

/// By the registry's log.
fn all_was_pulled(registry: &Registry, pushed: usize) -> Result<()> {
    let asked = registry.asked()?;
    let pulled = asked.get(pushed..).context("a log")?;
    let berths = ["operator", "agent", "apps"].map(|name| format!("berth/{name}"));
    // What CoreDNS is made of each machine has: by its name alone it is asked for.
    let upstreams = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kube-proxy", "agnhost"];
    let upstreams = upstreams.map(|name| format!("k8s/{name}"));
    for name in berths.iter().chain(&upstreams).chain(&["charts/hello".to_owned()]) {
        let line = format!("GET /v2/{name}/manifests/");
        ensure!(pulled.iter().any(|asked| asked.contains(&line)), "nobody pulled {name}: {pulled:#?}");
    }
    Ok(())
}
