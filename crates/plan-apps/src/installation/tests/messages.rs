//! Situations of an `AppInstallation`, for docs/reference/messages.md.

use super::drift::{checked, deployed as at_rest, found, until_check};
use super::*;
use berth_api::app::DriftMode;
use berth_api::apps::{Checked, Drifted, What};
use berth_testkit::situations::Situation;

type Change = fn(&mut Fixture);

/// Each message that an `AppInstallation` can have.
pub(crate) fn situations() -> Vec<Situation> {
    let all: &[(&str, Change)] = &[
        ("its Job installs it", |_| {}),
        ("somebody else's Job has its name", |w| w.put(&w.target().job, json!({"metadata": {"uid": "theirs"}}))),
        ("the Job of an AppInstallation that had its name is there", |w| {
            w.settle();
            live(w, &w.target().job)["metadata"]["labels"][labels::APP_INSTALLATION_UID] = "another".into();
            live(w, &w.target().job)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }),
        ("it is deployed", |w| {
            w.settle();
            w.deployed(1);
        }),
        ("Helm fails", |w| {
            w.settle();
            w.fails();
        }),
        ("the release is somebody else's", |w| {
            w.settle();
            let message = "release web in namespace shop of the tenant is not of this App".to_owned();
            w.ends(&Outcome::Failed(Failure { at: At::Foreign, message }));
        }),
        ("what Berth deployed was changed in Helm's record", |w| {
            w.settle();
            let message = "revision 3 of release web in namespace shop of the tenant has another content than Berth deployed, so Berth does not go by it. Look at it with `helm get manifest web -n shop` and `helm get hooks web -n shop`; then spec.adopt: true of the App goes on from what is there".to_owned();
            w.ends(&Outcome::Failed(Failure { at: At::Foreign, message }));
        }),
        ("its hooks take too long", |w| {
            w.settle();
            let message = "helm upgrade did not end within 960 seconds, by hooks that each may take spec.timeoutSeconds (300) of the App: raise that, or mend what they wait for. Helm says: UPGRADE FAILED: context canceled".to_owned();
            w.ends(&Outcome::Failed(Failure { at: At::Release, message }));
        }),
        ("something of it was changed, and something deleted", |w| {
            looked(w, DriftMode::Report, || {
                let changed = found(
                    "Deployment",
                    "web",
                    What::Changed,
                    &["/spec/replicas", "/spec/template/spec/containers/0/image"],
                );
                let more = ["a", "b", "c"].map(|name| found("ConfigMap", name, What::Missing, &[]));
                checked([changed].into_iter().chain(more).collect())
            });
        }),
        ("what was changed was set back", |w| {
            looked(w, DriftMode::Repair, || {
                checked(vec![Drifted {
                    mended: true,
                    ..found("Service", "web", What::Changed, &["/spec/ports/0/port"])
                }])
            });
        }),
        ("somebody else keeps changing it", |w| {
            for times in 0..4 {
                looked(w, DriftMode::Repair, || {
                    let mended = times < 3;
                    checked(vec![Drifted { mended, ..found("Service", "web", What::Changed, &["/spec/ports/0/port"]) }])
                });
            }
        }),
        ("another release has something of it, and something cannot be compared", |w| {
            looked(w, DriftMode::Repair, || {
                let taken = Drifted { message: "shop/other".into(), ..found("Service", "web", What::Taken, &[]) };
                let why = "it says 400: admission webhook \"x.example.com\" does not support dry run".to_owned();
                checked(vec![taken, Drifted { message: why, ..found("Widget", "web", What::Refused, &[]) }])
            });
        }),
        ("its release was uninstalled by somebody else", |w| {
            looked(w, DriftMode::Report, || {
                Outcome::Checked(Checked { replaced: "it is not there any more".into(), ..Checked::default() })
            });
        }),
        ("nothing of it was changed", |w| looked(w, DriftMode::Report, || checked(vec![]))),
        ("its tenant did not answer as it was to be compared", |w| {
            looked(w, DriftMode::Report, || {
                let message = "the tenant's API: it says 503: apiserver not ready".to_owned();
                Outcome::Failed(Failure { at: At::Tenant, message })
            });
        }),
        ("it is changed while it is compared", |w| {
            *w = at_rest(DriftMode::Report);
            until_check(w);
            w.change(|release| release.wait = true);
        }),
        ("its App is gone", |w| drop(w.observed.objects.remove(&w.target().app))),
        ("its Cluster is gone", |w| drop(w.observed.objects.remove(&w.target().cluster))),
        ("its Cluster cannot be read", |w| live(w, &w.target().cluster)["spec"]["version"] = json!(1)),
        ("its Cluster is paused", |w| live(w, &w.target().cluster)["spec"]["paused"] = true.into()),
        ("its Cluster is not available", |w| w.available("False")),
        ("nothing is known of its Cluster", |w| live(w, &w.target().cluster)["status"] = Value::Null),
        ("its Cluster has no control plane yet", |w| drop(w.observed.objects.remove(&w.target().namespace()))),
        ("its etcd says nothing", |w| live(w, &w.target().etcd())["status"] = Value::Null),
        ("its Cluster does not let its Job out yet", |w| drop(w.observed.objects.remove(&w.target().policy()))),
        ("a pod of an earlier Job runs", |w| {
            let key = ObjectKey::namespaced(Kind::Pod, w.target().home, "old");
            let labels = json!({
                labels::APP_INSTALLATION: w.object.metadata.name, labels::APP_INSTALLATION_NAMESPACE: w.object.metadata.namespace,
            });
            w.put(&key, json!({"metadata": {"labels": labels}, "status": {"phase": "Running"}}));
        }),
        ("the node of a pod of an earlier Job is down", |w| {
            let key = ObjectKey::namespaced(Kind::Pod, w.target().home, "old");
            let labels = json!({
                labels::APP_INSTALLATION: w.object.metadata.name, labels::APP_INSTALLATION_NAMESPACE: w.object.metadata.namespace,
            });
            let metadata = json!({"labels": labels, "deletionTimestamp": "2026-01-31T11:50:00Z"});
            w.put(
                &key,
                json!({"metadata": metadata, "spec": {"nodeName": "worker-7"}, "status": {"phase": "Running"}}),
            );
        }),
        ("apps are switched off", |w| w.settings.apps.image.clear()),
        ("the source of its chart was withdrawn", |w| {
            w.object.spec.app.namespace = TEAM.into();
            w.selects("prod");
            w.settings.apps.sources = vec!["oci://other/*".into()];
        }),
        ("its values are too long", |w| {
            w.change(|release| drop(release.values.insert("a".into(), "x".repeat(70_000).into())));
        }),
        ("its values say what its Cluster lacks", |w| {
            w.change(|release| release.values_template = Some("tier: {{ cluster.labels.tier }}".into()));
        }),
        ("its values say what is not known of its Cluster yet", |w| {
            w.change(|release| release.values_template = Some("host: {{ cluster.endpoint.host }}".into()));
        }),
        ("a Secret is not there", values_from),
        ("a Secret holds something else since its turn", |w| {
            values_from(w);
            secrets::hold(w, &secrets::named(), "values.yaml", "a: 2");
        }),
        ("its App has not said what is in a Secret", |w| {
            w.change(|release| release.values_from = vec![secrets::from()]);
        }),
        ("a Secret may not be read", |w| {
            values_from(w);
            let why = "admission webhook \"x.example.com\" denied the request".to_owned();
            hold(w, SecretFacts { refused: Some(why), ..SecretFacts::default() });
        }),
        ("a Secret is of another type", |w| {
            values_from(w);
            hold(w, SecretFacts::default());
        }),
        ("a Secret lacks the key", |w| {
            values_from(w);
            hold(w, SecretFacts::read(APP_SECRET, &BTreeMap::new()));
        }),
        ("its App has not said what is in a ConfigMap", |w| w.change(from_config_map)),
        ("it is deleted while its Job installs it", |w| {
            w.settle();
            delete(w);
            live(w, &w.target().job)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }),
        ("it is deleted, and its Job uninstalls it", deleted),
        ("it is deleted, and its App cannot be read", |w| {
            w.settle();
            w.deployed(1);
            w.settle();
            delete(w);
            live(w, &w.target().app)["spec"]["chart"] = 1.into();
        }),
        ("it is deleted, and Helm fails to uninstall it", |w| {
            deleted(w);
            w.fails();
        }),
        ("it is deleted, and nothing of it is left but its Job", |w| {
            deleted(w);
            let mut job = w.observed.get(&w.target().job).expect("a Job").clone();
            w.ends(&Outcome::Uninstalled);
            w.settle();
            job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            w.put(&w.target().job, job);
        }),
    ];
    all.iter().map(|(text, change)| of(text, *change)).collect()
}

fn of(text: &'static str, change: Change) -> Situation {
    let mut world = Fixture::new();
    change(&mut world);
    let own = ObjectKey::of(Kind::AppInstallation, &json!(world.object));
    let deletes = |action: &Action| matches!(action, Action::Delete { key, .. } if *key == own);
    let planned = InstallationPlanner::plan(world.input());
    if planned.plan.actions().any(deletes) {
        world.object.status = Some(InstallationPlanner::status(world.input(), &planned, None));
    } else {
        world.settle();
    }
    Situation::of("AppInstallation", text, &world.object)
}

/// Deployed, and looked at for drift with that outcome.
fn looked(world: &mut Fixture, mode: DriftMode, outcome: impl Fn() -> Outcome) {
    if world.object.status.is_none() {
        *world = at_rest(mode);
    }
    until_check(world);
    world.ends(&outcome());
    world.settle();
}

fn live<'w>(world: &'w mut Fixture, key: &ObjectKey) -> &'w mut Value {
    world.observed.objects.get_mut(key).expect("it is there")
}

fn hold(world: &mut Fixture, facts: SecretFacts) {
    world.observed.secrets.insert(secrets::named(), facts.into());
}

fn values_from(world: &mut Fixture) {
    secrets::hold(world, &secrets::named(), "values.yaml", "a: 1");
    secrets::say(world);
    world.observed.secrets.clear();
    world.change(|release| release.values_from = vec![secrets::from()]);
}

/// Deployed, deleted, and its Job begun.
fn deleted(world: &mut Fixture) {
    world.settle();
    world.deployed(1);
    world.settle();
    delete(world);
    world.settle();
}
