//! What only a real cluster shows. One binary and few clusters: each comes up once and serves several checks.
//!
//! These need root and built binaries, and take minutes. `make test` runs them; a plain `cargo test` must not pass as if
//! they had run, so they fail unless BERTH_REAL=1.

mod nodes;
mod traces;
mod vpcs;

use std::{
    fs,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use berth_devcluster::{Cluster, Config};
use traces::Traces;

const DEVCLUSTER: &str = env!("CARGO_BIN_EXE_devcluster");

/// A cluster that is taken down with the test, even one that fails.
struct Up(Cluster);

impl Up {
    fn new(name: &str, volumes: u16) -> Self {
        Self::with(&Config { volumes, ..Config::named(name) })
    }

    fn with(config: &Config) -> Self {
        Cluster::remove(&config.name).unwrap();
        Self(Cluster::up(config).unwrap())
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.0.kubectl().unwrap().args(arguments).output().unwrap();
        assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, manifest: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, manifest).unwrap();
        self.kubectl(&["apply", "--server-side", "-f", file.path().to_str().unwrap()]);
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Err(e) = self.0.down() {
            eprintln!("{}: {e:#}", self.0.name());
        }
    }
}

fn require_real() {
    assert!(
        std::env::var_os("BERTH_REAL").is_some_and(|value| value == "1"),
        "this test makes real clusters: run it as root with BERTH_REAL=1 (`make test` does), after `devcluster build`"
    );
}

fn until(what: &str, check: impl FnMut() -> bool) {
    until_within(Duration::from_secs(90), what, check);
}

fn until_within(timeout: Duration, what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !check() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn clusters_run_side_by_side_recycle_volumes_and_leave_nothing() {
    require_real();
    let (one, two) = thread::scope(|scope| {
        let one = scope.spawn(|| Up::new("t-one", 12));
        let two = scope.spawn(|| Up::new("t-two", 2));
        (one.join().unwrap(), two.join().unwrap())
    });

    both_are_reachable_from_the_host(&one, &two);
    up_again_changes_nothing(&one);
    killed_components_come_back(&two);
    volumes_are_wiped_and_offered_again(&one);
    data_and_addresses_survive_a_stop(&one);

    let slots = [one.0.slot(), two.0.slot()];
    drop(one);
    drop(two);
    let after = Traces::find();
    assert_eq!(after.of("t-one"), Vec::<String>::new());
    assert_eq!(after.of("t-two"), Vec::<String>::new());
    for slot in slots {
        assert_eq!(after.of_free_slot(slot), Vec::<String>::new());
    }
}

fn both_are_reachable_from_the_host(one: &Up, two: &Up) {
    assert_ne!(one.0.slot(), two.0.slot());
    for cluster in [one, two] {
        cluster.apply(&etcd("web", "0 / 1"));
        cluster.apply(
            "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default},
              spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 2379}]}}",
        );
    }
    for cluster in [one, two] {
        cluster.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=90s"]);
        let address =
            || cluster.kubectl(&["get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}"]);
        until("a load balancer's address", || !address().is_empty());
        let expected = cluster.0.slot().load_balancer_addresses().next().unwrap().to_string();
        assert_eq!(address(), expected);
        until("etcd behind its load balancer", || http_get(&format!("{}:2379", address()), "/health").contains("true"));
        // By name, from inside: cluster DNS and the Service network.
        cluster.kubectl(&[
            "exec",
            "web",
            "--",
            "etcdctl",
            "--endpoints=http://web.default.svc:2379",
            "endpoint",
            "health",
        ]);
    }
    one.kubectl(&["delete", "service", "web"]);
    one.apply(
        "{apiVersion: v1, kind: Service, metadata: {name: next, namespace: default},
          spec: {type: LoadBalancer, loadBalancerClass: devcluster, selector: {app: web}, ports: [{port: 2379}]}}",
    );
    let expected = one.0.slot().load_balancer_addresses().next().unwrap().to_string();
    until("the freed address to be given again", || {
        one.kubectl(&["get", "service", "next", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}"]) == expected
    });
}

fn up_again_changes_nothing(cluster: &Up) {
    let pids = |c: &Cluster| c.status().unwrap().components.iter().map(|c| (c.name.clone(), c.pid)).collect::<Vec<_>>();
    let (pids_before, state) = (pids(&cluster.0), fs::read(cluster.0.dir().join("state.json")).unwrap());
    let writes = || {
        let log = fs::read_to_string(cluster.0.audit_log()).unwrap();
        let is_write = |line: &&str| line.contains("\"username\":\"admin\"") && !line.contains("\"verb\":\"get\"");
        log.lines().filter(is_write).count()
    };
    let writes_before = writes();
    let start = Instant::now();
    Cluster::up(&Config::named(cluster.0.name())).unwrap();
    println!("up again: {:?}", start.elapsed());
    assert_eq!(pids(&cluster.0), pids_before);
    assert_eq!(fs::read(cluster.0.dir().join("state.json")).unwrap(), state);
    assert_eq!(writes(), writes_before, "no object was written");
}

/// All at once, but for the one that brings them back: pods run on, and can be reached again.
fn killed_components_come_back(cluster: &Up) {
    let components = cluster.0.status().unwrap().components;
    let killed: Vec<_> = components.iter().filter(|c| c.name != "supervisor").collect();
    assert_eq!(killed.len(), 7, "{components:?}");
    for component in &killed {
        assert!(Command::new("kill").args(["-9", &component.pid.to_string()]).status().unwrap().success());
    }
    for component in &killed {
        until(&format!("a new {}", component.name), || {
            cluster.0.component_pid(&component.name).is_some_and(|pid| pid != component.pid)
        });
    }
    until("the pod that ran all the time", || {
        let output = cluster.0.kubectl().unwrap().args(["exec", "web", "--", "etcdctl", "endpoint", "health"]).output();
        output.unwrap().status.success()
    });
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    assert_eq!(cluster.kubectl(&["get", "pod", "web", "-o", restarts]), "0");
}

/// Thirty rounds over twelve volumes, three at a time: each volume is used more than once, and always comes back empty.
fn volumes_are_wiped_and_offered_again(cluster: &Up) {
    for round in 0..10 {
        let names: Vec<String> = (0..3).map(|n| format!("data-{round}-{n}")).collect();
        let manifests: Vec<String> =
            names.iter().map(|name| format!("{}\n---\n{}", claim(name), etcd(name, name))).collect();
        cluster.apply(&manifests.join("\n---\n"));
        let pods: Vec<String> = names.iter().map(|name| format!("pod/{name}")).collect();
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        cluster.kubectl(&[&["wait", "--for=condition=Ready", "--timeout=90s"], &pods[..]].concat());
        let claims: Vec<String> = names.iter().map(|name| format!("pvc/{name}")).collect();
        let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
        for name in &names {
            let pv = cluster.kubectl(&["get", "pvc", name, "-o", "jsonpath={.spec.volumeName}"]);
            let data = cluster.0.volume_dir(&pv).join("etcd");
            assert!(data.join("member").exists(), "{name} writes to {}", data.display());
            // etcd names its member after the claim: had an older round's data been there, it would have kept that.
            let members = cluster.kubectl(&["exec", name, "--", "etcdctl", "member", "list"]);
            assert!(members.contains(&format!(" {name},")), "{name} found another's data: {members}");
        }
        cluster.kubectl(&[&["delete", "--wait=false", "--grace-period=0", "--force"], &pods[..]].concat());
        cluster.kubectl(&[&["delete", "--wait=false"], &claims[..]].concat());
    }
    until("all volumes to be offered again", || {
        let phases = cluster.kubectl(&["get", "pv", "-o", "jsonpath={.items[*].status.phase}"]);
        phases.split(' ').filter(|phase| *phase == "Available").count() == 12
    });
    for number in 1..=12 {
        let directory = cluster.0.volume_dir(&format!("local-{number:02}"));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{} is empty", directory.display());
    }
}

fn data_and_addresses_survive_a_stop(cluster: &Up) {
    cluster.apply(&format!("{}\n---\n{}", claim("kept"), etcd("kept", "kept")));
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/kept", "--timeout=90s"]);
    cluster.kubectl(&["exec", "kept", "--", "etcdctl", "put", "key", "survives"]);
    cluster.0.stop().unwrap();
    let stopped = Traces::find();
    assert_eq!(stopped.processes_of("t-one"), Vec::<String>::new());
    cluster.0.start(Duration::from_mins(2)).unwrap();
    until("the pod's data", || {
        let output =
            cluster.0.kubectl().unwrap().args(["exec", "kept", "--", "etcdctl", "get", "key"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("survives")
    });
}

#[test]
fn an_up_that_was_killed_is_cleared_and_done_again() {
    require_real();
    let name = "t-killed";
    Cluster::remove(name).unwrap();
    // At different moments: before the first process, while they start, and when the node joins.
    for pause in [50, 400, 3000] {
        let mut child = Command::new(DEVCLUSTER).args(["up", "--name", name]).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(pause));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let cluster = Up(Cluster::up(&Config { volumes: 2, ..Config::named(name) }).unwrap());
    assert_eq!(cluster.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]), cluster.0.node());
    let processes = Traces::find().processes_of(name);
    for component in ["etcd", "kube-apiserver", "containerd", "kubelet"] {
        let running = processes.iter().filter(|p| p.ends_with(&format!("/{component}"))).count();
        assert_eq!(running, 1, "one {component} in {processes:?}");
    }
    drop(cluster);
    // Also one that is killed and never brought up again.
    let mut child = Command::new(DEVCLUSTER).args(["up", "--name", name]).stdout(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    child.kill().unwrap();
    child.wait().unwrap();
    let output: Output = Command::new(DEVCLUSTER).args(["down", "--name", name]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(Traces::find().of(name), Vec::<String>::new());
}

fn http_get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(address) else { return String::new() };
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut reply = String::new();
    let _ = write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let _ = stream.read_to_string(&mut reply);
    reply
}

fn claim(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}, namespace: default}},
           spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}"
    )
}

/// A pod with an etcd as a tenant's runs it: not root, nothing but its volume writable. Its member is called like itself.
/// Without a claim (any other second argument) the volume is an emptyDir.
fn etcd(name: &str, claim: &str) -> String {
    let volume = if claim == name {
        format!("{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}")
    } else {
        "{name: data, emptyDir: {}}".to_owned()
    };
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {{runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000, runAsNonRoot: true}}
  containers:
  - name: etcd
    image: registry.k8s.io/etcd:3.6.16-0
    command: [etcd, --name={name}, --data-dir=/data/etcd, '--initial-cluster={name}=http://localhost:2380',
      '--listen-client-urls=http://0.0.0.0:2379', '--advertise-client-urls=http://localhost:2379']
    readinessProbe: {{httpGet: {{path: /health, port: 2379}}, periodSeconds: 1}}
    securityContext: {{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {{drop: [ALL]}}}}
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{volume}]
"
    )
}
