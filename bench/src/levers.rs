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
            "no leases of peers that nobody asks",
            false,
            vec![Flag(API, "feature-gates", "UnknownVersionInteroperabilityProxy=false", None)],
        ),
        lever(
            "no leases of API servers",
            false,
            vec![Flag(API, "feature-gates", "UnknownVersionInteroperabilityProxy=false,APIServerIdentity=false", None)],
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

/// Makes an object of a tenant what it is with this lever alone, or with all that are taken: templates have these, so they are taken
/// out first.
pub(crate) fn only(lever: &Lever, all: &[Lever], object: &mut Value) {
    let taken = || all.iter().filter(|l| l.taken);
    taken().for_each(|l| l.edit(object, false));
    if lever.name == TAKEN {
        taken().for_each(|l| l.edit(object, true));
    } else {
        lever.edit(object, true);
    }
}

impl Lever {
    /// Its name in figures.
    pub(crate) fn key(&self) -> String {
        let words = self.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
    }

    /// Puts it into an object, or takes it out.
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
    use berth_render::Catalog;

    #[test]
    fn a_lever_is_put_in_and_taken_out_again() {
        let before = json!({
            "metadata": {"name": CONTROLLERS},
            "spec": {"template": {"spec": {"containers": [{"args": ["--a=b"], "env": []}]}}},
        });
        for lever in all().iter().filter(|l| !l.edits.is_empty()) {
            let mut object = before.clone();
            lever.edit(&mut object, false);
            let without = object.clone();
            lever.edit(&mut object, true);
            lever.edit(&mut object, false);
            assert_eq!(object, without, "{}", lever.name);
        }
        let mut object = before.clone();
        env(&mut object["spec"]["template"]["spec"]["containers"][0], "GOGC", Some("50"));
        set_flag(&mut object["spec"]["template"]["spec"]["containers"][0], "a", Some("c"));
        let container = &object["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(*container, json!({"args": ["--a=c"], "env": [{"name": "GOGC", "value": "50"}]}));
    }

    #[test]
    fn none_is_without_what_is_taken_and_all_that_are_taken_is_what_templates_have() {
        let all = all();
        let named = |name: &str| all.iter().find(|l| l.name == name).expect("a lever");
        let newest = Catalog::builtin().minors().pop().expect("a minor");
        let templates = Catalog::builtin().kubernetes(newest).expect("built in").to_data();
        for (component, folder) in [(CONTROLLERS, "controller-manager"), (SCHEDULER, "scheduler")] {
            let template = &templates[&format!("{folder}__deployment.yaml.j2")];
            let flags = template.lines().filter_map(|l| l.trim().strip_prefix("- ").filter(|l| l.starts_with("--")));
            let mut args: Vec<&str> = flags.collect();
            args.sort_unstable();
            let object = |lever: &Lever| {
                let spec = json!({"template": {"spec": {"containers": [{"args": args}]}}});
                let mut object = json!({"metadata": {"name": component}, "spec": spec});
                only(lever, &all, &mut object);
                let args = object["spec"]["template"]["spec"]["containers"][0]["args"].as_array().cloned();
                let mut args: Vec<String> =
                    args.into_iter().flatten().filter_map(|a| Some(a.as_str()?.to_owned())).collect();
                args.sort_unstable();
                args
            };
            assert_eq!(object(named(TAKEN)), args, "{component}");
            let none = object(named(NONE));
            assert!(none.contains(&"--leader-elect-lease-duration=10s".to_owned()), "{none:?}");
            assert!(none.iter().all(|a| !a.starts_with("--leader-elect-retry-period")), "{none:?}");
        }
    }

    #[test]
    fn levers_have_figures_of_their_own() {
        let mut keys: Vec<String> = all().iter().map(Lever::key).collect();
        assert!(keys.contains(&"leases-renewed-each-5-s-not-2".to_owned()), "{keys:?}");
        let number = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), number);
    }
}
