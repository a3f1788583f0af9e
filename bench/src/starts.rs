//! What a lever on an idle tenant costs its start.

use crate::floor::{self, Objects};
use crate::levers::{self, Lever};
use crate::{Figure, idle, tenant};
use kube::Client;

/// The start of one tenant's raw objects with each lever, and right before without any, so that a machine whose speed drifts is fair to both.
/// Its ratio is the lever's price.
pub(crate) async fn compare(client: &Client, runs: usize, only: &[String]) -> anyhow::Result<Vec<Figure>> {
    let all = levers::all();
    let name = ["lever-start".to_owned()];
    tenant::create(client, &name).await?;
    let objects = floor::dump(client, &name[0]).await?;
    tenant::delete(client, &name).await?;
    let with = |lever: &Lever| -> Objects {
        let mut objects = objects.clone();
        objects.edit(|object| levers::only(lever, &all, object));
        objects
    };
    let mut figures = vec![];
    let chosen = idle::chosen(&all, only)?;
    let Some((none, others)) = chosen.split_first() else { return Ok(vec![]) };
    for lever in others {
        let (mut seconds, mut ratios) = (vec![], vec![]);
        for run in 0..runs {
            let without = floor::create(client, &[with(none)]).await?;
            let answers = floor::create(client, &[with(lever)]).await?;
            println!("{}, run {run}: answers {answers:.2} s, without {without:.2} s", lever.name);
            seconds.push(answers);
            ratios.push(answers / without);
        }
        let name = |what: &str| format!("lever.{}.{what}", lever.key());
        figures.extend([Figure::new(name("start"), "s", seconds), Figure::new(name("start_ratio"), "x", ratios)]);
    }
    Ok(figures)
}
