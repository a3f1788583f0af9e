//! Watches, looks, decides.

use std::future;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt;
use futures::stream::select_all;
use jiff::Timestamp;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, watcher};
use serde_json::{Value, json};

use crate::api::Tenant;
use crate::client::{self, By};
use crate::decide::{Decision, Reserved, Serving, decide};
use crate::open::{Open, Requests};
use crate::request::{Request, Signer};
use crate::text::{NAME, printable};

/// After an error.
const RETRY: Duration = Duration::from_secs(1);
/// Requests in one answer.
const PAGE: u32 = 50;

/// For ever. `reserved`: what is known beside the names in the API server's certificate.
pub(crate) async fn run(tenant: &Tenant, reserved: &Reserved, signers: &[Signer]) {
    let watch = |signer: Signer| {
        let selected = format!("spec.signerName={}", signer.name());
        let selected = watcher::Config::default().fields(&selected).page_size(PAGE);
        watcher(tenant.requests(), selected).backoff(Steady(RETRY)).map(move |event| (signer, event)).boxed_local()
    };
    let mut events = select_all(signers.iter().copied().map(watch));
    let mut requests = Requests::default();
    let mut errors = Errors::default();
    loop {
        let due = requests.next();
        let wake = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            event = events.next() => match event {
                Some((signer, Ok(event))) => {
                    errors.none(signer.name());
                    requests.see(signer, event, Instant::now());
                }
                Some((signer, Err(error))) => errors.say(signer.name(), &anyhow::Error::from(error)),
                None => future::pending().await,
            },
            () = wake => {}
        }
        if let Some(name) = requests.due(Instant::now()) {
            match look(tenant, reserved, &mut requests, &name).await {
                Ok(()) => errors.none("look"),
                Err(error) => {
                    errors.say("look", &error);
                    requests.again(&name, RETRY, Instant::now());
                }
            }
        }
    }
}

/// Looks at one request that is due.
async fn look(tenant: &Tenant, reserved: &Reserved, requests: &mut Requests, name: &str) -> Result<()> {
    let Some(open) = requests.get(name).cloned() else { return Ok(()) };
    let (why, is_news) = match &open.asked {
        Err(why) => (why.clone(), requests.leave(name)),
        Ok(request) => match judge(tenant, reserved, request).await? {
            Decision::Approve => return conclude(tenant, requests, name, &open, approval(request)).await,
            Decision::Deny(why) => return conclude(tenant, requests, name, &open, denial(&why)).await,
            Decision::Wait(why) => {
                let is_news = requests.wait(name, &why, Instant::now());
                (why, is_news)
            }
            Decision::Leave(why) => (why, requests.leave(name)),
        },
    };
    if is_news {
        tell(tenant, name, &open.uid, &why).await;
    }
    Ok(())
}

/// Reads what the decision needs.
async fn judge(tenant: &Tenant, reserved: &Reserved, request: &Request) -> Result<Decision> {
    match request {
        Request::Serving(serving) => judge_serving(tenant, reserved, serving).await,
        Request::Client(client) => {
            let there = tenant.node(&client.node).await?;
            Ok(client::decide(client, there.as_ref(), Timestamp::now()))
        }
    }
}

/// The other nodes are read only if nothing else is in the way.
async fn judge_serving(tenant: &Tenant, reserved: &Reserved, request: &Serving) -> Result<Decision> {
    let own = tenant.node(&request.node).await?;
    let names = tenant.names();
    let reserved = Reserved { names: names.dns, addresses: names.addresses, ..reserved.clone() };
    let mut decision = decide(request, &reserved, own.as_ref(), &[]);
    let mut page = Some(String::new());
    while let (Decision::Approve, Some(from)) = (&decision, &page) {
        let (others, next) = tenant.nodes(from).await?;
        decision = decide(request, &reserved, own.as_ref(), &others);
        page = next;
    }
    Ok(decision)
}

/// The condition that approves it.
fn approval(request: &Request) -> Value {
    let (reason, why) = match request {
        Request::Serving(of) => ("NodesOwn", format!("names and addresses are those of Node {}", of.node)),
        Request::Client(of) => match of.by {
            By::Itself => ("NodesOwn", format!("Node {} renews its own", of.node)),
            By::Token => ("NameFree", format!("no other machine is Node {}", of.node)),
        },
    };
    json!({"type": "Approved", "status": "True", "reason": reason, "message": format!("{NAME}: {why}")})
}

/// The condition that denies it.
fn denial(why: &str) -> Value {
    json!({"type": "Denied", "status": "True", "reason": "NameTaken", "message": format!("{NAME}: {why}")})
}

async fn conclude(tenant: &Tenant, requests: &mut Requests, name: &str, open: &Open, condition: Value) -> Result<()> {
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let said = format!("{}: {}", text("type"), text("message"));
    let mut conditions = open.conditions.clone();
    conditions.push(condition);
    match tenant.conclude(name, &open.version, &conditions).await {
        Ok(()) => {
            println!("{name}: {said}");
            requests.forget(name);
        }
        // Somebody else was first; the watch tells what became of it.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
            requests.again(name, RETRY, Instant::now());
        }
        Err(error) => return Err(anyhow::Error::from(error).context(format!("decide {name}"))),
    }
    Ok(())
}

async fn tell(tenant: &Tenant, name: &str, uid: &str, why: &str) {
    let text = format!("not approved: {why}");
    println!("{name}: {text}");
    if let Err(error) = tenant.tell(name, uid, &text).await {
        eprintln!("{NAME}: {}", plainly(&error));
    }
}

/// What was tried, and the cause: the layers between, which each repeat it, say nothing more. A webhook of the tenant's may have written it.
fn plainly(error: &anyhow::Error) -> String {
    let (tried, cause) = (error.to_string(), error.root_cause().to_string());
    printable(&if tried.contains(&cause) { cause } else { format!("{tried}: {cause}") })
}

/// The same wait each time: an API server that comes back has to be found within seconds, and two pods that ask are no load.
pub(crate) struct Steady(pub(crate) Duration);

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0)
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

/// Says an error once, until it is another one or over.
#[derive(Default)]
pub(crate) struct Errors(std::collections::BTreeMap<&'static str, String>);

impl Errors {
    pub(crate) fn say(&mut self, what: &'static str, error: &anyhow::Error) {
        let text = plainly(error);
        if self.0.get(what) != Some(&text) {
            eprintln!("{NAME}: {what}: {text}");
            self.0.insert(what, text);
        }
    }

    pub(crate) fn none(&mut self, what: &'static str) {
        if self.0.remove(what).is_some() {
            println!("{what}: works again");
        }
    }
}
