//! A control plane of other programs: what a release does follows from their roles, and from no name.

use super::*;
use crate::subject::Tenant;
use berth_api::labels;
use berth_render::{Distribution, Role};

const OLD: &str = "1.35.4";
const NEW: &str = "1.36.3";

/// kube-controller-manager, for which a release of upstream's programs waits, is one that nothing waits for.
static MADE_UP: Distribution = Distribution {
    programs: &[
        (Binary::ApiServer, Role::Api),
        (Binary::Scheduler, Role::Client),
        (Binary::ControllerManager, Role::Extension),
    ],
    signer: Binary::Scheduler,
};

impl Fixture {
    fn reconcile_made_up(&mut self) -> ClusterPlan {
        self.reconcile_by(|input| {
            let tenant = Tenant { distribution: &MADE_UP, ..Tenant::new(input) };
            plan_judged(&Facts::judge_tenant(input, tenant))
        })
    }

    /// Whatever others do, the pods of the extension never come up.
    fn without_extension(&mut self) -> ClusterPlan {
        self.others();
        let extension = Self::key(Kind::Deployment, names::CONTROLLER_MANAGER);
        self.world.observed.objects.get_mut(&extension).unwrap()["status"] = json!({});
        self.reconcile_made_up()
    }

    /// API, client, extension.
    fn runs_made_up(&self) -> [String; 3] {
        let [api, extension, client] = self.all_run();
        [api, client, extension]
    }
}

fn up_at(version: &str) -> Fixture {
    let mut f = Fixture::new(json!({"version": version, "upgrade": {"soak": "0s"}}));
    for _ in 0..6 {
        f.reconcile_made_up();
        f.others();
    }
    let last = f.reconcile_made_up();
    assert_eq!(last.plan.first_problem(), None, "{:#?}", f.world.log);
    f.nodes(Some(OLD));
    f
}

#[test]
fn clients_follow_the_api_and_nothing_waits_for_an_extension() {
    let mut f = up_at(OLD);
    let emulating = &*format!("{NEW} as 1.35");
    f.version(NEW);
    f.reconcile_made_up();
    assert_eq!(f.runs_made_up(), [emulating, OLD, OLD], "the API first");
    f.roll_out(names::APISERVER);
    f.reconcile_made_up();
    assert_eq!(f.runs_made_up(), [emulating, emulating, OLD], "an extension emulates nothing");
    for _ in 0..3 {
        f.without_extension();
    }
    assert!(f.without_extension().pending.is_some(), "the first step is through");
    f.later(11);
    f.without_extension();
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.36"), "the second one began");
    for _ in 0..5 {
        f.without_extension();
    }
    assert_eq!((f.runs_made_up(), f.note(labels::UPGRADE)), ([NEW; 3].map(str::to_owned), None));
}

#[test]
fn clients_go_back_first_and_nothing_waits_for_an_extension() {
    let mut f = up_at(OLD);
    let emulating = &*format!("{NEW} as 1.35");
    f.version(NEW);
    f.reconcile_made_up();
    for _ in 0..3 {
        f.without_extension();
    }
    assert_eq!(f.runs_made_up(), [emulating, emulating, OLD]);
    f.version(OLD);
    f.reconcile_made_up();
    assert_eq!(f.runs_made_up(), [emulating, OLD, OLD], "the client first");
    for _ in 0..4 {
        f.without_extension();
    }
    assert_eq!((f.runs_made_up(), f.note(labels::UPGRADE)), ([OLD; 3].map(str::to_owned), None));
}
