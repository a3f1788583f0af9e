//! The operator, which is told who is called that sleeps, and what is used: it dials, and says nothing.

use berth_contract::calls::{
    ADDRESS, BEAT, CERTIFICATE, ClusterName, LABEL, LONGEST, OPERATOR, TENANTS, Told, Use, Used,
};
use berth_edge::link::{Lines, Names};
use futures::{SinkExt, StreamExt as _};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;

use crate::idle;
use crate::serve::Gateway;

/// By what they find each other.
pub(crate) const NAMES: Names = Names {
    program: "berth-gateway",
    label: LABEL,
    address: ADDRESS,
    certificate: CERTIFICATE,
    operator: OPERATOR,
    longest: LONGEST,
};

/// Between two looks at what has changed. Who is called is told at once.
const LOOK: Duration = Duration::from_secs(1);

/// Until either end is gone. Says why.
pub(crate) async fn speak(gateway: &Gateway, mut lines: Lines) -> String {
    // Before all that are called now: none is missed.
    let mut news = gateway.held.news();
    let mut said: BTreeMap<ClusterName, idle::Used> = BTreeMap::new();
    let mut looks = tokio::time::interval(LOOK);
    let (mut looked, mut is_over): (u64, bool) = (0, false);
    loop {
        let told: Vec<Told> = tokio::select! {
            () = gateway.over.cancelled() => {
                is_over = true;
                let changed = changed(&mut said, gateway.live.uses());
                used(gateway.began, changed).into_iter().chain([Told::Over]).collect()
            }
            called = news.recv() => match called {
                Ok(cluster) => vec![Told::Called(cluster)],
                // The next look has them all.
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return "this gateway ends".to_owned(),
            },
            _ = looks.tick() => {
                let changed = changed(&mut said, gateway.live.uses());
                let is_due = looked.is_multiple_of(BEAT);
                looked += 1;
                let used = if changed.is_empty() && !is_due { vec![] } else { used(gateway.began, changed) };
                gateway.held.called().into_iter().map(Told::Called).chain(used).collect()
            }
            line = lines.next() => match line {
                None => return "it was closed".to_owned(),
                Some(Err(error)) => return error.to_string(),
                Some(Ok(_)) => continue,
            },
        };
        for line in told {
            if let Err(error) = lines.feed(serde_json::to_string(&line).unwrap_or_default()).await {
                return error.to_string();
            }
        }
        if let Err(error) = SinkExt::<String>::flush(&mut lines).await {
            return error.to_string();
        }
        if is_over {
            let _ = SinkExt::<String>::close(&mut lines).await;
            return "this gateway ends, and has told all".to_owned();
        }
    }
}

/// What is other than it was said.
fn changed(
    said: &mut BTreeMap<ClusterName, idle::Used>,
    now: Vec<(ClusterName, idle::Used)>,
) -> Vec<(ClusterName, idle::Used)> {
    let all: BTreeMap<_, _> = now.into_iter().collect();
    let is_new = |of: &ClusterName, used: &idle::Used| said.get(of).copied().unwrap_or_default() != *used;
    let changed = all.iter().filter(|(of, used)| is_new(of, used)).map(|(of, used)| (of.clone(), *used)).collect();
    *said = all;
    changed
}

/// The lines for these; one, if there are none.
fn used(began: Instant, changed: Vec<(ClusterName, idle::Used)>) -> Vec<Told> {
    let counts_for = began.elapsed().as_secs();
    let of = |(cluster, used): (ClusterName, idle::Used)| {
        let ago = used.last.map_or(counts_for, |last| last.elapsed().as_secs());
        Use { cluster, now: used.now, ago }
    };
    let mut all: Vec<Use> = changed.into_iter().map(of).collect();
    let mut lines = vec![];
    loop {
        let rest = all.split_off(all.len().min(TENANTS));
        let more = !rest.is_empty();
        lines.push(Told::Used(Used { counts_for, tenants: all, more }));
        if !more {
            return lines;
        }
        all = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: usize) -> ClusterName {
        ClusterName { namespace: "a".repeat(63), name: format!("{name}-{}", "b".repeat(58)) }
    }

    #[test]
    fn what_has_changed_is_said_once_and_each_line_is_read() {
        let used_now = idle::Used { now: true, last: Some(Instant::now()) };
        let all: Vec<_> = (0..250).map(|n| (named(n), used_now)).collect();
        let mut said = BTreeMap::new();
        let first = changed(&mut said, [&all[..], &[(named(999), idle::Used::default())]].concat());
        assert_eq!((first.len(), changed(&mut said, all.clone()).len()), (250, 0), "who was never used is not named");
        let over = idle::Used { now: false, ..used_now };
        assert_eq!(changed(&mut said, [&all[1..], &[(named(0), over)]].concat()), [(named(0), over)]);
        let lines = used(Instant::now(), first);
        let more: Vec<_> = lines.iter().map(|line| matches!(line, Told::Used(Used { more: true, .. }))).collect();
        assert_eq!(more, [true, true, false]);
        assert!(lines.iter().all(|line| serde_json::to_string(line).unwrap().len() < LONGEST));
        assert_eq!(used(Instant::now(), vec![]).len(), 1, "that it is there is said, too");
    }
}
