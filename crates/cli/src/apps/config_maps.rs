//! What is in the ConfigMaps that an App names, read as the operator reads it.

use crate::access::Access;
use anyhow::bail;
use berth_api::App;
use berth_api::app::ReadValues;
use berth_plan_apps::values::{Problem, config_maps};
use berth_render::ObjectKey;
use serde_json::Value;
use std::collections::BTreeMap;

/// An error has the words of the App's own condition.
pub(crate) async fn read(access: &Access, app: &App) -> anyhow::Result<Vec<ReadValues>> {
    let mut all: BTreeMap<ObjectKey, Value> = BTreeMap::new();
    for (map, _) in config_maps::sources(app) {
        if !all.contains_key(&map)
            && let Some(live) = access.get(&map).await?
        {
            all.insert(map, live);
        }
    }
    match config_maps::read(app, |map| all.get(map)) {
        Ok(read) => Ok(read),
        Err(Problem::Waits(on)) => bail!("the App waits for {on}"),
        Err(Problem::Wrong(why)) => bail!("{why}"),
    }
}
