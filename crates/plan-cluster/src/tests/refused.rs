//! A release that is refused is refused as a whole, and what runs goes on by the one that is recorded.

use super::*;
use crate::tests::preflight::well;
use berth_api::cluster::TurnState;
use berth_api::labels;
use berth_plan::asked::Look;

const OLD: &str = "1.35.4";

fn up() -> Fixture {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD, "apiServer": {"replicas": 2}}));
    f.world.observed.look = Look::Taken(well().into());
    f.reconcile();
    f.world.log.clear();
    f
}

/// Refuses what the spec asks for.
type Refuse = fn(&mut Fixture);

const REFUSALS: [(&str, Refuse, &str); 11] = [
    ("an unknown version", |f| f.version("1.29.1"), "VersionUnsupported"),
    ("two minors at once", |f| f.version("1.37.0"), "VersionUnsupported"),
    ("an older minor", |f| f.version("1.34.2"), "DowngradeUnsafe"),
    (
        "what stands in the way",
        |f| {
            f.nodes(Some("1.32.9"));
            f.version("1.36.3");
        },
        "UpgradeBlocked",
    ),
    (
        "not looked yet",
        |f| {
            f.world.observed.look = Look::NotYet;
            f.version("1.36.3");
        },
        "RollingOut",
    ),
    (
        "a flag of another component",
        |f| {
            let flag = json!([{"name": "kubeconfig", "value": "x"}]);
            f.cluster.spec.scheduler.extra_args = serde_json::from_value(flag).unwrap();
        },
        "InvalidSpec",
    ),
    (
        "a flag that names a file",
        |f| {
            let flag = json!([{"name": "leader-migration-config", "value": "x"}]);
            f.cluster.spec.controller_manager.extra_args = serde_json::from_value(flag).unwrap();
        },
        "InvalidSpec",
    ),
    (
        "a JWT authenticator",
        |f| f.cluster.spec.api_server.authentication.jwt = vec![json!({"issuer": {"url": "http://dex.example.com"}})],
        "InvalidSpec",
    ),
    (
        "a configuration of admission",
        |f| {
            let all = json!({"configuration": [{"name": "PodSecurity", "configuration": {"defaults": {}}}]});
            f.cluster.spec.api_server.admission = serde_json::from_value(all).unwrap();
        },
        "InvalidSpec",
    ),
    ("a bundle of no certificates", |f| f.cluster.spec.api_server.trusted_ca = Some("x".into()), "InvalidSpec"),
    (
        "more pods than may be",
        |f| {
            f.settings.writers.limits.replicas = Some(2);
            f.cluster.spec.replicas = 3;
        },
        "NotAllowed",
    ),
];

#[test]
fn nothing_of_it_starts_and_what_runs_is_repaired_by_its_own_release() {
    for (what, refuse, reason) in REFUSALS {
        let mut f = up();
        let before = [names::APISERVER, names::CONTROLLER_MANAGER].map(|name| f.component(name));
        let spec = f.cluster.spec.clone();
        refuse(&mut f);
        f.flag("v");
        f.reconcile();
        assert!(f.world.log.is_empty(), "{what}: {:#?}", f.world.log);
        assert_eq!(f.condition("Ready").1, reason, "{what}: {:?}", f.condition("Ready"));
        assert_eq!(f.recorded().len(), 1, "{what}");
        // Somebody deletes one, and changes another.
        f.world.remove(&Fixture::key(Kind::Deployment, names::CONTROLLER_MANAGER));
        f.live(Kind::Deployment, names::APISERVER)["spec"]["replicas"] = json!(7);
        f.rest();
        let now = [names::APISERVER, names::CONTROLLER_MANAGER].map(|name| f.component(name));
        assert_eq!(now, before, "{what}");
        // What is refused is taken out, and the rest begins: recorded, as a release of its own.
        let flags = f.cluster.spec.api_server.extra_args.clone();
        f.cluster.spec = spec;
        f.cluster.spec.api_server.extra_args = flags;
        f.settings.writers.limits = Settings::default().writers.limits;
        f.rest();
        assert_eq!(f.recorded().len(), 2, "{what}");
        assert!(f.args(names::APISERVER).contains("--v"), "{what}");
    }
}

#[test]
fn the_number_of_pods_waits_for_nothing() {
    let mut f = up();
    f.version("1.29.1");
    f.flag("v");
    f.cluster.spec.api_server.replicas = Some(3);
    f.rest();
    assert_eq!(f.condition("Ready").1, "VersionUnsupported");
    assert_eq!(f.live(Kind::Deployment, names::APISERVER)["spec"]["replicas"], 3);
    assert!(!f.args(names::APISERVER).contains("--v"));
    assert_eq!(f.recorded().len(), 2, "recorded");
}

#[test]
fn what_is_rolled_out_goes_on_and_is_judged() {
    let mut f = up();
    f.ordered(None);
    f.turn_towards(Some("1.35.5"));
    f.version("1.35.5");
    f.reconcile();
    f.stuck(names::APISERVER, 2);
    f.version("1.29.1");
    f.flag("v");
    f.reconcile();
    let turn = |f: &Fixture| f.cluster.status.clone().unwrap().turn.map(|turn| (turn.to, turn.state));
    assert_eq!(turn(&f), Some(("1.35.5".to_owned(), TurnState::Running)), "it has the turn until it is through");
    f.seconds(301);
    f.reconcile();
    f.unstuck(names::APISERVER);
    f.rest();
    assert!(f.image(names::APISERVER).ends_with(OLD), "{}", f.image(names::APISERVER));
    assert_eq!(f.recorded().len(), 2);
    assert_eq!(f.condition("Ready").1, "VersionUnsupported");
    assert_eq!(turn(&f), Some(("1.29.1".to_owned(), TurnState::Blocked)));
    assert_eq!(f.home_object()["metadata"]["annotations"][labels::KUBERNETES_VERSION], OLD);
}

/// A flag that only those tenants have that an earlier build took it of.
const A_FILE: &str = "tracing-config-file";

#[test]
fn a_flag_that_names_a_file_is_refused_but_of_a_tenant_that_runs_with_it() {
    let said = "spec.apiServer.extraArgs: --tracing-config-file names a file, and the pod has none of yours; no field has its content, so remove the flag";
    let mut new = Fixture::new(json!({"version": OLD}));
    new.flag(A_FILE);
    new.reconcile();
    assert_eq!(new.condition("Ready"), ("False".into(), "InvalidSpec".into(), said.into()));
    assert!(new.world.log.is_empty(), "{:#?}", new.world.log);

    let mut f = up();
    f.flag(A_FILE);
    f.reconcile();
    assert_eq!(f.condition("Ready").2, said);
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);

    // As an earlier build took it: it is in the release that runs.
    f.live(Kind::ClusterRevision, "revision-1")["spec"]["release"]["apiServer"] =
        serde_json::to_value(&f.cluster.spec.api_server).unwrap();
    f.rest();
    assert!(f.args(names::APISERVER).contains("--tracing-config-file"));
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    // And is kept by a change of something else, though not for another component, or with another file.
    let mut args = f.cluster.spec.api_server.extra_args.clone();
    args.push(serde_json::from_value(json!({"name": "v", "value": "2"})).unwrap());
    f.cluster.spec.api_server.extra_args = args;
    f.rest();
    assert!(f.args(names::APISERVER).contains("--v"), "{:?}", f.condition("Ready"));
    f.cluster.spec.api_server.extra_args[0].value = "/etc/other".into();
    f.reconcile();
    assert_eq!(f.condition("Ready").2, said);
}

#[test]
fn an_authenticator_is_refused_but_of_a_tenant_that_runs_with_it() {
    let bad = || {
        vec![
            json!({"issuer": {"url": "http://dex.example.com", "audiences": ["a"]}, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}}),
        ]
    };
    let said = "spec.apiServer.authentication.jwt[0].issuer.url: has to be a URL that begins with https://";
    let mut new = Fixture::new(json!({"version": OLD}));
    new.cluster.spec.api_server.authentication.jwt = bad();
    new.reconcile();
    assert_eq!(new.condition("Ready"), ("False".into(), "InvalidSpec".into(), said.into()));
    assert!(new.world.log.is_empty(), "{:#?}", new.world.log);
    // A build that took it recorded it.
    let mut f = up();
    f.cluster.spec.api_server.authentication.jwt = bad();
    f.live(Kind::ClusterRevision, "revision-1")["spec"]["release"]["apiServer"] =
        serde_json::to_value(&f.cluster.spec.api_server).unwrap();
    f.rest();
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    // Another issuer of service accounts is judged with it.
    f.cluster.spec.api_server.service_account_issuers = vec!["https://t.example.com".into()];
    f.reconcile();
    assert_eq!(f.condition("Ready").2, said);
}
