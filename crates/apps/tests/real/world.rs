//! A tenant's API server, a chart repository, and `berth-apps`.

use crate::chart::serve;
use berth_contract::apps::{Chart, Check, Deploy, Deployed, Outcome, Recorded, Release, TASK, Task, Uninstall, files};
use berth_testkit::ApiServer;
use berth_testkit::apiserver::binary;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The version that images have.
const HELM: &str = "helm4-v4.3.1";

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
        Release { name, namespace, installation: "ours".into(), timeout: 60, ..Release::default() }
    }

    /// The same, with what Berth has on record.
    fn recorded(&self, there: &Deployed) -> Release {
        let recorded = Recorded {
            revision: there.revision,
            manifest_digest: there.manifest_digest.clone(),
            chart_digest: there.chart_digest.clone(),
            values_digest: there.values_digest.clone(),
        };
        Release { recorded: Some(recorded), ..self.release() }
    }

    pub(crate) fn deploy(&self, values: &Value) -> Deploy {
        let chart =
            Chart { from: self.repository.clone(), name: "web".into(), version: "1.0.0".into(), ..Chart::default() };
        let values = values.as_object().unwrap().clone();
        Deploy { release: self.release(), chart, values, value_files: 0, epoch: 1, ..Deploy::default() }
    }

    /// After what was deployed before.
    pub(crate) fn deploy_after(&self, there: &Deployed, values: &Value) -> Deploy {
        Deploy { release: self.recorded(there), ..self.deploy(values) }
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

    /// By what was deployed.
    pub(crate) fn run_uninstall_of(&self, there: &Deployed) -> (Outcome, i32) {
        self.ended(&Task::Uninstall(Uninstall { release: self.recorded(there) }))
    }

    /// That what is there be compared with what was deployed.
    pub(crate) fn check(&self, deployed: &Deployed) -> Check {
        Check { release: self.recorded(deployed), ..Check::default() }
    }

    pub(crate) fn run_check(&self, task: &Check) -> (Outcome, i32) {
        self.ended(&Task::Check(Box::new(task.clone())))
    }

    /// What Helm keeps of a revision, without what the API server adds.
    pub(crate) fn revision(&self, revision: i64) -> Secret {
        let mut secret: Secret = self.get(&format!("sh.helm.release.v1.web.v{revision}")).unwrap();
        let (name, labels) = (secret.metadata.name.take(), secret.metadata.labels.take());
        secret.metadata = ObjectMeta { name, labels, ..ObjectMeta::default() };
        secret
    }

    /// Whoever may write Secrets there writes one, in the place of another.
    pub(crate) fn write(&self, secret: &Secret) {
        let (runtime, server) = server();
        let _inside = runtime.enter();
        let secrets: Api<Secret> = Api::namespaced(server.client(), &self.namespace);
        let name = secret.metadata.name.clone().unwrap();
        drop(runtime.block_on(secrets.delete(&name, &DeleteParams::default())));
        runtime.block_on(secrets.create(&PostParams::default(), secret)).unwrap();
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

    /// Somebody's ConfigMap.
    pub(crate) fn create_map(&self, name: &str) {
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        let api = self.api::<ConfigMap>();
        server().0.block_on(api.create(&PostParams::default(), &map)).unwrap();
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
        self.killed_once(task, || self.statuses().last().is_some_and(|last| last == status));
    }

    /// Kills it as soon as that is so.
    pub(crate) fn killed_once(&self, task: &Deploy, is_so: impl Fn() -> bool) {
        let mut child = self.spawn(&Task::Deploy(Box::new(task.clone())));
        let until = Instant::now() + Duration::from_mins(2);
        while !is_so() {
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
