//! Somebody else changes the Cluster, or what it would go back to, while a person is asked: nothing is written. On a terminal, which `script`
//! is.

use super::*;
use berth_testkit::fixtures::until;
use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A command on a terminal of its own, and what it said so far.
struct Terminal {
    script: Child,
    said: Arc<Mutex<String>>,
}

impl Terminal {
    fn run(team: &Team, args: &str) -> Self {
        let file = team.dir.path().join("meta");
        let program = env!("CARGO_BIN_EXE_kubectl-berth");
        let command = format!("{program} {args} -n {} --kubeconfig {}", team.ns, file.display());
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("HOME", team.dir.path())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, mut from) = (Arc::<Mutex<String>>::default(), script.stdout.take().unwrap());
        let to = said.clone();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut some) {
                to.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..n]));
            }
        });
        Self { script, said }
    }

    async fn says(&self, what: &str) {
        until(Duration::from_mins(1), what, async || self.said.lock().unwrap().contains(what)).await;
    }

    fn types(&mut self, line: &str) {
        self.script.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Its exit code, once it said that.
    async fn ends(mut self, what: &str) -> Option<i32> {
        self.says(what).await;
        self.script.wait().unwrap().code()
    }
}

#[tokio::test]
async fn of_two_at_once_the_second_writes_nothing() {
    let team = Team::new(ADMIN).await;
    team.releases().await;
    let mark = team.server.audit_mark();
    for args in ["rollback acme", "upgrade acme --to 1.36.4"] {
        let mut asked = Terminal::run(&team, args);
        asked.says("Type the Cluster's name").await;
        team.merge("/acme", &json!({"spec": {"apiServer": {"extraArgs": [{"name": "v", "value": "7"}]}}})).await;
        team.merge("/acme", &json!({"spec": {"apiServer": {"extraArgs": null}}})).await;
        asked.types("acme");
        assert_eq!(
            asked.ends("was changed meanwhile, so nothing was written. Run this again").await,
            Some(1),
            "{args}"
        );
    }
    // Nor if it is another one of that name.
    let mut asked = Terminal::run(&team, "rollback acme");
    asked.says("Type the Cluster's name").await;
    let client = team.server.client();
    let delete = Request::delete(team.path("/acme")).body(vec![]).unwrap();
    client.request::<Value>(delete).await.unwrap();
    let spec = json!({"version": "1.36.3"});
    let object =
        json!({"apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme"}, "spec": spec});
    team.post(&team.path(""), &object).await;
    asked.types("acme");
    assert_eq!(asked.ends("nothing was written").await, Some(1));
    // Whoever types another name changes nothing either.
    let mut asked = Terminal::run(&team, "rollback acme");
    asked.says("Type the Cluster's name").await;
    asked.types("y");
    assert_eq!(asked.ends("nothing was changed").await, Some(1));
    assert_eq!(team.cluster().await["metadata"]["generation"], 1);
    let written = team.written(mark);
    assert!(written.iter().all(|w| w.starts_with("patch") && w.contains("/clusters/acme")), "{written:?}");

    // Without anybody in between it is written.
    let mut asked = Terminal::run(&team, "rollback acme");
    asked.says("Type the Cluster's name").await;
    asked.types("acme");
    assert_eq!(asked.ends("the spec asks for revision 2 again").await, Some(0));
    assert_eq!(team.cluster().await["spec"]["apiServer"]["extraArgs"], json!([{"name": "v", "value": "4"}]));
}
