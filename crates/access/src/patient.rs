//! Connections to a tenant that may sleep: the gateway holds one for some seconds, and closes it before the tenant is awake. Nothing of a call was sent
//! then, so it is tried again for a while.

use http::Uri;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::Service;

/// One that was held lasted longer than this, which is longer than an API server may take to be connected to.
const HELD: Duration = Duration::from_secs(7);

/// So long after the first try there is no other.
const PATIENCE: Duration = Duration::from_secs(40);

/// A connector that tries again.
#[derive(Clone, Debug)]
pub(crate) struct Patient<C>(pub(crate) C);

impl<C> Service<Uri> for Patient<C>
where
    C: Service<Uri> + Clone + Send + 'static,
    C::Response: Send,
    C::Error: Send,
    C::Future: Send,
{
    type Response = C::Response;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        // The one that was found ready is called; its clone is for later.
        let again = self.0.clone();
        let mut connector = std::mem::replace(&mut self.0, again);
        Box::pin(async move {
            let begun = Instant::now();
            loop {
                let tried = Instant::now();
                match connector.call(to.clone()).await {
                    Err(_) if tried.elapsed() >= HELD && begun.elapsed() < PATIENCE => {
                        std::future::poll_fn(|cx| connector.poll_ready(cx)).await?;
                    }
                    other => return other,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Fails so often, after so long.
    #[derive(Clone)]
    struct Fails(Arc<AtomicU32>, u32, Duration);

    impl Service<Uri> for Fails {
        type Response = ();
        type Error = &'static str;
        type Future = Pin<Box<dyn Future<Output = Result<(), &'static str>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            let Self(tries, fails, after) = self.clone();
            Box::pin(async move {
                tokio::time::sleep(after).await;
                if tries.fetch_add(1, Relaxed) < fails { Err("reset") } else { Ok(()) }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_held_is_tried_again_for_a_while_and_nothing_else_is() {
        for (fails, seconds, outcome, wanted) in [
            (0, 0, Ok(()), 1),
            (1, 0, Err("reset"), 1),
            (1, 5, Err("reset"), 1),
            (2, 9, Ok(()), 3),
            (99, 9, Err("reset"), 5),
        ] {
            let tries = Arc::new(AtomicU32::default());
            let mut patient = Patient(Fails(tries.clone(), fails, Duration::from_secs(seconds)));
            assert_eq!((patient.call(Uri::from_static("https://acme")).await, tries.load(Relaxed)), (outcome, wanted));
        }
    }
}
