//! What a person needs to see when a test fails.

use crate::World;

/// Every condition on a line of its own.
const CONDITIONS: &str = concat!(
    "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.status.phase}{\"\\n\"}",
    "{range .status.conditions[*]}  {.type}={.status} {.reason}: {.message}{\"\\n\"}{end}{end}"
);

/// Prints conditions, pods, events and logs of every tenant.
pub fn print(world: &World) {
    let show = |what: &str, arguments: &[&str]| match world.kubectl(arguments) {
        Ok(text) => println!("--- {what}\n{}", text.trim_end()),
        Err(error) => println!("--- {what}: {error:#}"),
    };
    show("Clusters", &["get", "clusters.berth.dev,etcdclusters.berth.dev", "-A", "-o", CONDITIONS]);
    for cp_namespace in world.cp_namespaces().unwrap_or_default() {
        show(
            &format!("{cp_namespace}: pods and claims"),
            &["-n", &cp_namespace, "get", "pods,pvc,deployments", "-o", "wide"],
        );
        show(&format!("{cp_namespace}: events"), &["-n", &cp_namespace, "get", "events", "--sort-by=.lastTimestamp"]);
        let pods = world.kubectl(&["-n", &cp_namespace, "get", "pods", "-o", "name"]).unwrap_or_default();
        for pod in pods.lines() {
            show(
                &format!("{cp_namespace}: {pod}"),
                &["-n", &cp_namespace, "logs", pod, "--all-containers", "--tail=12"],
            );
        }
    }
    println!("--- berth-operator\n{}", world.operator_log(40));
}
