//! Watches that are cut, held, robbed or sent back in time, and kube's watcher on the other end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_testkit::fault::Verb;
use berth_testkit::fixtures::until;
use berth_testkit::{ApiServer, FaultPlan, yaml};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};

type Seen = Arc<Mutex<BTreeMap<String, String>>>;

/// What a cache would hold, kept by kube's own watcher.
struct Watched {
    plan: FaultPlan,
    real: Api<ConfigMap>,
    seen: Seen,
    lists: Arc<Mutex<usize>>,
    server: &'static ApiServer,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watched() -> Watched {
    let server = ApiServer::shared().await;
    let ns = server.namespace("watch").await;
    let plan = FaultPlan::new();
    let api = Api::<ConfigMap>::namespaced(plan.client(server.config()), &ns);
    let (seen, lists) = (Seen::default(), Arc::new(Mutex::new(0)));
    let (store, count) = (seen.clone(), lists.clone());
    let task = tokio::spawn(async move {
        let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
        let put = |o: &ConfigMap| store.lock().expect("lock").insert(o.name_any(), o.resource_version().expect("rv"));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    store.lock().expect("lock").clear();
                    *count.lock().expect("lock") += 1;
                }
                Ok(Event::InitApply(o) | Event::Apply(o)) => drop(put(&o)),
                Ok(Event::Delete(o)) => drop(store.lock().expect("lock").remove(&o.name_any())),
                Ok(Event::InitDone) | Err(_) => {}
            }
        }
    });
    let w = Watched { plan, real: Api::namespaced(server.client(), &ns), seen, lists, server, task };
    until(Duration::from_secs(10), "the watch is open", async || {
        w.plan.calls().iter().any(|c| c.verb == Verb::Watch && c.code.is_some())
    })
    .await;
    w
}

impl Watched {
    async fn create(&self, name: &str) {
        let object = yaml!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
        self.real.create(&PostParams::default(), &object).await.expect("create");
    }

    fn sees(&self, name: &str) -> bool {
        self.seen.lock().expect("lock").contains_key(name)
    }

    async fn will_see(&self, name: &str) {
        until(Duration::from_secs(20), name, async || self.sees(name)).await;
    }

    fn watches(&self) -> usize {
        self.plan.calls().iter().filter(|c| c.verb == Verb::Watch).count()
    }
}

#[tokio::test]
async fn a_cut_watch_resumes_and_a_gone_one_lists_again() {
    let w = watched().await;
    w.plan.cut_watches(|_| true);
    until(Duration::from_secs(20), "a second watch", async || w.watches() > 1).await;
    w.create("after-cut").await;
    w.will_see("after-cut").await;
    assert_eq!(*w.lists.lock().expect("lock"), 1, "it resumed where it was");

    w.plan.cut_watch_after(1, true, |_| true);
    w.plan.cut_watches(|_| true);
    until(Duration::from_secs(20), "a third watch", async || w.watches() > 2).await;
    w.create("last-event").await;
    w.create("unseen").await;
    w.will_see("unseen").await;
    assert!(w.sees("last-event") && *w.lists.lock().expect("lock") == 2, "410 made it list again");
}

#[tokio::test]
async fn a_dropped_event_is_not_seen_until_the_next_list() {
    let w = watched().await;
    w.plan.drop_events(1, |e| e.kind == "ADDED" && e.object["metadata"]["name"] == "lost");
    w.create("lost").await;
    w.create("kept").await;
    w.will_see("kept").await;
    assert!(!w.sees("lost"));
    assert_eq!(w.plan.events(), 2, "dropped events have a number too");
    w.plan.watch_gone(|_| true);
    w.plan.cut_watches(|_| true);
    w.will_see("lost").await;
}

#[tokio::test]
async fn a_stopped_life_gets_no_events() {
    let w = watched().await;
    w.plan.stop();
    w.create("late").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!w.sees("late"));
}

#[tokio::test]
async fn reads_travel_in_time() {
    let w = watched().await;
    w.create("old").await;
    let then = w.server.resource_version().await.expect("version");
    let uid = w.real.get("old").await.expect("get").uid();
    w.real.delete("old", &DeleteParams::default()).await.expect("delete");
    w.create("old").await;
    w.create("new").await;
    w.will_see("new").await;

    w.plan.time_travel(&then, |c| c.resource == "configmaps");
    let ns = w.real.get("old").await.expect("get").namespace().expect("namespace");
    let api = Api::<ConfigMap>::namespaced(w.plan.client(w.server.config()), &ns);
    assert_eq!(api.get("old").await.expect("get").uid(), uid, "the earlier incarnation");
    assert!(api.get_opt("new").await.expect("get").is_none(), "not there yet");
    assert_eq!(api.get_metadata("old").await.expect("metadata").uid(), uid);
    assert_eq!(api.list(&ListParams::default()).await.expect("list").items.len(), 1);

    w.plan.watch_gone(|_| true);
    w.plan.cut_watches(|_| true);
    until(Duration::from_secs(20), "the cache is back in time", async || !w.sees("new")).await;
    w.plan.return_to_present();
    w.will_see("new").await;
    assert_ne!(api.get("old").await.expect("get").uid(), uid);
}
