//! A control-plane namespace with a quota on everything and a LimitRange, as platforms make them for each namespace: a tenant comes up in it by
//! the spec of docs/resources.md, is backed up, gets its next minor and is restored.

use anyhow::{Result, ensure};
use berth_e2e::{NEWEST, Tenant, World, berth, core, revisions::outcome, run, s3, tenant::condition, until};
use serde_json::{Value, json};

const OLDER: &str = "1.35.4";

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and the binaries of the minor before take minutes to build"]
fn a_namespace_with_strict_rules_is_enough() {
    run("strict", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        world.install(&s3::options(world))?;
        s3::credentials(world, "secret")?;
        let result = works(world);
        s3::end(world, &["etcdrestores", "etcdbackups"])?;
        result
    });
}

fn works(world: &World) -> Result<()> {
    let tenant = Tenant::create(world, "strict", &spec())?;
    until("the namespace with its rules", || rules(world, &tenant))?;
    tenant.wait_ready()?;
    outcome(&tenant, 1, "Succeeded")?;
    // Pods that came before the rules would show nothing.
    for pod in tenant.pods(None)? {
        world.kube.delete(&format!("{}/{}", core(&tenant.cp_namespace, "pods"), name(&pod)))?;
    }
    counts(world, &tenant)?;
    tenant.wait_ready()?;
    s3::taken(world, &tenant, "first", "Verified")?;

    println!("    the next minor");
    tenant.change(&json!({"version": NEWEST}))?;
    outcome(&tenant, 2, "Succeeded")?;
    tenant.wait_ready()?;
    s3::taken(world, &tenant, "second", "Verified")?;

    println!("    a restore");
    let restore = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back"},
        "spec": {"clusterRef": {"name": tenant.name}, "source": {"backup": "second"}},
    });
    let path = berth(&tenant.namespace, "etcdrestores");
    world.kube.create(&path, &restore)?;
    let path = format!("{path}/back");
    until("the restore to ask for a confirmation", || {
        let ready = condition(&world.kube.get(&path)?, "Ready")?.clone();
        ensure!(ready["reason"] == "ConfirmationRequired", "{ready}");
        Ok(())
    })?;
    let etcd = tenant.etcd()?["status"]["clusterId"].clone();
    world.kube.merge(&path, &json!({"spec": {"confirm": etcd}}))?;
    until("it to be Restored", || {
        let status = world.kube.get(&path)?["status"].clone();
        ensure!(status["phase"] == "Restored", "{status}");
        Ok(())
    })?;
    tenant.wait_ready()?;
    counts(world, &tenant)?;
    tenant.let_go()
}

/// As docs/resources.md has it.
fn spec() -> Value {
    json!({
        "version": OLDER,
        "apiServer": {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}},
        "controllerManager": {"resources": {"requests": {"cpu": "20m"}, "limits": {"cpu": "1"}}},
        "scheduler": {"resources": {"requests": {"cpu": "10m"}, "limits": {"cpu": "1"}}},
        "etcd": {"resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "2"}}},
        "helpers": {
            "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
            "jobs": {"resources": {"limits": {"cpu": "2"}}},
        },
        "upgrade": {"soak": "0s", "finalizeAfter": "0s"},
    })
}

fn rules(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let hard = json!({"requests.cpu": "4", "requests.memory": "16Gi", "limits.cpu": "16", "limits.memory": "64Gi", "pods": "20"});
    let quota =
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"}, "spec": {"hard": hard}});
    let limits = json!([{
        "type": "Container", "min": {"cpu": "5m", "memory": "8Mi"}, "max": {"cpu": "4", "memory": "16Gi"},
        "maxLimitRequestRatio": {"cpu": "100"},
    }]);
    let range =
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": {"limits": limits}});
    world.kube.ensure(&core(&tenant.cp_namespace, "resourcequotas"), &quota)?;
    world.kube.ensure(&core(&tenant.cp_namespace, "limitranges"), &range)
}

/// The quota counts every pod that runs.
fn counts(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    until("the quota to count the pods", || {
        let quota = world.kube.get(&format!("{}/all", core(&tenant.cp_namespace, "resourcequotas")))?;
        let pods = tenant.pods(None)?;
        ensure!(pods.len() >= 4 && pods.iter().all(|pod| pod["status"]["phase"] == "Running"), "not all pods run");
        ensure!(quota["status"]["used"]["pods"].as_str() == Some(&*pods.len().to_string()), "{}", quota["status"]);
        Ok(())
    })
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}
