//! Watches both, and writes what is gone.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt;
use futures::stream::{BoxStream, select};
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decide::{GRACE, Kept, Step, Wanted, decide};
use crate::api::Tenant;
use crate::run::{Errors, Steady};

/// After an error. A tenant whose operator is older lets this program read none of it.
const RETRY: Duration = Duration::from_secs(3);

/// What is known of one of them.
struct Known {
    live: Option<Value>,
    /// The first change since it was as it should be.
    since: Instant,
    /// It may not be as it should be.
    differs: bool,
    wrote: Option<(Instant, Value)>,
    due: Option<Instant>,
}

/// For ever.
pub(crate) async fn run(tenant: &Tenant) -> Infallible {
    let slices = watch::<EndpointSlice>(tenant, Kept::Slice);
    let mut events = select(slices, watch::<Endpoints>(tenant, Kept::Endpoints));
    let mut known: BTreeMap<Kept, Known> = BTreeMap::new();
    let mut errors = Errors::default();
    loop {
        let due = known.values().filter_map(|known| known.due).min();
        let wake = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.next() => match event {
                Some((kept, Ok(live))) => {
                    errors.none(kept.kind());
                    let now = Instant::now();
                    let before = known.remove(&kept);
                    // What differs still may differ in another way: it is counted from its first change.
                    let since = before.as_ref().filter(|known| known.differs).map_or(now, |known| known.since);
                    let wrote = before.and_then(|known| known.wrote);
                    known.insert(kept, Known { live, since, differs: true, wrote, due: Some(now) });
                }
                Some((kept, Err(error))) => errors.say(kept.kind(), &error),
                None => std::future::pending().await,
            },
            () = wake => {}
        }
        let now = Instant::now();
        for (kept, known) in known.iter_mut().filter(|(_, known)| known.due.is_some_and(|due| due <= now)) {
            match look(tenant, *kept, known).await {
                Ok(again) => {
                    errors.none("endpoints of the Service kubernetes");
                    known.due = again.map(|after| Instant::now() + after);
                }
                Err(error) => {
                    errors.say("endpoints of the Service kubernetes", &error);
                    known.due = Some(Instant::now() + RETRY);
                }
            }
        }
    }
}

fn watch<K>(tenant: &Tenant, kept: Kept) -> BoxStream<'static, (Kept, Result<Option<Value>>)>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug
        + Send
        + Sync
        + 'static,
{
    let one = |event: Result<Option<K>, _>| {
        let live = event.map_err(anyhow::Error::from)?;
        live.map(|live| Ok(serde_json::to_value(live)?)).transpose()
    };
    let all = watch_object(tenant.in_default::<K>(), "kubernetes").backoff(Steady(RETRY));
    all.map(move |event| (kept, one(event))).boxed()
}

/// Looks at one of them. Returns when to look again.
async fn look(tenant: &Tenant, kept: Kept, known: &mut Known) -> Result<Option<Duration>> {
    let stamp = tenant.endpoint_stamp().await?;
    let wanted = stamp.as_ref().and_then(Wanted::read);
    let wrote = known.wrote.as_ref().map(|(at, object)| (at.elapsed(), object));
    let step = decide(kept, wanted.as_ref(), (known.live.as_ref(), known.since.elapsed()), wrote);
    known.differs = matches!(step, Step::Wait(_) | Step::Write(_));
    match step {
        Step::Nothing => Ok(None),
        Step::Again(after) | Step::Wait(after) => Ok(Some(after)),
        Step::Write(object) => {
            let was = if known.live.is_some() { "was changed" } else { "was deleted" };
            // Before the call: one that has no answer may have been carried out.
            known.wrote = Some((Instant::now(), object.clone()));
            tenant.apply(kept.path(), "kubernetes", &object).await?;
            known.differs = false;
            let says = wanted.as_ref().map(Wanted::says).unwrap_or_default();
            println!("{} default/kubernetes {was}; it leads to {says} again", kept.kind());
            Ok(Some(GRACE))
        }
    }
}
