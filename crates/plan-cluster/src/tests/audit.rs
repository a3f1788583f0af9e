//! `spec.apiServer.audit`: the policy, and the webhook's kubeconfig on its way from the team's Secret to the API servers.

use super::*;
use berth_api::cluster::{AUDIT_SECRET, AuditWebhook};
use berth_api::labels;
use berth_api::revision::RevisionCause::Configuration;
use berth_api::revision::RevisionOutcome::RolledBack;
use berth_plan::SecretFacts;
use berth_testkit::simulated::before;

const SECRET: &str = "sink";

fn kubeconfig(server: &str) -> String {
    json!({
        "clusters": [{"name": "sink", "cluster": {"server": server}}],
        "users": [{"name": "acme", "user": {"token": "dontsay"}}],
        "contexts": [{"name": "sink", "context": {"cluster": "sink", "user": "acme"}}],
        "current-context": "sink",
    })
    .to_string()
}

fn team(name: &str) -> ObjectKey {
    ObjectKey::namespaced(Kind::Secret, "team-a", name)
}

fn webhook(name: &str) -> Option<AuditWebhook> {
    serde_json::from_value(json!({"secretRef": {"name": name}, "batch": {"maxWait": "1s"}})).unwrap()
}

impl Fixture {
    fn sink(&mut self, name: &str, server: &str) {
        self.world.set_secret_of(AUDIT_SECRET, &team(name), "kubeconfig", kubeconfig(server).as_bytes());
    }

    /// The spec is another one.
    fn asks(&mut self, change: impl FnOnce(&mut berth_api::cluster::Audit)) {
        change(&mut self.cluster.spec.api_server.audit);
        *self.cluster.metadata.generation.as_mut().unwrap() += 1;
    }

    /// The Secret that API servers mount.
    fn mounts(&self) -> Option<String> {
        mounted(self.world.observed.get(&Self::key(Kind::Deployment, names::APISERVER)).unwrap())
    }

    fn has_flag(&self, flag: &str) -> bool {
        let live = self.world.observed.get(&Self::key(Kind::Deployment, names::APISERVER)).unwrap();
        let args = live["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        args.iter().any(|arg| arg == flag)
    }

    fn audit_copies(&self) -> Vec<String> {
        let home = Self::cp_namespace();
        let all = self.world.observed.of_kind(Kind::Secret, &home);
        let copies = all.filter(|(_, live)| berth_plan::object_meta::label(live, labels::AUDIT_WEBHOOK).is_some());
        copies.map(|(key, _)| key.name.clone()).collect()
    }
}

fn mounted(workload: &Value) -> Option<String> {
    let volumes = workload["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "audit-webhook")?;
    Some(volume["secret"]["secretName"].as_str().unwrap().to_owned())
}

impl Fixture {
    /// As an earlier build left it: the copy has the plain digest in its name, and no record names it.
    fn earlier(&mut self) {
        let digest = self.world.observed.secrets[&team(SECRET)].audit_webhook.clone().unwrap().unwrap();
        let (now, then) = (self.mounts().unwrap(), names::audit_webhook(&digest));
        let [from, to] = [&now, &then].map(|name| Self::key(Kind::Secret, name));
        let facts = self.world.observed.secrets.remove(&from).unwrap();
        self.world.observed.secrets.insert(to.clone(), facts);
        let mut copy = self.world.observed.objects.remove(&from).unwrap();
        copy["metadata"]["name"] = (&*then).into();
        self.world.observed.objects.insert(to, copy);
        let live = self.live(Kind::Deployment, names::APISERVER);
        *live = serde_json::from_str(&live.to_string().replace(&now, &then)).unwrap();
        for (key, revision) in &mut self.world.observed.objects {
            if key.kind == Kind::ClusterRevision {
                revision["spec"]["release"].as_object_mut().unwrap().remove("auditCopy");
            }
        }
        // The digest of what was applied is of the other name.
        self.reconcile();
        assert_eq!(self.world.log, ["apply Deployment acme-9201d5e7/kube-apiserver"]);
        assert_eq!(self.mounts(), Some(then));
        self.others();
        self.world.log.clear();
    }
}

/// A tenant whose events go to a webhook.
fn audited() -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.2", "apiServer": {"replicas": 2}}));
    f.sink(SECRET, "https://a.example.com");
    f.asks(|audit| audit.webhook = webhook(SECRET));
    last(&mut f);
    // It counts as one to go back to.
    f.seconds(61);
    f.reconcile();
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    f.world.log.clear();
    f
}

/// What happens to a Secret, and the words for it.
type Wrong = (fn(&mut Fixture), &'static str);

/// What may be wrong with a Secret.
const WRONG: &[Wrong] = &[
    (
        |f| f.world.remove(&team(SECRET)),
        "Secret team-a/sink does not exist. Create it: kubectl -n team-a create secret generic sink --type=berth.dev/audit-webhook --from-file=kubeconfig=FILE",
    ),
    (
        |f| drop(f.world.observed.secrets.insert(team(SECRET), SecretFacts::default().into())),
        "Secret team-a/sink is not of type berth.dev/audit-webhook, so Berth does not read it",
    ),
    (
        |f| {
            drop(
                f.world.observed.secrets.insert(team(SECRET), SecretFacts::read(AUDIT_SECRET, &BTreeMap::new()).into()),
            );
        },
        "Secret team-a/sink, key kubeconfig: is not there. Correct the Secret",
    ),
    (
        |f| f.sink(SECRET, "https://me:dontsay@a.example.com"),
        "Secret team-a/sink, key kubeconfig: clusters[0].cluster.server: may have no user",
    ),
    (
        |f| {
            let why = "admission webhook \"x.example.com\" denied the request".to_owned();
            let refused = SecretFacts { refused: Some(why), ..SecretFacts::default() };
            f.world.observed.secrets.insert(team(SECRET), refused.into());
        },
        "Secret team-a/sink cannot be read: the API server refuses an empty dry run of a change: admission webhook \"x.example.com\" denied the request. Correct what refuses it",
    ),
    (
        |f| {
            let unread = SecretFacts { type_: AUDIT_SECRET.into(), ..SecretFacts::default() };
            f.world.observed.secrets.insert(team(SECRET), unread.into());
        },
        "Secret team-a/sink cannot be read at the moment",
    ),
];

#[test]
fn a_webhooks_kubeconfig_is_there_before_the_pods_that_mount_it() {
    let mut f = Fixture::up(json!({"version": "1.36.2"}));
    f.sink(SECRET, "https://a.example.com");
    f.asks(|audit| audit.webhook = webhook(SECRET));
    f.reconcile();
    let name = f.mounts().expect("a volume");
    assert_eq!(f.audit_copies(), [&*name]);
    let wrote = |what: &str| f.world.log.iter().position(|write| write.contains(what)).expect(what);
    assert!(wrote(&name) < wrote("Deployment"), "{:#?}", f.world.log);
    for flag in [
        "--audit-webhook-config-file=/etc/kubernetes/audit/kubeconfig",
        "--audit-webhook-mode=batch",
        "--audit-webhook-truncate-enabled=true",
        "--audit-webhook-batch-max-wait=1s",
    ] {
        assert!(f.has_flag(flag), "{flag}");
    }
    assert!(!format!("{:?} {:?}", f.world.log, f.plan()).contains("dontsay"));
    last(&mut f);
    f.world.log.clear();
    f.reconcile();
    assert_eq!((f.condition("Ready").0.as_str(), &*f.world.log), ("True", &[][..]));
}

#[test]
fn a_secret_that_changes_is_a_release_and_the_former_copy_goes_once_it_succeeded() {
    let mut f = audited();
    let before = f.mounts().unwrap();
    // The same in other words rolls nobody.
    f.world.set_secret_of(
        AUDIT_SECRET,
        &team(SECRET),
        "kubeconfig",
        format!("# mine\n{}", kubeconfig("https://a.example.com")).as_bytes(),
    );
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.sink(SECRET, "https://b.example.com");
    f.reconcile();
    assert_eq!(f.recorded().last(), Some(&(3, Configuration, None)));
    assert_eq!(f.world.log[0], "apply ClusterRevision acme-9201d5e7/revision-3", "recorded first");
    let held = f.component(names::APISERVER)["minReadySeconds"].clone();
    assert_eq!(held, 60, "its first pod is a canary");
    let new = f.mounts().unwrap();
    assert_ne!(new, before);
    last(&mut f);
    assert_eq!(f.audit_copies().len(), 2, "there is a way back");
    f.seconds(61);
    f.reconcile();
    assert_eq!((f.audit_copies(), f.mounts()), (vec![new.clone()], Some(new)));
    f.asks(|audit| audit.webhook = None);
    last(&mut f);
    f.seconds(61);
    f.reconcile();
    assert_eq!((f.audit_copies().len(), f.mounts()), (0, None), "credentials do not stay");
    assert!(!f.has_flag("--audit-webhook-mode=batch"));
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn a_secret_with_which_no_api_server_starts_leads_back_to_what_it_said_before() {
    let mut f = audited();
    let before = f.mounts();
    f.sink(SECRET, "https://b.example.com");
    f.does_not_come_up();
    f.unstuck(names::APISERVER);
    f.rest();
    assert_eq!((f.mounts(), f.recorded().last()), (before.clone(), Some(&(3, Configuration, Some(RolledBack)))));
    let (_, reason, said) = f.condition("Ready");
    assert!(reason == "RolledBack" && said.contains("Correct the Secret") && said.contains("team-a/sink"), "{said}");
    f.world.log.clear();
    f.later(60);
    f.reconcile();
    assert!(f.world.log.is_empty(), "it is not tried again by itself: {:#?}", f.world.log);
    // As it was before: nothing is rolled, and nothing waited for.
    f.window("03:00", "UTC");
    f.sink(SECRET, "https://a.example.com");
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!((f.mounts(), f.condition("Ready").0.as_str()), (before, "True"));
    assert!(!f.world.log.iter().any(|write| write.contains("Deployment")), "{:#?}", f.world.log);
}

#[test]
fn a_secret_that_changes_waits_for_the_window_and_its_copy_with_it() {
    let mut f = audited();
    let before = f.mounts().unwrap();
    f.window("03:00", "UTC");
    f.sink(SECRET, "https://b.example.com");
    for _ in 0..3 {
        f.reconcile();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
    assert_eq!((f.condition("Ready").1.as_str(), f.audit_copies()), ("WaitingForWindow", vec![before.clone()]));
    // It is gone meanwhile: what is mounted stays.
    f.world.remove(&team(SECRET));
    f.reconcile();
    assert_eq!((f.mounts(), f.condition("Degraded").1.as_str()), (Some(before), "AuditWebhookUnavailable"));
}

#[test]
fn what_an_earlier_build_mounted_and_recorded_goes_on_and_is_the_way_back() {
    let mut f = audited();
    f.earlier();
    let before = f.mounts().unwrap();
    f.reconcile();
    assert!(f.world.log.is_empty(), "a new operator rolls and records nothing: {:#?}", f.world.log);
    f.sink(SECRET, "https://b.example.com");
    f.does_not_come_up();
    assert_eq!((f.condition("Ready").1.as_str(), f.mounts()), ("RolledBack", Some(before)));
}

/// The release after it records the same copy: it is that of the one before all the same.
#[test]
fn a_change_after_an_earlier_build_goes_back_though_the_secret_is_lost() {
    let mut f = audited();
    f.earlier();
    let before = f.mounts();
    f.flag("v");
    f.reconcile();
    f.world.remove(&team(SECRET));
    f.does_not_come_up();
    assert_eq!((f.condition("Ready").1.as_str(), f.mounts()), ("RolledBack", before), "{}", f.condition("Ready").2);
}

#[test]
fn a_way_back_by_hand_to_what_an_earlier_build_recorded_waits_for_no_window() {
    let mut f = audited();
    f.earlier();
    f.flag("v");
    f.reconcile();
    f.stuck(names::APISERVER, 2);
    f.window("03:00", "UTC");
    f.world.log.clear();
    f.cluster.spec.api_server.extra_args.clear();
    f.reconcile();
    assert_ne!(f.condition("Ready").1, "WaitingForWindow");
    assert!(f.world.log.iter().any(|write| write.contains("Deployment")), "{:#?}", f.world.log);
}

#[test]
fn neither_a_name_nor_a_record_is_made_from_the_credentials_alone() {
    let f = audited();
    let digest = f.world.observed.secrets[&team(SECRET)].audit_webhook.clone().unwrap().unwrap();
    let name = f.mounts().unwrap();
    assert_ne!(name, names::audit_webhook(&digest));
    let digest = digest.get(..12).unwrap();
    let shown = f.world.observed.objects.iter().filter(|(key, _)| key.namespace.as_deref() != Some("team-a"));
    for (key, object) in shown {
        let text = object.to_string();
        assert!(!text.contains(digest) && !text.contains("dontsay"), "{key}: {text}");
    }
    // Another tenant with the same Secret has another name.
    let mut other = audited();
    assert_ne!(other.mounts().unwrap(), name);
    other.reconcile();
}

#[test]
fn what_becomes_of_the_secret_is_said_and_api_servers_go_on_with_what_it_said() {
    for (happens, words) in WRONG {
        let mut f = audited();
        let before = f.mounts();
        happens(&mut f);
        f.reconcile();
        assert!(f.world.log.is_empty(), "{words}: {:#?}", f.world.log);
        let (status, reason, said) = f.condition("Degraded");
        assert_eq!((&*status, &*reason), ("True", "AuditWebhookUnavailable"), "{said}");
        assert!(said.starts_with("spec.apiServer.audit.webhook.secretRef: ") && said.contains(words), "{said}");
        assert!(said.contains("API servers go on with what it said before") && !said.contains("dontsay"), "{said}");
        assert_eq!(f.condition("Ready").0, "True");
        // Another version goes on with it, too.
        f.cluster.spec.version = "1.36.3".into();
        *f.cluster.metadata.generation.as_mut().unwrap() += 1;
        last(&mut f);
        assert_eq!((f.mounts(), f.image(names::APISERVER).ends_with("v1.36.3")), (before, true), "{words}");
        f.sink(SECRET, "https://a.example.com");
        f.reconcile();
        assert_eq!(f.condition("Degraded").0, "False");
    }
}

/// Slots change one after the other, so two copies are mounted. Names of copies are digests: which comes first is chance.
#[test]
fn slots_in_the_midst_of_a_change_go_on_with_what_the_secret_said_last() {
    for server in ["b", "c", "d", "e", "f", "g"] {
        let mut f = Fixture::up_in_vpc(vpc::spec());
        f.sink(SECRET, "https://a.example.com");
        f.asks(|audit| audit.webhook = webhook(SECRET));
        let mounts = |f: &Fixture| [0, 1, 2].map(|n| mounted(f.slot(n)).unwrap());
        let turns = |f: &mut Fixture| {
            for _ in 0..8 {
                f.reconcile();
                f.attached();
            }
        };
        turns(&mut f);
        let [old, ..] = mounts(&f);
        f.sink(SECRET, &format!("https://{server}.example.com"));
        f.reconcile();
        let [first, second, new] = mounts(&f);
        assert!(first == old && second == old && new != old, "{server}: the spare first");
        f.world.remove(&team(SECRET));
        turns(&mut f);
        assert_eq!(mounts(&f), [(); 3].map(|()| new.clone()), "{server}");
    }
}

#[test]
fn a_webhook_that_cannot_be_is_refused_and_what_runs_goes_on_until_it_can() {
    for (happens, words) in WRONG {
        let mut f = Fixture::up(json!({"version": "1.36.2"}));
        happens(&mut f);
        f.asks(|audit| audit.webhook = webhook(SECRET));
        f.reconcile();
        assert!(f.world.log.is_empty(), "{words}: {:#?}", f.world.log);
        for type_ in ["Ready", "Degraded"] {
            let (status, reason, said) = f.condition(type_);
            assert_eq!((status == "True", &*reason), (type_ == "Degraded", "AuditWebhookUnavailable"), "{said}");
            assert!(said.contains(words) && !said.contains("dontsay"), "{said}");
        }
        assert_eq!(f.condition("Available").0, "True");
        f.sink(SECRET, "https://a.example.com");
        last(&mut f);
        assert!(f.mounts().is_some(), "{words}");
        assert_eq!(f.condition("Ready").0, "True");
    }
}

#[test]
fn a_new_tenant_waits_for_the_secret_and_comes_up_with_it() {
    let spec = json!({"version": "1.36.2", "apiServer": {"audit": {"webhook": {"secretRef": {"name": SECRET}}}}});
    let mut f = Fixture::new(spec);
    for _ in 0..4 {
        f.reconcile();
        f.others();
    }
    assert_eq!(f.condition("Ready").1, "AuditWebhookUnavailable");
    f.sink(SECRET, "https://a.example.com");
    last(&mut f);
    assert_eq!((f.condition("Ready").0.as_str(), f.mounts().is_some()), ("True", true));
}

#[test]
fn the_way_back_leads_to_the_secret_of_the_release_before() {
    let mut f = audited();
    let before = f.mounts();
    f.sink("other", "https://b.example.com");
    f.asks(|audit| audit.webhook = webhook("other"));
    f.does_not_come_up();
    assert_eq!((f.condition("Ready").1.as_str(), f.mounts()), ("RolledBack", before));
}

/// A tenant of templates that know neither a webhook nor a policy.
fn of_older_templates() -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.2"}));
    let set = berth_render::Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap();
    let set = before(set, "apiserver", "audit = {\"policy\": none, \"webhook\": none}");
    f.home_object()["metadata"]["annotations"][labels::TEMPLATES] = set.digest().into();
    f.world.observed.pinned = Some(set);
    f.reconcile();
    f.world.log.clear();
    f
}

#[test]
fn older_templates_have_no_webhook_and_no_policy() {
    let mut f = of_older_templates();
    f.sink(SECRET, "https://a.example.com");
    f.asks(|audit| {
        audit.webhook = webhook(SECRET);
        audit.policy = Some(json!({"rules": [{"level": "None"}]}));
    });
    last(&mut f);
    let (status, reason, said) = f.condition("Ready");
    assert_eq!((&*status, &*reason), ("False", "NotInTemplates"), "{said}");
    assert!(said.starts_with("spec.apiServer.audit.policy, spec.apiServer.audit.webhook are not applied"), "{said}");
    assert_eq!((f.audit_copies().len(), f.mounts()), (0, None));
    assert!(!f.world.log.iter().any(|write| write.contains("Deployment")), "{:#?}", f.world.log);
    // What the Secret says is nothing to them.
    f.seconds(61);
    f.reconcile();
    let recorded = f.recorded().len();
    f.sink(SECRET, "https://b.example.com");
    f.reconcile();
    assert_eq!(f.recorded().len(), recorded);
    // The version that the message names brings both.
    f.cluster.spec.version = "1.36.3".into();
    last(&mut f);
    assert_eq!((f.audit_copies().len(), f.mounts().is_some(), f.condition("Ready").0), (1, true, "True".into()));
}

#[test]
fn what_older_templates_cannot_use_holds_up_nothing_else() {
    for (happens, words) in WRONG {
        let mut f = of_older_templates();
        happens(&mut f);
        f.asks(|audit| audit.webhook = webhook(SECRET));
        f.flag("v");
        last(&mut f);
        let (_, reason, said) = f.condition("Ready");
        assert_eq!(reason, "NotInTemplates", "{said}");
        assert!(said.starts_with("spec.apiServer.audit.webhook is not applied") && said.contains("set spec.version"));
        assert!(f.has_flag("--v=1"), "the rest of the release is rolled out: {words}");
        f.seconds(61);
        f.reconcile();
        // Templates that know it need the Secret: what runs goes on until it is there.
        f.version("1.36.3");
        last(&mut f);
        let (_, reason, said) = f.condition("Ready");
        assert!(reason == "AuditWebhookUnavailable" && said.contains(words), "{reason}: {said}");
        assert!(f.image(names::APISERVER).ends_with("v1.36.2") && f.condition("Available").0 == "True");
        f.sink(SECRET, "https://a.example.com");
        last(&mut f);
        assert!(f.image(names::APISERVER).ends_with("v1.36.3") && f.mounts().is_some());
        assert_eq!(f.condition("Ready").0, "True");
    }
}

#[test]
fn a_policy_reaches_new_pods_alone_and_one_that_is_wrong_reaches_none() {
    let mut f = Fixture::up(json!({"version": "1.36.2", "apiServer": {"replicas": 2}}));
    let before = f.configuration(names::APISERVER);
    f.asks(|audit| audit.policy = Some(json!({"rules": [{"level": "metadata"}]})));
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let (_, reason, said) = f.condition("Ready");
    assert_eq!(reason, "InvalidSpec");
    assert!(said.contains("spec.apiServer.audit.policy.rules[0].level: has to be one of None"), "{said}");
    f.asks(|audit| audit.policy = Some(json!({"rules": [{"level": "Request", "users": ["dave"]}, {"level": "None"}]})));
    f.reconcile();
    let during = f.configuration(names::APISERVER);
    assert!(during.len() == 2 && during.contains(&before[0]), "{during:?}");
    last(&mut f);
    let [(_, texts)] = &f.configuration(names::APISERVER)[..] else { panic!("one") };
    assert!(texts.contains("dave") && texts.contains("audit.k8s.io/v1"), "{texts}");
    // The policy of the templates is back, byte for byte.
    f.asks(|audit| audit.policy = None);
    last(&mut f);
    assert_eq!(f.configuration(names::APISERVER), before);
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let refused = |happens: fn(&mut Fixture)| {
        let mut f = Fixture::up(json!({"version": "1.36.2"}));
        happens(&mut f);
        f.asks(|audit| audit.webhook = webhook(SECRET));
        f.reconcile();
        f
    };
    let mut gone = audited();
    (WRONG[0].0)(&mut gone);
    gone.reconcile();
    let mut bad = audited();
    bad.sink(SECRET, "https://b.example.com");
    bad.does_not_come_up();
    bad.reconcile();
    let mut lost = audited();
    let copy = lost.mounts().unwrap();
    lost.sink(SECRET, "https://b.example.com");
    lost.reconcile();
    lost.world.remove(&Fixture::key(Kind::Secret, &copy));
    lost.does_not_come_up();
    lost.reconcile();
    let policy = |f: &mut Fixture| f.asks(|audit| audit.policy = Some(json!({"rules": []})));
    let mut wrong = Fixture::up(json!({"version": "1.36.2"}));
    policy(&mut wrong);
    wrong.reconcile();
    vec![
        ("an audit policy with which kube-apiserver would not start", wrong),
        ("the Secret of spec.apiServer.audit.webhook does not exist", refused(WRONG[0].0)),
        ("the Secret of spec.apiServer.audit.webhook is of another type", refused(WRONG[1].0)),
        ("the Secret of spec.apiServer.audit.webhook has no kubeconfig that Berth takes", refused(WRONG[3].0)),
        ("the API server refuses to show the Secret of spec.apiServer.audit.webhook", refused(WRONG[4].0)),
        ("the Secret of spec.apiServer.audit.webhook cannot be read", refused(WRONG[5].0)),
        ("the Secret of an audit webhook is gone, and API servers go on with their copy", gone),
        ("an API server does not start with what the Secret of an audit webhook says since", bad),
        ("it does not, and what the Secret said before is nowhere any more", lost),
    ]
}
