//! Levers on what an idle tenant costs: each is a change of its Deployments and StatefulSet. `docs/benchmarks.md` says which are
//! taken, and why the others are not.

use serde_json::{Value, json};

/// The line without any of them.
pub(crate) const NONE: &str = "none";
/// The line with those that the templates have.
pub(crate) const TAKEN: &str = "all that are taken";

const API: &str = "kube-apiserver";
const CONTROLLERS: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const ETCD: &str = "etcd";

/// One change of one component's container.
enum Edit {
    /// An environment variable.
    Env(&'static str, &'static str, &'static str),
    /// A flag without its dashes, and the value that it has without the lever, if any.
    Flag(&'static str, &'static str, &'static str, Option<&'static str>),
    /// Seconds between readiness and liveness probes, with and without the lever.
    Probes(&'static str, [u32; 2], [u32; 2]),
}

/// A lever.
pub(crate) struct Lever {
    pub(crate) name: &'static str,
    /// The templates have it.
    pub(crate) taken: bool,
    edits: Vec<Edit>,
}

/// All of them.
pub(crate) fn all() -> Vec<Lever> {
    use Edit::{Env, Flag, Probes};
    let everywhere = |name, value| [API, CONTROLLERS, SCHEDULER, ETCD].map(|c| Env(c, name, value)).into();
    let elect = |name: &'static str, value, without| {
        [Flag(CONTROLLERS, name, value, without), Flag(SCHEDULER, name, value, without)]
    };
    let lever = |name, taken, edits| Lever { name, taken, edits };
    vec![
        lever(NONE, false, vec![]),
        lever("none, once more", false, vec![]),
        lever("GOGC=50", false, everywhere("GOGC", "50")),
        lever(
            "GOMEMLIMIT below what they take",
            false,
            vec![
                Env(API, "GOMEMLIMIT", "150MiB"),
                Env(CONTROLLERS, "GOMEMLIMIT", "40MiB"),
                Env(SCHEDULER, "GOMEMLIMIT", "24MiB"),
                Env(ETCD, "GOMEMLIMIT", "24MiB"),
            ],
        ),
        lever(
            "leases renewed each 5 s, not 2",
            true,
            elect("leader-elect-retry-period", "5s", None)
                .into_iter()
                .chain(elect("leader-elect-lease-duration", "20s", Some("10s")))
                .chain(elect("leader-elect-renew-deadline", "15s", Some("8s")))
                .collect(),
        ),
        lever("no leader election", false, elect("leader-elect", "false", Some("true")).into()),
        lever(
            "probes half as often",
            false,
            vec![
                Probes(API, [10, 30], [5, 15]),
                Probes(CONTROLLERS, [30, 30], [15, 15]),
                Probes(SCHEDULER, [30, 30], [15, 15]),
                Probes(ETCD, [6, 20], [3, 10]),
            ],
        ),
        lever("no watch cache", false, vec![Flag(API, "watch-cache", "false", None)]),
        lever(
            "objects counted each 2 minutes, not each",
            false,
            vec![Flag(API, "etcd-count-metric-poll-period", "2m", None)],
        ),
        lever(
            "only controllers that a tenant without workloads needs",
            false,
            vec![Flag(
                CONTROLLERS,
                "controllers",
                "bootstrap-signer-controller,token-cleaner-controller,serviceaccount-controller,serviceaccount-token-controller,\
                 namespace-controller,root-ca-certificate-publisher-controller,garbage-collector-controller",
                Some("*,bootstrap-signer-controller,token-cleaner-controller"),
            )],
        ),
        lever(
            "etcd ticks each 500 ms, not each 100",
            false,
            vec![Flag(ETCD, "heartbeat-interval", "500", None), Flag(ETCD, "election-timeout", "5000", None)],
        ),
        lever(TAKEN, false, vec![]),
    ]
}

/// Puts a lever, or all that are taken, into an object.
pub(crate) fn pull(lever: &Lever, all: &[Lever], object: &mut Value) {
    if lever.name == TAKEN {
        all.iter().filter(|l| l.taken).for_each(|l| l.edit(object, true));
    } else {
        lever.edit(object, true);
    }
}

impl Lever {
    /// Takes it out of an object.
    pub(crate) fn undo(&self, object: &mut Value) {
        self.edit(object, false);
    }

    fn edit(&self, object: &mut Value, on: bool) {
        if object["spec"]["template"].is_null() {
            return;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        for edit in &self.edits {
            match edit {
                Edit::Env(of, key, value) if *of == name => env(container, key, on.then_some(*value)),
                Edit::Flag(of, flag, with, without) if *of == name => {
                    set_flag(container, flag, if on { Some(*with) } else { *without });
                }
                Edit::Probes(of, with, without) if *of == name => {
                    let periods = if on { with } else { without };
                    container["readinessProbe"]["periodSeconds"] = json!(periods[0]);
                    container["livenessProbe"]["periodSeconds"] = json!(periods[1]);
                }
                _ => {}
            }
        }
    }
}

/// Sets or removes an environment variable.
fn env(container: &mut Value, name: &str, value: Option<&str>) {
    let mut all = container["env"].as_array().cloned().unwrap_or_default();
    all.retain(|e| e["name"] != name);
    all.extend(value.map(|value| json!({"name": name, "value": value})));
    container["env"] = all.into();
}

/// Sets or removes a flag.
fn set_flag(container: &mut Value, flag: &str, value: Option<&str>) {
    let prefix = format!("--{flag}=");
    let mut all = container["args"].as_array().cloned().unwrap_or_default();
    all.retain(|a| !a.as_str().unwrap_or_default().starts_with(&prefix));
    all.extend(value.map(|value| json!(format!("{prefix}{value}"))));
    container["args"] = all.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lever_is_put_in_and_taken_out_again() {
        let before = json!({
            "metadata": {"name": CONTROLLERS},
            "spec": {"template": {"spec": {"containers": [{"args": ["--a=b"], "env": []}]}}},
        });
        for lever in all().iter().filter(|l| !l.edits.is_empty()) {
            let mut object = before.clone();
            lever.undo(&mut object);
            let without = object.clone();
            lever.edit(&mut object, true);
            lever.undo(&mut object);
            assert_eq!(object, without, "{}", lever.name);
        }
        let mut object = before.clone();
        env(&mut object["spec"]["template"]["spec"]["containers"][0], "GOGC", Some("50"));
        set_flag(&mut object["spec"]["template"]["spec"]["containers"][0], "a", Some("c"));
        let container = &object["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(*container, json!({"args": ["--a=c"], "env": [{"name": "GOGC", "value": "50"}]}));
    }
}
