//! Two tenants behind one address: each is found by its name, a machine joins by it, and nobody notices what rolls, ends or is away.

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Worker, images};
use berth_e2e::curl::{Curl, answer};
use berth_e2e::images::{built, load_own};
use berth_e2e::kube_client::{at, server, under_name};
use berth_e2e::operator::Options;
use berth_e2e::tenant::name_of;
use berth_e2e::{Caller, Kube, Tenant, World, core, machines, until};
use serde_json::{Value, json};

const NAMESPACE: &str = "berth-gateway";
const DOMAIN: &str = "api.gateway.test";

/// A `Gateway` of the platform's own beside it, whose controller is this test.
const BESIDE_ROUTES: [&str; 3] =
    ["gateway.engines={Berth,GatewayAPI}", "gateway.parents[0].namespace=edge", "gateway.parents[0].name=tenants"];

/// What a Gateway API has for TLS that is passed through.
const ROUTES: &str = "tlsroutes.gateway.networking.k8s.io";

#[test]
#[ignore = "make test-all: a machine with a kubelet of its own; what the gateway does is tested in its crate with connections"]
fn two_tenants_have_one_address() {
    berth_e2e::run("gateway", |world| {
        // A run that failed leaves it.
        world.kubectl(&["delete", "crd", ROUTES, "--ignore-not-found"])?;
        let address = install(world, &BESIDE_ROUTES.map(str::to_owned))?;
        let images = images::of_nodes()?;
        machines::with(world, &["behind"], None, &images, |workers| work(world, &address, &workers[0]))
    });
}

/// The gateway, and where it is reached. `more`: values of the chart.
pub(crate) fn install(world: &World, more: &[String]) -> Result<String> {
    let tag = load_own(&world.cluster, "gateway", &built("gateway")?, &[])?;
    let values = [
        "gateway.enabled=true".to_owned(),
        format!("gateway.domain={DOMAIN}"),
        format!("gateway.image.tag={tag}"),
        "gateway.drainSeconds=20".to_owned(),
        "gateway.preStopSeconds=3".to_owned(),
    ];
    world.install(&Options { values: [&values, more].concat(), ..Options::default() })?;
    world.pair_has_rolled(NAMESPACE)?;
    until("the gateway's address", || {
        let service = world.kube.get(&format!("{}/{NAMESPACE}", core(NAMESPACE, "services")))?;
        let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        address.map(str::to_owned).context("no address yet")
    })
}

fn work(world: &World, address: &str, machine: &Worker) -> Result<()> {
    let spec = json!({"endpoint": {"type": "Gateway"}, "apiServer": {"replicas": 2}});
    let (a, b) = (Tenant::create(world, "behind-a", &spec)?, Tenant::create(world, "behind-b", &spec)?);
    a.wait_ready()?;
    b.wait_ready()?;
    let (to_a, to_b) = (through(&a, address)?, through(&b, address)?);
    each_is_found_by_its_name(world, &a, (&to_a, &to_b), address)?;

    println!("    a machine joins by the name");
    ensure!(a.join_arguments()?.first() == Some(&format!("{}:6443", name(&a))), "{:?}", a.join_arguments()?);
    machines::join_by_name(&a, machine, address)?;
    // Pods send no name, and this tenant has no address for them.
    let told = a.wait_condition("PodsReachAPI", "False", "NoIPAddress")?;
    ensure!(told.contains("spec.addons.apiProxy"), "{told}");

    let callers = [&to_a, &to_b].map(|kubeconfig| Caller::start(kubeconfig));
    println!("    the gateway rolls");
    world.kubectl(&["-n", NAMESPACE, "rollout", "restart", "deployment/berth-gateway"])?;
    world.pair_has_rolled(NAMESPACE)?;
    println!("    API servers roll");
    let other = json!({"apiServer": {"extraArgs": [{"name": "max-requests-inflight", "value": "399"}]}});
    a.change(&other)?;
    until("the API servers to be others", || {
        let live = a.deployment("kube-apiserver")?;
        let status = &live["status"];
        ensure!(live.to_string().contains("max-requests-inflight=399"), "they are as before");
        ensure!(status["updatedReplicas"] == 2 && status["replicas"] == 2, "{status}");
        Ok(())
    })?;
    println!("    a gateway is killed");
    let killed = gateways(world)?.first().cloned().context("a gateway")?;
    world.kubectl(&["-n", NAMESPACE, "delete", "pod", &killed, "--force", "--grace-period=0"])?;
    world.pair_has_rolled(NAMESPACE)?;
    println!("    no operator, and the gateway starts anew");
    world.stop_operator()?;
    world.kubectl(&["-n", NAMESPACE, "rollout", "restart", "deployment/berth-gateway"])?;
    world.pair_has_rolled(NAMESPACE)?;
    world.start_operator()?;
    for caller in callers {
        caller.end()?.none_failed()?;
    }
    what_does_not_count(world, &a, address)?;
    who_may_come(world, &b, &to_b)?;
    // The one without a machine, which is ready.
    routes(world, &b)?;

    println!("    back to an address of its own");
    b.change(&json!({"endpoint": {"type": "ClusterIP"}}))?;
    b.wait_ready()?;
    until("the name to lead nowhere", || {
        ensure!(Kube::new(&to_b)?.get("/version").is_err(), "{} still leads to it", name(&b));
        Ok(())
    })?;
    Kube::new(&b.kubeconfig()?)?.get("/version").context("the address of its own")?;
    b.nothing_restarted()?;
    b.delete()?;
    a.delete()
}

/// The machine has it in place of DNS, for itself and for pods on its network.
pub(crate) fn knows_the_name(machine: &Worker, tenant: &Tenant<'_>, address: &str) -> Result<()> {
    let output = machine
        .command("/bin/sh".as_ref())?
        .args(["-c", &format!("echo {address} {} >> /etc/hosts", name(tenant))])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Each credential opens its own tenant, and no name none.
fn each_is_found_by_its_name(world: &World, a: &Tenant<'_>, (to_a, to_b): (&str, &str), address: &str) -> Result<()> {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    Kube::new(to_a)?.create(&core("default", "configmaps"), &map("of-a"))?;
    Kube::new(to_b)?.create(&core("default", "configmaps"), &map("of-b"))?;
    for (kubeconfig, own, others) in [(to_a, "of-a", "of-b"), (to_b, "of-b", "of-a")] {
        let kube = Kube::new(kubeconfig)?;
        kube.get(&format!("{}/{own}", core("default", "configmaps")))?;
        let seen = kube.get(&format!("{}/{others}", core("default", "configmaps")));
        ensure!(seen.is_err(), "{others} is seen by the other tenant");
    }
    let stranger = Kube::with_user_of(to_a, to_b)?.get(&core("default", "configmaps"));
    ensure!(stranger.is_err(), "credentials of one tenant open the other");
    let nameless = at(&a.kubeconfig()?, &format!("https://{address}:6443"))?;
    refused(world, "NoName", &nameless)?;
    refused(world, "UnknownName", &under_name(&nameless, &format!("nobody-00000000.{DOMAIN}"))?)?;
    by_curl(a, address)
}

/// Whatever version of HTTP a client offers, its API server answers; without a server name nobody does.
fn by_curl(tenant: &Tenant<'_>, address: &str) -> Result<()> {
    let curl = Curl::of(&tenant.kubeconfig()?)?;
    let record = format!("{}:6443:{address}", name(tenant));
    for (offers, speaks) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let mut call = curl.command("/version");
        call.args([offers, "--resolve", &record, "--write-out", " HTTP/%{http_version}"]);
        let told = answer(call)?;
        ensure!(told.contains("gitVersion") && told.ends_with(&format!(" HTTP/{speaks}")), "{offers}: {told}");
    }
    let nameless = curl.command_at(&format!("https://{address}:6443"), "/version");
    ensure!(answer(nameless).is_err(), "a client without a server name is answered");
    Ok(())
}

/// A client gets nowhere for that reason. Without it a name that leads elsewhere would look the same, by its certificate.
fn refused(world: &World, reason: &str, kubeconfig: &str) -> Result<()> {
    let row = format!("berth_gateway_connections_ended_total{{reason=\"{reason}\"}} ");
    let count = || -> Result<u64> {
        let all = gateways(world)?.iter().map(|pod| metrics(world, pod)).collect::<Result<Vec<_>>>()?;
        let counts =
            all.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix(&row)?.parse::<u64>().ok());
        Ok(counts.sum())
    };
    let before = count()?;
    ensure!(Kube::new(kubeconfig)?.get("/version").is_err(), "{reason}: it leads somewhere");
    until(&format!("{reason} to be counted"), || {
        ensure!(count()? > before, "{row}{before}");
        Ok(())
    })
}

/// A Service that somebody labels elsewhere leads nowhere, and is counted with the name that was refused.
fn what_does_not_count(world: &World, a: &Tenant<'_>, address: &str) -> Result<()> {
    println!("    a Service elsewhere does not count");
    let stolen = format!("stolen.{DOMAIN}");
    let of = json!({"cluster": {"namespace": a.namespace, "name": a.name}, "names": [stolen]}).to_string();
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kube-apiserver", "labels": {"berth.dev/gateway": "true"}, "annotations": {"berth.dev/gateway": of},
        },
        "spec": {"clusterIP": "None", "ports": [{"port": 6443}]},
    });
    // The policy lets who may write Services everywhere do so, as this test may.
    world.kube.create(&core(&a.namespace, "services"), &service)?;
    until("it to be counted", || {
        for pod in gateways(world)? {
            let text = metrics(world, &pod)?;
            for line in ["berth_gateway_services_ignored{reason=\"Foreign\"} 1", "berth_gateway_tenants 2"] {
                ensure!(text.contains(line), "{pod} has no {line}: {text}");
            }
        }
        Ok(())
    })?;
    let kubeconfig = under_name(&at(&a.kubeconfig()?, &format!("https://{address}:6443"))?, &stolen)?;
    refused(world, "UnknownName", &kubeconfig)?;
    world.kube.delete(&format!("{}/kube-apiserver", core(&a.namespace, "services")))
}

/// A team says from where; it holds for who is in already, and the tenant goes on.
fn who_may_come(world: &World, b: &Tenant<'_>, to_b: &str) -> Result<()> {
    println!("    ranges of clients");
    let ranges = |ranges: Value| json!({"endpoint": {"gateway": {"sourceRanges": ranges}}});
    b.change(&ranges(json!(["203.0.113.0/24"])))?;
    until("nobody to get in", || {
        ensure!(Kube::new(to_b)?.get("/version").is_err(), "somebody does");
        Ok(())
    })?;
    b.wait_ready()?;
    let row = format!(
        "berth_gateway_tenant_connections_refused_total{{namespace=\"{}\",name=\"{}\",reason=\"SourceRefused\"}} ",
        b.namespace, b.name
    );
    let told = gateways(world)?.iter().map(|pod| metrics(world, pod)).collect::<Result<Vec<_>>>()?;
    ensure!(told.iter().any(|text| text.contains(&row)), "no {row}: {told:?}");
    b.change(&ranges(json!(["0.0.0.0/0"])))?;
    until("everybody to get in", || Kube::new(to_b)?.get("/version"))?;
    b.change(&json!({"endpoint": {"gateway": null}}))
}

/// A `Gateway` of the platform's own gets what it needs to lead there, its answer is followed, and all of it goes with the engine.
fn routes(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    println!("    routes of the Gateway API");
    tenant.wait_condition("RouteAccepted", "False", "NoGatewayAPI")?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), berth_testkit::gateway_api::tls_route_text()?)?;
    world.kubectl(&["apply", "--server-side", "-f", &file.path().display().to_string()])?;
    world.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", &format!("crd/{ROUTES}")])?;
    let all = berth_e2e::kube_client::path("/apis/gateway.networking.k8s.io/v1", &tenant.cp_namespace, "tlsroutes");
    let path = format!("{all}/kube-apiserver");
    // Nothing tells the operator of it, so it is made to look.
    world.kube.merge(&tenant.path(), &json!({"metadata": {"annotations": {"test.berth.dev/touched": "routes"}}}))?;
    let route = until("the TLSRoute", || world.kube.get(&path))?;
    ensure!(route["spec"]["hostnames"] == json!([name(tenant)]), "{route}");

    let backend = &route["spec"]["rules"][0]["backendRefs"][0];
    let service = backend["name"].as_str().context("a Service")?;
    let service = world.kube.get(&format!("{}/{service}", core(&tenant.cp_namespace, "services")))?;
    let ip = service["spec"]["clusterIP"].as_str().context("an address")?;
    ensure!(service["spec"]["ports"][0]["port"] == backend["port"], "{service}");
    let there = at(&tenant.kubeconfig()?, &format!("https://{ip}:{}", backend["port"]))?;
    Kube::new(&under_name(&there, &name(tenant))?)?
        .get("/version")
        .context("TLS with the route's name at its backend")?;

    for (status, reason, says) in
        [("False", "NotAllowedByListeners", "RouteNotAccepted"), ("True", "Accepted", "AsExpected")]
    {
        let of = |type_: &str, status: &str, reason: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": "by a test",
                "observedGeneration": route["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let conditions = [of("Accepted", status, reason), of("ResolvedRefs", "True", "ResolvedRefs")];
        let parent = json!({
            "parentRef": route["spec"]["parentRefs"][0], "controllerName": "test.berth.dev/controller", "conditions": conditions,
        });
        world.kube.merge(&format!("{path}/status"), &json!({"status": {"parents": [parent]}}))?;
        tenant.wait_condition("RouteAccepted", status, says)?;
        tenant.wait_ready()?;
    }
    let gone = |what: &str| {
        until(what, || {
            ensure!(world.kube.find(&path)?.is_none(), "it is there");
            Ok(())
        })
    };
    tenant.change(&json!({"endpoint": {"gateway": {"maxConnections": 9}}}))?;
    tenant.wait_condition("RouteAccepted", "False", "NotAllowed")?;
    gone("no TLSRoute with limits")?;
    tenant.change(&json!({"endpoint": {"gateway": null}}))?;
    until("the TLSRoute again", || world.kube.get(&path))?;
    install(world, &[])?;
    gone("no TLSRoute without the engine")?;
    tenant.wait_ready()?;
    world.kubectl(&["delete", "crd", ROUTES]).map(|_| ())
}

fn metrics(world: &World, pod: &str) -> Result<String> {
    world.kubectl(&["get", "--raw", &format!("{}/{pod}:8080/proxy/metrics", core(NAMESPACE, "pods"))])
}

fn gateways(world: &World) -> Result<Vec<String>> {
    let pods = world.kube.get(&core(NAMESPACE, "pods"))?;
    let all: Vec<Value> = pods["items"].as_array().cloned().unwrap_or_default();
    Ok(all.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).map(name_of).collect())
}

pub(crate) fn name(tenant: &Tenant<'_>) -> String {
    format!("{}.{DOMAIN}", tenant.cp_namespace)
}

/// The kubeconfig that people get, on a machine whose DNS does not know the name.
pub(crate) fn through(tenant: &Tenant<'_>, address: &str) -> Result<String> {
    let kubeconfig = tenant.kubeconfig()?;
    ensure!(server(&kubeconfig) == format!("https://{}:6443", name(tenant)), "{}", server(&kubeconfig));
    berth_e2e::kube_client::through(&kubeconfig, address)
}
