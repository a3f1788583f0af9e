//! What is remembered of a cluster between runs of `devcluster`.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{files, layout::Layout, slot::Slot, vpc::VpcConfig};

/// How far a cluster's life has come. Written before the step that it announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// `up` began and has not ended, or `down` did: nothing in it is worth keeping.
    Creating,
    /// It came up. (Its processes may have died since, for example with the machine.)
    Running,
    /// Its processes are stopped, its data is kept.
    Stopped,
}

/// The content of state.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) slot: Slot,
    /// How many local volumes there are.
    pub(crate) volumes: u16,
    /// How many nodes there are. States of older devclusters do not say it.
    #[serde(default = "one")]
    pub(crate) nodes: u8,
    /// Networks beside the cluster's own.
    #[serde(default)]
    pub(crate) vpcs: Vec<VpcConfig>,
    /// The name of the CNI plugin that attaches pods to them, if it is not this project's own.
    #[serde(default)]
    pub(crate) meta_plugin: Option<String>,
    /// Whether there is an S3 server.
    #[serde(default)]
    pub(crate) s3: bool,
    /// Whether NetworkPolicies are enforced.
    #[serde(default)]
    pub(crate) network_policies: bool,
    /// The boot in which it was started: after a reboot nothing of it runs, whatever the pids say.
    pub(crate) boot: String,
}

fn one() -> u8 {
    1
}

impl State {
    /// Reads the state; none if there is no such cluster, or if it was cut off before this was written.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>> {
        let path = layout.state();
        let Some(text) = files::read_optional(&path)? else { return Ok(None) };
        serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("{} is no state of this devcluster: `devcluster down` clears it", path.display()))
    }

    pub(crate) fn write(&self, layout: &Layout) -> Result<()> {
        files::write(&layout.state(), serde_json::to_vec_pretty(self)?)
    }

    /// Whether the machine is still in the boot in which the cluster was started.
    pub(crate) fn is_of_this_boot(&self) -> Result<bool> {
        Ok(self.boot == boot()?)
    }
}

/// The kernel's name for this boot.
pub(crate) fn boot() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    Ok(fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_an_older_devcluster_is_of_one_node_and_nothing_beside_it() {
        let text = r#"{"phase": "Running", "slot": 3, "volumes": 24, "boot": "x"}"#;
        let state = serde_json::from_str::<State>(text).unwrap();
        assert_eq!((state.nodes, state.vpcs, state.s3), (1, vec![], false));
    }
}
