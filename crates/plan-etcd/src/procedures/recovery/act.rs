//! What a step of a recovery comes to: an `EtcdRestore`, and what people read.

use super::decide::{RecoveryStep, Source};
use crate::subject::Subject;
use crate::way_back;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::etcd_home::Home;
use berth_plan::model::{Action, State};
use berth_render::Object;
use serde_json::json;

/// Creates the `EtcdRestore`. Without a confirmation: an etcd that answers again is left alone.
pub(crate) fn recovery_action(s: &Subject<'_>, step: &RecoveryStep) -> Option<Action> {
    let RecoveryStep::Begin { name, source } = step else { return None };
    let Home { namespace, field, name: of } = Home::of(s.etcd);
    let source = match source {
        Source::Survivors { store } => json!({"survivors": {"store": store}}),
        Source::Backup(newest) => json!({"backup": newest.name}),
    };
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore",
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": {labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::RECOVERY: s.record.bootstrap.cluster_uid},
        },
        "spec": {field: {"name": of}, "source": source, "backupFirst": false},
    });
    Object::new(object).ok().map(Action::Create)
}

/// What the members wait for.
pub(crate) fn recovery_state(s: &Subject<'_>, step: &RecoveryStep) -> Option<State> {
    let waiting = |on: String| Some(State::Waiting { reason: Reason::Restoring, on });
    match step {
        RecoveryStep::None => None,
        RecoveryStep::Wait(on) => waiting(on.clone()),
        RecoveryStep::Hold(Reason::DataLost, message) => {
            let way = way_back::now(s).map(|way| format!("Berth cannot restore this etcd by itself. {way}"));
            Some(State::blocked(Reason::DataLost, way.unwrap_or_else(|| message.clone())))
        }
        RecoveryStep::Hold(reason, message) => Some(State::blocked(*reason, message.clone())),
        RecoveryStep::Begin { name, .. } => {
            waiting(format!("EtcdRestore {}/{name} to be created", Home::of(s.etcd).namespace))
        }
    }
}
