//! The operator, which signs: it dials, and is asked for passes as long as it stays.

use berth_contract::access::{ADDRESS, Answer, Ask, CERTIFICATE, ClusterName, LABEL, LONGEST, OPERATOR, Outcome};
use berth_edge::link::{Lines, Names};
use futures::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// By what they find each other.
pub(crate) const NAMES: Names = Names {
    program: "berth-access",
    label: LABEL,
    address: ADDRESS,
    certificate: CERTIFICATE,
    operator: OPERATOR,
    longest: LONGEST,
};

/// How long the operator may take for an answer: it reads a few objects.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
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

    /// Asks over this one from now on, until it ends. Says why.
    pub(crate) async fn speak(&self, lines: Lines) -> String {
        let (questions, asked) = mpsc::channel(WAITING);
        *self.questions.lock() = Some(questions);
        speak(lines, asked).await
    }
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
