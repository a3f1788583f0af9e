//! One TLS connection to one member, and calls on it.

use crate::error::CallError;
use crate::target::{EtcdTarget, Member};
use crate::wire::{self, Call, Done};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// Answers are some hundred bytes; more is not etcd's.
const LARGEST: usize = 1024 * 1024;

/// Until when, and what that was from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    limit: Duration,
    at: Instant,
}

impl Deadline {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, at: Instant::now() + limit }
    }

    async fn within<F: Future>(self, doing: &'static str, work: F) -> Result<F::Output, CallError> {
        timeout_at(self.at, work).await.map_err(|_| CallError::Timeout { limit: self.limit, doing })
    }
}

/// A connection; it closes when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    host: String,
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<hyper::Result<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects to a member, and asks it.
    pub(crate) async fn asked<T: DeserializeOwned>(
        member: &Member,
        tls: Arc<ClientConfig>,
        call: &Call,
        limit: Duration,
    ) -> Result<(Self, T), CallError> {
        let by = Deadline::new(limit);
        let mut connection = Self::open(member, tls, by).await?;
        let answer = connection.ask(call, by).await?;
        Ok((connection, answer))
    }

    /// Connects and shakes hands.
    async fn open(member: &Member, tls: Arc<ClientConfig>, by: Deadline) -> Result<Self, CallError> {
        let stream = by.within("connecting", TcpStream::connect(member.address)).await?;
        let stream = stream.map_err(|e| CallError::io(&e))?;
        let shake = TlsConnector::from(tls).connect(member.host.clone(), stream);
        let stream = by.within("negotiating TLS", shake).await?.map_err(|e| CallError::io(&e))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| CallError::http(&e))?;
        Ok(Self { host: member.host.to_str().into_owned(), sender, task: tokio::spawn(connection) })
    }

    /// Asks.
    pub(crate) async fn ask<T: DeserializeOwned>(&mut self, call: &Call, by: Deadline) -> Result<T, CallError> {
        let request = Request::post(call.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::copy_from_slice(call.body.as_bytes())))
            .map_err(|e| CallError::Broken(e.to_string()))?;
        let exchange = async {
            let answer = match self.sender.send_request(request).await {
                Ok(answer) => answer,
                // A request that was cancelled says nothing; how the connection ended does.
                Err(e) if e.is_canceled() => match (&mut self.task).await {
                    Ok(Err(why)) => return Err(CallError::http(&why)),
                    _ => return Err(CallError::http(&e)),
                },
                Err(e) => return Err(CallError::http(&e)),
            };
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), LARGEST).collect().await;
            let body = body.map_err(|e| CallError::Broken(e.to_string()))?;
            wire::read(call, status, &body.to_bytes())
        };
        by.within(call.doing, exchange).await?
    }
}

/// Tells the member of that name.
pub(crate) async fn tell(target: &EtcdTarget, via: &str, call: &Call, limit: Duration) -> Result<(), CallError> {
    let member = target.members.iter().find(|m| m.name == via).ok_or_else(|| CallError::NoMember(via.to_owned()))?;
    let (_, Done {}) = Connection::asked(member, target.credential.tls(), call, limit).await?;
    Ok(())
}
