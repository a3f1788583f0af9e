//! `etcd`: how a tenant's etcd is, by what Berth says of it; a backup of it, which it can go back to; and its upkeep. Nothing here speaks to etcd itself.

mod backup;
mod defrag;
mod restore;
mod show;

use crate::access::{Access, parse};
use crate::args::Meta;
use crate::args::etcd::{Etcd, Of, Verb, Wait};
use crate::outcome::Outcome;
use crate::output;
use crate::wait::until;
use anyhow::{anyhow, bail};
use berth_api::{Cluster, EtcdCluster, names};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
        let value = access.get(&key).await?;
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
    let live = if of.stand_alone { Some(value.clone()) } else { access.get(&key).await? };
    let live = live.ok_or_else(|| {
        anyhow!("{key} does not exist yet. Next: kubectl berth status {} -n {}", of.name, access.namespace)
    })?;
    let etcd = parse(live, &key.to_string())?;
    Ok(Found { named, value, key, etcd })
}

/// Creates what Berth is asked for. With --wait, waits until that has ended.
async fn create<T: DeserializeOwned>(
    access: &Access,
    key: &ObjectKey,
    object: &Value,
    wait: &Wait,
    progress: fn(&T) -> (Option<bool>, String),
) -> anyhow::Result<Outcome> {
    access.io.create(key, object, "kubectl-berth").await.map_err(|e| access.explain(e))?;
    output::print(&format!("{key} is created\n"))?;
    if !wait.wait {
        return Ok(Outcome::Done);
    }
    let look = async || {
        let Some(live) = access.get(key).await? else { return Ok((Some(false), format!("{key} was deleted"))) };
        Ok(progress(&parse(live, &key.to_string())?))
    };
    Ok(Outcome::done_if(until(wait.timeout, look).await? == Some(true)))
}
