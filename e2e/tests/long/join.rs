//! A machine becomes a node of a tenant by `kubeadm join`, as docs/nodes.md says, and runs a pod, while no operator runs. Forged requests for
//! serving certificates stay `Pending`, each with an Event that says why, beside a good one that is approved.

use std::time::{Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use berth_api::names;
use berth_devcluster::{Worker, binaries};
use berth_e2e::{Kube, Kubectl, Tenant, World, certs, core, kube_client, machines, memory, run::run, until};
use serde_json::json;

/// What the program that approves kubelets' certificates may need.
const APPROVER_BYTES: u64 = 8 << 20;

const SERVING: &str = "kubernetes.io/kubelet-serving";

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

#[test]
#[ignore = "make test-all: a machine beside the cluster, with a kubelet of its own"]
fn a_machine_joins_and_runs_a_pod() {
    run("join", |world| machines::with(world, &["worker-1"], None, &[], |workers| joins(world, &workers[0])));
}

fn joins(world: &World, worker: &Worker) -> Result<()> {
    let tenant = Tenant::ready(world, "joined", &json!({}))?;
    let arguments = tenant.join_arguments()?;

    let token = arguments.iter().skip_while(|word| *word != "--token").nth(1).context("a token")?;
    let published = tenant.kubeconfig()?;
    let config = core("kube-system", "configmaps") + "/kubeadm-config";
    let with_token = Kube::with_token(&published, token)?;
    with_token.get(&config)?;
    ensure!(with_token.get(&core("kube-system", "secrets")).is_err(), "a token for joins reads Secrets");
    ensure!(Kube::with_token(&published, "abcdef.0123456789abcdef")?.get(&config).is_err(), "any token will do");
    world.stop_operator()?;
    let joined = Instant::now();
    worker.join(&arguments)?;
    worker.configure_pods()?;

    let kubectl = Kubectl::of(&tenant)?;
    let node = worker.name();
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    until("the node to be ready", || {
        let said = kubectl.run(&["get", "node", &node, "-o", &format!("jsonpath={ready}")])?;
        ensure!(said == "True", "Ready is {said}");
        Ok(())
    })?;
    let image = format!("--image=registry.k8s.io/pause:{}", berth_devcluster::versions::PAUSE);
    kubectl.run(&["run", "first", &image, "--image-pull-policy=Never"])?;
    until("the pod to run", || {
        let said = kubectl.run(&["get", "pod", "first", "-o", "jsonpath={.status.phase} {.spec.nodeName}"])?;
        ensure!(said == format!("Running {node}"), "{said}");
        Ok(())
    })?;

    // Nobody but berth-approve approves serving certificates.
    kubectl.until("its log", &["logs", "first"])?;
    let took = joined.elapsed();
    println!("    the first log {:.1} s after the join", took.as_secs_f64());
    let served = certs::served(&format!("{}:10250", worker.address()), &["-issuer", "-ext", "subjectAltName"])?;
    ensure!(served.contains("kubernetes-ca") && served.contains(&format!("DNS:{node}")), "{served}");
    let api = arguments.first().and_then(|address| address.rsplit_once(':')).context("an address to join")?.0;
    nothing_else_is_approved(&tenant, worker, api)?;
    no_node_is_taken_over(&with_token, &node)?;
    for pod in tenant.pods(Some(names::CONTROLLER_MANAGER))? {
        let bytes = memory::of(&pod, names::APPROVER)?;
        println!("    {} needs {} KiB", names::APPROVER, bytes >> 10);
        ensure!(bytes <= APPROVER_BYTES, "{} needs {bytes} bytes", names::APPROVER);
    }
    tenant.nothing_restarted()?;
    world.start_operator()?;

    // Counted within a quarter of an hour; an event of the Cluster has it done at once.
    until("the node to be counted", || {
        let look = json!({"metadata": {"annotations": {"looked-at": format!("{:?}", SystemTime::now())}}});
        world.kube.merge(&tenant.path(), &look)?;
        let counted = &tenant.cluster()?["status"]["nodes"];
        let kubelet = berth_devcluster::versions::KUBERNETES.trim_start_matches('v');
        ensure!(*counted == json!({"total": 1, "ready": 1, "oldestKubelet": kubelet}), "{counted}");
        Ok(())
    })?;
    Ok(())
}

/// Whoever has the join line asks to be the node that joined by it, and one that nobody is.
fn no_node_is_taken_over(with_token: &Kube, node: &str) -> Result<()> {
    let requests = kube_client::path("/apis/certificates.k8s.io/v1", "", "certificatesigningrequests");
    for (name, node) in [("takes-over", node), ("adds", "worker-9")] {
        let pem = STANDARD.encode(certs::client_request(node)?);
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"signerName": CLIENT, "usages": ["digital signature", "client auth"], "request": pem},
        });
        with_token.create(&requests, &request)?;
    }
    until("the certificate for a new node", || {
        let request = with_token.get(&format!("{requests}/adds"))?;
        request["status"]["certificate"].as_str().map(drop).context("there is none")
    })?;
    until("the other one to be denied", || {
        let status = with_token.get(&format!("{requests}/takes-over"))?["status"].take();
        let condition = &status["conditions"][0];
        let says = condition["message"].as_str().unwrap_or_default();
        let is_denied = condition["type"] == "Denied" && status["certificate"].is_null();
        ensure!(is_denied && says.contains(&format!("kubectl delete node {node}")), "{status}");
        Ok(())
    })
}

/// The node's own kubelet asks, in the same way, for what is its own and for what is not.
fn nothing_else_is_approved(tenant: &Tenant<'_>, worker: &Worker, api: &str) -> Result<()> {
    let (node, own) = (worker.name(), format!("DNS:{},IP:{}", worker.name(), worker.address()));
    let status = format!("which is not among the addresses in the status of Node {node}");
    let forged = [
        ("the-api", format!("IP:{api}"), format!("it asks for {api}, which is the API's")),
        ("a-service", "DNS:hook.team.svc".to_owned(), "it asks for hook.team.svc, which is a Service's".to_owned()),
        ("more", format!("{own},IP:192.0.2.77"), format!("it asks for 192.0.2.77, {status}")),
        ("another", "DNS:worker-2".to_owned(), format!("it asks for worker-2, {status}")),
    ];
    for (name, names, _) in &forged {
        ask(worker, name, names)?;
    }
    ask(worker, "its-own", &own)?;
    let (kube, requests) =
        (tenant.api()?, kube_client::path("/apis/certificates.k8s.io/v1", "", "certificatesigningrequests"));
    let signed = until("the certificate for its own name and address", || {
        let request = kube.get(&format!("{requests}/its-own"))?;
        let certificate = request["status"]["certificate"].as_str().context("there is none")?;
        Ok(STANDARD.decode(certificate)?)
    })?;
    let said = certs::facts(&signed, &["-ext", "subjectAltName"])?;
    ensure!(said.contains(&format!("IP Address:{}", worker.address())), "{said}");
    for (name, _, why) in &forged {
        let events = format!("{}?fieldSelector=involvedObject.name%3D{name}", core("default", "events"));
        until(&format!("why {name} is not approved"), || {
            let all = kube.list(&events)?;
            let said: Vec<_> = all.iter().map(|event| &event["message"]).collect();
            ensure!(said == [&json!(format!("not approved: {why}"))], "{said:?}");
            Ok(())
        })?;
    }
    for (name, ..) in &forged {
        let request = kube.get(&format!("{requests}/{name}"))?;
        let status = &request["status"];
        ensure!(status["conditions"].is_null() && status["certificate"].is_null(), "{name}: {status}");
    }
    Ok(())
}

/// Asks for a serving certificate with the credentials of the machine's kubelet.
fn ask(worker: &Worker, name: &str, names: &str) -> Result<()> {
    let pem = certs::serving_request(&worker.name(), names)?;
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": SERVING, "usages": ["digital signature", "server auth"], "request": STANDARD.encode(pem)},
    });
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("request.json");
    std::fs::write(&file, request.to_string())?;
    let mut create = worker.command(&binaries::kubectl()?)?;
    let output = create.arg("--kubeconfig=/etc/kubernetes/kubelet.conf").args(["create", "-f"]).arg(&file).output()?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
