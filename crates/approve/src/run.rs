//! Watches, looks, decides.

use std::future;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, watcher};
use serde_json::json;

use crate::NAME;
use crate::api::Tenant;
use crate::decide::{Decision, Request, Reserved, decide};
use crate::open::{Open, Requests};
use crate::request::SIGNER;

/// After an error.
const RETRY: Duration = Duration::from_secs(1);
/// Requests in one answer.
const PAGE: u32 = 50;

/// For ever. `reserved`: what is known beside the names in the API server's certificate.
pub(crate) async fn run(tenant: &Tenant, reserved: &Reserved) {
    let selected = watcher::Config::default().fields(&format!("spec.signerName={SIGNER}")).page_size(PAGE);
    let mut events = pin!(watcher(tenant.requests(), selected).backoff(Steady));
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
                Some(Ok(event)) => {
                    errors.none("watch");
                    requests.see(event, Instant::now());
                }
                Some(Err(error)) => errors.say("watch", &anyhow::Error::from(error)),
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
            Decision::Approve => return approve(tenant, requests, name, &open, request).await,
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

/// Reads what the decision needs: the other nodes only if nothing else is in the way.
async fn judge(tenant: &Tenant, reserved: &Reserved, request: &Request) -> Result<Decision> {
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

async fn approve(tenant: &Tenant, requests: &mut Requests, name: &str, open: &Open, request: &Request) -> Result<()> {
    let mut conditions = open.conditions.clone();
    conditions.push(json!({
        "type": "Approved", "status": "True", "reason": "NodesOwn",
        "message": format!("{NAME}: names and addresses are those of Node {}", request.node),
    }));
    match tenant.approve(name, &open.version, &conditions).await {
        Ok(()) => {
            println!("{name}: approved for Node {}", request.node);
            requests.forget(name);
        }
        // Somebody else was first; the watch tells what became of it.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
            requests.again(name, RETRY, Instant::now());
        }
        Err(error) => return Err(anyhow::Error::from(error).context(format!("approve {name}"))),
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

/// What was tried, and the cause: the layers between, which each repeat it, say nothing more.
fn plainly(error: &anyhow::Error) -> String {
    let (tried, cause) = (error.to_string(), error.root_cause().to_string());
    if tried.contains(&cause) { cause } else { format!("{tried}: {cause}") }
}

/// The same wait each time: an API server that comes back has to be found within seconds, and two pods that ask are no load.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(RETRY)
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

/// Says an error once, until it is another one or over.
#[derive(Default)]
struct Errors(std::collections::BTreeMap<&'static str, String>);

impl Errors {
    fn say(&mut self, what: &'static str, error: &anyhow::Error) {
        let text = plainly(error);
        if self.0.get(what) != Some(&text) {
            eprintln!("{NAME}: {what}: {text}");
            self.0.insert(what, text);
        }
    }

    fn none(&mut self, what: &'static str) {
        if self.0.remove(what).is_some() {
            println!("{what}: works again");
        }
    }
}
