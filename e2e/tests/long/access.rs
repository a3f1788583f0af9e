//! One login for all tenants: a person with a token of the meta cluster calls, watches, execs and forwards into a tenant behind the gateway, for as long
//! as RBAC of the team's namespace says so, whatever rolls or is away meanwhile.

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Worker, binaries, images};
use berth_e2e::certs::self_signed;
use berth_e2e::images::{built, load_own};
use berth_e2e::kube_client::through;
use berth_e2e::operator::Options;
use berth_e2e::{Kube, Tenant, World, core, machines, paths, until};
use serde_json::{Value, json};
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NAMESPACE: &str = "berth-access";
const DOMAIN: &str = "api.access.test";
const CERTIFICATE: &str = "access-tls";

#[test]
#[ignore = "make test-all: a machine with a kubelet of its own; who gets in is tested in the program's crate between real API servers"]
fn a_person_has_one_login_for_all_tenants() {
    berth_e2e::run("access", |world| {
        let address = install(world)?;
        let images = images::of_nodes()?;
        machines::with(world, &["inside"], None, &images, |workers| work(world, &address, &workers[0]))
    });
}

/// The gateway and the login, and where people find that.
fn install(world: &World) -> Result<String> {
    let gateway = load_own(&world.cluster, "gateway", &built("gateway")?, &[])?;
    let access = load_own(&world.cluster, "access", &built("access")?, &[])?;
    let values = [
        "gateway.enabled=true".to_owned(),
        format!("gateway.domain={DOMAIN}"),
        format!("gateway.image.tag={gateway}"),
        "access.enabled=true".to_owned(),
        format!("access.image.tag={access}"),
        format!("access.tls.secretName={CERTIFICATE}"),
        "access.preStopSeconds=3".to_owned(),
        "access.drainSeconds=5".to_owned(),
        "gateway.drainSeconds=5".to_owned(),
        "gateway.preStopSeconds=3".to_owned(),
        "access.login.command=get-token".to_owned(),
    ];
    world.install(&Options { values: values.to_vec(), ..Options::default() })?;
    let address = until("the login's address", || {
        let service = world.kube.get(&format!("{}/{NAMESPACE}", core(NAMESPACE, "services")))?;
        let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        address.map(str::to_owned).context("no address yet")
    })?;
    Ok(address)
}

fn work(world: &World, address: &str, machine: &Worker) -> Result<()> {
    let (certificate, key) = self_signed(address)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": CERTIFICATE},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    });
    world.kube.ensure(&core(NAMESPACE, "secrets"), &secret)?;
    world.pair_has_rolled(NAMESPACE)?;
    let behind = json!({"endpoint": {"type": "Gateway"}, "apiServer": {"replicas": 2}});
    let (a, b) = (Tenant::create(world, "login-a", &behind)?, Tenant::create(world, "login-b", &json!({}))?);
    a.wait_ready()?;
    b.wait_ready()?;
    let person = Person::new(world, &a, address, &certificate)?;
    person.gets_in(world, &a, &b)?;

    println!("    a machine joins, and a pod runs there");
    machines::join_by_name(&a, machine, &gateway(world)?)?;
    let hello = paths::root().join("examples/hello.yaml");
    person.until("pods to be created", &["apply", "-f", &hello.to_string_lossy()])?;
    person.until("pods to be ready", &["-n", "default", "rollout", "status", "deployment/hello", "--timeout=2s"])?;
    let pod =
        person.run(&["-n", "default", "get", "pods", "-l", "app=hello", "-o", "jsonpath={.items[0].metadata.name}"])?;
    let said = person.run(&["-n", "default", "exec", &pod, "--", "/agnhost", "--help"])?;
    ensure!(said.contains("netexec"), "{said}");
    person.until("its log", &["-n", "default", "logs", &pod])?;
    person.forwarded(&pod)?;

    println!("    without the operator, and while it rolls");
    world.stop_operator()?;
    person.run(&["get", "namespaces"])?;
    world.start_operator()?;
    world.kubectl(&["-n", NAMESPACE, "rollout", "restart", "deployment/berth-access"])?;
    world.pair_has_rolled(NAMESPACE)?;
    person.until("the new replicas to be let in", &["get", "namespaces"])?;

    println!("    rights that are taken away");
    let mut open = person.stays(&pod)?;
    world.kubectl(&["-n", &a.namespace, "delete", "rolebinding", "login"])?;
    until("no new call", || {
        let said = person.run(&["get", "namespaces"]);
        ensure!(said.is_err(), "it is answered");
        Ok(())
    })?;
    until("the open exec to be cut", || {
        ensure!(open.0.try_wait()?.is_some(), "it goes on");
        Ok(())
    })?;
    a.delete()?;
    b.delete()
}

/// Somebody whom the meta cluster knows, with the kubeconfig that they wrote themselves.
struct Person {
    kubeconfig: PathBuf,
    _dir: tempfile::TempDir,
}

impl Person {
    fn new(world: &World, tenant: &Tenant<'_>, address: &str, ca: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "person"}});
        world.kube.ensure(&core(&tenant.namespace, "serviceaccounts"), &account)?;
        let token = world.kubectl(&["-n", &tenant.namespace, "create", "token", "person", "--duration=2h"])?;
        let rules = json!([{
            "apiGroups": ["berth.dev"], "resources": ["clusters/api"], "resourceNames": [tenant.name], "verbs": ["*"],
        }]);
        let group = "rbac.authorization.k8s.io/v1";
        let at = |plural: &str| format!("/apis/{group}/namespaces/{}/{plural}", tenant.namespace);
        let role = json!({"apiVersion": group, "kind": "Role", "metadata": {"name": "login"}, "rules": rules});
        world.kube.ensure(&at("roles"), &role)?;
        let binding = json!({
            "apiVersion": group, "kind": "RoleBinding", "metadata": {"name": "login"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "login"},
            "subjects": [{"kind": "ServiceAccount", "namespace": tenant.namespace, "name": "person"}],
        });
        world.kube.ensure(&at("rolebindings"), &binding)?;
        // The tenant's own administrator says what they may do there.
        let user = format!("access:system:serviceaccount:{}:person", tenant.namespace);
        let binding = json!({
            "apiVersion": group, "kind": "ClusterRoleBinding", "metadata": {"name": "person"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        Kube::new(&through(&tenant.kubeconfig()?, &gateway(world)?)?)?
            .ensure(&format!("/apis/{group}/clusterrolebindings"), &binding)?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let (token, ca) = (write("token", token.trim())?, write("ca.crt", ca)?);
        let kubeconfig = dir.path().join("kubeconfig");
        let login = |more: &[&Path]| -> Result<String> {
            let mut command = Command::new(paths::program("kubectl-berth")?);
            command.arg("login").arg(format!("https://{address}")).arg("--certificate-authority").arg(&ca);
            command.arg("--out").arg(&kubeconfig).args(more);
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.success(), "{said}");
            Ok(said)
        };
        until("the login", || login(&["--token-file".as_ref(), &token]))?;
        let by_command = login(&["--yes".as_ref()]).err().context("there is no such command")?.to_string();
        ensure!(by_command.contains("asks kubectl to run") && by_command.contains("get-token"), "{by_command}");
        Ok(Self { kubeconfig, _dir: dir })
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(binaries::kubectl()?);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        Ok(command)
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments)?.output()?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn until(&self, what: &str, arguments: &[&str]) -> Result<String> {
        until(what, || self.run(arguments))
    }

    /// As whom, and where not.
    fn gets_in(&self, world: &World, a: &Tenant<'_>, b: &Tenant<'_>) -> Result<()> {
        let me = self.until("an answer", &["auth", "whoami", "-o", "json"])?;
        let me: Value = serde_json::from_str(&me)?;
        let user = format!("access:system:serviceaccount:{}:person", a.namespace);
        ensure!(me["status"]["userInfo"]["username"] == user.as_str(), "{me}");
        let groups = me["status"]["userInfo"]["groups"].to_string();
        ensure!(groups == r#"["system:authenticated"]"#, "{groups}");
        let contexts = self.run(&["config", "get-contexts", "-o", "name"])?;
        ensure!(contexts.trim() == format!("{}/{}", a.namespace, a.name), "{contexts}");
        // The other tenant has nothing to do with them.
        let kubeconfig = std::fs::read_to_string(&self.kubeconfig)?;
        let other = kubeconfig.replace(
            &format!("/clusters/{}/{}", a.namespace, a.name),
            &format!("/clusters/{}/{}", b.namespace, b.name),
        );
        ensure!(other != kubeconfig, "{kubeconfig}");
        ensure!(Kube::new(&other)?.find("/version")?.is_none(), "the other tenant answers");
        // Who called is in the tenant's audit log, too.
        let log = world.kubectl(&[
            "-n",
            &a.cp_namespace,
            "logs",
            "-l",
            "app.kubernetes.io/component=kube-apiserver",
            "--tail=-1",
        ])?;
        ensure!(log.contains(&user), "the audit log does not have {user}");
        let log = world.kubectl(&["-n", NAMESPACE, "logs", "-l", "app.kubernetes.io/component=access", "--tail=-1"])?;
        ensure!(log.contains(r#""resource":"selfsubjectreviews.authentication.k8s.io""#), "{log}");
        Ok(())
    }

    fn forwarded(&self, pod: &str) -> Result<()> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut forward = self.command(&["-n", "default", "port-forward", pod, &format!("{port}:8080")])?;
        let _forward = Ended(forward.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        until(&format!("{pod} to answer through port-forward"), || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            std::io::Write::write_all(&mut stream, b"GET /hostname HTTP/1.0\r\n\r\n")?;
            let mut said = String::new();
            stream.read_to_string(&mut said)?;
            ensure!(said.ends_with(pod), "{said}");
            Ok(())
        })
    }

    /// An exec that does not end by itself.
    fn stays(&self, pod: &str) -> Result<Ended> {
        let mut exec = self.command(&["-n", "default", "exec", pod, "--", "/agnhost", "pause"])?;
        let mut open = Ended(exec.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        std::thread::sleep(std::time::Duration::from_secs(3));
        ensure!(open.0.try_wait()?.is_none(), "it ended by itself");
        Ok(open)
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the gateway is.
fn gateway(world: &World) -> Result<String> {
    let service = world.kube.get(&format!("{}/berth-gateway", core("berth-gateway", "services")))?;
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().map(str::to_owned).context("no address")
}
