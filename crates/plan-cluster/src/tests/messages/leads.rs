//! Situations of a tenant whose controllers do not work.

use super::*;
use berth_plan::leads::{Leads, Leases};

/// Two looks, a minute apart, that find no lease.
fn find_none(f: &mut Fixture) {
    let all = [names::CONTROLLER_MANAGER, names::SCHEDULER].map(str::to_owned);
    let first = Leads::after(None, &all, &Leases::new(), f.world.now);
    f.world.now += SignedDuration::from_mins(1);
    f.world.observed.leads = Some(Leads::after(Some(&first), &all, &Leases::new(), f.world.now).into());
}

pub(super) const LEADS: &[Case] = &[
    ("no pod of kube-controller-manager renews its lease", |f| {
        f.electors(3600);
        f.lose(names::CONTROLLER_MANAGER);
    }),
    ("no pod of kube-scheduler renews its lease", |f| {
        f.electors(3600);
        f.lose(names::SCHEDULER);
    }),
    ("nobody has made the leases", |f| {
        f.electors(3600);
        find_none(f);
    }),
];
