//! Pods that are ready, and none that leads.

use super::*;
use berth_api::labels;
use berth_plan::leads::{Leads, Lease};
use jiff::SignedDuration;

const BOTH: [&str; 2] = [names::CONTROLLER_MANAGER, names::SCHEDULER];

impl Fixture {
    /// One pod of each program that elects, ready for so many seconds.
    pub(super) fn electors(&mut self, ready_for: i64) {
        let since = self.world.now - SignedDuration::from_secs(ready_for);
        for name in BOTH {
            let pod = Self::key(Kind::Pod, &format!("{name}-x"));
            let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
            let meta = json!({"name": pod.name, "labels": {(labels::COMPONENT): name}});
            self.world.put(pod, json!({"metadata": meta, "status": {"conditions": [condition]}}));
        }
    }

    /// A look finds that the lease was renewed so many seconds ago, and the others just now.
    pub(super) fn look_at(&mut self, lease: &str, ago: i64) {
        let now = self.world.now;
        let renewed = |ago: i64| Lease { renewed: Some(now - SignedDuration::from_secs(ago)), duration: Some(20) };
        let ago = |name: &String| if name == lease { ago } else { 1 };
        let all = [names::CONTROLLER_MANAGER, names::SCHEDULER, "other"].map(str::to_owned);
        let read = all.iter().map(|name| (name.clone(), renewed(ago(name)))).collect();
        let leads = Leads::after(self.world.observed.leads.as_deref(), &all, &read, now);
        self.world.observed.leads = Some(leads.into());
    }

    /// Two looks, a minute apart, that find it as it was.
    pub(super) fn lose(&mut self, lease: &str) {
        self.look_at(lease, 60);
        self.world.now += SignedDuration::from_mins(1);
        self.look_at(lease, 120);
    }
}

fn up() -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.electors(3600);
    f.reconcile();
    f.world.log.clear();
    f
}

fn reason(f: &Fixture, type_: &str) -> String {
    f.condition(type_).1
}

#[test]
fn a_lease_that_nobody_renews_is_not_ready_until_somebody_does() {
    for (name, idle) in BOTH.into_iter().zip(["no controller works", "no pod is scheduled"]) {
        let mut f = up();
        f.lose(name);
        f.reconcile();
        let message = f.condition("ControlPlaneAvailable").2;
        for type_ in ["Ready", "ControlPlaneAvailable"] {
            assert_eq!(f.condition(type_), ("False".into(), "NotLeading".into(), message.clone()));
        }
        assert_eq!(f.condition("Degraded"), ("True".into(), "NotLeading".into(), message.clone()));
        assert_eq!(f.condition("Available").0, "True", "its API serves");
        for part in [name, idle, "since 2025-12-31T23:59:00Z", &format!("-n {} logs", Fixture::cp_namespace())] {
            assert!(message.contains(part), "{message}");
        }
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);

        // An operator that starts anew has only the clock, and one that cannot ask has nothing.
        f.world.observed.leads = None;
        f.reconcile();
        f.look_at(name, 120);
        f.reconcile();
        assert_eq!(f.condition("ControlPlaneAvailable").2, message);
        f.world.now += SignedDuration::from_mins(1);
        f.look_at(name, 1);
        f.reconcile();
        assert_eq!((reason(&f, "Ready"), reason(&f, "Degraded")), ("AsExpected".into(), "AsExpected".into()));
        assert_eq!(f.condition("ControlPlaneAvailable").0, "True");
    }
}

/// A way in which a tenant is otherwise, by name.
type Case = (&'static str, fn(&mut Fixture));

#[test]
fn what_starts_or_changes_or_elects_nobody_is_not_judged() {
    let flag = |f: &mut Fixture, flag: &str| {
        let args = f.live(Kind::Deployment, names::SCHEDULER).pointer_mut("/spec/template/spec/containers/0/args");
        args.unwrap().as_array_mut().unwrap().push(flag.into());
    };
    let cases: [Case; 5] = [
        ("pods that are young", |f| f.electors(59)),
        ("no pod that is ready", |f| {
            f.world.observed.objects.retain(|key, _| key.kind != Kind::Pod);
        }),
        ("a rollout", |f| f.live(Kind::Deployment, names::SCHEDULER)["status"]["replicas"] = json!(2)),
        ("no pods at all", |f| {
            let live = f.live(Kind::Deployment, names::SCHEDULER);
            live["spec"]["replicas"] = json!(0);
            live["status"] = json!({"observedGeneration": live["metadata"]["generation"]});
        }),
        ("one look", |f| f.world.observed.leads = None),
    ];
    for (what, change) in cases {
        let mut f = up();
        f.lose(names::SCHEDULER);
        change(&mut f);
        let said = crate::leads::not_leading(&Facts::judge(f.input()).tenant(), Binary::Scheduler);
        assert_eq!(said, None, "{what}");
    }
    for elsewhere in
        ["--leader-elect=false", "--leader-elect-resource-namespace=x", "--leader-elect-resource-name=other"]
    {
        let mut f = up();
        f.lose(names::SCHEDULER);
        flag(&mut f, elsewhere);
        let facts = Facts::judge(f.input());
        assert_eq!(crate::leads::not_leading(&facts.tenant(), Binary::Scheduler), None, "{elsewhere}");
        let asked = crate::probe_request(f.input()).map(|asked| asked.leases);
        let named = asked.is_none_or(|leases| leases.contains(&"other".to_owned()) == elsewhere.ends_with("other"));
        assert!(named, "{elsewhere}");
    }
}

#[test]
fn one_that_is_unclear_is_looked_at_again_and_nothing_is_said_of_it() {
    let mut f = up();
    f.look_at(names::SCHEDULER, 60);
    let planned = f.reconcile();
    assert_eq!(reason(&f, "Ready"), "AsExpected");
    assert_eq!(planned.due, Some(SignedDuration::from_secs(41)));
    f.world.now += SignedDuration::from_secs(41);
    f.look_at(names::SCHEDULER, 101);
    assert_eq!(f.reconcile().due, f.plan().due);
    assert_eq!(reason(&f, "Ready"), "NotLeading");
}

#[test]
fn who_leads_is_asked_where_it_was_not_seen_a_moment_ago() {
    let mut f = up();
    let due = |f: &Fixture| crate::leads::due(&Facts::judge(f.input()).tenant());
    assert_eq!(due(&f), BOTH);
    f.look_at("", 0);
    assert!(due(&f).is_empty());
    f.world.now += SignedDuration::from_mins(3);
    assert_eq!(due(&f), BOTH);
    f.look_at(names::SCHEDULER, 300);
    assert_eq!(due(&f), BOTH, "one is unclear");
}
