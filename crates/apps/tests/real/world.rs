//! A tenant's API server, a chart repository, and `berth-apps`.

use berth_contract::apps::{Chart, Check, Deploy, Deployed, Outcome, Release, TASK, Task, Uninstall, files};
use berth_testkit::ApiServer;
use berth_testkit::apiserver::binary;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The version that images have.
const HELM: &str = "helm4-v4.3.1";

const TEMPLATE: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  word: {{ .Values.word | quote }}
  other: fixed
  {{- if .Values.broken }}{{ fail .Values.broken }}{{ end }}
{{- if .Values.hang }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: hang
  annotations: {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: none}]
{{- end }}
{{- if .Values.more }}
{{- $ca := genCA "web" 1 }}
---
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {word: "{{ .Values.word }}", password: "{{ randAlphaNum 20 }}", ca: {{ $ca.Cert | quote }}}
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Service
    metadata: {name: web, annotations: {"helm.sh/resource-policy": keep}}
    spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "web:{{ .Release.Namespace }}"}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      hostNetwork: no
      nodeSelector: null
      containers:
        - {name: c, image: none, resources: {limits: {cpu: 1000m, memory: 1024Mi}}, volumeMounts: [{name: v, mountPath: /v, readOnly: yes}]}
      volumes: [{name: v, configMap: {name: web, defaultMode: 0640}}]
{{- end }}
"#;

pub(crate) struct World {
    dir: tempfile::TempDir,
    namespace: String,
    repository: String,
}

/// One server for all tests of this program.
fn server() -> (&'static Runtime, &'static ApiServer) {
    static SERVER: OnceLock<(Runtime, ApiServer)> = OnceLock::new();
    let (runtime, server) = SERVER.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(ApiServer::start()).unwrap();
        (runtime, server)
    });
    (runtime, server)
}

impl World {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repository = serve(dir.path());
        let world = Self { namespace: server().1.unique("shop"), repository, dir };
        fs::create_dir_all(world.path("secret")).unwrap();
        world.user("system:masters");
        world
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Who calls the tenant: somebody of that group.
    pub(crate) fn user(&self, group: &str) {
        self.secret(files::KUBECONFIG, &server().1.kubeconfig_as("berth:apps", &[group]));
    }

    /// A file of the Secret.
    pub(crate) fn secret(&self, name: &str, content: &str) {
        fs::write(self.path("secret").join(name), content).unwrap();
    }

    fn release(&self) -> Release {
        let (name, namespace) = ("web".into(), self.namespace.clone());
        Release { name, namespace, installation: "ours".into(), timeout: 60, adopt: false }
    }

    pub(crate) fn deploy(&self, values: &Value) -> Deploy {
        let chart =
            Chart { from: self.repository.clone(), name: "web".into(), version: "1.0.0".into(), ..Chart::default() };
        let values = values.as_object().unwrap().clone();
        Deploy { release: self.release(), chart, values, value_files: 0, plain: vec![], wait: false, roll_back: false }
    }

    /// In a group of its own, so that Helm is killed with it, as with a pod.
    fn spawn(&self, task: &Task) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth-apps"));
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        command.arg("run").args([
            flag("secret", &self.path("secret")),
            flag("scratch", &self.path("scratch")),
            flag("helm", &binary("tools", HELM, "helm4").unwrap()),
            flag("termination-log", &self.path("said.json")),
            "--patience=2".to_owned(),
        ]);
        command.env(TASK, serde_json::to_string(task).unwrap()).process_group(0).stderr(Stdio::inherit());
        command.spawn().unwrap()
    }

    /// How it ended, and with which code.
    pub(crate) fn run(&self, task: &Deploy) -> (Outcome, i32) {
        self.ended(&Task::Deploy(Box::new(task.clone())))
    }

    /// Somebody calls Helm; the chart is at [`World::chart`].
    #[track_caller]
    pub(crate) fn by_hand(&self, args: &[&str]) {
        let mut command = Command::new(binary("tools", HELM, "helm4").unwrap());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.path("theirs"));
        }
        command.env("KUBECONFIG", self.path("secret").join(files::KUBECONFIG));
        command.args(args).arg(format!("--namespace={}", self.namespace)).stdout(Stdio::null());
        assert!(command.status().unwrap().success(), "{args:?}");
    }

    /// The chart, unpacked.
    pub(crate) fn chart(&self) -> String {
        self.path("web").display().to_string()
    }

    pub(crate) fn run_uninstall(&self) -> (Outcome, i32) {
        self.ended(&Task::Uninstall(Uninstall { release: self.release() }))
    }

    /// That what is there be compared with what was deployed.
    pub(crate) fn check(&self, deployed: &Deployed) -> Check {
        let (chart_digest, values_digest) = (deployed.chart_digest.clone(), deployed.values_digest.clone());
        Check { release: self.release(), revision: deployed.revision, chart_digest, values_digest, ..Check::default() }
    }

    pub(crate) fn run_check(&self, task: &Check) -> (Outcome, i32) {
        self.ended(&Task::Check(Box::new(task.clone())))
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let (runtime, server) = server();
        let _inside = runtime.enter();
        Api::namespaced(server.client(), &self.namespace)
    }

    /// An object, as somebody sees it.
    pub(crate) fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        server().0.block_on(self.api::<K>().get_opt(name)).unwrap()
    }

    /// Somebody changes an object.
    pub(crate) fn edit<K>(&self, name: &str, change: &Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let params = PatchParams::apply("kubectl-edit");
        server().0.block_on(self.api::<K>().patch(name, &params, &Patch::Merge(change))).unwrap();
    }

    /// Somebody deletes an object.
    pub(crate) fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        drop(server().0.block_on(self.api::<K>().delete(name, &DeleteParams::default())).unwrap());
    }

    fn ended(&self, task: &Task) -> (Outcome, i32) {
        let code = self.spawn(task).wait().unwrap().code().unwrap();
        (serde_json::from_slice(&fs::read(self.path("said.json")).unwrap()).unwrap(), code)
    }

    /// Kills it as soon as the newest revision is so.
    pub(crate) fn killed_when(&self, task: &Deploy, status: &str) {
        let mut child = self.spawn(&Task::Deploy(Box::new(task.clone())));
        let until = Instant::now() + Duration::from_mins(2);
        while self.statuses().last().is_none_or(|last| last != status) {
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "{:?}", self.statuses());
            thread::sleep(Duration::from_millis(20));
        }
        kill(child);
    }

    /// Kills it after that time, wherever it is then.
    pub(crate) fn killed_after(&self, task: &Deploy, time: Duration) {
        let child = self.spawn(&Task::Deploy(Box::new(task.clone())));
        thread::sleep(time);
        kill(child);
    }

    /// What the chart's ConfigMap says.
    pub(crate) fn word(&self) -> Option<String> {
        let (runtime, server) = server();
        let _inside = runtime.enter();
        let maps: Api<ConfigMap> = Api::namespaced(server.client(), &self.namespace);
        let map = runtime.block_on(maps.get_opt("web")).unwrap()?;
        map.data?.remove("word")
    }

    /// The state of each revision of the release, from the oldest.
    pub(crate) fn statuses(&self) -> Vec<String> {
        let (runtime, server) = server();
        let _inside = runtime.enter();
        let secrets: Api<Secret> = Api::namespaced(server.client(), &self.namespace);
        let releases = ListParams::default().labels("owner=helm,name=web");
        let all = runtime.block_on(secrets.list(&releases)).unwrap();
        let labels = |secret: Secret| secret.metadata.labels.unwrap_or_default();
        let mut all: Vec<_> = all.items.into_iter().map(labels).collect();
        all.sort_by_key(|labels| labels["version"].parse::<i64>().unwrap());
        all.into_iter().map(|labels| labels["status"].clone()).collect()
    }
}

fn kill(mut child: Child) {
    let group = format!("-{}", child.id());
    // What has ended by itself is as good.
    let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status().unwrap();
    child.wait().unwrap();
}

/// A chart repository on loopback; its URL.
fn serve(dir: &Path) -> String {
    let chart = dir.join("web");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n").unwrap();
    fs::write(chart.join("values.yaml"), "word: none\n").unwrap();
    fs::write(chart.join("templates/all.yaml"), TEMPLATE).unwrap();
    let archive = dir.join("web-1.0.0.tgz");
    let tar = Command::new("tar").args(["-czf"]).arg(&archive).arg("-C").arg(dir).arg("web").status().unwrap();
    assert!(tar.success());
    let archive = fs::read(archive).unwrap();
    let index =
        "apiVersion: v1\nentries:\n  web:\n    - {apiVersion: v2, name: web, version: 1.0.0, urls: [web-1.0.0.tgz]}\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or_default();
            let asked = String::from_utf8_lossy(&request[..read]);
            let body = if asked.contains(".tgz") { &archive } else { index.as_bytes() };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    url
}
