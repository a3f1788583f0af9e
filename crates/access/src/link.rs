//! The operator, which signs: it dials, and is asked for passes as long as it stays.

use anyhow::{Context as _, Result};
use berth_contract::access::{Answer, Ask, CERTIFICATE, ClusterName, LONGEST, OPERATOR, Outcome};
use berth_edge::link::Identity;
use berth_edge::socket;
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use rustls::server::Acceptor;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::codec::{Framed, LinesCodec};

use crate::opening::Opening;

/// Connections whose other end has not shown who it is.
const OPENING: usize = 64;
/// How long one has for that.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// Of these so many have the operator's Lease read at once.
const READING: usize = 4;
/// How long the operator may take for an answer: it reads a few objects.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
const AFTER_FAILURE: Duration = Duration::from_millis(100);
const BETWEEN_LINES: Duration = Duration::from_secs(1);
/// Questions that wait to be sent.
const WAITING: usize = 256;

/// Nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoOperator;

type Question = (ClusterName, String, oneshot::Sender<Outcome>);

/// The connection that the operator opened last.
#[derive(Debug, Default)]
pub(crate) struct Link {
    questions: Mutex<Option<mpsc::Sender<Question>>>,
}

impl Link {
    /// Asks for a pass. `request`: a certificate signing request as PEM.
    pub(crate) async fn ask(&self, cluster: &ClusterName, request: String) -> Result<Outcome, NoOperator> {
        let questions = self.questions.lock().clone().ok_or(NoOperator)?;
        let (answer, answered) = oneshot::channel();
        let ask = async {
            questions.send((cluster.clone(), request, answer)).await.map_err(|_| NoOperator)?;
            answered.await.map_err(|_| NoOperator)
        };
        timeout(ANSWER_WITHIN, ask).await.unwrap_or(Err(NoOperator))
    }

    /// Whether it ever was.
    pub(crate) fn was_opened(&self) -> bool {
        self.questions.lock().is_some()
    }

    /// Whether the operator is there.
    pub(crate) fn is_open(&self) -> bool {
        self.questions.lock().as_ref().is_some_and(|questions| !questions.is_closed())
    }
}

/// Takes the operator's connections, for ever. Only who has published its certificate in the operator's Lease is the operator.
pub(crate) async fn serve(listener: TcpListener, identity: Arc<Identity>, leases: Api<Lease>, link: Arc<Link>) {
    // Whoever comes may come often.
    let said = Arc::new(Mutex::new(None::<Instant>));
    let (opening, reading) = (Opening::new(OPENING), Arc::new(Semaphore::new(READING)));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let place = opening.take(peer.ip());
        let (identity, leases, link) = (identity.clone(), leases.clone(), link.clone());
        let (reading, said) = (reading.clone(), said.clone());
        tokio::spawn(async move {
            let opened = tokio::select! {
                opened = timeout(OPEN_WITHIN, open(stream, &identity, &leases, &reading)) => {
                    opened.unwrap_or_else(|_| Err(anyhow::anyhow!("it took longer than {OPEN_WITHIN:?}")))
                }
                () = place.taken() => Err(anyhow::anyhow!("{OPENING} connections say nothing, most from there: it made room for a newer one")),
            };
            drop(place);
            match opened {
                Ok(lines) => {
                    let (questions, asked) = mpsc::channel(WAITING);
                    *link.questions.lock() = Some(questions);
                    eprintln!("berth-access: the operator is connected from {peer}");
                    let why = speak(lines, asked).await;
                    eprintln!("berth-access: the operator's connection from {peer} has ended: {why}");
                }
                Err(error) => {
                    let mut last = said.lock();
                    if last.is_none_or(|last| last.elapsed() > BETWEEN_LINES) {
                        *last = Some(Instant::now());
                        eprintln!("berth-access: {peer} is not taken for the operator: {error:#}");
                    }
                }
            }
        });
    }
}

type Lines = Framed<tokio_rustls::server::TlsStream<TcpStream>, LinesCodec>;

async fn open(stream: TcpStream, identity: &Identity, leases: &Api<Lease>, reading: &Semaphore) -> Result<Lines> {
    socket::set_up_server(&stream)?;
    // Who says nothing costs no call.
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await.context("TLS")?;
    let permit = reading.acquire().await?;
    let lease = leases.get_opt(OPERATOR).await.context("cannot read the operator's Lease")?;
    let lease = lease.with_context(|| format!("there is no Lease {OPERATOR}"))?;
    let operator =
        lease.annotations().get(CERTIFICATE).with_context(|| format!("Lease {OPERATOR} has no certificate"))?;
    drop(permit);
    let stream = hello.into_stream(Arc::new(identity.server(operator)?)).await.context("TLS")?;
    Ok(Framed::new(stream, LinesCodec::new_with_max_length(LONGEST)))
}

/// Until either end is gone. Says why.
async fn speak(mut lines: Lines, mut asked: mpsc::Receiver<Question>) -> String {
    let mut open: HashMap<u64, oneshot::Sender<Outcome>> = HashMap::new();
    let mut id = 0;
    loop {
        tokio::select! {
            question = asked.recv() => {
                // Whoever waits for an answer of this one asks again.
                let Some((cluster, request, answer)) = question else { return "there is a newer one".to_owned() };
                id += 1;
                open.retain(|_, answer| !answer.is_closed());
                open.insert(id, answer);
                let line = serde_json::to_string(&Ask { id, cluster, request }).unwrap_or_default();
                if let Err(error) = lines.send(line).await {
                    return error.to_string();
                }
            }
            line = lines.next() => match line {
                None => return "it was closed".to_owned(),
                Some(Err(error)) => return error.to_string(),
                Some(Ok(line)) => match serde_json::from_str::<Answer>(&line) {
                    Ok(Answer { id, outcome }) => drop(open.remove(&id).map(|answer| answer.send(outcome))),
                    Err(error) => return format!("an answer that cannot be read: {error}"),
                },
            },
        }
    }
}
