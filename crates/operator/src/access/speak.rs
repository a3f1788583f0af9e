//! One connection to a replica of `berth-access`: its questions come, and answers go as they are ready.

use crate::context::Context;
use crate::link::Lines;
use berth_api::access::{Answer, Ask, Outcome, Reason, Refused};
use berth_kubeio::access_pass;
use futures::stream::FuturesUnordered;
use futures::{SinkExt as _, StreamExt as _};

/// Questions of one connection that are answered at once. The others wait.
const AT_ONCE: usize = 16;

/// Until the replica is gone. Says why.
pub(super) async fn speak(ctx: &Context, mut lines: Lines) -> String {
    let mut answers = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(answer) = answers.next(), if !answers.is_empty() => {
                let line = serde_json::to_string::<Answer>(&answer).unwrap_or_default();
                if let Err(error) = lines.send(line).await {
                    return error.to_string();
                }
            }
            line = lines.next(), if answers.len() < AT_ONCE => match line {
                None => return "it was closed".to_owned(),
                Some(Err(error)) => return error.to_string(),
                Some(Ok(line)) => match serde_json::from_str::<Ask>(&line) {
                    Ok(ask) => answers.push(answer(ctx, ask)),
                    Err(error) => return format!("a question that cannot be read: {error}"),
                },
            },
        }
    }
}

async fn answer(ctx: &Context, ask: Ask) -> Answer {
    let gateway = ctx.settings.access.as_ref().and_then(|access| access.gateway.as_deref());
    let clocks = ctx.meta().clocks(ctx.now());
    let answered = access_pass(&ctx.io, &ask.cluster, &ask.request, gateway, clocks).await;
    let outcome = answered.unwrap_or_else(|error| {
        let (namespace, name) = (&ask.cluster.namespace, &ask.cluster.name);
        tracing::warn!(%error, namespace, name, "cannot let berth-access into a tenant");
        let message = "the operator cannot read what it needs of the tenant: its log says why".to_owned();
        Outcome::Refused(Refused { reason: Reason::Failed, message })
    });
    Answer { id: ask.id, outcome }
}
