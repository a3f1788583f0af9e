//! Whether this process' clock agrees with that of the meta cluster's API server, by which reconciles go. Leases and back-off need no clock;
//! certificates do: they are valid from five minutes before they are issued.

use crate::context::Context;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it is read, and how soon after a failure.
const EVERY: Duration = Duration::from_mins(5);
const AGAIN: Duration = Duration::from_secs(10);
const DEADLINE: Duration = Duration::from_secs(5);

/// From here on it is reported; the API server's answer itself says whole seconds.
const LOG_FROM: SignedDuration = SignedDuration::from_secs(30);

/// What it may change before that is taken up.
const STEADY: SignedDuration = SignedDuration::from_secs(10);

/// Reads again until `stop`, after a first [`refresh`] that went so.
pub async fn follow(ctx: Arc<Context>, mut answered: bool, stop: CancellationToken) {
    loop {
        let pause = if answered { EVERY } else { AGAIN };
        tokio::select! { () = tokio::time::sleep(pause) => (), () = stop.cancelled() => return }
        answered = refresh(&ctx).await;
    }
}

/// Now, by this machine's clock.
pub fn wall() -> Timestamp {
    Timestamp::try_from(berth_fence::clock::wall()).unwrap_or_else(|_| Timestamp::now())
}

/// Sets how far this clock is ahead, and logs it if that is much. False: the API server did not say its time.
pub async fn refresh(ctx: &Context) -> bool {
    let answer = tokio::time::timeout(DEADLINE, date(ctx.io.client())).await.ok().flatten();
    let Some(theirs) = answer else { return false };
    ctx.set_time(theirs);
    let ahead = wall().duration_since(theirs);
    ctx.metrics.clock_ahead.set(ahead.as_secs_f64());
    // Statuses say it: not again every second.
    if (ahead - ctx.meta().clock_ahead).abs() > STEADY {
        ctx.update_meta(|m| m.clock_ahead = ahead);
    }
    if ahead.abs() > LOG_FROM {
        let seconds = ahead.as_secs();
        tracing::warn!(
            seconds,
            "the clock of this node differs from the API server's (seconds; positive: it is ahead): set the one that is wrong"
        );
    }
    true
}

/// The API server's time.
async fn date(client: &Client) -> Option<Timestamp> {
    let request = http::Request::get("/version").body(Body::empty()).ok()?;
    let answer = client.send(request).await.ok()?;
    parse(answer.headers().get(http::header::DATE)?.to_str().ok()?)
}

fn parse(date: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(date).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use berth_plan::Settings;

    #[test]
    fn a_date_of_http_is_read() {
        assert_eq!(parse("Thu, 01 Jan 2026 00:00:00 GMT"), "2026-01-01T00:00:00Z".parse().ok());
        assert_eq!(parse("now"), None);
    }

    /// A meta cluster whose API server says these times, one after the other.
    fn context(times: Vec<Timestamp>) -> Context {
        let left = std::sync::Mutex::new(times.into_iter());
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let said = left.lock().unwrap().next().unwrap().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            async move {
                Ok::<_, std::convert::Infallible>(
                    http::Response::builder().header("date", said).body(Body::empty()).unwrap(),
                )
            }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::closed());
        Context::new(&client, Settings::default(), "test")
    }

    #[tokio::test]
    async fn a_clock_that_was_set_is_noticed_and_one_that_runs_is_not() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (minutes, was_set) in [(0, false), (1, false), (15, true), (-15, true)] {
            let then = start + SignedDuration::from_mins(minutes);
            let context = context(vec![start, then]);
            assert!(refresh(&context).await);
            assert_eq!(context.meta().clock_set, None, "what it says first is where it is");
            assert!(refresh(&context).await);
            assert_eq!(context.meta().clock_set, was_set.then_some(then), "{minutes} minutes");
            assert!(context.now().duration_since(then).abs() < SignedDuration::from_mins(1));
        }
    }
}
