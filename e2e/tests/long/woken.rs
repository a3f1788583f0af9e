//! Tenants behind the gateway that sleep are woken by whoever calls: by each kind of call as the first one, and a few at a time by a scanner.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use berth_e2e::curl::{Curl, answer};
use berth_e2e::scanner::Scanner;
use berth_e2e::{Caller, Kube, Kubectl, Tenant, World, run, until_within};
use serde_json::{Value, json};

use crate::gateway;
use crate::sleep::{berth, sleeps};

/// Tenants that a scanner calls, and how many of them may wake at once.
const SLEEPERS: usize = 6;
const MAX_WAKING: usize = 2;

/// The first call against a tenant that sleeps is answered; nobody uses it, it sleeps again, and another operator wakes it as well.
#[test]
#[ignore = "make test-all: real pods behind the gateway, and minutes without a client"]
fn a_connection_wakes_it() {
    run("woken", |world| {
        let address = gateway::install(world, &["hibernation.perTenantPerHour=20".to_owned()])?;
        let asked = json!({"afterIdle": "5m", "wake": {"onConnect": true, "stayFor": "1m"}});
        let spec = json!({"endpoint": {"type": "Gateway"}, "hibernation": asked});
        let tenant = Tenant::ready(world, "woken", &spec)?;
        first_calls(world, &tenant, &address)?;

        println!("    nobody uses it");
        until_within(Duration::from_mins(10), "it to fall asleep by itself", || {
            let state = tenant.cluster()?["status"]["hibernation"].clone();
            ensure!(state["state"] == "Asleep" && state["cause"] == "spec.hibernation.afterIdle", "{state}");
            Ok(())
        })?;
        sleeps(world, &tenant)?;
        world.restart_operator()?;
        println!("    another operator, and a first call again");
        Kubectl::with(&gateway::through(&tenant, &address)?)?.run(&["get", "configmap", "before"])?;
        tenant.wait_ready()?;
        tenant.delete()
    });
}

/// What it is, how often it may be made, and how.
type FirstCall<'a> = (&'a str, usize, &'a dyn Fn() -> Result<()>);

/// Each is the first call of a tenant that sleeps. One that writes may have to be made again: nobody else repeats it.
fn first_calls(world: &World, tenant: &Tenant<'_>, address: &str) -> Result<()> {
    let kubectl = Kubectl::with(&gateway::through(tenant, address)?)?;
    let curl = Curl::of(&tenant.kubeconfig()?)?;
    let record = format!("{}:6443:{address}", gateway::name(tenant));
    kubectl.run(&["create", "configmap", "before"])?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": "default"}});
    let get = || kubectl.run(&["get", "configmap", "before"]).map(drop);
    let apply = || kubectl.apply(std::slice::from_ref(&map));
    let by_curl = || {
        let mut call = curl.command("/api/v1/namespaces/default/configmaps/applied");
        call.args(["--fail", "--resolve", &record]);
        answer(call).map(drop)
    };
    let delete = || kubectl.run(&["delete", "configmap", "applied"]).map(drop);
    let calls: [FirstCall<'_>; 4] =
        [("kubectl get", 1, &get), ("kubectl apply", 2, &apply), ("curl", 2, &by_curl), ("kubectl delete", 2, &delete)];
    for (what, tries, call) in calls {
        berth(world, tenant, &["sleep", "-y", "--wait"])?;
        sleeps(world, tenant)?;
        let began = Instant::now();
        let mut outcome = call();
        for _ in 1..tries {
            if let Err(error) = &outcome {
                println!("    {what} fails after {:.1?}: {error:#}", began.elapsed());
                outcome = call();
            }
        }
        outcome?;
        println!("    {what} as the first call after {:.1?}", began.elapsed());
        tenant.wait_ready()?;
        let cause = tenant.cluster()?["status"]["hibernation"]["cause"].clone();
        ensure!(cause == "a connection", "{what}: {cause}");
    }
    Ok(())
}

/// A scanner calls all that sleep: so many wake at once, each in its turn, sleep again since nobody uses them, and who uses an awake one notices nothing.
#[test]
#[ignore = "make test-all: seven tenants with real pods behind the gateway"]
fn a_scanner_wakes_a_few_at_a_time() {
    run("scanned", |world| {
        // The scanner and who uses a tenant have one address here: what counts for each of them is not what is tested.
        let free =
            ["gateway.maxRatePerSource=0", "gateway.maxConnectionsPerSource=0", "gateway.maxOpeningPerSource=1000"];
        let most = format!("hibernation.maxWaking={MAX_WAKING}");
        let address = gateway::install(world, &[&free.map(str::to_owned)[..], &[most]].concat())?;
        let used = Tenant::ready(world, "used", &json!({"endpoint": {"type": "Gateway"}}))?;
        let asked = json!({"wake": {"onConnect": true, "stayFor": "1m"}});
        let spec = json!({"endpoint": {"type": "Gateway"}, "hibernation": asked});
        let sleepers =
            (0..SLEEPERS).map(|n| Tenant::create(world, &format!("scanned-{n}"), &spec)).collect::<Result<Vec<_>>>()?;
        for tenant in &sleepers {
            tenant.wait_ready()?;
            berth(world, tenant, &["sleep", "-y"])?;
        }
        for tenant in &sleepers {
            tenant.wait_condition("Ready", "True", "Asleep")?;
        }
        let caller = Caller::start(&gateway::through(&used, &address)?);
        let names: Vec<String> = sleepers.iter().map(gateway::name).collect();
        let scanner = Scanner::start(&format!("{address}:6443"), &names)?;
        let outcome = in_turns(world, &sleepers);
        let answers = scanner.end()?;
        println!("    it was answered {answers} times");
        outcome?;
        caller.end()?.none_failed()?;
        used.nothing_restarted()?;

        println!("    nobody calls, and all sleep");
        for tenant in &sleepers {
            until_within(Duration::from_mins(10), "it to sleep again", || {
                let state = tenant.cluster()?["status"]["hibernation"].clone();
                ensure!(state["state"] == "Asleep", "{state}");
                Ok(())
            })?;
        }
        println!("    all are called at once");
        let began = Instant::now();
        let calls: Vec<_> = sleepers.iter().map(|tenant| gateway::through(tenant, &address)).collect::<Result<_>>()?;
        std::thread::scope(|scope| {
            // None is woken before its pause ends, and then in its turn.
            let call = |kubeconfig: &String| {
                until_within(Duration::from_mins(15), "an answer", || Kube::new(kubeconfig)?.get("/version").map(drop))
            };
            let calls: Vec<_> = calls.iter().map(|kubeconfig| scope.spawn(move || call(kubeconfig))).collect();
            calls.into_iter().try_for_each(|call| call.join().map_err(|_| anyhow!("a caller panicked"))?)
        })?;
        println!("    all are answered after {:.1?}", began.elapsed());
        for tenant in sleepers {
            tenant.wait_ready()?;
            tenant.delete()?;
        }
        used.delete()
    });
}

/// Until each of them was awake; never more than so many wake at once.
fn in_turns(world: &World, sleepers: &[Tenant<'_>]) -> Result<()> {
    let (mut woken, mut most) = (BTreeSet::new(), 0);
    until_within(Duration::from_mins(10), "each to have its turn", || {
        let clusters = world.kube.list(&berth_e2e::berth(&sleepers[0].namespace, "clusters"))?;
        let state = |cluster: &Value| cluster["status"]["hibernation"]["state"].clone();
        most = most.max(clusters.iter().filter(|cluster| state(cluster) == "Waking").count());
        woken.extend(clusters.iter().filter(|cluster| state(cluster) == "Awake").map(berth_e2e::tenant::name_of));
        let missing: Vec<_> = sleepers.iter().filter(|tenant| !woken.contains(&tenant.name)).map(|t| &t.name).collect();
        ensure!(missing.is_empty(), "{missing:?} sleep");
        Ok(())
    })?;
    ensure!(most <= MAX_WAKING, "{most} woke at once, more than hibernation.maxWaking");
    Ok(())
}
