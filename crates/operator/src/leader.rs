//! One operator writes at a time: a Lease, and a fence that runs out before another may take it.
//!
//! The protocol is client-go's: a candidate takes the lease when it has not seen it change for `leaseDurationSeconds` of
//! its own clock, so that clocks need not agree. The fence closes earlier, counted from when the renewal was sent.

use anyhow::Context as _;
use berth_fence::{Fence, Moment};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a lease is valid without renewal.
const LEASE: Duration = Duration::from_secs(15);
/// How long the holder may write after it sent its last renewal. The rest is for writes that are on their way.
const FENCE: Duration = Duration::from_secs(10);
/// How often the holder renews, and a candidate asks.
const RENEW: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(5);

/// How long reconciles may go on once this process was asked to end.
const RECONCILES_END: Duration = Duration::from_millis(500);
/// How long, after that, answers to writes that are on their way are waited for.
const ANSWERS: Duration = Duration::from_millis(200);
/// How long giving the lease back may take.
const RELEASE: Duration = Duration::from_secs(2);

/// A candidate for the lease.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    fence: Fence,
    /// Whether the API server answered the last time.
    heard: Arc<AtomicBool>,
    /// The lease as last seen to change, and when.
    seen: Option<(Option<String>, Instant)>,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Candidate {
    /// For the lease of that name. `heard` is kept up to date: whether the API server answered the last time.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        fence: Fence,
        heard: Arc<AtomicBool>,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.into(),
            identity: identity.into(),
            fence,
            heard,
            seen: None,
        }
    }

    /// Waits until the lease is ours.
    pub async fn acquire(&mut self) {
        loop {
            let sent = Moment::now();
            match self.look().await {
                Ok(true) => {
                    self.fence.extend(sent, FENCE);
                    tracing::info!(identity = self.identity, "holds the lease");
                    return;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(error = format!("{error:#}"), "cannot take the lease"),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Renews until that fails for so long that another may hold it. The fence is closed by then.
    async fn hold(&mut self) {
        let mut last = Moment::now();
        loop {
            tokio::time::sleep(RENEW).await;
            let sent = Moment::now();
            match self.look().await {
                Ok(true) => {
                    self.fence.extend(sent, FENCE);
                    last = sent;
                }
                Ok(false) => {
                    self.fence.close();
                    tracing::error!("another operator holds the lease");
                    return;
                }
                Err(error) => tracing::warn!(error = format!("{error:#}"), "cannot renew the lease"),
            }
            if last.elapsed() > LEASE {
                self.fence.close();
                tracing::error!("the lease could not be renewed");
                return;
            }
        }
    }

    /// Works while the lease is held, until `stop`. The error says why it ended otherwise: then the process is to end, so that another
    /// operator works.
    pub async fn lead(
        &mut self,
        work: impl Future<Output = ()> + Send + 'static,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let ended = CancellationToken::new();
        // Also where it panics.
        let guard = ended.clone().drop_guard();
        let work = tokio::spawn(async move {
            work.await;
            drop(guard);
        });
        tokio::select! {
            () = self.hold() => {
                // Nothing of what it had under way may go on. Waited for, since tasks that are dropped in any order when the process ends
                // panic.
                work.abort();
                let _ = work.await;
                anyhow::bail!("the lease is lost");
            }
            () = stop.cancelled() => {}
            () = ended.cancelled() => {}
        }
        let by_itself = !stop.is_cancelled();
        self.hand_over(work).await;
        anyhow::ensure!(!by_itself, "the controllers stopped unexpectedly");
        Ok(())
    }

    /// Ends the work and gives the lease back, so that the next one need not wait. Reconciles that hang do not delay it.
    async fn hand_over(&self, mut work: JoinHandle<()>) {
        let asked = Instant::now();
        let mut ended = timeout(RECONCILES_END, &mut work).await.is_ok();
        // From here on no write begins, and a reconcile ends at its next one.
        self.fence.close();
        if !ended {
            ended = timeout(ANSWERS, &mut work).await.is_ok();
        }
        // Ends the connections of calls without an answer, too: the API server gives up what nobody waits for.
        work.abort();
        let released = timeout(RELEASE, self.release()).await;
        let (took, cut_off) = (asked.elapsed(), !ended);
        match released {
            Ok(Ok(())) => tracing::info!(?took, cut_off, "released the lease"),
            Ok(Err(error)) => {
                tracing::warn!(?took, cut_off, %error, "could not release the lease; it expires by itself");
            }
            Err(_) => tracing::warn!(?took, cut_off, "could not release the lease; it expires by itself"),
        }
    }

    async fn release(&self) -> Result<(), kube::Error> {
        match self.give_back().await {
            // A renewal that was cut off has landed in between.
            Err(kube::Error::Api(s)) if s.code == 409 => self.give_back().await,
            other => other,
        }
    }

    async fn give_back(&self) -> Result<(), kube::Error> {
        let mut lease = self.api.get(&self.name).await?;
        if let Some(spec) = lease.spec.as_mut().filter(|s| s.holder_identity.as_deref() == Some(&self.identity)) {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }

    /// [`Self::try_take`] with a deadline.
    async fn look(&mut self) -> anyhow::Result<bool> {
        let answer = timeout(DEADLINE, self.try_take()).await;
        let answer = answer.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {DEADLINE:?}")));
        self.heard.store(answer.is_ok(), Ordering::Relaxed);
        answer
    }

    async fn try_take(&mut self) -> anyhow::Result<bool> {
        let now = MicroTime(crate::clock::wall());
        let Some(mut lease) = self.api.get_opt(&self.name).await.context("get")? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                spec: Some(self.spec(None, &now)),
            };
            return match self.api.create(&PostParams::default(), &lease).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(s)) if s.code == 409 => Ok(false),
                Err(e) => Err(e).context("create"),
            };
        };
        let version = lease.metadata.resource_version.clone();
        if self.seen.as_ref().is_none_or(|(v, _)| *v != version) {
            self.seen = Some((version, Instant::now()));
        }
        let old = lease.spec.take().unwrap_or_default();
        let holder = old.holder_identity.clone().unwrap_or_default();
        let valid_for = Duration::from_secs(u64::try_from(old.lease_duration_seconds.unwrap_or(1)).unwrap_or(1));
        let unchanged = self.seen.as_ref().map(|(_, at)| at.elapsed()).unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && unchanged <= valid_for {
            return Ok(false);
        }
        lease.spec = Some(self.spec(Some(&old), &now));
        // The resourceVersion that was read decides between two candidates.
        match self.api.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(_) => Ok(true),
            // Somebody was quicker, or our own write's answer was lost: look again.
            Err(kube::Error::Api(s)) if s.code == 409 => {
                let holder = self.api.get(&self.name).await?.spec.and_then(|s| s.holder_identity);
                Ok(holder.as_deref() == Some(&self.identity))
            }
            Err(e) => Err(e).context("replace"),
        }
    }

    fn spec(&self, old: Option<&LeaseSpec>, now: &MicroTime) -> LeaseSpec {
        let same = old.is_some_and(|o| o.holder_identity.as_deref() == Some(&self.identity));
        let transitions = old.and_then(|o| o.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            acquire_time: old.filter(|_| same).and_then(|o| o.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now.clone()),
            lease_transitions: Some(if same { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::convert::Infallible;
    use std::sync::Mutex;

    /// Sets the flag when it is dropped.
    struct Dropped(Arc<AtomicBool>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[derive(Clone, Debug)]
    struct Call {
        method: Method,
        body: Value,
        fence_open: bool,
        work_cut_off: bool,
    }

    /// Has the lease, which is `me`'s. The first write of it meets a conflict.
    #[derive(Clone)]
    struct Server {
        fence: Fence,
        cut_off: Arc<AtomicBool>,
        calls: Arc<Mutex<Vec<Call>>>,
    }

    impl Server {
        fn client(&self) -> Client {
            let server = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            });
            Client::new(service, "default")
        }

        async fn answer(&self, request: Request<Body>) -> Response<Body> {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let mut calls = self.calls.lock().unwrap();
            calls.push(Call {
                method: head.method,
                body: serde_json::from_slice(&body).unwrap_or_default(),
                fence_open: self.fence.is_open(),
                work_cut_off: self.cut_off.load(Ordering::SeqCst),
            });
            let (code, answer) = if calls.len() == 2 {
                (409, json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}))
            } else {
                (200, json!({"metadata": {"name": "lease"}, "spec": {"holderIdentity": "me"}}))
            };
            Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap()
        }
    }

    #[tokio::test]
    async fn work_that_ends_by_itself_is_an_error_and_the_lease_is_given_back() {
        for panics in [true, false] {
            let fence = Fence::closed();
            let server = Server { fence: fence.clone(), cut_off: Arc::default(), calls: Arc::default() };
            let mut candidate = Candidate::new(server.client(), "n", "lease", "me", fence, Arc::default());
            let work = async move { assert!(!panics, "a bug") };
            let ended = timeout(Duration::from_mins(1), candidate.lead(work, &CancellationToken::new())).await;
            assert_eq!(ended.unwrap().unwrap_err().to_string(), "the controllers stopped unexpectedly");
            assert_eq!(server.calls.lock().unwrap()[3].body["spec"]["holderIdentity"], "");
            let (asked, waits) = (CancellationToken::new(), std::future::pending());
            asked.cancel();
            candidate.lead(waits, &asked).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_lease_is_given_back_once_no_write_can_leave_and_what_hangs_is_cut_off() {
        let fence = Fence::closed();
        fence.extend(Moment::now(), Duration::from_mins(1));
        let server = Server { fence: fence.clone(), cut_off: Arc::default(), calls: Arc::default() };
        let candidate = Candidate::new(server.client(), "n", "lease", "me", fence.clone(), Arc::default());
        let wrote = Arc::new(AtomicBool::new(false));
        let (done, dropped) = (wrote.clone(), Dropped(server.cut_off.clone()));
        let work = tokio::spawn(async move {
            let _dropped = dropped;
            tokio::time::sleep(RECONCILES_END / 10).await;
            done.store(fence.is_open(), Ordering::SeqCst);
            std::future::pending::<()>().await;
        });
        candidate.hand_over(work).await;
        assert!(wrote.load(Ordering::SeqCst), "what is under way may go on for a while");
        let calls = server.calls.lock().unwrap();
        let methods: Vec<_> = calls.iter().map(|c| c.method.as_str()).collect();
        assert_eq!(methods, ["GET", "PUT", "GET", "PUT"]);
        assert!(calls.iter().all(|c| !c.fence_open && c.work_cut_off), "{calls:?}");
        assert_eq!(calls[3].body["spec"]["holderIdentity"], "");
    }
}
