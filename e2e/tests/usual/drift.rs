//! Whatever of a tenant is changed or taken away by hand is put back, and nothing else is touched.

use anyhow::{Context, Result, ensure};
use berth_e2e::{Tenant, World, apps, berth, core, kube_client::path, until};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[test]
fn drift_of_every_kind_is_repaired() {
    berth_e2e::run("drift", |world| {
        // Three members, so that there is a PodDisruptionBudget.
        let tenant = Tenant::ready(world, "drift", &json!({"etcd": {"replicas": 3}}))?;
        let others = untouched(&tenant)?;
        let drift = of_every_kind(&tenant)?;
        let before: Vec<Value> = drift.iter().map(|d| d.look(world)).collect::<Result<_>>()?;
        for d in &drift {
            match &d.patch {
                Some(patch) => world.kube.merge(&d.path, patch).map(|_| ()),
                // The chart's policies refuse it otherwise.
                None if d.path.ends_with("/etcd-bootstrap") => {
                    world.allow_deletion(&d.path).and_then(|()| world.kube.delete(&d.path))
                }
                None => world.kube.delete(&d.path),
            }
            .with_context(|| d.path.clone())?;
        }
        for (d, before) in drift.iter().zip(before) {
            until(&format!("{} to be as it was", d.path.rsplit_once("/namespaces/").map_or("", |(_, p)| p)), || {
                let now = d.look(world)?;
                ensure!(now == before, "{} is {now}, it was {before}", d.field);
                Ok(())
            })?;
        }
        tenant.wait_ready()?;
        ensure!(untouched(&tenant)? == others, "etcd's and the API server's pods were left alone");
        tenant.api()?.list(&core("", "namespaces"))?;
        Ok(())
    });
}

/// One thing that somebody does, and what shows that it was undone.
struct Drift {
    path: String,
    /// None: it is deleted.
    patch: Option<Value>,
    field: &'static str,
}

impl Drift {
    fn look(&self, world: &World) -> Result<Value> {
        let object = world.kube.get(&self.path)?;
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        ensure!(!deleting, "{} is being deleted", self.path);
        Ok(object.pointer(self.field).cloned().unwrap_or_default())
    }
}

fn of_every_kind(t: &Tenant<'_>) -> Result<Vec<Drift>> {
    let cp_namespace = t.cp_namespace.as_str();
    let changed = |collection: String, name: &str, field, patch| Drift {
        path: format!("{collection}/{name}"),
        patch: Some(patch),
        field,
    };
    let deleted = |collection: String, name: &str| Drift {
        path: format!("{collection}/{name}"),
        patch: None,
        field: if collection.ends_with("/services") { "/spec/clusterIP" } else { "/metadata/name" },
    };
    Ok(vec![
        changed(
            core("", "namespaces"),
            cp_namespace,
            "/metadata/labels/pod-security.kubernetes.io~1enforce",
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
        ),
        changed(
            apps(cp_namespace, "deployments"),
            "kube-controller-manager",
            "/spec/replicas",
            json!({"spec": {"replicas": 0}}),
        ),
        deleted(apps(cp_namespace, "deployments"), "kube-scheduler"),
        changed(
            apps(cp_namespace, "statefulsets"),
            "etcd",
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}),
        ),
        Drift {
            path: t.configuration("kube-apiserver")?,
            patch: Some(json!({"data": {"audit-policy.yaml": "changed: by hand"}})),
            field: "/data/audit-policy.yaml",
        },
        deleted(core(cp_namespace, "configmaps"), "etcd-bootstrap"),
        changed(
            core(cp_namespace, "services"),
            "kube-apiserver",
            "/spec/selector",
            json!({"spec": {"selector": {"app.kubernetes.io/component": "nobody"}}}),
        ),
        // Kubeconfigs, certificates and pods have their addresses. The first is deleted while the change above is undone.
        deleted(core(cp_namespace, "services"), "kube-apiserver"),
        deleted(core(cp_namespace, "services"), "etcd-1"),
        // Pod Security refuses such a pod, so its Deployment would have none.
        changed(
            apps(cp_namespace, "deployments"),
            "kube-controller-manager",
            "/spec/template/spec/hostNetwork",
            json!({"spec": {"template": {"spec": {"hostNetwork": true}}}}),
        ),
        deleted(path("/apis/policy/v1", cp_namespace, "poddisruptionbudgets"), "etcd"),
        changed(
            path("/apis/networking.k8s.io/v1", cp_namespace, "networkpolicies"),
            "default-deny",
            "/spec/ingress",
            json!({"spec": {"ingress": [{}]}}),
        ),
        deleted(path("/apis/networking.k8s.io/v1", cp_namespace, "networkpolicies"), "etcd"),
        changed(
            berth(cp_namespace, "etcdclusters"),
            "etcd",
            "/spec/dataPolicy",
            json!({"spec": {"dataPolicy": "Delete"}}),
        ),
        deleted(path(RBAC, cp_namespace, "rolebindings"), "berth-operator"),
        deleted(core(cp_namespace, "secrets"), "kube-scheduler-pki"),
        changed(
            core(cp_namespace, "secrets"),
            "admin-kubeconfig",
            "/metadata/labels/berth.dev~1cluster-name",
            json!({"metadata": {"labels": {"berth.dev/cluster-name": null}}}),
        ),
        deleted(core(&t.namespace, "secrets"), &format!("{}-kubeconfig", t.name)),
    ])
}

/// UIDs and restarts of the pods that nobody has a reason to touch.
fn untouched(tenant: &Tenant<'_>) -> Result<Vec<(String, (String, i64))>> {
    let all = tenant.pod_identities()?;
    Ok(all.into_iter().filter(|(name, _)| name.starts_with("etcd") || name.starts_with("kube-apiserver")).collect())
}
