//! Situations of a tenant that is required to have an App.

use super::*;
use crate::tests::apps::{installation_says, is_deleted, requires};

pub(super) const APPS: &[Case] = &[
    ("an App that it has to have has not come to it", |f| requires(f, |_| {})),
    ("an App that it has to have is refused", |f| {
        requires(f, |app| {
            app["status"] = json!({"observedGeneration": 1, "conditions": [{
                "type": "Ready", "status": "False", "reason": "NotAllowed", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "message": "spec.chart: charts from oci://reg/net are not allowed in this namespace: none is. Set another one, or ask the platform team to add it to writers.apps.sources in the values of Berth's chart",
            }]});
        });
    }),
    ("an App that it has to have is held back by failures elsewhere", |f| {
        requires(f, |app| {
            app["status"] = json!({"observedGeneration": 1, "conditions": [{
                "type": "Ready", "status": "False", "reason": "AppFailed", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "message": "failed in team-b/beta",
            }]});
        });
    }),
    ("an App that it has to have is being uninstalled", |f| {
        requires(f, |_| {});
        installation_says(f, "Deleting", Some(1), "");
        let name = names::app_installation("berth-system", "net", "acme");
        let key = ObjectKey::namespaced(Kind::AppInstallation, "team-a", name);
        let live = f.world.observed.objects.get_mut(&key).unwrap();
        live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }),
    ("an App that it has to have is about to come", |f| {
        requires(f, |_| {});
        installation_says(f, "Running", None, "");
        not_observed(f);
    }),
    ("an App that it has to have is being installed", |f| {
        requires(f, |_| {});
        installation_says(f, "Running", None, "waiting for its Job to install or upgrade it");
    }),
    ("an App that it has to have fails", |f| {
        requires(f, |_| {});
        installation_says(f, "Failed", None, "INSTALLATION FAILED: no");
    }),
    ("an App that it has to have is being uninstalled", |f| {
        requires(f, |_| {});
        installation_says(f, "Deployed", Some(1), "revision 1");
        is_deleted(f);
    }),
    ("a change of an App that it has to have is on its way", |f| {
        requires(f, |_| {});
        installation_says(f, "Running", Some(1), "waiting for its Job to install or upgrade it");
    }),
    ("four Apps that it has to have have not come to it", |f| {
        requires(f, |_| {});
        let key = |name: &str| ObjectKey::namespaced(Kind::App, "berth-system", name);
        let app = f.world.observed.get(&key("net")).unwrap().clone();
        for name in ["dns", "metrics", "policies"] {
            let mut other = app.clone();
            other["metadata"]["name"] = name.into();
            f.world.observed.put(key(name), other);
        }
    }),
];

/// Its controller has not seen it.
fn not_observed(f: &mut Fixture) {
    let name = names::app_installation("berth-system", "net", "acme");
    let key = ObjectKey::namespaced(Kind::AppInstallation, "team-a", name);
    f.world.observed.objects.get_mut(&key).unwrap()["status"] = Value::Null;
}
