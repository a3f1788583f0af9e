//! Watches Services and EndpointSlices with the gateway's label, and keeps the table as they are. While the API of the meta cluster is away, what was
//! known counts.

use berth_contract::gateway::{LABEL, LABELLED};
use futures::StreamExt as _;
use futures::stream::{BoxStream, select};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::facts::{ServiceFacts, SliceFacts};
use crate::kept::Kept;
use crate::serve::Gateway;
use crate::table::build;

/// After an error: always the same, since what changed meanwhile has to be known soon, and a few gateways are no load.
const RETRY: Duration = Duration::from_secs(1);
/// Events that are taken in before the table is made anew.
const AT_ONCE: usize = 512;

#[expect(clippy::large_enum_variant, reason = "one at a time is taken in")]
enum Told {
    Service(Result<Event<Service>, Error>),
    Slice(Result<Event<EndpointSlice>, Error>),
}

/// For ever.
pub(crate) async fn run(client: &Client, gateway: &Gateway) {
    let labelled = || Config::default().labels(&format!("{LABEL}={LABELLED}"));
    let services = watcher(Api::<Service>::all(client.clone()), labelled()).backoff(Steady).map(Told::Service);
    let slices = watcher(Api::<EndpointSlice>::all(client.clone()), labelled()).backoff(Steady).map(Told::Slice);
    let all: BoxStream<'_, Told> = select(services, slices).boxed();
    let mut told = all.ready_chunks(AT_ONCE);
    let mut known = Known::default();
    while let Some(several) = told.next().await {
        for one in several {
            known.see(one);
        }
        for (is_stale, error) in gateway.is_stale.iter().zip(&known.errors) {
            is_stale.store(error.is_some(), Relaxed);
        }
        if known.services.is_complete() && known.slices.is_complete() {
            gateway.live.update(build(known.services.all(), known.slices.all()));
            if !gateway.is_known.swap(true, Relaxed) {
                eprintln!("berth-gateway: all Services and EndpointSlices are known");
            }
        }
    }
}

#[derive(Default)]
struct Known {
    services: Kept<ServiceFacts>,
    slices: Kept<SliceFacts>,
    errors: [Option<String>; 2],
}

impl Known {
    fn see(&mut self, told: Told) {
        let [of_services, of_slices] = &mut self.errors;
        match told {
            Told::Service(Ok(event)) => {
                works("Services", of_services);
                self.services.see(&event);
            }
            Told::Slice(Ok(event)) => {
                works("EndpointSlices", of_slices);
                self.slices.see(&event);
            }
            Told::Service(Err(error)) => fails("Services", of_services, &error),
            Told::Slice(Err(error)) => fails("EndpointSlices", of_slices, &error),
        }
    }
}

/// Says an error once, until it is another one or over.
fn fails(what: &str, said: &mut Option<String>, error: &Error) {
    let error = error_text(error);
    if said.as_ref() != Some(&error) {
        eprintln!("berth-gateway: cannot watch {what}: {error}");
        *said = Some(error);
    }
}

fn works(what: &str, said: &mut Option<String>) {
    if said.take().is_some() {
        eprintln!("berth-gateway: watches {what} again");
    }
}

/// With its cause.
fn error_text(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let (text, cause) = (error.to_string(), cause.to_string());
    if text.contains(&cause) { text } else { format!("{text}: {cause}") }
}

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
