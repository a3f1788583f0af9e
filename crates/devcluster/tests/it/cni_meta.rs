//! `cni-meta` as a runtime calls it, with scripts in place of the plugins that it calls. What it reads from an API server is tested in
//! the cluster's test `vpcs`.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A plugin that writes down each call. It fails where a file says so.
const PLUGIN: &str = r#"#!/bin/sh
here=$(dirname "$0")
name=$(basename "$0")
conf=$(cat)
echo "$CNI_COMMAND $name $CNI_IFNAME $CNI_CONTAINERID $CNI_NETNS" >>"$here/calls"
printf '%s' "$conf" >"$here/conf-$name"
if [ -e "$here/fail-$CNI_COMMAND-$name" ]; then
  echo '{"cniVersion": "1.0.0", "code": 11, "msg": "no address is free"}'
  exit 1
fi
[ "$CNI_COMMAND" = ADD ] || exit 0
echo "{\"cniVersion\": \"1.0.0\", \"interfaces\": [{\"name\": \"$CNI_IFNAME\", \"sandbox\": \"$CNI_NETNS\"}],
  \"ips\": [{\"interface\": 0, \"address\": \"10.0.0.7/24\"}], \"dns\": {\"domain\": \"$name\"}}"
"#;

struct Node(TempDir);

impl Node {
    fn new(plugins: &[&str]) -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        for plugin in plugins {
            let file = node.path().join(plugin);
            fs::write(&file, PLUGIN).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        node
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A list of two plugins, and one that every pod has beside it.
    fn conf(&self) -> Value {
        json!({
            "cniVersion": "1.0.0", "name": "all", "type": "cni-meta",
            "kubeconfig": self.path().join("none"), "cniDir": self.path().join("kept"),
            "delegates": [
                {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "first"}, {"type": "second"}]},
                {"cniVersion": "1.0.0", "name": "storage", "type": "third"},
            ],
        })
    }

    /// Whether it succeeds, and what it answers.
    fn call(&self, command: &str, conf: &Value) -> (bool, Value) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cni-meta"))
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .envs([("CNI_COMMAND", command), ("CNI_CONTAINERID", "abc"), ("CNI_NETNS", "/run/netns/x")])
            .envs([("CNI_IFNAME", "eth0"), ("CNI_ARGS", "IgnoreUnknown=1")])
            .env("CNI_PATH", self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(conf.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// The calls since the last time, without what is the same in all.
    fn calls(&self) -> Vec<String> {
        let file = self.path().join("calls");
        let text = fs::read_to_string(&file).unwrap_or_default();
        fs::write(&file, "").unwrap();
        text.lines().map(|line| line.strip_suffix(" abc /run/netns/x").unwrap().to_owned()).collect()
    }

    fn kept(&self) -> usize {
        fs::read_dir(self.path().join("kept")).map_or(0, Iterator::count)
    }

    fn fails(&self, what: &str, fails: bool) {
        let file = self.path().join(format!("fail-{what}"));
        if fails { fs::write(file, "").unwrap() } else { fs::remove_file(file).unwrap() }
    }

    /// What a plugin was given last.
    fn given(&self, plugin: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path().join(format!("conf-{plugin}"))).unwrap()).unwrap()
    }
}

#[test]
fn networks_are_attached_in_order_checked_and_detached_in_reverse() {
    let node = Node::new(&["first", "second", "third"]);
    let conf = node.conf();
    let (ok, result) = node.call("ADD", &conf);
    assert!(ok, "{result}");
    assert_eq!(result["dns"]["domain"], "second", "the result is that of the cluster's network, from its last plugin");
    assert_eq!(node.calls(), ["ADD first eth0", "ADD second eth0", "ADD third net1"]);
    assert_eq!(node.given("second")["prevResult"]["dns"]["domain"], "first");
    assert_eq!((&node.given("second")["name"], &node.given("third")["name"]), (&json!("pods"), &json!("storage")));

    assert!(node.call("CHECK", &conf).0);
    assert_eq!(node.calls(), ["CHECK first eth0", "CHECK second eth0", "CHECK third net1"]);
    node.fails("CHECK-second", true);
    let (ok, error) = node.call("CHECK", &conf);
    assert!(!ok && error["msg"] == "delegates[0] (pods): plugin second: no address is free", "{error}");
    node.calls();

    // What was attached is detached, whatever the configuration says by now.
    let mut changed = conf.clone();
    changed["delegates"] = json!([{"name": "other", "type": "first"}]);
    assert!(node.call("DEL", &changed).0);
    assert_eq!(node.calls(), ["DEL third net1", "DEL second eth0", "DEL first eth0"]);
    assert_eq!(node.given("first")["prevResult"]["dns"]["domain"], "second", "what ADD answered");
    assert_eq!(node.kept(), 0);
    // Again, as runtimes do: what may be there of the cluster's network goes.
    assert!(node.call("DEL", &conf).0);
}

#[test]
fn a_failure_detaches_what_was_begun_and_no_more() {
    let node = Node::new(&["first", "second", "third"]);
    node.fails("ADD-second", true);
    let (ok, error) = node.call("ADD", &node.conf());
    assert!(!ok && error["msg"] == "delegates[0] (pods): plugin second: no address is free", "{error}");
    assert_eq!(node.calls(), ["ADD first eth0", "ADD second eth0", "DEL second eth0", "DEL first eth0"]);
    assert_eq!(node.kept(), 0);
}

#[test]
fn a_detachment_that_fails_keeps_none_of_the_others_and_is_tried_again() {
    let node = Node::new(&["first", "second", "third"]);
    assert!(node.call("ADD", &node.conf()).0);
    node.calls();
    node.fails("DEL-third", true);
    let (ok, error) = node.call("DEL", &node.conf());
    assert!(!ok && error["msg"] == "delegates[1] (storage): plugin third: no address is free", "{error}");
    assert_eq!(node.calls(), ["DEL third net1", "DEL second eth0", "DEL first eth0"]);
    node.fails("DEL-third", false);
    assert!(node.call("DEL", &node.conf()).0);
    assert_eq!(node.calls(), ["DEL third net1"]);
    assert_eq!(node.kept(), 0);
}

#[test]
fn nothing_is_attached_if_a_plugin_is_missing() {
    let node = Node::new(&["first", "second"]);
    let (ok, error) = node.call("ADD", &node.conf());
    let said = error["msg"].as_str().unwrap();
    assert!(
        !ok && said.starts_with("delegates[1] (storage): type third: there is no such program in CNI_PATH"),
        "{said}"
    );
    assert_eq!((node.calls(), node.kept()), (vec![], 0));
}

#[test]
fn it_tells_its_versions() {
    let node = Node::new(&[]);
    let (ok, answer) = node.call("VERSION", &json!({"cniVersion": "1.0.0"}));
    assert!(ok && answer["supportedVersions"].as_array().unwrap().contains(&json!("1.0.0")), "{answer}");
    let (ok, error) = node.call("ADD", &json!({"cniVersion": "9.0.0"}));
    assert!(!ok && error["code"] == 1, "{error}");
}
