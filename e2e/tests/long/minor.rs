//! The oldest minor, the one between and the newest, one after the other, each in two steps, with a client that opens a new connection each
//! 100 ms and an object of every kind: new binaries emulate the old minor, go back, come again, and then serve the new one, from where there
//! is no way back.

use anyhow::{Context, Result, ensure};
use berth_e2e::{
    Caller, NEWEST, Tenant, core,
    minors::{Objects, Watch, ready, serves},
    tenant::condition,
};
use serde_json::json;

const OLDEST: &str = "1.34.4";
const BETWEEN: &str = "1.35.4";

#[test]
#[ignore = "make test-all: the binaries of the minor between take minutes to build, and six rollouts of two API servers minutes to run"]
fn minors_change_one_by_one_in_two_steps_and_clients_are_served() {
    berth_e2e::run("minor", |world| {
        let spec = json!({
            "version": OLDEST,
            "apiServer": {"replicas": 2},
            "etcd": {"replicas": 3},
            "upgrade": {"soak": "5s", "finalizeAfter": "168h"},
        });
        let tenant = Tenant::ready(world, "minor", &spec)?;
        serves(&tenant, 2, OLDEST, "34")?;
        let kept = Objects::keep(&tenant)?;
        let (caller, watch) = (Caller::start(&tenant.kubeconfig()?), Watch::start(&world.kube, &tenant));
        let minor = Step { tenant: &tenant, kept: &kept };

        println!("    {BETWEEN} emulates 1.34");
        tenant.change(&json!({"version": BETWEEN}))?;
        minor.emulates(BETWEEN, OLDEST)?;
        println!("    back");
        tenant.change(&json!({"version": OLDEST}))?;
        minor.is_through(OLDEST)?;
        println!("    and again");
        tenant.change(&json!({"version": BETWEEN}))?;
        minor.emulates(BETWEEN, OLDEST)?;
        println!("    the second step");
        tenant.change(&json!({"upgrade": {"finalizeAfter": "0s"}}))?;
        minor.is_through(BETWEEN)?;

        println!("    {NEWEST} emulates 1.35");
        tenant.change(&json!({"version": NEWEST, "upgrade": {"finalizeAfter": "168h"}}))?;
        minor.emulates(NEWEST, BETWEEN)?;
        println!("    the second step");
        tenant.change(&json!({"upgrade": {"finalizeAfter": "0s"}}))?;
        minor.is_through(NEWEST)?;
        tenant.rests()?;
        tenant.scheduler_works()?;
        caller.end()?.none_failed()?;
        watch.end(&[OLDEST, BETWEEN, NEWEST])?;

        let before = tenant.pod_identities()?;
        tenant.change(&json!({"version": BETWEEN}))?;
        let message = tenant.wait_condition("Ready", "False", "DowngradeUnsafe")?;
        ensure!(message.contains("Set a patch version of 1.36"), "{message}");
        ensure!(condition(&tenant.cluster()?, "Available")?["status"] == "True", "it serves on");
        ensure!(tenant.pod_identities()? == before, "no pod was touched");
        tenant.nothing_restarted()?;
        tenant.let_go()
    });
}

struct Step<'a> {
    tenant: &'a Tenant<'a>,
    kept: &'a Objects,
}

impl Step<'_> {
    /// The first step is through: the tenant is ready, says until when there is a way back, and nodes are not newer than what is served.
    fn emulates(&self, version: &str, old: &str) -> Result<()> {
        let message = ready(self.tenant, "Emulating")?;
        ensure!(message.contains(&format!("set spec.version to {old}")), "{message}");
        self.serves(version, old)
    }

    /// All of it runs, and nothing is emulated.
    fn is_through(&self, version: &str) -> Result<()> {
        ready(self.tenant, "AsExpected")?;
        self.serves(version, version)
    }

    fn serves(&self, version: &str, as_version: &str) -> Result<()> {
        let tenant = self.tenant;
        let minor = as_version.rsplit_once('.').map_or(as_version, |(minor, _)| minor);
        serves(tenant, 2, version, minor.trim_start_matches("1."))?;
        let status = tenant.cluster()?["status"].clone();
        let emulated = (version != as_version).then_some(minor);
        ensure!(status["emulatedVersion"].as_str() == emulated && status["version"] == version, "{status}");
        let config = tenant.api()?.get(&format!("{}/kubeadm-config", core("kube-system", "configmaps")))?;
        let config = config["data"]["ClusterConfiguration"].as_str().context("kubeadm's configuration")?;
        ensure!(config.contains(&format!("kubernetesVersion: \"v{as_version}\"")), "of nodes: {config}");
        self.kept.are_the_same(tenant)
    }
}
