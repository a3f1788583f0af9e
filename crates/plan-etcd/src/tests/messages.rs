//! Situations of an `EtcdCluster` for docs/reference/messages.md. Each begins with three members at rest, unless it says otherwise.

mod backups;
mod newer;
mod recoveries;
mod sizes;
mod sleep;
mod stranded;
mod upkeep;
mod versions;

use super::*;
use berth_api::etcd_recovery::Recovery;
use berth_api::{labels, names};
use berth_testkit::situations::Situation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A situation: what happened, and how.
type Case = (&'static str, fn(&mut Etcd));

impl Etcd {
    fn said(&self, text: &'static str) -> Situation {
        Situation::of("EtcdCluster", text, &self.cr)
    }

    /// Nothing is carried out.
    fn hold(&mut self) {
        self.cr.spec.paused = true;
    }

    fn pod_says(&mut self, i: i32, status: Value) {
        self.world.observed.etcd = None;
        self.world.pod_status(&Self::key(Kind::Pod, &format!("etcd-{i}")), status);
    }

    fn claim(&mut self, i: i32, mut claim: Value) {
        claim["metadata"]["labels"] =
            json!({(labels::ETCD_CLUSTER): NAME, (labels::MANAGED_BY): labels::MANAGED_BY_VALUE});
        self.world.put(Self::key(Kind::PersistentVolumeClaim, &format!("data-etcd-{i}")), claim);
    }

    fn answer_of(&mut self, i: i32) -> &mut MemberProbe {
        self.probe().members.get_mut(&format!("etcd-{i}")).unwrap().as_mut().unwrap()
    }

    fn pinned(&mut self, digest: &str) {
        let status = self.cr.status.as_mut().unwrap();
        status.templates.as_mut().unwrap().digest = digest.into();
        for key in [Self::set(), Self::key(Kind::ConfigMap, &names::etcd::bootstrap(NAME))] {
            let live = self.edit(&key);
            let note = live["metadata"]["annotations"][labels::ETCD_RECORD].as_str().unwrap();
            let mut record: Value = serde_json::from_str(note).unwrap();
            record["templates"] = digest.into();
            live["metadata"]["annotations"][labels::ETCD_RECORD] = record.to_string().into();
        }
    }

    fn new_template(&mut self) {
        self.cr.spec.quota_backend_bytes = Some(1 << 30);
        self.cr.metadata.generation = Some(2);
    }
}

/// A digest of templates that this build does not have.
const OTHER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const LOST: &str = "DataLost: the volume of etcd member etcd-1 is empty, but its cluster has had a quorum in epoch 1";

const NEW: &[Case] = &[
    ("a new EtcdCluster: its pods do not run yet", |_| {}),
    ("a new EtcdCluster that is paused: nothing exists yet", Etcd::hold),
    ("spec.version that this operator does not have", |e| e.cr.spec.version = "3.4.30".into()),
    ("spec.electionTimeout that etcd would refuse", |e| e.cr.spec.election_timeout = Some("200ms".into())),
    ("spec.storage.size that is too small", |e| e.cr.spec.storage.size = "512Mi".into()),
    ("the record of an earlier etcd is gone, and a volume is there", |e| e.claim(0, json!({"metadata": {}}))),
    ("a volume of an earlier etcd is being deleted", |e| e.claim(0, json!({"metadata": {"deletionTimestamp": "x"}}))),
    ("a member's Service has no address", |e| {
        e.reconcile();
        e.edit(&Etcd::key(Kind::Service, "etcd-0"))["spec"]["clusterIP"] = Value::Null;
    }),
    ("the members run, and one has not answered yet", |e| {
        e.reconcile();
        e.members_run();
        e.answer(&[0, 1], 0);
    }),
    ("all members run, and do not agree on the leader yet", |e| {
        e.reconcile();
        e.members_run();
        e.all_answer();
        e.answer_of(2).leader = "a2".into();
    }),
    ("no image can be pulled", |e| {
        e.reconcile();
        e.members_run();
        let waiting =
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}});
        for i in 0..3 {
            e.pod_says(i, json!({"containerStatuses": [{"name": "etcd", "image": "registry.k8s.io/etcd:3.6.16-0", "state": waiting}]}));
        }
    }),
    ("an image is being pulled", |e| {
        e.reconcile();
        e.members_run();
        let since = e.world.now - SignedDuration::from_secs(40);
        let sandbox = json!({"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": since});
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        let containers = json!([{"name": "etcd", "image": "registry.k8s.io/etcd:3.6.16-0", "state": waiting}]);
        e.pod_says(0, json!({"conditions": [sandbox], "containerStatuses": containers}));
    }),
    ("no StorageClass provisions a volume", |e| {
        e.reconcile();
        e.members_run();
        let said = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
        e.pod_says(0, json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": said}]}));
        e.claim(0, json!({"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}));
    }),
    ("there is no default StorageClass", |e| {
        e.reconcile();
        e.members_run();
        e.pod_says(0, json!({"conditions": [{"type": "PodScheduled", "status": "False"}]}));
        e.claim(0, json!({"status": {"phase": "Pending"}}));
    }),
];

const FORMED: &[Case] = &[
    ("at rest", |_| {}),
    ("a volume grows", |e| {
        *e = Etcd::on_a_class(true);
        e.cr.spec.storage.size = "20Gi".into();
    }),
    ("a volume grows, and its file system does not yet", |e| {
        *e = Etcd::on_a_class(true);
        e.cr.spec.storage.size = "20Gi".into();
        e.reconcile();
        let pending = json!([{"type": "FileSystemResizePending", "status": "True"}]);
        e.claim(0, json!({"status": {"conditions": pending}}));
    }),
    ("a volume is to grow to what its storage cannot do", |e| {
        *e = Etcd::on_a_class(true);
        e.cr.spec.storage.size = "20Gi".into();
        e.reconcile();
        e.claim(0, json!({"status": {"allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}}}));
    }),
    ("what a volume is to grow to is taken back as a whole", |e| {
        *e = Etcd::on_a_class(true);
        e.cr.spec.storage.size = "20Gi".into();
        e.reconcile();
        e.cr.spec.storage.size = "10Gi".into();
    }),
    ("volumes are to shrink", |e| {
        *e = Etcd::on_a_class(true);
        e.cr.spec.storage.size = "5Gi".into();
    }),
    ("volumes are to grow, and their StorageClass does not let them", |e| {
        *e = Etcd::on_a_class(false);
        e.cr.spec.storage.size = "20Gi".into();
    }),
    ("volumes are to grow, and their StorageClass is gone", |e| {
        *e = Etcd::on_a_class(true);
        e.world.remove(&ObjectKey::cluster(Kind::StorageClass, "fast"));
        e.cr.spec.storage.size = "20Gi".into();
    }),
    ("volumes without a StorageClass are to grow", |e| {
        *e = Etcd::on_a_class(true);
        e.claim(0, json!({"spec": {"storageClassName": null}}));
        e.cr.spec.storage.size = "20Gi".into();
    }),
    ("volumes are to grow, and a new one has no place yet", |e| {
        *e = Etcd::on_a_class(true);
        e.claim(0, json!({"status": {"phase": "Pending", "capacity": null}}));
        e.cr.spec.storage.size = "20Gi".into();
    }),
    ("an older version", |e| e.cr.spec.version = "3.6.15".into()),
    ("a request that is more than its limit", |e| {
        let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
        e.cr.spec.resources = serde_json::from_value(resources).unwrap();
    }),
    ("a client with the name ca", |e| e.cr.spec.clients.push(EtcdClient { name: "ca".into() })),
    ("another operator version pinned the templates, and the ConfigMap is gone", |e| e.pinned(OTHER)),
    ("the pinned templates have a format of a newer operator", |e| {
        e.pinned(OTHER);
        let key = Etcd::key(Kind::ConfigMap, &names::etcd::templates(NAME, OTHER));
        e.world.put(key.clone(), json!({"metadata": {"name": key.name}}));
    }),
    ("a field that the pinned templates do not use", super::unread::unread),
    ("a CA's Secret is gone", |e| e.world.remove(&Etcd::key(Kind::Secret, "etcd-client-ca"))),
    ("the members' certificates are gone, and the EtcdCluster is paused", |e| {
        e.world.remove(&Etcd::key(Kind::Secret, "etcd-server"));
        e.hold();
    }),
    ("a member does not answer", |e| e.answer(&[0, 1], 0)),
    ("a member has not answered for minutes", |e| {
        e.answer(&[0, 1], 0);
        e.reconcile();
        e.world.now += SignedDuration::from_mins(3);
    }),
    ("a member was not probed", |e| drop(e.probe().members.remove("etcd-2"))),
    ("a member has no leader", |e| e.answer_of(2).leader = "0".into()),
    ("a member is a learner", |e| e.probe().list.as_mut().unwrap()[2].learner = true),
    ("a member is not in the others' list", |e| e.probe().list.as_mut().unwrap()[2].id = "f".into()),
    ("too few members answer", |e| e.answer(&[1], 1)),
    ("a member answers, and too few do for a quorum", |e| {
        e.answer(&[1], 1);
        e.answer_of(1).leader = "a1".into();
    }),
    ("a member is of another cluster", |e| e.answer_of(2).cluster_id = "c2".into()),
    ("two members are of another cluster", |e| {
        e.answer_of(1).cluster_id = "c2".into();
        e.answer_of(2).cluster_id = "c2".into();
    }),
    ("a member's pod is not ready, and no member was probed", |e| e.pod_says(2, json!({}))),
    ("a container ends again and again", |e| {
        let last = json!({"terminated": {"exitCode": 1, "message": "panic: invalid page type"}});
        let waiting =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}});
        e.pod_says(2, json!({"containerStatuses": [{"name": "etcd", "state": waiting, "lastState": last}]}));
    }),
    ("a member needs more memory than its limit", |e| {
        let last = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        e.pod_says(2, json!({"containerStatuses": [{"name": "etcd", "state": waiting, "lastState": last}]}));
    }),
    ("a member's pod does not exist", |e| e.world.remove(&Etcd::key(Kind::Pod, "etcd-2"))),
    ("a quota refuses a member's pod", |e| {
        e.world.remove(&Etcd::key(Kind::Pod, "etcd-2"));
        e.world.observed.refused.insert("etcd-2".into(), r#"pods "etcd-2" is forbidden: exceeded quota: small"#.into());
    }),
    ("a member's pod does not exist, and the spec names a PriorityClass", |e| {
        e.world.remove(&Etcd::key(Kind::Pod, "etcd-2"));
        e.cr.spec.placement.priority_class_name = Some("gold".into());
    }),
    ("a member's volume is empty", |e| {
        e.held("etcd-1", LOST);
        e.answer(&[0, 2], 0);
    }),
    ("a member's volume is another's", |e| {
        e.held(
            "etcd-1",
            "ForeignData: the volume of etcd member etcd-1 (epoch 1) holds data without Berth's marker, so it is unknown whose it is",
        );
        e.answer(&[0, 2], 0);
    }),
    ("two members' volumes are another's", |e| {
        for member in ["etcd-1", "etcd-2"] {
            e.held(
                member,
                &format!("ForeignData: the volume of etcd member {member} (epoch 1) holds the data of another member"),
            );
        }
        e.answer(&[0], 0);
    }),
    ("somebody deletes a member's PersistentVolumeClaim", |e| {
        e.claim(1, json!({"metadata": {"deletionTimestamp": "x"}, "spec": {"volumeName": "pvc-1"}}));
    }),
    ("the database is full", |e| e.probe().alarms.push(alarm("NOSPACE", 0))),
    ("the members' data differ", |e| e.probe().alarms.push(alarm("CORRUPT", 0))),
    ("a new pod template, before the StatefulSet's controller has seen it", Etcd::new_template),
    ("a new pod template while a member does not answer", |e| {
        e.new_template();
        e.reconcile();
        e.members_run();
        e.answer(&[0, 1], 0);
    }),
    ("a new pod template, and the EtcdCluster is paused", |e| {
        e.new_template();
        e.reconcile();
        e.members_run();
        e.hold();
    }),
    ("a new pod template while a pod cannot pull its image, and the EtcdCluster is paused", |e| {
        e.new_template();
        e.reconcile();
        e.members_run();
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
        let status = json!({"containerStatuses": [{"name": "agent", "image": "x", "state": waiting}]});
        e.world.pod_status(&Etcd::key(Kind::Pod, "etcd-2"), status);
        e.answer(&[0, 1, 2], 0);
        e.hold();
    }),
    ("paused", Etcd::hold),
    ("five members are asked for, of templates that let none join", |e| {
        e.older_templates();
        e.cr.spec.replicas = 5;
    }),
    ("five members are asked for: the first of the new ones has no pod yet", |e| e.cr.spec.replicas = 5),
    ("five members are asked for while a member does not answer", |e| {
        e.cr.spec.replicas = 5;
        e.answer(&[0, 1], 0);
    }),
    ("five members are asked for, and the database is full", |e| {
        e.cr.spec.replicas = 5;
        e.probe().alarms.push(alarm("NOSPACE", 0));
    }),
    ("one member is asked for: the first that goes has a pod yet", |e| e.cr.spec.replicas = 1),
    ("one member is asked for while one that stays is behind", |e| {
        e.cr.spec.replicas = 1;
        e.lags(1, 1000);
    }),
    ("one member is asked for while one that stays has no PersistentVolumeClaim", |e| {
        e.cr.spec.replicas = 1;
        e.world.remove(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1"));
    }),
    ("one member is asked for while one that stays does not answer", |e| {
        e.cr.spec.replicas = 1;
        e.answer(&[0, 2], 0);
    }),
    ("three of five members' volumes are empty or away: nobody is replaced", |e| {
        e.held("etcd-1", LOST);
        e.answer(&[0], 0);
    }),
    ("a member's volume is empty while an alarm is raised", |e| {
        e.held("etcd-1", LOST);
        e.answer(&[0, 2], 0);
        e.probe().alarms.push(alarm("NOSPACE", 0));
    }),
    ("etcd lists a member that Berth did not add, and that has not started", |e| {
        let stranger = berth_plan::observed::ListedMember { learner: true, ..super::listed("", "beef") };
        e.probe().list.as_mut().unwrap().push(stranger);
    }),
    ("somebody removed a member with etcdctl", |e| e.is_removed_by_hand("etcd-1")),
    ("five members are asked for while pods are to be replaced", |e| {
        e.new_template();
        e.reconcile();
        e.cr.spec.replicas = 5;
    }),
    ("one member is asked for while pods are to be replaced", |e| {
        e.new_template();
        e.reconcile();
        e.cr.spec.replicas = 1;
    }),
    ("a newer operator changes members", |e| {
        e.cr.spec.replicas = 5;
        e.reconcile();
        e.rewrite(|record| record["operation"]["type"] = "Split".into());
    }),
    ("a member's volume is empty, and the etcd was made by an earlier Berth", |e| {
        e.older_templates();
        e.held("etcd-1", LOST);
        e.answer(&[0, 2], 0);
    }),
];

pub(crate) fn situations() -> Vec<Situation> {
    let (new, formed, single) = (Etcd::new(3), Etcd::formed(3), Etcd::formed(1));
    let mut all = vec![];
    let rest = FORMED.iter().map(|case| (case, &formed)).take(1);
    let cases =
        rest.chain(NEW.iter().map(|case| (case, &new))).chain(FORMED.iter().map(|case| (case, &formed)).skip(1));
    for ((text, happens), from) in cases {
        let mut e = from.clone();
        happens(&mut e);
        e.reconcile();
        all.push(e.said(text));
    }
    all.extend(room::situations().iter().map(|(text, e)| e.said(text)));
    let mut lost = single.clone();
    lost.held("etcd-0", &LOST.replace("etcd-1", "etcd-0"));
    lost.answer(&[], 0);
    lost.reconcile();
    all.push(lost.said("the only member's volume is empty"));
    let mut deleting = single.clone();
    deleting.claim(0, json!({"metadata": {"deletionTimestamp": "x"}, "spec": {"volumeName": "pvc-0"}}));
    deleting.reconcile();
    all.push(deleting.said("somebody deletes the only member's PersistentVolumeClaim"));
    let mut lost = formed.clone();
    lost.held("etcd-0", &LOST.replace("etcd-1", "etcd-0"));
    lost.held("etcd-1", LOST);
    lost.answer(&[], 0);
    lost.reconcile();
    all.push(lost.said("two of three members' volumes are empty"));
    for (text, from, is_lost) in [
        ("two of three members' volumes are empty, and there are a store and a proven backup", &formed, &[0, 1][..]),
        ("the only member's volume is empty, and there is a proven backup", &single, &[0]),
    ] {
        let mut lost = from.clone();
        lost.is_automatic();
        lost.cr.spec.recovery = Recovery::Manual;
        lost.backed_up("2026-01-01T00:00:00Z");
        lost.lose(is_lost, &[]);
        lost.reconcile();
        all.push(lost.said(text));
    }
    let mut lost = formed.clone();
    lost.claim(2, json!({"metadata": {}, "spec": {"volumeName": "pvc-2"}}));
    lost.lose(&[0, 1], &[]);
    lost.reconcile();
    all.push(lost.said("two of three members' volumes are empty, and no store may have what is left"));
    let mut foreign = single.clone();
    foreign.held("etcd-0", "ForeignData: the volume of etcd member etcd-0 (epoch 1) holds a marker that cannot be read; etcd is not started and nothing is touched");
    foreign.answer(&[], 0);
    foreign.reconcile();
    all.push(foreign.said("the only member's volume is another's"));
    all.extend(changes(&formed, &single));
    all.extend(upkeep::all(&formed));
    all.extend(stranded::all());
    all.extend(sizes::all());
    all.extend(sleep::all());
    all.extend(newer::all());
    all.extend(versions::all());
    all.extend(backups::all(&formed));
    all.extend(recoveries::all(&formed));
    all.extend(restores(&formed));
    for (mut e, text) in [(formed, "deletion: three members end"), (single, "deletion: the only member ends")] {
        e.cr.metadata.deletion_timestamp = Some(Time(e.world.now));
        let planned = e.plan();
        e.cr.status = Some(status(e.input(&e.world), &planned, None));
        all.push(e.said(text));
    }
    all
}

/// What is said while members come and go, and calls to etcd fail.
fn changes(formed: &Etcd, single: &Etcd) -> Vec<Situation> {
    let mut all = vec![];
    let mut e = single.clone();
    e.cr.spec.replicas = 3;
    e.until("Add");
    e.looks();
    all.push(e.said("three members are asked for, and etcd does not add the second one"));
    let mut turned_back = e.clone();
    turned_back.cr.spec.replicas = 1;
    turned_back.reconcile();
    all.push(
        turned_back
            .said("three members were asked for, one is again, and nobody heard whether etcd added the second one"),
    );
    e.reconcile();
    let mut late = e.clone();
    late.members_run();
    let unscheduled = json!({"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"});
    late.world.pod_status(&Etcd::key(Kind::Pod, "etcd-1"), json!({"conditions": [unscheduled]}));
    late.passes(600);
    late.looks();
    all.push(late.said("a member that was added finds no node for more than ten minutes"));
    e.joins(1, 2000);
    e.reconcile();
    all.push(e.said("a member that was added copies the data"));
    e.joins(1, 0);
    e.reconcile();
    all.push(e.said("a member that was added has all data"));
    e.passes(2);
    e.looks();
    all.push(e.said("a member that was added has all data, and etcd gives it no vote"));
    let mut e = formed.clone();
    e.held("etcd-1", LOST);
    e.answer(&[0, 2], 0);
    e.reconcile();
    e.members_run();
    e.passes(600);
    e.looks();
    all.push(e.said("a member that is replaced has not started for more than ten minutes"));
    let mut e = formed.clone();
    e.cr.spec.replicas = 5;
    e.answer_of(2).leader = "a2".into();
    e.looks();
    all.push(e.said("five members are asked for, and one names another leader than the others"));
    let mut e = formed.clone();
    e.cr.spec.replicas = 1;
    e.answer(&[0, 1, 2], 2);
    let planned = e.plan();
    e.carry_out(&planned);
    e.looks();
    all.push(e.said("one member is asked for, and the one that goes leads and stays so"));
    e.answer(&[0, 1, 2], 0);
    e.looks();
    all.push(e.said("one member is asked for, and etcd does not remove it"));
    e.answer(&[0, 2], 0);
    e.looks();
    all.push(e.said("one member is asked for, one is about to be removed, and another does not answer"));
    e.answer(&[0, 2], 2);
    e.answer_of(0).leader = "0".into();
    e.looks();
    all.push(e.said("one member is asked for, and only the one that goes is well"));
    e.answer(&[0, 1, 2], 0);
    e.reconcile();
    e.members_run();
    e.edit(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-2"))["metadata"]["deletionTimestamp"] = "x".into();
    e.reconcile();
    all.push(e.said("a member was removed, and its volume is being deleted"));
    all
}

/// What is said while etcd is restored.
fn restores(formed: &Etcd) -> Vec<Situation> {
    let mut all = vec![];
    let mut e = Etcd::new(1);
    e.reconcile();
    e.asked(None);
    e.reconcile();
    all.push(e.said("an EtcdRestore asks for it, and it was never formed"));
    let mut e = formed.clone();
    e.asked(None);
    e.hold();
    e.reconcile();
    all.push(e.said("an EtcdRestore asks for it, and it is paused"));
    let mut e = formed.clone();
    e.before_restores();
    e.claim(1, json!({"metadata": {}}));
    e.asked(None);
    e.reconcile();
    all.push(e.said("an EtcdRestore asks for it, and an earlier Berth made it"));
    let mut e = formed.clone();
    e.asked(None);
    e.reconcile();
    all.push(e.said("an EtcdRestore asks for a stand-alone etcd, and its clients are to stop"));
    e.cr.metadata.labels = Some(crate::tests::recovery::of_a_tenant());
    e.reconcile();
    all.push(e.said("an EtcdRestore asks for a tenant's etcd, and its clients are to stop"));
    let mut again = e.clone();
    again.asked_by_itself();
    again.reconcile();
    all.push(again.said("Berth created the EtcdRestore by itself, its clients stop, and etcd answers again"));
    e.clients_stop();
    e.reconcile();
    all.push(e.said("a restore: its pods end"));
    e.pods_end();
    e.reconcile();
    all.push(e.said("a restore: the Job of the EtcdRestore works"));
    let mut left = e.clone();
    left.cr.metadata.annotations = None;
    left.reconcile();
    all.push(left.said("a restore: the EtcdRestore was deleted in the midst of it"));
    e.asked(Some(2));
    e.reconcile();
    all.push(e.said("a restore: the first member starts"));
    e.restored_member_runs();
    e.reconcile();
    all.push(e.said("a restore: it serves, and the EtcdRestore is to record that"));
    all
}

impl Etcd {
    fn carry_out(&mut self, planned: &EtcdPlan) {
        for action in planned.plan.actions() {
            self.world.apply_action(action);
        }
    }

    /// Carries plans out until the change of members is at that step.
    fn until(&mut self, phase: &str) {
        for _ in 0..10 {
            let planned = self.plan();
            if planned
                .record
                .as_ref()
                .and_then(|r| r.operation.as_ref())
                .is_some_and(|o| format!("{:?}", o.phase) == phase)
                && planned.plan.actions().any(|a| matches!(a, berth_plan::model::Action::ChangeMembers { .. }))
            {
                return;
            }
            self.carry_out(&planned);
        }
        panic!("{phase} never came");
    }
}

#[test]
fn situations_are_written_down() {
    berth_testkit::situations::compare(&situations());
}
