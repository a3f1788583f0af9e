//! One object is fished out of a backup with real pods: the backup of a tenant's etcd goes into a new stand-alone `EtcdCluster`, as
//! docs/restore.md says, and the object is read there. The tenant goes on undisturbed meanwhile.

use anyhow::{Context as _, Result, ensure};
use berth_e2e::{Tenant, World, berth, core, run, s3, tenant::condition, until};
use serde_json::{Value, json};

const SCRATCH: &str = "scratch";

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and an S3 server is built"]
fn an_object_is_fished_out_of_a_backup() {
    run("fished", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        // The chart's Role for stand-alone etcds needs it.
        let namespace = Tenant::named(world, "fished").namespace;
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.kube.ensure(&core("", "namespaces"), &team)?;
        let mut options = s3::options(world);
        options.values.push(format!("etcdNamespaces[0]={namespace}"));
        options.values.push(format!("backups.stores[0].namespaces[0]={namespace}"));
        world.install(&options)?;
        s3::credentials(world, "secret")?;
        let result = fishes(world);
        // Nobody looks after it once Berth is installed without its namespace.
        let removed = world.kubectl(&["-n", &namespace, "delete", "etcdcluster", SCRATCH, "--ignore-not-found"]);
        let result = result.and(removed.map(drop));
        s3::end(world, &["etcdrestores", "etcdbackups"])?;
        result
    });
}

fn fishes(world: &World) -> Result<()> {
    let tenant = Tenant::ready(world, "fished", &json!({}))?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"k": "what-was-lost"}});
    tenant.api()?.create(&core("default", "configmaps"), &map)?;
    // Before the Job of the backup, whose pod goes.
    let running = tenant.pod_identities()?;
    s3::taken(world, &tenant, "before", "Verified")?;
    tenant.api()?.delete(&format!("{}/settings", core("default", "configmaps")))?;

    let etcds = berth(&tenant.namespace, "etcdclusters");
    let scratch = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": SCRATCH},
        "spec": {
            "version": tenant.etcd()?["status"]["version"], "storage": {"size": "1Gi"}, "dataPolicy": "Delete",
            "clientsStopped": 1, "keepOldData": "0s",
        },
    });
    world.kube.create(&etcds, &scratch)?;
    let look = || world.kube.get(&format!("{etcds}/{SCRATCH}"));
    let id = until("the stand-alone etcd to be ready", || {
        let etcd = look()?;
        ensure!(condition(&etcd, "Ready")?["status"] == "True", "{}", etcd["status"]);
        Ok(etcd["status"]["clusterId"].as_str().context("no cluster ID")?.to_owned())
    })?;

    let restores = berth(&tenant.namespace, "etcdrestores");
    let mut restore = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "fish"},
        "spec": {
            "etcdClusterRef": {"name": SCRATCH}, "backupFirst": false,
            "source": {"backup": "before", "of": {"clusterRef": {"name": tenant.name}}},
        },
    });
    world.kube.create(&restores, &restore)?;
    let status = |name: &str| -> Result<Value> { Ok(world.kube.get(&format!("{restores}/{name}"))?["status"].clone()) };
    until("a confirmation to be asked for", || {
        let status = status("fish")?;
        let ready = condition(&json!({"status": status}), "Ready")?.clone();
        ensure!(ready["reason"] == "ConfirmationRequired" && ready["message"].to_string().contains(&id), "{ready}");
        Ok(())
    })?;
    world.kube.merge(&format!("{restores}/fish"), &json!({"spec": {"confirm": id}}))?;
    let done = until("it to be restored", || {
        let status = status("fish")?;
        ensure!(status["phase"] == "Restored", "{status}");
        Ok(status)
    })?;
    ensure!(done["oldDataUntil"].is_string(), "{done}");
    until("the stand-alone etcd to be ready with it", || {
        let etcd = look()?;
        ensure!(condition(&etcd, "Ready")?["status"] == "True", "{}", etcd["status"]);
        Ok(())
    })?;
    let found = get(world, &tenant.namespace, "/registry/configmaps/default/settings")?;
    ensure!(found.contains(&hex("what-was-lost")), "{found}");
    ensure!(tenant.pod_identities()? == running, "the tenant goes on undisturbed");
    let gone = tenant.api()?.find(&format!("{}/settings", core("default", "configmaps")))?;
    ensure!(gone.is_none(), "the tenant's data is as it was");

    // The etcd of a Cluster never gets another's.
    restore["metadata"]["name"] = "clone".into();
    restore["spec"] = json!({"clusterRef": {"name": tenant.name}, "source": restore["spec"]["source"]});
    let refused = world.kube.create(&restores, &restore);
    let said = refused.map_or_else(|e| format!("{e:#}"), |object| object.to_string());
    ensure!(said.contains("a stand-alone EtcdCluster only"), "{said}");

    world.kube.delete(&format!("{etcds}/{SCRATCH}"))?;
    until("the stand-alone etcd to be gone", || {
        let left = world.kube.find(&format!("{etcds}/{SCRATCH}"))?;
        ensure!(left.is_none(), "it is still there");
        Ok(())
    })?;
    tenant.let_go()
}

/// The value of a key, as `etcdctl --hex` says it: objects of Kubernetes are not text.
fn get(world: &World, namespace: &str, key: &str) -> Result<String> {
    const PKI: &str = "/etc/kubernetes/pki/etcd/server";
    let pod = format!("{SCRATCH}-0");
    let (ca, cert, private) =
        (format!("--cacert={PKI}/ca.crt"), format!("--cert={PKI}/tls.crt"), format!("--key={PKI}/tls.key"));
    let exec = ["-n", namespace, "exec", &pod, "-c", "etcd", "--", "etcdctl", "--endpoints=https://127.0.0.1:2379"];
    let call = [&*ca, &*cert, &*private, "--hex", "get", key, "--print-value-only"];
    world.kubectl(&[&exec[..], &call[..]].concat())
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |all, byte| format!("{all}\\x{byte:02x}"))
}
