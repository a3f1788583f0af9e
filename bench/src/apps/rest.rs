//! Several apps in many tenants, and nothing that happens: what the operator writes, and what it holds of them.

use anyhow::Result;
use serde_json::json;
use std::time::{Duration, Instant};

use super::setup::{Pretended, SETTLE, Setup};
use super::{charts, jobs};
use crate::Figure;

const APPS: usize = 5;
/// Tenants that are made at once.
const MADE_AT_ONCE: usize = 50;
/// Nothing asks the registry.
const REGISTRY: &str = "registry.example.com";

pub(super) async fn run(setup: &Setup<'_>) -> Result<Vec<Figure>> {
    let client = setup.client;
    let mut pretended = Pretended::start(setup, jobs::pretend(client), None).await?;
    let names: Vec<String> = (0..setup.tenants).map(|n| format!("rest-{n}")).collect();
    pretended.make(&names, MADE_AT_ONCE, || Ok(())).await?;
    // One that has not made them: what it holds of tenants alone.
    pretended.anew(names.len()).await?;
    let before = pretended.operator()?.usage()?.rss;
    println!("the operator without apps: {before:.1} MiB");
    for n in 0..APPS {
        // A look for drift is a Job.
        let more = json!({"maxConcurrent": 20, "drift": {"mode": "Ignore"}});
        charts::create(client, &format!("web-{n}"), REGISTRY, &more).await?;
    }
    for n in 0..APPS {
        charts::deployed(client, &format!("web-{n}"), names.len(), Instant::now(), async || Ok(())).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let (written, used, since) = (setup.written()?, pretended.operator()?.usage()?, Instant::now());
    tokio::time::sleep(Duration::from_mins(setup.rest_minutes)).await;
    let (writes, after) = (setup.written()? - written, pretended.operator()?.usage()?);
    let cpu = (after.cpu - used.cpu) * 1000.0 / since.elapsed().as_secs_f64();
    println!("the operator with apps: {:.1} MiB, at most {:.1}", after.rss, after.peak);
    pretended.anew(names.len()).await?;
    let anew = pretended.operator()?.usage()?.rss;
    pretended.end().await?;
    let one = |name, unit, value| Figure::new(name, unit, vec![value]);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let writes = writes as f64;
    Ok(vec![
        one("apps.rest_writes", "writes", writes),
        one("apps.rest_cpu", "ms/s", cpu),
        one("apps.rss", "MiB", after.rss - before),
        one("apps.rss_anew", "MiB", anew - before),
    ])
}
