//! Bodies, which pass as they come.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A whole one.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// One that passes until it is cut.
pub(crate) struct Cut {
    body: hyper::body::Incoming,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Whoever looks after it learns that it has ended.
    _ends: DropGuard,
}

impl Cut {
    /// `ends` goes with this.
    pub(crate) fn new(body: hyper::body::Incoming, cut: CancellationToken, ends: DropGuard) -> Self {
        Self { body, over: Box::pin(cut.cancelled_owned()), _ends: ends }
    }
}

impl http_body::Body for Cut {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err("the caller may not use this tenant any more".into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer of this program's own, in the form that clients of Kubernetes show.
pub(crate) fn status(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    json_of(code, &status)
}

/// JSON.
pub(crate) fn json_of(code: StatusCode, value: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(whole(value.to_string()));
    *response.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
