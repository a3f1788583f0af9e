//! The platform's pull Secrets: there before the first pod, kept, taken back, and named where they are not.

use super::*;
use crate::reads_service_account;
use berth_api::labels;
use berth_plan::meta_cluster::pull_secrets::{PullSecret, is_reserved_in};
use berth_plan::{Action, object_meta};
use std::collections::BTreeMap;

const DOCKER: &str = "kubernetes.io/dockerconfigjson";
const KEY: &str = ".dockerconfigjson";

impl Fixture {
    /// The platform names this Secret, and it was read.
    fn platform(&mut self, name: &str, content: &str) {
        if !self.settings.pull_secrets.iter().any(|known| known == name) {
            self.settings.pull_secrets.push(name.into());
        }
        let source = ObjectKey::namespaced(Kind::Secret, &*self.settings.backups.namespace, name);
        self.world.set_secret(&source, KEY, content.as_bytes());
        let data = BTreeMap::from([(KEY.to_owned(), content.as_bytes().to_vec())]);
        self.meta().pull_secrets.insert(name.into(), PullSecret::read(DOCKER, &data));
    }

    /// As kube-controller-manager makes it, or others change it.
    fn account(&mut self, names: &[&str]) {
        let key = Self::key(Kind::ServiceAccount, "default");
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        self.world.put(key.clone(), json!({"metadata": {"name": key.name}}));
        // The list is one whole to an API server.
        self.world.observed.objects.get_mut(&key).unwrap()["imagePullSecrets"] = list.into();
    }

    fn pulls_with(&self) -> Vec<String> {
        let account = self.world.observed.get(&Self::key(Kind::ServiceAccount, "default"));
        let list = account.and_then(|account| account["imagePullSecrets"].as_array().cloned()).unwrap_or_default();
        list.iter().map(|secret| secret["name"].as_str().unwrap().to_owned()).collect()
    }

    fn marked(&self) -> Option<String> {
        let namespace = self.world.observed.get(&Self::namespace()).unwrap();
        object_meta::annotation(namespace, labels::PULL_SECRETS).map(str::to_owned)
    }

    /// What a Secret of the control-plane namespace holds, as a digest.
    fn held(&self, name: &str) -> Option<&String> {
        self.world.observed.secrets.get(&Self::key(Kind::Secret, name))?.digests.get(KEY)
    }

    fn theirs(&mut self, name: &str, type_: &str, content: &str) {
        let key = Self::key(Kind::Secret, name);
        self.world.put(key.clone(), json!({"type": type_, "metadata": {"name": name}}));
        self.world.set_secret(&key, KEY, content.as_bytes());
    }

    fn says(&self, reason: Reason) -> String {
        let (status, found, message) = self.condition("Degraded");
        assert_eq!((&*status, &*found), ("True", reason.as_str()), "{message}");
        message
    }
}

fn up() -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.backups.namespace = "berth-system".into();
    f
}

fn digest(content: &str) -> String {
    berth_plan::digest::sha256(content.as_bytes())
}

/// Where the pods of workloads come from.
fn templates(f: &Fixture) -> Vec<Value> {
    let home = Fixture::cp_namespace();
    let all = [Kind::Deployment, Kind::StatefulSet, Kind::EtcdCluster];
    let all = all.into_iter().flat_map(|kind| f.world.observed.of_kind(kind, &home));
    all.map(|(_, object)| object["spec"].clone()).collect()
}

#[test]
fn a_new_tenant_has_them_before_its_first_pod() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.platform("reg", "secret-1");
    f.reconcile();
    let wrote =
        |what: &str| f.world.log.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}"));
    let account = wrote("ServiceAccount");
    assert!(wrote("/reg") < account && account < wrote("EtcdCluster"), "{:#?}", f.world.log);
    assert!(!format!("{:?}", f.world.log).contains("secret-1"));
    assert_eq!((f.pulls_with(), f.marked().as_deref()), (vec!["reg".to_owned()], Some("reg")));
    assert_eq!(f.held("reg"), Some(&digest("secret-1")));
}

#[test]
fn one_that_runs_gets_them_keeps_them_and_gives_them_back_while_no_pod_changes() {
    let mut f = up();
    let before = templates(&f);
    f.account(&["others"]);
    f.platform("reg", "secret-1");
    f.platform("second", "secret-2");
    f.reconcile();
    assert_eq!(f.pulls_with(), ["reg", "second", "others"]);
    f.platform("reg", "secret-3");
    f.reconcile();
    assert_eq!(f.held("reg"), Some(&digest("secret-3")));
    // Others change the list, and Berth's entries come back.
    f.account(&["more", "reg"]);
    f.reconcile();
    assert_eq!(f.pulls_with(), ["reg", "second", "more"]);
    assert_eq!(f.condition("Degraded").0, "False");

    // Read no more, for whatever reason: what is there stays.
    f.meta().pull_secrets.insert("reg".into(), PullSecret::Missing);
    f.reconcile();
    assert_eq!((f.pulls_with().len(), f.held("reg")), (3, Some(&digest("secret-3"))));
    f.meta().pull_secrets.clear();
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);

    f.settings.pull_secrets = vec!["second".into()];
    f.theirs("foreign", DOCKER, "secret-4");
    f.reconcile();
    assert_eq!((f.pulls_with(), f.marked().as_deref()), (vec!["second".into(), "more".into()], Some("second")));
    assert_eq!((f.held("reg"), f.held("second")), (None, Some(&digest("secret-2"))));
    f.settings.pull_secrets.clear();
    f.reconcile();
    assert_eq!((f.pulls_with(), f.marked(), f.held("second")), (vec!["more".to_owned()], None, None));
    assert_eq!(f.held("foreign"), Some(&digest("secret-4")));
    assert_eq!(templates(&f), before, "no pod is made anew");
}

/// A chart of an older build, which knows nothing of it, and then this one without the value.
#[test]
fn copies_that_are_nowhere_recorded_are_taken_back_too() {
    let mut f = up();
    f.platform("reg", "secret-1");
    f.account(&["others"]);
    f.reconcile();
    let home = Fixture::namespace();
    let reads = |f: &Fixture| reads_service_account(&f.settings.pull_secrets, &home, &f.world.observed);
    f.settings.pull_secrets.clear();
    let namespace = f.world.observed.objects.get_mut(&home).unwrap();
    namespace["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::PULL_SECRETS);
    assert!(reads(&f) && f.held("reg").is_some());
    for _ in 0..6 {
        let planned = f.plan().plan;
        let Some(first) = planned.actions().next().cloned() else { break };
        if let Action::Delete { key, .. } = &first {
            assert!(key.name == "reg" && f.pulls_with() == ["others"], "{key}");
        }
        f.world.apply_action(&first);
    }
    assert_eq!((f.pulls_with(), f.marked(), f.held("reg")), (vec!["others".to_owned()], None, None));
    assert!(f.plan().plan.is_empty() && !reads(&f), "nothing of it is left, or asked for");
}

/// What is deleted for good is what no new pod gets any more, also where the operator ends after any of its writes.
#[test]
fn a_copy_goes_only_once_the_service_account_does_not_name_it() {
    let mut f = up();
    f.platform("reg", "secret-1");
    f.reconcile();
    f.settings.pull_secrets.clear();
    for _ in 0..4 {
        let plan = f.plan().plan;
        let Some(first) = plan.actions().next().cloned() else { break };
        if let Action::Delete { key, .. } = &first {
            assert!(key.name == "reg" && f.pulls_with().is_empty(), "{key}");
        }
        assert!(f.pulls_with().is_empty() || f.marked().is_some(), "what is to be taken back is known");
        f.world.apply_action(&first);
    }
    assert_eq!((f.pulls_with(), f.marked(), f.held("reg")), (vec![], None, None));
    assert!(f.plan().plan.is_empty());
}

#[test]
fn a_copy_of_another_type_is_made_anew_and_what_is_not_berths_is_left_alone_and_named() {
    let mut f = up();
    f.platform("reg", "secret-1");
    f.theirs("reg", DOCKER, "theirs");
    f.theirs("db-ca", "Opaque", "key");
    f.platform("db-ca", "secret-1");
    f.reconcile();
    assert_eq!((f.held("reg"), f.held("db-ca")), (Some(&digest("theirs")), Some(&digest("key"))));
    let said = f.says(Reason::PullSecretUnavailable);
    let home = Fixture::cp_namespace();
    for name in ["reg", "db-ca"] {
        assert!(said.contains(&format!("Secret {home}/{name} is not Berth's and holds something else")), "{said}");
    }
    f.settings.pull_secrets = vec!["reg".into()];
    f.theirs("reg", DOCKER, "secret-1");
    f.reconcile();
    assert_eq!(f.condition("Degraded").0, "False", "it holds the same");

    f.world.remove(&Fixture::key(Kind::Secret, "reg"));
    f.reconcile();
    let copy = Fixture::key(Kind::Secret, "reg");
    f.world.observed.objects.get_mut(&copy).unwrap()["type"] = json!("kubernetes.io/dockercfg");
    f.reconcile();
    assert_eq!(f.world.observed.get(&copy).unwrap()["type"], DOCKER);
}

/// `<cluster>-proxy` and the like hold keys that cannot be made again.
#[test]
fn no_copy_takes_the_name_of_a_secret_of_berths_own_and_nobody_is_told_to_delete_that() {
    let mut new = Fixture::new(json!({"version": "1.36.3"}));
    let mut old = up();
    let proxy = names::proxy_ca("acme");
    let root = Fixture::key(Kind::Secret, &proxy);
    for (f, kept) in [(&mut new, None), (&mut old, Some(()))] {
        let digests = |f: &Fixture| Some(f.world.observed.secrets.get(&root)?.digests.clone());
        let before = digests(f);
        assert_eq!(before.as_ref().map(drop), kept);
        f.platform(&proxy, "secret-1");
        f.platform("reg", "secret-2");
        f.reconcile();
        f.others();
        f.reconcile();
        let after = digests(f);
        assert!(
            after.as_ref().is_some_and(|all| !all.is_empty() && !all.contains_key(KEY)),
            "the root, and nothing else"
        );
        assert!(before.is_none() || before == after, "as it was");
        assert_eq!((f.pulls_with(), f.marked().as_deref()), (vec!["reg".to_owned()], Some("reg")));
    }
    let said = old.says(Reason::PullSecretUnavailable);
    assert!(said.contains(&format!("{root} is a Secret of Berth's own. Give the platform's another name")), "{said}");
    assert!(!said.contains("elete"), "{said}");

    // A label that somebody sets makes no copy of it, which would go with the chart's value.
    let live = old.world.observed.objects.get_mut(&root).unwrap();
    live["metadata"]["labels"][labels::PULL_SECRET] = proxy.clone().into();
    old.settings.pull_secrets.clear();
    old.reconcile();
    assert!(old.world.observed.get(&root).is_some() && old.pulls_with().is_empty());

    // One whose name is not known to be Berth's, by its labels; and one that the spec names.
    let other = Fixture::key(Kind::Secret, "new-pki");
    let mut labelled = old.world.observed.get(&root).unwrap().clone();
    labelled["metadata"]["name"] = other.name.clone().into();
    old.world.put(other, labelled);
    old.platform("new-pki", "secret-1");
    old.settings.writers.pull_secrets = vec!["*".into()];
    old.cluster.spec.images.pull_secrets = vec![names::APISERVER_ENCRYPTION.into()];
    old.reconcile();
    old.others();
    old.reconcile();
    let said = old.says(Reason::PullSecretUnavailable);
    for text in ["/new-pki is a Secret of Berth's own", "(spec.images.pullSecrets) is one of Berth's own"] {
        assert!(said.contains(text) && !said.contains("elete"), "{text}: {said}");
    }
}

/// What Berth writes, it keeps the names of.
#[test]
fn the_names_of_all_secrets_of_a_control_plane_are_berths() {
    let f = up();
    let home = Fixture::cp_namespace();
    let all: Vec<_> = f.world.observed.of_kind(Kind::Secret, &home).map(|(key, _)| &*key.name).collect();
    assert!(all.len() > 8, "{all:?}");
    let free: Vec<_> = all.into_iter().filter(|secret| !is_reserved_in("acme", secret)).collect();
    assert!(free.is_empty(), "{free:?}");
}

#[test]
fn a_missing_one_is_named_with_the_command_also_where_an_image_is_missing() {
    let mut f = up();
    f.settings.writers.pull_secrets = vec!["*".into()];
    f.settings.pull_secrets = vec!["reg".into(), "odd".into()];
    f.meta().pull_secrets.insert("reg".into(), PullSecret::Missing);
    f.meta().pull_secrets.insert("odd".into(), PullSecret::OtherType("Opaque".into()));
    f.cluster.spec.images.pull_secrets = vec!["own".into(), "reg".into()];
    f.reconcile();
    f.others();
    f.reconcile();
    let said = f.says(Reason::PullSecretUnavailable);
    let home = Fixture::cp_namespace();
    for text in [
        "Secret berth-system/reg (chart value tenants.pullSecrets), with which pods pull images, does not exist",
        "kubectl -n berth-system create secret docker-registry reg ",
        "Secret berth-system/odd (chart value tenants.pullSecrets) is of type Opaque",
        &format!("Secret {home}/own (spec.images.pullSecrets) does not exist"),
        &format!("kubectl -n {home} create secret docker-registry own "),
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert_eq!(said.matches("/reg").count(), 1, "once: {said}");

    f.lacks_an_image();
    let said = f.says(Reason::ImageUnavailable);
    assert!(said.contains("image x:v9") && said.contains(&format!("Secret {home}/own")), "{said}");

    f.theirs("own", "Opaque", "x");
    f.settings.pull_secrets.clear();
    f.cluster.spec.images.pull_secrets = vec!["own".into()];
    f.reconcile();
    assert!(f.says(Reason::ImageUnavailable).contains("is of type Opaque, with which no image is pulled"));
}

impl Fixture {
    fn lacks_an_image(&mut self) {
        let deployment = Self::key(Kind::Deployment, names::SCHEDULER);
        self.world.observed.objects.get_mut(&deployment).unwrap()["status"]["availableReplicas"] = json!(0);
        let pod = Self::key(Kind::Pod, "kube-scheduler-x");
        let labels = json!({"app.kubernetes.io/component": "kube-scheduler"});
        self.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "unauthorized"}});
        self.world.pod_status(&pod, json!({"containerStatuses": [{"name": "c", "image": "x:v9", "state": waiting}]}));
        self.reconcile();
    }
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let with = |seen: Option<PullSecret>, own: &[&str]| {
        let mut f = up();
        f.settings.writers.pull_secrets = vec!["*".into()];
        f.cluster.spec.images.pull_secrets = own.iter().map(|name| (*name).to_owned()).collect();
        if let Some(seen) = seen {
            f.settings.pull_secrets = vec!["reg".into()];
            f.meta().pull_secrets.insert("reg".into(), seen);
        }
        f.reconcile();
        f.others();
        f.reconcile();
        f
    };
    let mut foreign = up();
    foreign.theirs("reg", DOCKER, "theirs");
    foreign.platform("reg", "secret-1");
    foreign.reconcile();
    let mut taken = up();
    taken.platform(&names::proxy_ca("acme"), "secret-1");
    taken.reconcile();
    let mut other = with(None, &["own"]);
    other.theirs("own", "Opaque", "x");
    other.reconcile();
    let mut lacks = with(None, &["own"]);
    lacks.lacks_an_image();
    let mut first = up();
    first.settings.pull_secrets = vec!["reg".into()];
    let planned = first.plan();
    let input = first.input();
    let said = status(input, &planned, None);
    first.cluster.status = Some(said);
    vec![
        ("a pull Secret of the chart's values is missing", with(Some(PullSecret::Missing), &[])),
        (
            "a pull Secret of the chart's values is of another type",
            with(Some(PullSecret::OtherType("Opaque".into())), &[]),
        ),
        ("a pull Secret of the spec is missing", with(None, &["own"])),
        ("a pull Secret of the spec is of another type", other),
        ("a pull Secret in the control-plane namespace is somebody else's", foreign),
        ("a pull Secret of the chart's values has the name of one of Berth's own", taken),
        ("a pull Secret of the spec is one of Berth's own", with(None, &[names::APISERVER_ENCRYPTION])),
        ("an image is missing, and so is the Secret to pull it with", lacks),
        ("the chart's values name a pull Secret", first),
    ]
}
