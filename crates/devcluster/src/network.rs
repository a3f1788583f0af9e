//! The cluster's network namespace and the host's link into it. Those of further nodes are in [`nodes`], those of VPCs in [`vpc`].

pub(crate) mod nodes;
pub(crate) mod vpc;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{layout::Layout, paths::NETNS_DIR, process, slot::Slot};

/// Makes the namespace, its bridge and the link to the host, or completes what is there.
///
/// Inside: `lo`, `br-node` with the node's address, and a default route to an address where nobody is (Kubernetes wants
/// one, and nothing must leave the machine). Outside: one route to the slot's /16, so that `kubectl` on the host reaches
/// the API, Services and load balancers by address.
pub(crate) fn ensure(layout: &Layout, slot: Slot) -> Result<()> {
    let namespace = layout.scope();
    if !layout.netns().exists() {
        ip(None, &format!("netns add {namespace}"))?;
    }
    let inside = |commands: &str| ip(Some(&namespace), commands);
    let links = links(Some(&namespace))?;
    if !links.iter().any(|link| link == "br-node") {
        inside("link add br-node type bridge")?;
    }
    inside(&format!(
        "link set lo up\n\
         addr replace {node}/24 dev br-node\n\
         link set br-node up\n\
         route replace default via {void} dev br-node onlink\n",
        node = slot.node_address(),
        void = slot.void_address()
    ))?;
    let link = slot.link();
    if !links.iter().any(|l| l == "uplink") {
        if self::links(None)?.contains(&link) {
            ip(None, &format!("link del {link}"))?;
        }
        ip(None, &format!("link add {link} type veth peer name uplink netns {namespace}"))?;
    }
    inside(&format!("addr replace {}/30 dev uplink\nlink set uplink up\n", slot.uplink_address()))?;
    ip(
        None,
        &format!(
            "addr replace {host}/30 dev {link}\nlink set {link} up\n\
             route replace {range} via {uplink} dev {link}\n",
            host = slot.host_address(),
            range = slot.range(),
            uplink = slot.uplink_address()
        ),
    )?;
    forward(&layout.netns())
}

/// Lets packets pass through a namespace, from its pods and to them.
fn forward(netns: &Path) -> Result<()> {
    process::in_netns(netns, || {
        write_sysctl("net/ipv4/ip_forward", "1")?;
        // Only there when the kernel has br_netfilter; without it, bridged traffic to a Service address is not seen.
        let bridge = "net/bridge/bridge-nf-call-iptables";
        if Path::new("/proc/sys").join(bridge).exists() { write_sysctl(bridge, "1") } else { Ok(()) }
    })
}

/// Removes the link and the namespace. The processes in it must be gone.
pub(crate) fn remove(layout: &Layout, slot: Option<Slot>) -> Result<()> {
    if let Some(link) = slot.map(Slot::link)
        && links(None)?.contains(&link)
    {
        ip(None, &format!("link del {link}"))?;
    }
    if layout.netns().exists() {
        ip(None, &format!("netns del {}", layout.scope()))?;
    }
    Ok(())
}

fn write_sysctl(name: &str, value: &str) -> Result<()> {
    let path = Path::new("/proc/sys").join(name);
    fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
}

/// Pulls a plug: whoever is on the other side of this port is not heard of any more.
fn unplug(namespace: &str, port: &str) -> Result<()> {
    if Path::new(NETNS_DIR).join(namespace).exists() && links(Some(namespace))?.iter().any(|link| link == port) {
        ip(Some(namespace), &format!("link del {port}"))?;
    }
    Ok(())
}

/// The names of the interfaces in a namespace.
fn links(namespace: Option<&str>) -> Result<Vec<String>> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    let output = command.args(["-o", "link", "show"]).output().context("cannot run `ip`")?;
    if !output.status.success() {
        bail!("`ip link show` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split(": ").nth(1))
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .collect())
}

/// Runs `ip` commands, one per line, stopping at the first that fails.
fn ip(namespace: Option<&str>, commands: &str) -> Result<()> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    let mut child = command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `ip`")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(commands.as_bytes()).context("cannot write to `ip`")?;
    }
    let output = child.wait_with_output().context("cannot wait for `ip`")?;
    if !output.status.success() {
        bail!("`ip` failed: {}; the commands were:\n{commands}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
