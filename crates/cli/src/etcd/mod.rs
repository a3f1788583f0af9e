//! `etcd`: how a tenant's etcd is, by what Berth says of it; a backup of it, which it can go back to; and its upkeep. Nothing here speaks to etcd itself.

mod backup;
mod defrag;
mod restore;
mod show;

use crate::access::{Access, parse};
use crate::args::Meta;
use crate::args::etcd::{Etcd, Of, Verb, Wait};
use crate::outcome::Outcome;
use anyhow::{anyhow, bail};
use berth_api::{Cluster, EtcdCluster, names};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// From one look to the next.
const PACE: Duration = Duration::from_secs(2);

/// One of its verbs.
pub(crate) async fn run(meta: &Meta, args: &Etcd) -> anyhow::Result<Outcome> {
    match &args.verb {
        Verb::Status(show) => show::status(&Access::to_read(meta).await?, show).await,
        Verb::Members(show) => show::members(&Access::to_read(meta).await?, show).await,
        Verb::Backup(backup) => backup::run(&Access::to_write(meta).await?, backup).await,
        Verb::Restore(restore) => restore::run(&Access::to_write(meta).await?, restore).await,
        Verb::Defrag(defrag) => defrag::run(&Access::to_write(meta).await?, defrag).await,
    }
}

/// The name of what is created, with the time to the second, so that two do not collide.
fn default_name(of: &str, now: Timestamp) -> String {
    let cut: String = of.chars().take(25).collect();
    format!("{}-{}", cut.trim_end_matches('-'), now.strftime("%Y%m%d%H%M%S"))
}

/// What a person names, and the etcd of it.
struct Found {
    /// The `Cluster`, or the stand-alone `EtcdCluster`.
    named: ObjectKey,
    value: Value,
    key: ObjectKey,
    etcd: EtcdCluster,
}

async fn find(access: &Access, of: &Of) -> anyhow::Result<Found> {
    let (named, value, key) = if of.stand_alone {
        let key = ObjectKey::namespaced(Kind::EtcdCluster, &access.namespace, &of.name);
        let value = access.io.get(&key).await.map_err(|e| access.explain(e))?;
        let Some(value) = value else {
            access.installed().await?;
            bail!("{key} does not exist. For the etcd of a Cluster, leave out --stand-alone")
        };
        (key.clone(), value, key)
    } else {
        let named = ObjectKey::namespaced(Kind::Cluster, &access.namespace, &of.name);
        let value = access.cluster(&of.name).await?;
        let cluster: Cluster = parse(value.clone(), &named.to_string())?;
        let cp_namespace = access.control_plane_namespace(&cluster, &of.name);
        (named, value, ObjectKey::namespaced(Kind::EtcdCluster, cp_namespace, names::ETCD))
    };
    let live =
        if of.stand_alone { Some(value.clone()) } else { access.io.get(&key).await.map_err(|e| access.explain(e))? };
    let live = live.ok_or_else(|| {
        anyhow!("{key} does not exist yet. Next: kubectl berth status {} -n {}", of.name, access.namespace)
    })?;
    let etcd = parse(live, &key.to_string())?;
    Ok(Found { named, value, key, etcd })
}

/// Looks until it has ended, or for so long; None: not in time. What is said is printed when it changes.
async fn until<T, F>(wait: &Wait, mut look: F) -> anyhow::Result<Option<T>>
where
    F: AsyncFnMut() -> anyhow::Result<(Option<T>, String)>,
{
    let end = Timestamp::now() + wait.timeout;
    let mut said = String::new();
    loop {
        let (ended, message) = look().await?;
        if message != said {
            crate::output::print(&format!("{}\n", crate::paint::safe(&message)))?;
            said = message;
        }
        if ended.is_some() {
            return Ok(ended);
        }
        if Timestamp::now() >= end {
            crate::output::note(&format!("not done within {:#}; Berth goes on with it", wait.timeout));
            return Ok(None);
        }
        tokio::time::sleep(PACE).await;
    }
}
