//! Add-ons: what is asked of CoreDNS, and how many pods serve.

use super::*;
use berth_api::cluster::{AddonStatus, DnsZone, NodesStatus};
use berth_plan::model::Action;
use berth_plan::observed::Nodes;
use berth_render::{Object, STAMPS, stamp_key};
use jiff::SignedDuration;

pub(super) const DNS: (Kind, &str) = (Kind::Deployment, "coredns");
pub(super) const PROXY: (Kind, &str) = (Kind::DaemonSet, "kube-proxy");
pub(super) const API_PROXY: (Kind, &str) = (Kind::DaemonSet, "api-proxy");

impl Fixture {
    /// So many nodes, of which some are ready.
    pub(super) fn has_nodes(&mut self, total: i32, ready: i32) {
        let count = NodesStatus { total, ready, oldest_kubelet: None };
        self.inside().nodes = Some(Nodes { count, ..Nodes::default() });
    }

    /// What the controller of an add-on's workload says of its pods: (wanted, updated, available).
    pub(super) fn addon_says(&mut self, (kind, name): (Kind, &str), [wanted, updated, available]: [i32; 3]) {
        let key = ObjectKey::namespaced(kind, "kube-system", name);
        let mut live = self.inside().get(&key).flatten().unwrap().clone();
        if kind == Kind::Deployment {
            live["spec"]["replicas"] = wanted.into();
            live["status"] = json!({"updatedReplicas": updated, "availableReplicas": available});
        } else {
            live["status"] = json!({"desiredNumberScheduled": wanted, "updatedNumberScheduled": updated, "numberAvailable": available});
        }
        live["metadata"]["generation"] = 3.into();
        live["status"]["observedGeneration"] = 3.into();
        self.inside().insert(key, Some(live));
    }

    /// All of them serve on all nodes, as far as they were written.
    pub(super) fn addons_serve(&mut self) {
        let nodes = self.inside().nodes.as_ref().map_or(0, |nodes| nodes.count.total);
        for (one, wanted) in [(DNS, 2), (PROXY, nodes), (API_PROXY, nodes)] {
            if self.inside().get(&ObjectKey::namespaced(one.0, "kube-system", one.1)).flatten().is_some() {
                self.addon_says(one, [wanted; 3]);
            }
        }
    }

    /// Pods of one say that.
    pub(super) fn pods_say(&mut self, app: &str, why: &str) {
        self.inside().pods.insert(app.into(), why.into());
    }

    /// So the API is asked.
    fn has_ready_pod(&mut self) {
        let pod = Self::key(Kind::Pod, "kube-apiserver-x");
        let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": self.world.now});
        let meta = json!({"name": pod.name, "labels": {(berth_api::labels::COMPONENT): names::APISERVER}});
        self.world.put(pod, json!({"metadata": meta, "status": {"conditions": [condition]}}));
    }

    fn addon(&self, name: &str) -> AddonStatus {
        let addons = &self.cluster.status.as_ref().unwrap().addons;
        addons.iter().find(|addon| addon.name == name).unwrap().clone()
    }

    fn minutes(&mut self, minutes: i64) {
        self.world.now += SignedDuration::from_mins(minutes);
        self.reconcile();
    }

    /// How CoreDNS' Deployment is written next, if it is.
    fn writes_dns(&self) -> Option<(Object, Option<i32>)> {
        let is_dns = |object: &Object| object.key().kind == DNS.0 && object.key().name == DNS.1;
        self.plan().plan.actions().find_map(|action| match action {
            Action::TenantApply(object) if is_dns(object) => Some((object.clone(), None)),
            Action::TenantApplyUnscaled { object, replicas } if is_dns(object) => {
                Some((object.clone(), Some(*replicas)))
            }
            _ => None,
        })
    }

    fn stamp(&self) -> Value {
        let ApiProbe::Answered { read, .. } = &self.world.observed.api else { panic!("it is up") };
        read.get(&stamp_key("coredns")).flatten().unwrap()["data"].clone()
    }
}

/// A tenant with three nodes on which all serves.
pub(super) fn serving() -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.has_nodes(3, 3);
    f.addon_says(DNS, [2, 2, 2]);
    f.addon_says(PROXY, [3, 3, 3]);
    f.reconcile();
    f.world.log.clear();
    f
}

#[test]
fn the_number_of_pods_is_left_to_others_unless_it_is_asked_for() {
    let mut f = serving();
    assert_eq!(f.writes_dns(), None);
    // Others scale: nothing is written for it, and nothing of it is written over.
    f.addon_says(DNS, [5, 5, 5]);
    assert_eq!(f.writes_dns(), None);
    f.cluster.spec.addons.core_dns.resources = serde_json::from_value(json!({"limits": {"memory": "1Gi"}})).unwrap();
    let (object, replicas) = f.writes_dns().unwrap();
    assert_eq!((object.get("/spec/replicas"), replicas), (None, Some(2)));
    f.reconcile();
    assert_eq!(f.addon("coredns").wanted, Some(5), "in the simulation, too");

    // The same number as there is: from now on it is kept.
    let before = f.stamp();
    f.cluster.spec.addons.core_dns.replicas = Some(2);
    let (object, replicas) = f.writes_dns().unwrap();
    assert_eq!((object.get("/spec/replicas"), replicas), (Some(&json!(2)), None));
    f.reconcile();
    assert_ne!(f.stamp(), before);
    assert_eq!(f.writes_dns(), None);
    f.addon_says(DNS, [5, 5, 5]);
    assert_eq!(f.writes_dns().unwrap().1, None, "it goes back");
    f.reconcile();

    f.cluster.spec.addons.core_dns.replicas = None;
    assert_eq!(f.writes_dns().unwrap().1, Some(2), "it is given up");
    f.reconcile();
    assert_eq!(f.stamp(), before);
    assert_eq!(f.writes_dns(), None);
}

#[test]
fn what_is_asked_of_coredns_counts_whatever_the_tenant_is_pinned_to() {
    let mut f = serving();
    let dns = &mut f.cluster.spec.addons.core_dns;
    dns.resources = serde_json::from_value(json!({"requests": {"cpu": "1"}, "limits": {"memory": "64Mi"}})).unwrap();
    let zone =
        |name: &str, server: &str| DnsZone { name: name.into(), servers: vec![server.into(), "2001:db8::53".into()] };
    dns.zones = vec![zone("corp.example", "192.0.2.53:5353"), zone("Branch.example", "192.0.2.54")];
    let (object, _) = f.writes_dns().unwrap();
    let resources = json!({"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"memory": "64Mi"}});
    assert_eq!(object.get("/spec/template/spec/containers/0/resources"), Some(&resources));
    f.reconcile();
    let key = ObjectKey::namespaced(Kind::ConfigMap, "kube-system", "coredns");
    let corefile = f.inside().get(&key).flatten().unwrap()["data"]["Corefile"].as_str().unwrap().to_owned();
    let (of_templates, more) = corefile.split_once("import /etc/coredns-custom/*.server\n").unwrap();
    assert!(of_templates.contains("\n    reload\n"), "it reads the file again: {of_templates}");
    let server = |zone: &str, first: &str| {
        format!(
            "{zone}:53 {{\n    errors\n    forward . {first} [2001:db8::53]:53 {{\n       max_concurrent 1000\n    }}\n    cache 30\n}}\n"
        )
    };
    assert_eq!(more, server("branch.example", "192.0.2.54:53") + &server("corp.example", "192.0.2.53:5353"));
    let rendered = f.inside().get(&ObjectKey::namespaced(DNS.0, "kube-system", DNS.1)).flatten().unwrap().clone();
    f.cluster.spec.addons.core_dns.zones.clear();
    f.reconcile();
    let after = f.inside().get(&ObjectKey::namespaced(DNS.0, "kube-system", DNS.1)).flatten().unwrap();
    assert_eq!(after["spec"]["template"], rendered["spec"]["template"], "no pod restarts for a zone");
}

#[test]
fn what_is_refused_of_coredns_leaves_it_as_it_is() {
    let zone = |server: &str| vec![DnsZone { name: "corp.example".into(), servers: vec![server.into()] }];
    for (change, says) in [
        (
            (|dns, zone| dns.zones = zone("dns.example"))
                as fn(&mut berth_api::cluster::CoreDns, &dyn Fn(&str) -> Vec<DnsZone>),
            "zones[0].servers[0]",
        ),
        (
            |dns, _| {
                dns.resources =
                    serde_json::from_value(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})).unwrap();
            },
            "spec.addons.coreDNS.resources: ",
        ),
    ] {
        let mut f = serving();
        let told = f.addon("coredns");
        change(&mut f.cluster.spec.addons.core_dns, &zone);
        f.cluster.spec.addons.core_dns.replicas = Some(7);
        let said = blocked(&f.reconcile(), StageId::Tenant, Reason::InvalidSpec);
        assert!(said.contains(says), "{said}");
        assert_eq!((f.writes_dns(), f.addon("coredns")), (None, told));
        // One that is off is deleted, whatever is asked of it.
        f.cluster.spec.addons.core_dns.enabled = Some(false);
        f.reconcile();
        f.reconcile();
        assert_eq!(f.condition("Ready").0, "True");
        assert!(f.cluster.status.as_ref().unwrap().addons.iter().all(|addon| addon.name != "coredns"));
    }
}

#[test]
fn a_zone_with_names_of_the_tenants_own_is_left_out_and_all_else_goes_on() {
    let mut f = serving();
    let zone = |name: &str| DnsZone { name: name.into(), servers: vec!["192.0.2.53".into()] };
    f.cluster.spec.addons.core_dns.zones = vec![zone("112.10.in-addr.arpa"), zone("corp.example")];
    f.cluster.spec.addons.core_dns.replicas = Some(7);
    let said = blocked(&f.reconcile(), StageId::Tenant, Reason::InvalidSpec);
    assert!(said.starts_with("spec.addons.coreDNS.zones[0].name: 112.10.in-addr.arpa has names"), "{said}");
    let corefile = ObjectKey::namespaced(Kind::ConfigMap, "kube-system", "coredns");
    let corefile = f.inside().get(&corefile).flatten().unwrap()["data"]["Corefile"].as_str().unwrap().to_owned();
    assert!(corefile.contains("corp.example:53 {") && !corefile.contains("112.10."), "{corefile}");
    let dns = ObjectKey::namespaced(DNS.0, "kube-system", DNS.1);
    assert_eq!(f.inside().get(&dns).flatten().unwrap()["spec"]["replicas"], 7);
    f.inside().insert(dns, None);
    assert!(f.writes_dns().is_some(), "it is repaired");
    f.reconcile();
    f.cluster.spec.addons.core_dns.zones.remove(0);
    f.reconcile();
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
}

#[test]
fn one_that_is_gone_counts_as_none() {
    for (one, wanted) in [(DNS, 2), (PROXY, 3)] {
        let mut f = serving();
        let key = ObjectKey::namespaced(one.0, "kube-system", one.1);
        let before = f.cluster.status.clone().unwrap().addons;
        f.inside().insert(key.clone(), None);
        assert!(!crate::are_as_told(&before, f.inside()));
        let planned = f.plan().addons.unwrap();
        let told = planned.iter().find(|addon| addon.name == one.1).unwrap();
        assert_eq!((told.ready, told.wanted), (Some(0), Some(wanted)));
        assert_eq!(told.down_since.as_ref().map(|since| since.0), Some(f.world.now));
        let message = told.message.as_deref().unwrap();
        assert!(message.contains(&format!("kube-system/{} does not exist, ", one.1)), "{message}");
        assert!(message.ends_with(". Berth writes it again"), "{message}");

        // What is refused of it keeps it away, and says so.
        let zone = DnsZone { name: "corp.example".into(), servers: vec!["dns.example".into()] };
        f.cluster.spec.addons.core_dns.zones = vec![zone];
        f.cluster.spec.addons.kube_proxy.config = serde_json::from_value(json!({"mode": "nftables"})).unwrap();
        for ready in [3, 0, 3] {
            f.has_nodes(3, ready);
            f.reconcile();
            assert_eq!(f.inside().get(&key), Some(None));
            let (status, _, message) = f.condition("AddonsReady");
            assert_eq!(status, if ready > 0 { "False" } else { "True" }, "{message}");
            let says = format!("{}: 0 of {wanted} pods serve (", one.1);
            assert!(ready == 0 || message.contains(&says), "{message}");
            assert!(ready == 0 || message.contains("once what Ready says of the spec is mended"), "{message}");
        }
        let told = f.cluster.status.clone().unwrap().addons;
        assert!(crate::are_as_told(&told, f.inside()), "nothing new");
    }
}

/// Its one pod serves while the next one does not come up.
#[test]
fn a_change_that_does_not_come_up_is_told_with_one_replica_too() {
    let mut f = serving();
    f.addon_says(DNS, [1, 1, 1]);
    f.pods_say("kube-dns", "pod coredns-1: 0/3 nodes are available: 3 Insufficient cpu.");
    for (replicas, status, says) in [
        (1, "True", "coredns: 1 of 1 pods serve; "),
        (2, "False", "coredns: 1 of 1 pods serve (0 of 1 pods have the last change: pod coredns-1: 0/3 nodes"),
        (1, "True", "coredns: 1 of 1 pods serve; "),
    ] {
        let key = ObjectKey::namespaced(DNS.0, "kube-system", DNS.1);
        let mut live = f.inside().get(&key).flatten().unwrap().clone();
        live["status"]["replicas"] = replicas.into();
        f.inside().insert(key, Some(live));
        f.reconcile();
        let (found, _, message) = f.condition("AddonsReady");
        assert_eq!(found, status, "{message}");
        assert!(message.starts_with(says), "{message}");
    }
}

#[test]
fn how_many_of_how_many_serve_and_why_not() {
    const AGAIN: &str = "pod coredns-1: container coredns: CrashLoopBackOff: exit code 1";
    for (nodes, dns, proxy, pods, status, says) in [
        ([3, 3], [2, 2, 2], [3, 3, 3], None, "True", "coredns: 2 of 2 pods serve; kube-proxy: 3 of 3 pods serve"),
        ([0, 0], [2, 2, 0], [0, 0, 0], None, "True", "no node of the tenant is ready to run coredns and kube-proxy"),
        ([2, 0], [2, 2, 0], [2, 2, 0], None, "True", "no node of the tenant is ready to run coredns and kube-proxy"),
        // A node is away, or has come a moment ago.
        ([3, 2], [2, 2, 2], [3, 3, 2], None, "False", "kube-proxy: 2 of 3 pods serve (in the tenant, see kubectl"),
        (
            [3, 3],
            [2, 2, 0],
            [3, 3, 3],
            Some(AGAIN),
            "False",
            "coredns: 0 of 2 pods serve (pod coredns-1: container coredns: CrashLoopBackOff",
        ),
        // A change stopped at the first pod.
        (
            [3, 3],
            [2, 1, 2],
            [3, 3, 3],
            Some(AGAIN),
            "False",
            "coredns: 2 of 2 pods serve (1 of 2 pods have the last change: pod coredns-1",
        ),
        (
            [3, 3],
            [2, 2, 2],
            [3, 1, 2],
            None,
            "False",
            "kube-proxy: 2 of 3 pods serve (1 of 3 pods have the last change: in the tenant",
        ),
        // More than are wanted, while pods are replaced; only Windows nodes; scaled away.
        ([3, 3], [2, 2, 3], [0, 0, 0], None, "True", "coredns: 2 of 2 pods serve; kube-proxy: 0 of 0 pods serve"),
        ([3, 3], [0, 0, 0], [3, 3, 3], None, "False", "Deployment kube-system/coredns has 0 replicas"),
    ] {
        let mut f = serving();
        f.has_nodes(nodes[0], nodes[1]);
        f.addon_says(DNS, dns);
        f.addon_says(PROXY, proxy);
        if let Some(why) = pods {
            f.pods_say("kube-dns", why);
        }
        f.reconcile();
        let (found, reason, message) = f.condition("AddonsReady");
        assert_eq!(found, status, "{message}");
        assert!(message.contains(says), "{message}");
        assert_eq!(reason == "AddonsNotReady", status == "False", "{message}");
        assert_eq!(f.condition("Ready").0, "True", "not at once");
        let counted = Some((dns[2].min(dns[0]), dns[0])).filter(|_| nodes[1] > 0);
        assert_eq!(f.addon("coredns").ready.zip(f.addon("coredns").wanted), counted);
    }
}

#[test]
fn a_change_that_nobody_took_up_is_told() {
    let mut f = serving();
    let key = ObjectKey::namespaced(DNS.0, "kube-system", DNS.1);
    let mut live = f.inside().get(&key).flatten().unwrap().clone();
    live["metadata"]["generation"] = 4.into();
    f.inside().insert(key, Some(live));
    f.reconcile();
    assert!(
        f.condition("AddonsReady").2.contains("has not taken up the last change of Deployment kube-system/coredns")
    );
}

#[test]
fn one_of_which_none_serves_for_a_while_is_not_ready_where_a_node_could_run_it() {
    for (one, wanted) in [(DNS, 2), (PROXY, 3)] {
        let mut f = serving();
        f.addon_says(one, [wanted, wanted, 0]);
        f.reconcile();
        for _ in 0..4 {
            f.minutes(1);
            assert_eq!((f.condition("Ready").0, f.condition("AddonsReady").0), ("True".into(), "False".into()));
        }
        // An operator that starts anew, and one that cannot look, go on.
        let api = std::mem::take(&mut f.world.observed.api);
        f.reconcile();
        f.world.observed.api = api;
        f.minutes(1);
        let (status, reason, message) = f.condition("Ready");
        assert_eq!((&*status, &*reason), ("False", "AddonsNotReady"), "{message}");
        assert!(message.starts_with("no pod of an add-on has served since 2026-"), "{message}");
        assert!(message.contains(&format!("{}: 0 of {wanted} pods serve", one.1)), "{message}");
        assert_eq!(f.condition("Degraded").1, "AddonsNotReady");
        // Without a node that is ready it is not the add-on's fault; with one again it begins anew.
        f.has_nodes(3, 0);
        f.reconcile();
        assert_eq!(f.condition("Ready").0, "True");
        f.has_nodes(3, 1);
        f.reconcile();
        assert_eq!(f.condition("Ready").0, "True");
        f.minutes(5);
        assert_eq!(f.condition("Ready").0, "False");
        f.addon_says(one, [wanted, wanted, 1]);
        f.reconcile();
        assert_eq!((f.condition("Ready").0, f.condition("AddonsReady").0), ("True".into(), "False".into()));
        assert_eq!(f.addon(one.1).down_since, None);
    }
}

#[test]
fn without_add_ons_nothing_is_said_of_them() {
    let mut f = serving();
    f.addon_says(DNS, [2, 2, 0]);
    f.minutes(1);
    let addons = &mut f.cluster.spec.addons;
    (addons.core_dns.enabled, addons.kube_proxy.enabled) = (Some(false), Some(false));
    f.minutes(6);
    f.reconcile();
    let conditions = &f.cluster.status.as_ref().unwrap().conditions;
    assert!(conditions.iter().all(|c| c.type_ != "AddonsReady"), "{conditions:?}");
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn pods_are_asked_only_of_add_ons_of_which_not_all_serve() {
    let asked =
        |f: &Fixture| crate::probe_request(f.input()).map(|asked| (asked.questions.pods, asked.addons_in_doubt));
    let mut f = serving();
    f.has_ready_pod();
    f.reconcile();
    let seconds = |f: &Fixture| f.plan().requeue_after.unwrap().as_secs();
    assert_eq!((asked(&f), seconds(&f)), (Some((vec![], false)), 60));
    f.addon_says(PROXY, [3, 3, 2]);
    assert_eq!(seconds(&f), 10);
    f.reconcile();
    assert_eq!(seconds(&f), 10);
    f.minutes(2);
    assert_eq!(seconds(&f), 60);
    assert_eq!(asked(&f), Some((vec!["kube-proxy"], true)));
    f.minutes(16);
    assert_eq!(asked(&f), Some((vec!["kube-proxy"], false)), "a node that is away for long is looked at as others are");
}

/// One of which none serves: with all else of the tenant once a minute at first, and then every five; it is counted once a minute all the same.
#[test]
fn one_that_is_down_for_long_is_counted_and_seldom_looked_at() {
    let mut f = serving();
    f.has_ready_pod();
    f.reconcile();
    let rest = |f: &Fixture| {
        let asked = crate::probe_request(f.input()).unwrap();
        let at_rest =
            crate::Questions::at_rest(crate::Turn::Leases, &["kube-scheduler".into()], &asked.counted_at_rest);
        (asked.addons_in_doubt, at_rest.listings, f.plan().due.map(|due| due.as_mins()))
    };
    let deployments = berth_render::Listing { kind: DNS.0, namespace: Some("kube-system") };
    let (in_doubt, counted, due) = rest(&f);
    assert_eq!((in_doubt, counted), (false, vec![]));
    assert!(due.is_none_or(|due| due > 5), "{due:?}");
    f.addon_says(DNS, [2, 2, 0]);
    f.pods_say("kube-dns", "pod coredns-1: container coredns: ErrImagePull");
    f.reconcile();
    f.minutes(14);
    assert_eq!(rest(&f), (true, vec![deployments], Some(5)));
    for minutes in [1, 60, 600] {
        f.minutes(minutes);
        assert_eq!(rest(&f), (false, vec![deployments], Some(5)), "{minutes}");
    }
    // It serves again, which the count tells; and is off, which nobody waits for.
    let mut off = f.copy();
    f.addon_says(DNS, [2, 2, 2]);
    assert!(!crate::are_as_told(&f.cluster.status.clone().unwrap().addons, f.inside()));
    f.reconcile();
    assert!(rest(&f).1.is_empty());
    off.cluster.spec.addons.core_dns.enabled = Some(false);
    let (in_doubt, counted, due) = rest(&off);
    assert_eq!((in_doubt, counted), (false, vec![]));
    assert!(due.is_none_or(|due| due > 5), "{due:?}");
}

#[test]
fn at_rest_another_count_is_a_reason_to_look() {
    let mut f = serving();
    let told = f.cluster.status.clone().unwrap().addons;
    let read = f.inside().clone();
    assert!(crate::are_as_told(&told, &read));
    assert!(crate::are_as_told(&told, &InsideTenant::listed(STAMPS, [])), "what is not read says nothing");
    for (one, says) in [(DNS, [2, 2, 1]), (DNS, [3, 3, 2]), (PROXY, [4, 4, 3]), (PROXY, [3, 3, 0])] {
        let mut f = f.copy();
        f.addon_says(one, says);
        assert!(!crate::are_as_told(&told, f.inside()), "{one:?} {says:?}");
    }
}
