//! What the demo has in front of its tenants where it made the meta cluster itself: the gateway with a tenant behind it, and one login for all. Both are
//! at ports of the node, which are known before anything runs. No DNS has their names: clients are told the address, and which name to ask for.

use anyhow::Context as _;
use berth_pki::{CertSpec, Usage, issue, issue_ca};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Demo, TEAM, TENANT};
use crate::root;
use crate::shell::{Result, input, output, run, say, write_if_changed};

/// The tenant behind the gateway, of `examples/initech.yaml`.
pub(super) const BEHIND: &str = "initech";
const GATEWAY: &str = "berth-gateway";
const ACCESS: &str = "berth-access";
const GATEWAY_PORT: u16 = 30443;
const NAMED_PORT: u16 = 30444;
const ACCESS_PORT: u16 = 30445;
/// The Secret with the certificate of the login.
const CERTIFICATE: &str = "access-tls";
/// Who they are in a tenant that logs in with the token of `examples/visitor.yaml`.
const VISITOR: &str = "access:system:serviceaccount:team-a:visitor";

/// A command, and what it is for.
pub(super) type Try = (String, &'static str);

impl Demo {
    /// Values of the chart, if that cluster has both already.
    pub(crate) fn front_if_there(&self) -> Result<Vec<String>> {
        let all = output(self.kubectl().args(["get", "namespaces", "-o", "name"]))?;
        let is_there = all.lines().any(|line| line == format!("namespace/{ACCESS}"));
        Ok(if is_there { values() } else { vec![] })
    }

    /// A certificate for the login, and the values of the chart for both.
    pub(super) fn front(&self) -> Result<Vec<String>> {
        self.certificate()?;
        Ok(values())
    }

    /// The first node's address.
    fn node(&self) -> Result<String> {
        let address = "jsonpath={.items[0].status.addresses[?(@.type==\"InternalIP\")].address}";
        output(self.kubectl().args(["get", "nodes", "-o", address]))
    }

    /// Where the gateway of [`gateway_values`] is, once it runs: `IP:port`.
    pub(crate) fn gateway_address(&self) -> Result<String> {
        let rollout = ["-n", GATEWAY, "rollout", "status", "deployment/berth-gateway", "--timeout=120s"];
        output(self.kubectl().args(rollout))?;
        Ok(format!("{}:{GATEWAY_PORT}", self.node()?))
    }

    fn ca_file(&self) -> PathBuf {
        self.dir.join("access-ca.crt")
    }

    /// For the node's address, as a Secret; its CA, which signs nothing else, as a file.
    fn certificate(&self) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": ACCESS, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        });
        self.apply_object(&namespace.to_string())?;
        let has = ["-n", ACCESS, "get", "secret", CERTIFICATE, "-o", "name"];
        if output(self.kubectl().args(has)).is_ok() && self.ca_file().exists() {
            return Ok(());
        }
        let (now, life) = (Timestamp::now(), SignedDuration::from_hours(24 * 365));
        let ca = issue_ca(&CertSpec::new("demo-access-ca-1", Usage::Ca, life), now)?;
        let mut leaf = CertSpec::new("berth-access", Usage::Server, life);
        leaf.ip_addresses.push(self.node()?.parse().context("the node's address")?);
        let pair = issue(&leaf, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), now)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": CERTIFICATE, "namespace": ACCESS},
            "stringData": {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem.expose()},
        });
        self.apply_object(&secret.to_string())?;
        write_if_changed(&self.ca_file(), ca.cert_pem.as_bytes(), 0o644).map(drop)
    }

    /// The tenant behind the gateway, which comes up beside the first one.
    pub(super) fn apply_behind(&self) -> Result<()> {
        run(self.kubectl().args(["apply", "-f"]).arg(root().join(format!("examples/{BEHIND}.yaml"))))
    }

    /// Waits for it and for both programs, lets somebody in, and shows that they get there. What to try next.
    pub(super) fn by_one_address(&self) -> Result<Vec<Try>> {
        let node = self.node()?;
        for name in [GATEWAY, ACCESS] {
            let deployment = format!("deployment/{name}");
            let text = output(self.kubectl().args(["-n", name, "rollout", "status", &deployment, "--timeout=120s"]))?;
            println!("{}", text.lines().last().unwrap_or_default());
        }
        let is_ready = ["-n", TEAM, "wait", "clusters.berth.dev", BEHIND, "--for=condition=Ready"];
        let timeout = format!("--timeout={}s", self.timeout.as_secs());
        println!("{}", output(self.kubectl().args(is_ready).arg(timeout))?.trim_end());

        let kubeconfig = self.behind_kubeconfig(&node)?;
        let get = |file: &Path| format!("kubectl --kubeconfig {}", file.display());
        let by_name = format!("{} get namespaces", get(&short(&kubeconfig)));
        say(&format!("`{BEHIND}` by its name, at the gateway"));
        let answers = |said: &str| said.contains("kube-system");
        let namespaces = ["get", "namespaces", "--kubeconfig"];
        let ask = || output(Command::new(&self.kubectl).args(namespaces).arg(&kubeconfig));
        println!("{}", self.wait_until("the gateway to lead there", ask, answers)?.trim_end());

        say("one login for both tenants");
        let (ca, token, out) = (self.ca_file(), self.dir.join("visitor.token"), self.dir.join("tenants.kubeconfig"));
        self.let_in([&self.acme, &kubeconfig], &token)?;
        let login = |ca: &Path, token: &Path, out: &Path| {
            let [ca, token, out] = [ca, token, out].map(text);
            let server = format!("https://{node}:{ACCESS_PORT}");
            ["login", &server, "--certificate-authority", &ca, "--token-file", &token, "--out", &out].map(str::to_owned)
        };
        let log_in = || output(self.plugin().args(login(&ca, &token, &out)));
        self.wait_until("the login to know the visitor", log_in, |_| true)?;
        let context = |name: &str| format!("--context={TEAM}/{name}");
        for name in [TENANT, BEHIND] {
            let ask = || output(Command::new(&self.kubectl).args(namespaces).arg(&out).arg(context(name)));
            // Each tenant takes up the visitor's right a moment later.
            self.wait_until(&format!("{name} to answer the visitor"), ask, answers)?;
            println!("{name} answers {VISITOR}");
        }
        let typed = format!("kubectl berth {}", login(&short(&ca), &short(&token), &short(&out)).join(" "));
        let by_login = format!("{} {} get namespaces", get(&short(&out)), context(BEHIND));
        Ok(vec![
            (by_name, "another tenant, by the gateway"),
            (typed, "one login for all tenants: a kubeconfig with each"),
            (by_login, "and in, as somebody of the platform"),
        ])
    }

    /// Its kubeconfig as people get it, for a machine whose DNS has not got the name.
    fn behind_kubeconfig(&self, node: &str) -> Result<PathBuf> {
        let secret = format!("{BEHIND}-kubeconfig");
        let get = ["-n", TEAM, "get", "secret", &secret, "-o", "go-template={{.data.value | base64decode}}"];
        let config = output(self.kubectl().args(get))?;
        let mut config: Value = serde_saphyr::from_str(&config).context("the published kubeconfig")?;
        let cluster = &mut config["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().unwrap_or_default().to_owned();
        let name = server.strip_prefix("https://").and_then(|rest| rest.strip_suffix(&format!(":{GATEWAY_PORT}")));
        let name = name.with_context(|| format!("{server} is not at port {GATEWAY_PORT}"))?;
        cluster["tls-server-name"] = name.into();
        cluster["server"] = format!("https://{node}:{GATEWAY_PORT}").into();
        let path = self.dir.join(format!("{BEHIND}.kubeconfig"));
        // JSON is YAML.
        write_if_changed(&path, &serde_json::to_vec_pretty(&config)?, 0o600)?;
        Ok(path)
    }

    /// The platform lets the visitor call tenants, each tenant lets them look, and a file has their token.
    fn let_in(&self, tenants: [&Path; 2], token: &Path) -> Result<()> {
        output(self.kubectl().args(["apply", "-f"]).arg(root().join("examples/visitor.yaml")))?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "visitors"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VISITOR}],
        });
        for tenant in tenants {
            let apply = ["--kubeconfig", &text(tenant), "apply", "-f", "-"];
            input(Command::new(&self.kubectl).args(apply), &binding.to_string())?;
        }
        let create = ["-n", TEAM, "create", "token", "visitor", "--duration=24h"];
        let made = output(self.kubectl().args(create))?;
        write_if_changed(token, made.trim().as_bytes(), 0o600).map(drop)
    }
}

/// One node has no load balancer that would have to learn who is gone.
const OF_BOTH: [&str; 4] = ["replicas=1", "service.type=NodePort", "preStopSeconds=1", "drainSeconds=5"];

/// Values of the chart for the gateway at a port of the node.
pub(crate) fn gateway_values() -> Vec<String> {
    let own = [
        "enabled=true".to_owned(),
        "domain=demo.test".to_owned(),
        format!("port={GATEWAY_PORT}"),
        format!("namedPort={NAMED_PORT}"),
        format!("service.nodePort={GATEWAY_PORT}"),
        format!("service.namedNodePort={NAMED_PORT}"),
    ];
    of("gateway", &own)
}

fn values() -> Vec<String> {
    let own = [
        "enabled=true".to_owned(),
        "createNamespace=false".to_owned(),
        format!("tls.secretName={CERTIFICATE}"),
        format!("service.nodePort={ACCESS_PORT}"),
    ];
    [gateway_values(), of("access", &own)].concat()
}

fn of(part: &str, own: &[String]) -> Vec<String> {
    own.iter().map(String::as_str).chain(OF_BOTH).map(|value| format!("{part}.{value}")).collect()
}

/// A path as one types it in the checkout.
fn short(path: &Path) -> PathBuf {
    path.strip_prefix(root()).unwrap_or(path).to_owned()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
