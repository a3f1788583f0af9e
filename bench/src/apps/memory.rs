//! The memory of a Job's processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::process;

/// Between two looks. A call of Helm takes some hundred milliseconds.
const PAUSE: Duration = Duration::from_millis(5);

/// What runs in the pod, as the kernel has it.
const PROGRAMS: [&str; 2] = ["berth-apps", "helm"];

/// Looks again and again, until it is asked.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    looks: JoinHandle<f64>,
}

impl Watch {
    /// Of the pod with this UID.
    pub(super) fn begin(pod: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let looks = thread::spawn(move || {
            let mut most = 0.0_f64;
            while !stopped.load(Ordering::Relaxed) {
                most = most.max(now(&pod));
                thread::sleep(PAUSE);
            }
            most
        });
        Self { stop, looks }
    }

    /// The most that its processes had together, in MiB. 0: none was seen.
    pub(super) fn most(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.looks.join().unwrap_or_default()
    }
}

/// Of those that are there now, the most that each ever had: what lies between two looks is in it.
fn now(pod: &str) -> f64 {
    let ours = process::all().into_iter().filter(|(_, name)| PROGRAMS.contains(&&**name));
    let of_pod = ours.filter(|(pid, _)| process::is_of(*pid, pod));
    of_pod.filter_map(|(pid, _)| process::usage(pid)).map(|usage| usage.peak).sum()
}
