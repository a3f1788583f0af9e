//! A client that watches what the writer writes, from the first revision, and goes on after its last one when its connection breaks.

use berth_testkit::apiserver::Process;
use k8s_openapi::ByteString;
use serde::Deserialize;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::writer::Client;

/// What it was told, in that order: key and revision.
pub(crate) type Events = Vec<(String, i64)>;

/// One line of `etcdctl watch --write-out=json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    /// None where the watch ended.
    events: Option<Vec<Event>>,
}

#[derive(Deserialize)]
struct Event {
    kv: KeyValue,
}

#[derive(Deserialize)]
struct KeyValue {
    key: ByteString,
    mod_revision: i64,
}

/// Events of what one `etcdctl` printed. A line that was cut when it ended counts as not printed.
fn events(printed: &str) -> Events {
    let whole = printed.split_inclusive('\n').filter(|line| line.starts_with('{') && line.ends_with('\n'));
    let lines = whole.map(|line| serde_json::from_str::<Line>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    let kv = lines.flat_map(|line| line.events.unwrap_or_default()).map(|event| event.kv);
    kv.map(|kv| (String::from_utf8(kv.key.0).unwrap(), kv.mod_revision)).collect()
}

/// What is wrong with what was seen, where these keys were acknowledged in this order, each before the next was written.
fn wrong(seen: &Events, acknowledged: &[String]) -> Option<String> {
    if let Some(two) = seen.windows(2).find(|two| two[0].1 >= two[1].1) {
        return Some(format!("seen twice, or not in order: {two:?}"));
    }
    let counts: Vec<_> =
        seen.iter().map(|(key, _)| key).filter(|key| acknowledged.binary_search(key).is_ok()).collect();
    let differ = (0..counts.len().max(acknowledged.len())).find(|n| counts.get(*n).copied() != acknowledged.get(*n));
    differ.map(|n| {
        format!("of what was acknowledged, {:?} was seen where {:?} follows", counts.get(n), acknowledged.get(n))
    })
}

pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Events>>,
    /// How often it had to begin again.
    thread: JoinHandle<usize>,
}

impl Watcher {
    /// Of all keys that begin so, since the first revision.
    pub(crate) fn start(client: Arc<Client>, prefix: String) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Events::new())));
        let (asked, kept) = (stop.clone(), seen.clone());
        let watch = move || {
            let dir = tempfile::tempdir().unwrap();
            let mut times = 0;
            while !asked.load(Ordering::Relaxed) {
                let before = kept.lock().unwrap().clone();
                let from = before.last().map_or(1, |(_, revision)| revision + 1);
                let told = client.endpoints();
                let rev = format!("--rev={from}");
                // The member that it watches at may go with the addresses that it knows.
                let args = ["watch", &prefix, "--prefix", &rev, "--write-out=json"];
                let (program, args) = client.command(&told, &args);
                let mut process = Process::spawn(dir.path(), &format!("{times}"), &program, &args).unwrap();
                times += 1;
                let log = dir.path().join(format!("{}.log", times - 1));
                while process.check().is_ok() && client.endpoints() == told && !asked.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(200));
                    let new = events(&fs::read_to_string(&log).unwrap());
                    *kept.lock().unwrap() = before.iter().cloned().chain(new).collect();
                }
                process.kill();
                let new = events(&fs::read_to_string(&log).unwrap());
                *kept.lock().unwrap() = before.into_iter().chain(new).collect();
            }
            times - 1
        };
        Self { stop, seen, thread: std::thread::spawn(watch) }
    }

    /// Ends it as soon as it has seen the last of what was acknowledged: it has seen each of these once, and in order. How often its
    /// connection broke.
    pub(crate) fn saw_all(self, acknowledged: &[String]) -> usize {
        let has = |key: &String| self.seen.lock().unwrap().iter().any(|(seen, _)| seen == key);
        let deadline = std::time::Instant::now() + crate::common::SOON;
        while acknowledged.last().is_some_and(|last| !has(last)) && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(200));
        }
        self.stop.store(true, Ordering::Relaxed);
        let breaks = self.thread.join().unwrap();
        let wrong = wrong(&self.seen.lock().unwrap(), acknowledged);
        assert!(wrong.is_none(), "the watcher, whose connection broke {breaks} times: {wrong:?}");
        breaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(events: &[(&str, i64)]) -> Events {
        events.iter().map(|(key, revision)| ((*key).to_owned(), *revision)).collect()
    }

    #[test]
    fn a_watch_that_misses_repeats_or_mixes_up_is_found() {
        let acknowledged = ["n-1", "n-2", "n-4"].map(str::to_owned);
        let says = |events: &[(&str, i64)]| wrong(&seen(events), &acknowledged);
        assert_eq!(says(&[("n-1", 2), ("n-2", 3), ("n-4", 5)]), None);
        // Not acknowledged, and written nevertheless; maybe late.
        assert_eq!(says(&[("n-1", 2), ("n-2", 3), ("n-4", 5), ("n-3", 6)]), None);
        assert!(says(&[("n-1", 2), ("n-4", 5)]).is_some(), "missed");
        assert!(says(&[("n-1", 2), ("n-2", 3)]).is_some(), "the last one is missed");
        assert!(says(&[("n-1", 2), ("n-2", 3), ("n-2", 3), ("n-4", 5)]).is_some(), "repeated");
        assert!(says(&[("n-1", 2), ("n-2", 3), ("n-2", 4), ("n-4", 5)]).is_some(), "applied twice");
        assert!(says(&[("n-2", 2), ("n-1", 3), ("n-4", 5)]).is_some(), "written in another order");
        assert!(says(&[("n-1", 3), ("n-2", 2), ("n-4", 5)]).is_some(), "told in another order");
    }

    #[test]
    fn a_line_that_was_cut_is_asked_for_again() {
        let whole = r#"{"Header":{"revision":4},"Events":[{"kv":{"key":"bi0x","create_revision":4,"mod_revision":4,"version":1,"value":"MQ=="}}],"CompactRevision":0,"Canceled":false,"Created":false}"#;
        assert_eq!(events(&format!("{whole}\n{}", &whole[..60])), seen(&[("n-1", 4)]));
        let ended = r#"{"Header":{},"Events":null,"CompactRevision":0,"Canceled":true,"Created":false}"#;
        assert_eq!(events(&format!("{ended}\n")), []);
        assert_eq!(events("{\"level\":\"warn\",\"msg\":\"x\"}\n"), []);
    }
}
