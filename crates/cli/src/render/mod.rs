//! `render`: what Berth would make for a `Cluster`, without any cluster.

mod show;

use crate::access::{cluster_in, namespace_of};
use crate::args::{Objects, Render};
use crate::outcome::Outcome;
use crate::{output, world};
use berth_api::Cluster;
use berth_plan::settings::Config;
use berth_plan::settings::flags::{Delivery, Flags};
use berth_plan::{MetaCluster, Settings};
use berth_plan_cluster::platform_issuers_refusal;

/// Plans in a world in memory until nothing is left to make, and prints what was made.
pub(crate) fn run(args: &Render, namespace: Option<&str>) -> anyhow::Result<Outcome> {
    let mut cluster = cluster_in(&args.file)?;
    place(&mut cluster, namespace)?;
    let config = configuration(args)?;
    let given = config.given.clone();
    let settings = settings(args, config);
    let world = world::settle(&cluster, &settings, MetaCluster::new(Ok(given), &settings))?;
    let documents = if args.inside { show::inside(&world) } else { show::outside(&world) };
    let text = match args.output {
        Objects::Yaml => show::yaml(&documents)?,
        Objects::Json => show::json(&documents)?,
    };
    output::print(&text)?;
    for note in show::notes(&text, args.inside || args.operator_config.is_some()) {
        output::note(&note);
    }
    Ok(Outcome::Done)
}

/// The namespace that the file says, or else the one that was asked for.
fn place(cluster: &mut Cluster, namespace: Option<&str>) -> anyhow::Result<()> {
    let namespace = namespace_of(cluster.metadata.namespace.as_deref(), namespace)?.unwrap_or("default").to_owned();
    cluster.metadata.namespace = Some(namespace);
    // Whoever wrote the file does not know what only a stored object has.
    cluster.status = None;
    cluster.metadata.deletion_timestamp = None;
    cluster.metadata.uid = Some(world::UID.to_owned());
    cluster.metadata.generation = Some(1);
    Ok(())
}

fn configuration(args: &Render) -> anyhow::Result<Config> {
    let Some(path) = &args.operator_config else { return Ok(Config::anything()) };
    let config = Config::parse(&output::read(path)?).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
    match platform_issuers_refusal(&config.jwt) {
        Some(why) => Err(anyhow::anyhow!("{}: {why}", path.display())),
        None => Ok(config),
    }
}

fn settings(args: &Render, config: Config) -> Settings {
    let agent_delivery = args.agent_delivery.into();
    let flags = Flags {
        agent_image: args.agent_image.clone(),
        agent_delivery: Delivery::Always(agent_delivery),
        // Jobs take backups: none of them is a part of a tenant.
        backup_image: String::new(),
        image_registry: args.image_registry.clone(),
        namespace: args.operator_namespace.clone(),
        service_account: "berth-operator".to_owned(),
        leaf_lifetime_minutes: Flags::read(|_| None).0.leaf_lifetime_minutes,
    };
    Settings::from_chart(flags, agent_delivery, config)
}
