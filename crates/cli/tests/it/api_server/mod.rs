//! The command as a process against a real kube-apiserver, on which nobody works: what it says, how it exits, and that it writes
//! nothing.

mod app_images;
mod apps;
mod etcd;
mod fleet;
mod grants;
mod in_between;
mod kubeconfig;

use berth_api::names;
use berth_testkit::ApiServer;
use http::Request;
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};

async fn server() -> &'static ApiServer {
    // Not the shared one: on that an operator works for other tests of this program.
    static QUIET: tokio::sync::OnceCell<ApiServer> = tokio::sync::OnceCell::const_new();
    let start = async || {
        let server = ApiServer::start().await.expect("server");
        server.install_crds(&berth_api::crds::all()).await.expect("CRDs");
        server
    };
    QUIET.get_or_init(start).await
}

/// A namespace with a `Cluster` acme, and a kubeconfig of somebody.
struct Team {
    server: &'static ApiServer,
    ns: String,
    dir: tempfile::TempDir,
}

impl Team {
    async fn new(groups: &[&str]) -> Self {
        let server = server().await;
        let ns = server.namespace("team").await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("meta"), server.kubeconfig_as(&format!("cli-of-{ns}"), groups)).unwrap();
        let team = Self { server, ns, dir };
        let spec = json!({"version": "1.36.3"});
        let cluster =
            json!({"apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme"}, "spec": spec});
        team.post(&team.path(""), &cluster).await;
        team
    }

    fn path(&self, name: &str) -> String {
        format!("/apis/berth.dev/v1alpha1/namespaces/{}/clusters{name}", self.ns)
    }

    async fn post(&self, path: &str, object: &Value) -> Value {
        let request = Request::post(path).header("content-type", "application/json");
        self.server.client().request(request.body(serde_json::to_vec(object).unwrap()).unwrap()).await.unwrap()
    }

    /// The kubeconfig of a Cluster of that name, as it is in its Secret.
    async fn publish(&self, name: &str, kubeconfig: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": names::kubeconfig(name)}, "stringData": {"value": kubeconfig},
        });
        self.post(&format!("/api/v1/namespaces/{}/secrets", self.ns), &secret).await;
    }

    /// Its API has answered, and told its version.
    async fn answered(&self) {
        self.merge("/acme/status", &json!({"status": {"version": "1.36.3"}})).await;
    }

    async fn merge(&self, what: &str, patch: &Value) {
        let request = Request::patch(self.path(what)).header("content-type", "application/merge-patch+json");
        let request = request.body(patch.to_string().into_bytes()).unwrap();
        self.server.client().request::<Value>(request).await.unwrap();
    }

    async fn cluster(&self) -> Value {
        self.get(&self.path("/acme")).await
    }

    async fn get(&self, path: &str) -> Value {
        self.server.client().request(Request::get(path).body(vec![]).unwrap()).await.unwrap()
    }

    /// Three releases of acme: an older minor, one that ran, and one that never came up.
    async fn releases(&self) {
        let home = names::control_plane_namespace(&self.ns, "acme");
        let served = json!({"berth.dev/served-minor": "1.36"});
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": home, "annotations": served}})).await;
        for (number, version, outcome, args) in [
            (1, "1.35.4", "Succeeded", json!([])),
            (2, "1.36.3", "Succeeded", json!([{"name": "v", "value": "4"}])),
            (3, "1.36.3", "RolledBack", json!([{"name": "nope"}])),
        ] {
            let pin =
                json!({"version": version, "templates": "0", "agentImage": "a", "agentDelivery": "InitContainer"});
            let release = json!({"version": version, "replicas": 1, "apiServer": {"extraArgs": args}});
            let revision = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "ClusterRevision",
                "metadata": {"name": names::revision(number)},
                "spec": {"number": number, "cause": "Configuration", "release": release, "pin": pin},
                "status": {"outcome": outcome},
            });
            self.post(&format!("/apis/berth.dev/v1alpha1/namespaces/{home}/clusterrevisions"), &revision).await;
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, &[])
    }

    /// With these variables of its environment.
    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-berth"));
        for inherited in ["KUBECONFIG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(inherited);
        }
        command
            .args(args)
            .args(["--kubeconfig", self.dir.path().join("meta").to_str().unwrap()])
            .env("HOME", self.dir.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// With `-n`.
    fn here(&self, args: &[&str]) -> Output {
        self.run(&[args, &["-n", &self.ns]].concat())
    }

    /// What our user wrote since: anything, anywhere.
    fn written(&self, mark: u64) -> Vec<String> {
        let events = self.server.audit_since(mark);
        let user = format!("cli-of-{}", self.ns);
        events.iter().filter(|e| e.user == user && e.is_write()).map(|e| format!("{} {}", e.verb, e.uri)).collect()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

const ADMIN: &[&str] = &["system:masters"];

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
fn exits(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", out(output), err(output));
}

#[tokio::test]
async fn status_of_what_nobody_has_seen() {
    let team = Team::new(ADMIN).await;
    let mark = team.server.audit_mark();
    let one = team.here(&["status", "acme"]);
    exits(&one, 3);
    assert!(out(&one).contains("not reconciled yet") && out(&one).contains("next: wait:"), "{}", out(&one));
    let json = same_in_both_forms(&team, &["status", "acme"]);
    assert_eq!((&json["ready"], &json["wantedVersion"]), (&json!(false), &json!("1.36.3")));
    let list = team.here(&["status"]);
    exits(&list, 3);
    assert!(out(&list).contains("acme") && !out(&list).contains("NAMESPACE"));
    let all = team.run(&["status", "-A"]);
    exits(&all, 3);
    assert!(out(&all).contains(&team.ns), "{}", out(&all));
    let none = team.run(&["status", "-n", "default"]);
    exits(&none, 0);
    assert!(err(&none).contains("no Clusters in namespace default"));
    let missing = team.here(&["status", "globex"]);
    exits(&missing, 1);
    assert!(err(&missing).contains("globex does not exist"), "{}", err(&missing));
    let slashed = format!("{}/acme", team.ns);
    for args in [&["status", &slashed][..], &["kubeconfig", &slashed], &["plan", &slashed]] {
        let slashed = team.run(args);
        exits(&slashed, 1);
        let text = err(&slashed);
        assert!(text.contains(&format!("pass the namespace with -n: acme -n {}", team.ns)), "{args:?}: {text}");
    }
    assert_eq!(team.written(mark), Vec::<String>::new());
}

/// What `-o json` prints, which `-o yaml` prints, too.
fn same_in_both_forms(team: &Team, args: &[&str]) -> Value {
    let print = |format| team.here(&[args, &["-o", format]].concat());
    let (json, yaml) = (print("json"), print("yaml"));
    let (json, yaml): (Value, Value) =
        (serde_json::from_slice(&json.stdout).unwrap(), serde_saphyr::from_str(out(&yaml)).unwrap());
    assert_eq!(json, yaml);
    json
}

#[tokio::test]
async fn colours_are_for_terminals_and_for_people_who_insist() {
    const ESCAPE: char = '\u{1b}';
    let team = Team::new(ADMIN).await;
    let (one, json) = (["status", "acme", "-n", &team.ns], ["status", "acme", "-n", &team.ns, "-o", "json"]);
    let insists = ("CLICOLOR_FORCE", "1");
    assert!(!out(&team.run(&one)).contains(ESCAPE));
    let coloured = team.run_with(&one, &[insists]);
    exits(&coloured, 3);
    assert!(out(&coloured).contains(ESCAPE) && out(&coloured).contains("not reconciled yet"), "{}", out(&coloured));
    assert!(!out(&team.run_with(&one, &[insists, ("NO_COLOR", "1")])).contains(ESCAPE));
    // Programs get none in any case, and neither does who reads the error of one that is not there.
    assert!(!out(&team.run_with(&json, &[insists])).contains(ESCAPE));
    assert!(!err(&team.here(&["status", "globex"])).contains(ESCAPE));
}

#[tokio::test]
async fn names_of_clusters_are_completed() {
    let team = Team::new(ADMIN).await;
    let meta = team.dir.path().join("meta");
    let (mark, elsewhere) = (team.server.audit_mark(), team.server.namespace("elsewhere").await);
    for (ns, word, offered) in [
        (&team.ns, "", "acme\n:4\n"),
        (&team.ns, "ac", "acme\n:4\n"),
        (&team.ns, "b", ":4\n"),
        (&elsewhere, "", ":4\n"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-berth"))
            .args(["__complete", "-n", ns, "kubeconfig", "--kubeconfig", meta.to_str().unwrap(), word])
            .env("HOME", team.dir.path())
            .output()
            .unwrap();
        exits(&output, 0);
        assert_eq!((out(&output), err(&output)), (offered, ""), "{word}");
    }
    assert_eq!(team.written(mark), Vec::<String>::new());
}

#[tokio::test]
async fn plan_begins_with_the_namespace_and_writes_nothing() {
    let team = Team::new(ADMIN).await;
    let (before, mark) = (team.cluster().await, team.server.audit_mark());
    let plan = team.here(&["plan", "acme"]);
    exits(&plan, 3);
    let cp_namespace = names::control_plane_namespace(&team.ns, "acme");
    assert!(out(&plan).contains(&format!("create Namespace {cp_namespace}")), "{}", out(&plan));
    assert!(err(&plan).contains("namespace berth-system has no ConfigMap berth-operator"), "{}", err(&plan));
    assert_eq!(same_in_both_forms(&team, &["plan", "acme"])["exists"], true);

    // Another spec from a file, for a Cluster that is there and for one that is not.
    let file = |name: &str, spec: &str| {
        format!(
            "apiVersion: berth.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}, namespace: {}}}\nspec: {{{spec}}}\n",
            team.ns
        )
    };
    let newer = team.file("newer.yaml", &file("acme", "version: 1.34.4"));
    let json = team.run(&["plan", "-f", &newer, "-o", "json"]);
    exits(&json, 3);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["exists"], true);
    let other = team.run(&["plan", "-f", &team.file("other.yaml", &file("globex", "version: 1.36.3"))]);
    exits(&other, 3);
    assert!(out(&other).contains("which does not exist yet"), "{}", out(&other));
    let moved = "version: 1.36.3, network: {serviceCIDRs: [10.1.0.0/16]}";
    let refused = team.run(&["plan", "-f", &team.file("moved.yaml", &file("acme", moved))]);
    exits(&refused, 1);
    assert!(err(&refused).contains("network is immutable"), "{}", err(&refused));
    exits(&team.run(&["plan", "globex", "-f", &newer]), 1);

    assert_eq!(team.written(mark), Vec::<String>::new());
    assert_eq!(team.cluster().await["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn adopt_asks_first_and_sets_what_the_condition_says() {
    let team = Team::new(ADMIN).await;
    let nothing = team.here(&["adopt", "acme"]);
    exits(&nothing, 3);
    assert!(out(&nothing).contains("nothing to adopt"), "{}", out(&nothing));

    let cp_namespace = names::control_plane_namespace(&team.ns, "acme");
    let labels = json!({
        "app.kubernetes.io/managed-by": "berth", "berth.dev/cluster-name": "acme",
        "berth.dev/cluster-namespace": team.ns, "berth.dev/cluster-uid": "of-before",
    });
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cp_namespace, "labels": labels}});
    team.post("/api/v1/namespaces", &namespace).await;
    let mark = team.server.audit_mark();
    let refused = team.here(&["adopt", "acme"]);
    exits(&refused, 1);
    assert!(out(&refused).contains("of-before") && err(&refused).contains("no terminal"), "{}", err(&refused));
    assert_eq!(team.written(mark), Vec::<String>::new());

    exits(&team.here(&["adopt", "acme", "--yes"]), 0);
    assert_eq!(team.cluster().await["metadata"]["annotations"]["berth.dev/adopt"], "of-before");
    assert_eq!(team.written(mark).len(), 1);
    exits(&team.here(&["adopt", "acme"]), 3);
}

#[tokio::test]
async fn upgrade_asks_first_and_changes_only_what_it_showed() {
    let team = Team::new(ADMIN).await;
    let mark = team.server.audit_mark();
    let there = team.here(&["upgrade", "acme", "--to", "1.36.3"]);
    exits(&there, 0);
    assert!(out(&there).contains("spec.version is 1.36.3 already"), "{}", out(&there));
    let refused = team.here(&["upgrade", "acme", "--to", "1.36.4"]);
    exits(&refused, 1);
    assert!(
        out(&refused).contains("a patch version") && out(&refused).contains("Plan for Cluster"),
        "{}",
        out(&refused)
    );
    assert!(err(&refused).contains("no terminal"), "{}", err(&refused));
    exits(&team.here(&["upgrade", "acme", "--to", "newest"]), 2);
    assert_eq!(team.written(mark), Vec::<String>::new());

    exits(&team.here(&["upgrade", "acme", "--to", "1.36.4", "--yes"]), 0);
    assert_eq!(team.cluster().await["spec"]["version"], "1.36.4");
    assert_eq!(team.written(mark).len(), 1);
    let waits = team.here(&["upgrade", "acme", "--to", "1.36.4", "--wait", "--timeout", "1s"]);
    exits(&waits, 3);
    assert!(err(&waits).contains("not done within 1s"), "{}", err(&waits));
}

#[tokio::test]
async fn releases_are_shown_and_one_that_ran_is_set_again() {
    let team = Team::new(ADMIN).await;
    let none = team.here(&["history", "acme"]);
    exits(&none, 3);
    assert!(err(&none).contains("no release is recorded yet"), "{}", err(&none));
    team.releases().await;
    let mark = team.server.audit_mark();
    let one = team.here(&["history", "acme", "--revision", "3"]);
    exits(&one, 0);
    assert!(out(&one).contains("outcome: RolledBack") && out(&one).contains("nope"), "{}", out(&one));
    let diff = team.here(&["diff", "acme", "2", "3"]);
    assert!(out(&diff).contains("spec.apiServer.extraArgs: [{"), "{}", out(&diff));
    for (args, says) in [
        (&["rollback", "acme"][..], "no terminal"),
        (&["rollback", "acme", "--to", "1", "--yes"], "has served 1.36, and etcd may hold what 1.35 cannot read"),
        (&["rollback", "acme", "--to", "3", "--yes"], "never came up, so it is not set again. Those that ran: 2, 1"),
        (&["rollback", "acme", "--to", "9", "--yes"], "revision 9 is not there: there are 3, 2, 1"),
        (&["diff", "acme", "1", "9"], "revision 9 is not there"),
    ] {
        let refused = team.here(args);
        exits(&refused, 1);
        assert!(err(&refused).contains(says), "{args:?}: {}", err(&refused));
    }
    assert_eq!(team.written(mark), Vec::<String>::new());

    let back = team.here(&["rollback", "acme", "--yes"]);
    exits(&back, 0);
    assert!(out(&back).contains("the spec asks for revision 2 again"), "{}", out(&back));
    let spec = team.cluster().await["spec"].clone();
    assert_eq!(spec["apiServer"]["extraArgs"], json!([{"name": "v", "value": "4"}]), "{spec}");
    assert_eq!(team.written(mark).len(), 1);
    exits(&team.here(&["rollback", "acme", "--to", "2", "--yes"]), 0);
    assert_eq!(team.written(mark).len(), 1, "it asks for that already");
}

#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let team = Team::new(&["nobody"]).await;
    for args in [&["status", "acme"][..], &["status"], &["plan", "acme"], &["kubeconfig", "acme"], &["adopt", "acme"]] {
        let output = team.here(args);
        exits(&output, 1);
        let text = err(&output);
        assert!(text.contains("cannot ") && text.contains("--context"), "{args:?}: {text}");
    }
    let elsewhere = team.here(&["status", "--context", "none"]);
    exits(&elsewhere, 1);
    assert!(err(&elsewhere).contains("the kubeconfig has: test"), "{}", err(&elsewhere));
}

#[tokio::test]
async fn the_owner_of_a_cluster_needs_no_right_in_its_control_plane() {
    let team = Team::new(&["owners"]).await;
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", team.ns);
    let rules = json!([
        {"apiGroups": ["berth.dev"], "resources": ["clusters"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    ]);
    let role = json!({"metadata": {"name": "owner"}, "rules": rules});
    team.post(&format!("{rbac}/roles"), &role).await;
    let group = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "owners"});
    let of = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"});
    let binding = json!({"metadata": {"name": "owner"}, "roleRef": of, "subjects": [group]});
    team.post(&format!("{rbac}/rolebindings"), &binding).await;
    // API servers take up a RoleBinding with a delay.
    let may = async || team.here(&["status"]).status.code() == Some(3);
    berth_testkit::fixtures::until(std::time::Duration::from_secs(10), "the right is there", may).await;

    let status = team.here(&["status", "acme"]);
    exits(&status, 3);
    assert!(
        out(&status).contains("asked for 1.36.3") && out(&status).contains("not shown: list pods"),
        "{}",
        out(&status)
    );
    let missing = team.here(&["kubeconfig", "acme"]);
    exits(&missing, 3);
    assert!(err(&missing).contains("does not exist yet"), "{}", err(&missing));
    let plan = team.here(&["plan", "acme"]);
    exits(&plan, 1);
    assert!(err(&plan).contains("A plan reads what the operator reads"), "{}", err(&plan));
    for args in [&["diff", "acme", "1", "2"][..], &["rollback", "acme", "--yes"]] {
        let refused = team.here(args);
        exits(&refused, 1);
        assert!(err(&refused).contains("clusterrevisions"), "{args:?}: {}", err(&refused));
    }
}
