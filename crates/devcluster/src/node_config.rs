//! The configuration files of the nodes: containerd, CNI, kubelet, and the API server's audit policy.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::json;

use crate::{
    binaries, files,
    layout::{Layout, RunDir},
    node::Node,
    pki,
    slot::Slot,
    versions,
};

/// Writes all configuration files.
pub(crate) fn write(layout: &Layout, run: &RunDir, slot: Slot, nodes: u8) -> Result<()> {
    for directory in [layout.dir.join("config"), layout.dir.join("log")] {
        files::create_dir(&directory)?;
    }
    files::write(&layout.config("audit-policy.json"), pretty(&audit_policy())?)?;
    for node in layout.nodes(nodes) {
        for directory in [node.config("cni"), node.pod_logs(), node.kubelet(), run.node(node.number)] {
            files::create_dir(&directory)?;
        }
        let network = Cni { plugins: &plugins(layout), config: &node.config("cni") };
        let toml = containerd(layout, &node.containerd(), &run.node(node.number), &network)?;
        files::write(&node.config("containerd.toml"), toml)?;
        files::write(&node.config("cni/10-pods.conflist"), pretty(&cni(&node, slot))?)?;
        files::write(&node.config("kubelet.json"), pretty(&kubelet(layout, &node, run, slot))?)?;
    }
    link_plugins(&plugins(layout))
}

/// Lets a meta-plugin attach the pods of all nodes, which calls the plugin of the pods' network itself. containerd reads the first file of
/// the directory, and again when it changes.
pub(crate) fn write_meta(layout: &Layout, slot: Slot, nodes: u8, plugin: &str) -> Result<()> {
    let write = |node: Node| {
        files::write(&node.config("cni/00-networks.conf"), pretty(&meta_cni(layout, &node, slot, plugin))?)
    };
    layout.nodes(nodes).into_iter().try_for_each(write)
}

fn pretty(value: &serde_json::Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Where a containerd finds the network of its pods.
pub(crate) struct Cni<'a> {
    pub(crate) plugins: &'a Path,
    pub(crate) config: &'a Path,
}

/// A directory of links to the built plugins, in which tests can put plugins of their own.
fn plugins(layout: &Layout) -> PathBuf {
    layout.dir.join("cni-bin")
}

/// Links to the built plugins, in a directory. What is there stays.
pub(crate) fn link_plugins(links: &Path) -> Result<()> {
    let plugins = binaries::directory("cni-plugins", versions::CNI_PLUGINS);
    files::create_dir(links)?;
    for entry in fs::read_dir(&plugins).with_context(|| format!("the CNI plugins are not in {}", plugins.display()))? {
        let entry = entry?;
        let link = links.join(entry.file_name());
        if !link.exists() {
            files::remove(&link)?;
            std::os::unix::fs::symlink(entry.path(), &link)
                .with_context(|| format!("cannot make the link {}", link.display()))?;
        }
    }
    Ok(())
}

/// `root`: content and snapshots; `run`: sockets and state.
pub(crate) fn containerd(layout: &Layout, root: &Path, run: &Path, cni: &Cni<'_>) -> Result<String> {
    let runc = binaries::path("runc", versions::RUNC, "runc")?;
    Ok(format!(
        r#"version = 3
root = "{root}"
state = "{run}/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{socket}"

# Sockets of shims: by default all containerds of a machine share /run/containerd/s.
[plugins."io.containerd.shim.v1.manager"]
  socket_dir = "{run}/s"

# Its socket would be /var/run/nri/nri.sock for every containerd of the machine.
[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.k8s.io/pause:{pause}"

# Read with each pull: a test puts `<host:port>/hosts.toml` there.
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "{registries}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{cni_bin}"]
  conf_dir = "{cni_conf}"
  use_internal_loopback = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{runc}"
  SystemdCgroup = false
"#,
        root = root.display(),
        run = run.display(),
        socket = run.join("containerd.sock").display(),
        pause = versions::PAUSE,
        registries = layout.registries().display(),
        cni_bin = cni.plugins.display(),
        cni_conf = cni.config.display(),
        runc = runc.display(),
    ))
}

fn cni(node: &Node, slot: Slot) -> serde_json::Value {
    json!({
        "cniVersion": "1.0.0",
        "name": node.scope(),
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                // No masquerading, and no portmap: there is a route to every pod, from the host too, and no pod has a port of its
                // node. Each costs several runs of iptables for each pod that begins, and three times as many for one that ends.
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": node.address_leases(),
                    "ranges": [[{"subnet": slot.pod_cidr_of_node(node.number)}]],
                    "routes": [{"dst": "0.0.0.0/0"}]
                }
            }
        ]
    })
}

/// As it is for multus as a thin plugin. Pods are attached by definitions of their own namespace alone: to try tenants of a Berth that made
/// no copies, turn that off in the file, which is read for each pod.
fn meta_cni(layout: &Layout, node: &Node, slot: Slot, plugin: &str) -> serde_json::Value {
    json!({
        "cniVersion": "1.0.0",
        "name": node.meta_network(),
        "type": plugin,
        "kubeconfig": layout.kubeconfig(pki::CNI),
        "cniDir": node.attachments(),
        "namespaceIsolation": true,
        "delegates": [cni(node, slot)],
    })
}

fn kubelet(layout: &Layout, node: &Node, run: &RunDir, slot: Slot) -> serde_json::Value {
    let socket = format!("unix://{}", run.containerd_socket(node.number).display());
    let server = node.component("kubelet-server");
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": layout.pki("ca.crt")}
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": layout.pki(&format!("{server}.crt")),
        "tlsPrivateKeyFile": layout.pki(&format!("{server}.key")),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", node.cgroup()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": socket,
        "imageServiceEndpoint": socket,
        // Since 1.35 kubelet otherwise asks a registry again for an image that came under another name.
        "imagePullCredentialsVerificationPolicy": "NeverVerify",
        // Images are imported once and cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "clusterDNS": [slot.dns_service().to_string()],
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf",
        "maxPods": 250,
        "podLogsDir": node.pod_logs(),
        "volumePluginDir": node.kubelet().join("volume-plugins")
    })
}

/// Who wrote what, without bodies: benches and tests count writes by user.
fn audit_policy() -> serde_json::Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_node_writes_to_is_its_clusters_own() {
        let layout = Layout { name: "demo".to_owned(), dir: "/state/demo".into() };
        let slot: Slot = serde_json::from_str("3").unwrap();
        let kubelet = |number| kubelet(&layout, &layout.node(number), &RunDir::new(slot), slot);
        let first = kubelet(1);
        assert_eq!(first["cgroupRoot"], "/berth-demo");
        assert_eq!(first["clusterDNS"][0], "10.211.16.10");
        assert_eq!(first["containerRuntimeEndpoint"], "unix:///run/berth/3/containerd.sock");
        assert_eq!(first["podLogsDir"], "/state/demo/podlogs");
        let second = kubelet(2);
        for field in ["cgroupRoot", "containerRuntimeEndpoint", "podLogsDir", "tlsCertFile", "volumePluginDir"] {
            assert_ne!(first[field], second[field], "{field}");
        }
        assert_eq!(second["cgroupRoot"], "/berth-demo/n2");
        assert_eq!(second["containerRuntimeEndpoint"], "unix:///run/berth/3/n2/containerd.sock");
        let cni = |number| cni(&layout.node(number), slot);
        let of_second = cni(2);
        assert_eq!(of_second["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.211.65.0/24");
        let cni = cni(1);
        assert_eq!(cni["plugins"].as_array().map(Vec::len), Some(1));
        assert_eq!(cni["plugins"][0]["ipMasq"], false);
        assert_eq!(cni["name"], "berth-demo");
        assert_eq!(cni["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.211.64.0/24");
        assert_eq!(cni["plugins"][0]["ipam"]["dataDir"], "/state/demo/cni");
        let meta = meta_cni(&layout, &layout.node(2), slot, "multus");
        assert_eq!((&meta["type"], &meta["delegates"][0]), (&json!("multus"), &of_second));
        assert_eq!(
            (&meta["kubeconfig"], &meta["cniDir"]),
            (&json!("/state/demo/cni.kubeconfig"), &json!("/state/demo/n2/attachments"))
        );
        assert_ne!(meta["name"], of_second["name"]);
        assert_eq!(meta["namespaceIsolation"], true);
    }
}
