//! A controller-manager and a scheduler that do not come up go back by themselves.

use anyhow::ensure;
use berth_e2e::{
    Tenant,
    revisions::{outcome, pods, same_pods},
};
use serde_json::json;

#[test]
#[ignore = "make test-all: what is decided is the same for each component, and each takes a minute"]
fn a_controller_manager_and_a_scheduler_that_do_not_come_up_go_back_by_themselves() {
    berth_e2e::run("revisions", |world| {
        let upgrade = json!({"progressDeadline": "30s", "soak": "0s"});
        let tenant = Tenant::ready(world, "clients", &json!({"upgrade": upgrade}))?;
        outcome(&tenant, 1, "Succeeded")?;
        let before = pods(&tenant)?;
        for (number, field) in [(2, "controllerManager"), (4, "scheduler")] {
            println!("    a flag that spec.{field} does not know");
            tenant.change(&json!({field: {"extraArgs": [{"name": "no-such-flag", "value": "1"}]}}))?;
            let message = tenant.wait_condition("Ready", "False", "RolledBack")?;
            ensure!(message.contains("unknown flag: --no-such-flag"), "{message}");
            outcome(&tenant, number, "RolledBack")?;
            same_pods(&tenant, &before)?;
            tenant.change(&json!({field: {"extraArgs": null}}))?;
            tenant.wait_ready()?;
            outcome(&tenant, number + 1, "Succeeded")?;
        }
        tenant.scheduler_works()?;
        same_pods(&tenant, &before)?;
        tenant.nothing_restarted()?;
        tenant.let_go()
    });
}
