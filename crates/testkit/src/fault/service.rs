//! The tower service: asks the plan, then sends, breaks or hangs.

use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, Service};

use super::{Call, Fault, FaultPlan, Verb, stale, watch};

pub(super) type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;
pub(super) type Reply = Response<ReplyBody>;

/// Sends requests through a plain client as its [`FaultPlan`] allows; made by [`FaultPlan::service`].
#[derive(Clone)]
pub struct FaultService {
    inner: Client,
    plan: FaultPlan,
    life: usize,
}

impl std::fmt::Debug for FaultService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultService").field("life", &self.life).field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for FaultService {
    type Response = Reply;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().run(request))
    }
}

impl FaultService {
    pub(super) fn new(inner: Client, plan: FaultPlan) -> Self {
        let life = plan.lock().life;
        Self { inner, plan, life }
    }

    async fn run(self, request: Request<Body>) -> Result<Reply, BoxError> {
        if self.dead() {
            return pending().await;
        }
        let (call, fault) = self.plan.begin(Call::of(&request), self.life);
        match fault {
            None => self.send(call, request).await,
            Some(Fault::FailBefore) => Err(lost("not sent")),
            Some(Fault::StopBefore) => {
                self.plan.end(self.life);
                pending().await
            }
            Some(Fault::StopAfter) => {
                // An error to reach the server is no commit, but the crash was asked for.
                let _ = self.send(call, request).await;
                self.plan.end(self.life);
                pending().await
            }
            Some(Fault::LoseReply) => {
                self.send(call, request).await?;
                Err(lost("reply lost"))
            }
            Some(Fault::Status { code, retry_after }) => {
                self.plan.answered(call.seq, code);
                Ok(refusal(code, retry_after))
            }
            Some(Fault::Delay(time)) => {
                let _under_way = self.plan.sent();
                tokio::time::sleep(time).await;
                self.send(call, request).await
            }
            Some(Fault::Late(time)) => {
                let (inner, plan, under_way) = (self.inner.clone(), self.plan.clone(), self.plan.sent());
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    if let Ok(reply) = inner.send(request).await {
                        plan.answered(call.seq, reply.status().as_u16());
                    }
                    drop(under_way);
                });
                Err(lost("reply lost"))
            }
            Some(Fault::Hang) => pending().await,
        }
    }

    async fn send(&self, call: Call, request: Request<Body>) -> Result<Reply, BoxError> {
        if self.dead() {
            return pending().await;
        }
        if call.verb == Verb::Watch {
            if let Some(reply) = self.plan.refuse_watch(&call) {
                return Ok(reply);
            }
            let opened = watch::Opened::now(&self.plan, &call, self.life);
            let reply = self.inner.send(request).await?;
            self.plan.answered(call.seq, reply.status().as_u16());
            return Ok(if reply.status().is_success() { opened.wrap(reply) } else { reply.map(boxed) });
        }
        let past = self.plan.past_for(&call);
        let under_way = self.plan.sent();
        let reply = match past {
            Some(version) => stale::read(&self.inner, &call, request, &version).await?,
            // What was sent when the operator died is done nevertheless, as with a real crash, and its end is logged.
            None if call.verb.is_mutating() => {
                let (inner, plan, seq) = (self.inner.clone(), self.plan.clone(), call.seq);
                let under_way = under_way.clone();
                let sent = tokio::spawn(async move {
                    let reply = inner.send(request).await?;
                    plan.answered(seq, reply.status().as_u16());
                    drop(under_way);
                    Ok::<_, kube::Error>(reply)
                });
                sent.await??.map(boxed)
            }
            None => self.inner.send(request).await?.map(boxed),
        };
        self.plan.answered(call.seq, reply.status().as_u16());
        drop(under_way);
        if self.dead() {
            return pending().await;
        }
        Ok(reply)
    }

    fn dead(&self) -> bool {
        *self.plan.ended.borrow() >= self.life
    }
}

pub(super) fn boxed(body: Body) -> ReplyBody {
    body.map_err(BoxError::from).boxed_unsync()
}

pub(super) fn full(bytes: impl Into<Bytes>) -> ReplyBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn lost(what: &str) -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, format!("fault: {what}")).into()
}

/// A refusal as the server words it.
pub(super) fn refusal(code: u16, retry_after: Option<u32>) -> Reply {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("fault: {reason}"), "reason": reason, "code": code,
        "details": {"retryAfterSeconds": retry_after.unwrap_or(0)},
    });
    let mut reply = Response::new(full(status.to_string()));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or_else(|e| panic!("status {code}: {e}"));
    reply.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        reply.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    reply
}
