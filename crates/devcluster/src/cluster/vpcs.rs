//! The VPCs of a cluster, which it may be given while it runs.

use anyhow::{Result, bail};
use serde_json::Value;

use super::Config;
use crate::{
    api,
    layout::Layout,
    meta_plugin, network, node_config, pki,
    state::State,
    vpc::{self, Vpc},
};

/// Pure: what the cluster has, with what is asked for. A VPC stays as it was made.
pub(super) fn merged(mut state: State, config: &Config) -> Result<State> {
    let attached = (!state.vpcs.is_empty()).then(|| meta_plugin::called(state.meta_plugin.as_deref()).to_owned());
    for wanted in &config.vpcs {
        match state.vpcs.iter().find(|vpc| vpc.name() == wanted.name()) {
            Some(there) if there != wanted => bail!("VPC {there} is there and cannot become {wanted}"),
            Some(_) => {}
            None => state.vpcs.push(wanted.clone()),
        }
    }
    let plugin = config.cni_meta_plugin.as_deref().map(meta_plugin::name).transpose()?;
    match (plugin, attached) {
        (Some(plugin), Some(there)) if plugin != there => {
            bail!("{there} has attached pods: another plugin needs a new cluster, after `devcluster down`")
        }
        (Some(plugin), _) => state.meta_plugin = Some(plugin),
        (None, _) => {}
    }
    Ok(state)
}

/// Gives a cluster that runs the VPCs that it does not have yet.
pub(super) fn add(layout: &Layout, state: State, config: &Config) -> Result<State> {
    let state = merged(state, config)?;
    if !config.vpcs.is_empty() {
        state.write(layout)?;
        api::block_on(async {
            let client = api::client(&layout.kubeconfig(pki::ADMIN)).await?;
            api::apply(&client, objects(&state)).await
        })?;
        ensure(layout, &state, config)?;
    }
    Ok(state)
}

/// Makes the networks, or completes them, and lets the meta-plugin attach pods.
pub(super) fn ensure(layout: &Layout, state: &State, config: &Config) -> Result<()> {
    let nodes = layout.nodes(state.nodes);
    for vpc in state.vpcs.iter().map(|vpc| Vpc::new(layout, vpc)) {
        network::vpc::ensure(&vpc)?;
        nodes.iter().try_for_each(|node| network::vpc::connect(&vpc, node))?;
    }
    if state.vpcs.is_empty() {
        return Ok(());
    }
    pki::ensure_cni(layout, state.slot)?;
    let plugin = meta_plugin::install(layout, state.meta_plugin.as_deref(), config.cni_meta_plugin.as_deref())?;
    node_config::write_meta(layout, state.slot, state.nodes, &plugin)
}

/// What the cluster's API needs for them.
pub(super) fn objects(state: &State) -> Vec<Value> {
    if state.vpcs.is_empty() { Vec::new() } else { vpc::objects() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(vpcs: &str, plugin: Option<&str>) -> State {
        let text = r#"{"phase": "Running", "slot": 3, "volumes": 24, "boot": "x"}"#;
        let state = serde_json::from_str::<State>(text).unwrap();
        State { vpcs: config(vpcs, None).vpcs, meta_plugin: plugin.map(str::to_owned), ..state }
    }

    fn config(vpcs: &str, plugin: Option<&str>) -> Config {
        let vpcs = vpcs.split_whitespace().map(|vpc| vpc.parse().unwrap()).collect();
        Config { vpcs, cni_meta_plugin: plugin.map(Into::into), ..Config::default() }
    }

    #[test]
    fn vpcs_are_added_and_stay_as_they_are() {
        let names = |state: State| state.vpcs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(names(merged(state("", None), &config("a b", None)).unwrap()), "a=172.20.0.0/24 b=172.20.0.0/24");
        assert_eq!(names(merged(state("a", None), &config("", None)).unwrap()), "a=172.20.0.0/24");
        assert_eq!(names(merged(state("a", None), &config("a", None)).unwrap()), "a=172.20.0.0/24");
        assert!(merged(state("a", None), &config("a=10.0.0.0/24", None)).is_err());
    }

    #[test]
    fn the_plugin_that_attached_pods_detaches_them() {
        let other = |there: Option<&str>| merged(state("a", there), &config("a", Some("/opt/multus")));
        assert_eq!(other(Some("multus")).unwrap().meta_plugin.as_deref(), Some("multus"));
        assert!(other(Some("another")).is_err());
        assert!(other(None).is_err(), "this project's own has");
        let first = merged(state("", None), &config("a", Some("/opt/multus"))).unwrap();
        assert_eq!(first.meta_plugin.as_deref(), Some("multus"));
        assert_eq!(
            merged(state("a", Some("multus")), &config("", None)).unwrap().meta_plugin.as_deref(),
            Some("multus")
        );
    }
}
