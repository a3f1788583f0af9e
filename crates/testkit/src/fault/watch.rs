//! Watches: cut, answered 410, held back while reads travel in time, or robbed of single events.

use std::future::pending;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyDataStream, BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch as channel;
use tower::BoxError;

use super::service::{Reply, full};
use super::{Call, FaultPlan, Predicate};

/// One event on its way to the client.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// Position among the events of all watches of the plan, from 1; bookmarks and errors have none.
    pub seq: usize,
    /// Path of the watch.
    pub path: String,
    /// `ADDED`, `MODIFIED`, `DELETED`.
    pub kind: String,
    /// The object.
    pub object: Value,
}

/// What the plan does to watches.
#[derive(Default)]
pub(super) struct Rules {
    events: usize,
    cut_now: Vec<(usize, Predicate<Call>)>,
    cut_after: Vec<(Predicate<Call>, usize, bool)>,
    gone: Vec<Predicate<Call>>,
    drops: Vec<(Predicate<WatchEvent>, usize)>,
}

impl Rules {
    pub(super) fn clear(&mut self) {
        *self = Self { events: self.events, ..Self::default() };
    }

    pub(super) fn reset_events(&mut self) {
        self.events = 0;
    }
}

impl FaultPlan {
    /// Ends every open watch that matches, now.
    pub fn cut_watches(&self, matches: impl Fn(&Call) -> bool + Send + Sync + 'static) {
        let epoch = *self.kick.borrow() + 1;
        self.lock().watches.cut_now.push((epoch, Arc::new(matches)));
        self.kick.send_replace(epoch);
    }

    /// The next watch that matches is ended after `events` events. With `gone`, the next connection after that gets
    /// `410 Gone` as the server sends it: an ERROR event, then the end.
    pub fn cut_watch_after(&self, events: usize, gone: bool, matches: impl Fn(&Call) -> bool + Send + Sync + 'static) {
        self.lock().watches.cut_after.push((Arc::new(matches), events, gone));
    }

    /// The next watch that matches gets `410 Gone`. Together with [`FaultPlan::cut_watches`] it forces a new list.
    pub fn watch_gone(&self, matches: impl Fn(&Call) -> bool + Send + Sync + 'static) {
        self.lock().watches.gone.push(Arc::new(matches));
    }

    /// The next `times` events that match never arrive.
    pub fn drop_events(&self, times: usize, matches: impl Fn(&WatchEvent) -> bool + Send + Sync + 'static) {
        self.lock().watches.drops.push((Arc::new(matches), times));
    }

    /// How many events came from the server so far, those included that were dropped.
    pub fn events(&self) -> usize {
        self.lock().watches.events
    }

    pub(super) fn refuse_watch(&self, call: &Call) -> Option<Reply> {
        let mut state = self.lock();
        let rule = state.watches.gone.iter().position(|matches| matches(call))?;
        state.watches.gone.remove(rule);
        drop(state);
        self.answered(call.seq, 200);
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "fault: too old resource version", "reason": "Expired", "code": 410,
        });
        Some(Response::new(full(format!("{}\n", serde_json::json!({"type": "ERROR", "object": status})))))
    }

    /// Whether this event reaches the client.
    fn passes(&self, call: &Call, line: &[u8]) -> bool {
        let Ok(Value::Object(mut event)) = serde_json::from_slice(line) else { return true };
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind == "BOOKMARK" || kind == "ERROR" {
            return true;
        }
        let mut state = self.lock();
        state.watches.events += 1;
        let object = event.remove("object").unwrap_or_default();
        let event = WatchEvent { seq: state.watches.events, path: call.path.clone(), kind, object };
        match state.watches.drops.iter_mut().find(|(matches, times)| *times > 0 && matches(&event)) {
            Some((_, times)) => *times -= 1,
            None => return true,
        }
        false
    }
}

/// An open watch.
pub(super) struct Opened {
    plan: FaultPlan,
    call: Call,
    life: usize,
    epoch: usize,
    /// Events left before it is cut, and whether 410 follows.
    cut: Option<(usize, bool)>,
    kick: channel::Receiver<usize>,
}

impl Opened {
    pub(super) fn now(plan: &FaultPlan, call: &Call, life: usize) -> Self {
        let kick = plan.kick.subscribe();
        let epoch = *kick.borrow();
        let mut state = plan.lock();
        let rule = state.watches.cut_after.iter().position(|(matches, ..)| matches(call));
        let cut = rule.map(|at| state.watches.cut_after.remove(at)).map(|(_, events, gone)| (events, gone));
        drop(state);
        Self { plan: plan.clone(), call: call.clone(), life, epoch, cut, kick }
    }

    pub(super) fn wrap(self, reply: Response<Body>) -> Reply {
        reply.map(|body| {
            let lines = Lines { body: body.into_data_stream(), buffer: BytesMut::new() };
            let frames = stream::unfold((self, lines), |(mut watch, mut lines)| async move {
                let item = watch.next(&mut lines).await?;
                Some((item.map(Frame::data), (watch, lines)))
            });
            StreamBody::new(frames).boxed_unsync()
        })
    }

    async fn next(&mut self, lines: &mut Lines) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some((0, gone)) = self.cut {
                if gone {
                    let path = self.call.path.clone();
                    self.plan.watch_gone(move |call| call.path == path);
                }
                return None;
            }
            // A line is taken only when it can be delivered, so that holding loses none.
            let line = tokio::select! {
                () = dead(&self.plan, self.life) => return pending().await,
                () = self.cut_now() => return None,
                line = async { self.plan.wait_released(&self.call, self.kick.clone()).await; lines.next().await } => line?,
            };
            let line = match line {
                Ok(line) => line,
                Err(e) => return Some(Err(e)),
            };
            if !self.plan.passes(&self.call, &line) {
                continue;
            }
            // Held meanwhile: this line waits as well, unless the watch is cut.
            tokio::select! {
                () = dead(&self.plan, self.life) => return pending().await,
                () = self.cut_now() => return None,
                () = self.plan.wait_released(&self.call, self.kick.clone()) => {}
            }
            if let Some((left, _)) = &mut self.cut {
                *left -= 1;
            }
            return Some(Ok(line));
        }
    }

    /// Resolves when a cut ordered after the opening matches.
    async fn cut_now(&self) {
        let mut kick = self.kick.clone();
        loop {
            kick.mark_unchanged();
            let ordered = |(epoch, matches): &(usize, Predicate<Call>)| *epoch > self.epoch && matches(&self.call);
            if self.plan.lock().watches.cut_now.iter().any(ordered) || kick.changed().await.is_err() {
                return;
            }
        }
    }
}

impl FaultPlan {
    async fn wait_released(&self, call: &Call, mut kick: channel::Receiver<usize>) {
        loop {
            kick.mark_unchanged();
            let held = self.lock().travel.as_ref().is_some_and(|travel| travel.takes(call));
            if !held || kick.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn dead(plan: &FaultPlan, life: usize) {
    let _ = plan.ended.subscribe().wait_for(|ended| *ended >= life).await;
}

/// The lines of a response, each with its newline.
struct Lines {
    body: BodyDataStream<Body>,
    buffer: BytesMut,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                return Some(Ok(self.buffer.split_to(end + 1).freeze()));
            }
            match self.body.next().await? {
                Ok(bytes) => self.buffer.extend_from_slice(&bytes),
                Err(e) => return Some(Err(e.into())),
            }
        }
    }
}
