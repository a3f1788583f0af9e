//! What of a tenant is to run. Only the number of pods follows from it: volumes, Secrets, Services and templates of workloads stay.

use crate::model::{Action, Stage};
use crate::workload::taken_up;
use berth_api::etcd_bootstrap::{Operation, OperationKind, Phase};
use berth_render::ObjectKey;
use serde_json::Value;

/// What of a tenant, or of an etcd that stands alone, is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunLevel {
    /// Everything.
    #[default]
    Up,
    /// etcd and API servers, without what works by them.
    APIOnly,
    /// etcd without its clients.
    ClientsStopped,
    /// Nothing.
    Down,
}

impl RunLevel {
    /// While that is done to the etcd.
    pub fn during(operation: Option<&Operation>) -> Self {
        match operation.map(|o| (o.kind, o.phase)) {
            Some((OperationKind::Restore, Phase::WaitingForClients | Phase::Start)) => Self::ClientsStopped,
            Some(
                (OperationKind::Restore, Phase::Stop | Phase::Restore)
                | (OperationKind::Sleep, Phase::Stop | Phase::Asleep),
            ) => Self::Down,
            _ => Self::Up,
        }
    }

    /// Whether pods of etcd's clients run: those of API servers.
    pub fn runs_clients(self) -> bool {
        self <= Self::APIOnly
    }

    /// Whether pods of what works by the API run: controller-manager and scheduler.
    pub fn runs_all(self) -> bool {
        self == Self::Up
    }

    /// Whether etcd's members run.
    pub fn runs_etcd(self) -> bool {
        self != Self::Down
    }
}

/// Ends the pods of a workload. It stays as it is otherwise: with the next level it gets what is new.
pub fn stop(stage: &mut Stage, key: &ObjectKey, live: &Value) {
    if live.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0) {
        stage.actions.push(Action::scale(key, live, 0));
    }
}

/// Starts the pods of a workload as they were, whatever is new: that comes once they run.
pub fn start(stage: &mut Stage, key: &ObjectKey, live: &Value, replicas: i32) {
    if live.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0) {
        stage.actions.push(Action::scale(key, live, replicas));
    }
}

/// Whether a workload has no pods, and its controller knows that there are to be none, or it would make one the next moment.
pub fn has_stopped(live: &Value) -> bool {
    let [wanted, there] = ["/spec/replicas", "/status/replicas"].map(|path| live.pointer(path).and_then(Value::as_i64));
    taken_up(live) && wanted == Some(0) && there.unwrap_or_default() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::etcd_bootstrap::OperationKind as Of;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    #[test]
    fn a_restore_stops_clients_first_and_starts_them_last() {
        let during = |kind, phase| {
            let since = Time(Timestamp::UNIX_EPOCH);
            let level = RunLevel::during(Some(&Operation { id: 1, kind, target: "etcd-0".into(), phase, since }));
            (level.runs_etcd(), level.runs_clients())
        };
        let levels = [Phase::WaitingForClients, Phase::Stop, Phase::Restore, Phase::Start, Phase::Done, Phase::Other]
            .map(|phase| during(Of::Restore, phase));
        let (up, alone, down) = ((true, true), (true, false), (false, false));
        assert_eq!(levels, [alone, down, down, alone, up, up]);
        for kind in [Of::Grow, Of::Replace, Of::Shrink, Of::Upgrade, Of::Other] {
            assert_eq!([Phase::Start, Phase::Other].map(|phase| during(kind, phase)), [up, up], "{kind:?}");
        }
        assert_eq!(RunLevel::during(None), RunLevel::Up);
    }

    #[test]
    fn nothing_runs_asleep_and_everything_from_the_first_step_of_a_wake_on() {
        let during = |phase| {
            let (kind, since) = (Of::Sleep, Time(Timestamp::UNIX_EPOCH));
            RunLevel::during(Some(&Operation { id: 1, kind, target: "etcd".into(), phase, since }))
        };
        let levels = [Phase::Stop, Phase::Asleep, Phase::Start, Phase::Other].map(during);
        assert_eq!(levels, [RunLevel::Down, RunLevel::Down, RunLevel::Up, RunLevel::Up]);
        let runs = [RunLevel::Up, RunLevel::APIOnly, RunLevel::ClientsStopped, RunLevel::Down]
            .map(|level| (level.runs_etcd(), level.runs_clients(), level.runs_all()));
        assert_eq!(runs, [(true, true, true), (true, true, false), (true, false, false), (false, false, false)]);
    }

    #[test]
    fn one_has_stopped_once_its_controller_has_ended_all_pods() {
        let set = |spec: i64, seen: i64, there: Value| {
            has_stopped(&json!({"metadata": {"generation": 2}, "spec": {"replicas": spec},
                "status": {"observedGeneration": seen, "replicas": there}}))
        };
        assert!(set(0, 2, json!(0)) && set(0, 2, Value::Null));
        assert!(!set(1, 2, json!(0)) && !set(0, 1, json!(0)) && !set(0, 2, json!(1)));
    }
}
