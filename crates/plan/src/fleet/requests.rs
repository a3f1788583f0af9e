//! Since when versions were asked for, for the order of the fleet: others wait for a request so long and no longer, and no request is new
//! because the version was set back in between.

use berth_api::cluster::{ClusterStatus, TurnState, TurnStatus, VersionRequest};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How long a request is remembered: much longer than anybody waits for one.
const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

/// So many are remembered, the oldest. Who asks for more within that time is not waited for any longer, see [`super`].
pub const MOST: usize = 16;

/// The requests of the status that follows on `old`, with the turn `new`.
pub fn after(old: &ClusterStatus, new: Option<&TurnStatus>, now: Timestamp) -> Vec<VersionRequest> {
    let mut all = old.requests.clone();
    all.retain(|request| request.since.as_ref().is_some_and(|since| now.duration_since(since.0) < KEPT));
    let is_open = |turn: &&TurnStatus| !matches!(turn.state, TurnState::Succeeded | TurnState::Failed);
    if let Some(turn) = new.filter(is_open)
        && all.len() < MOST
        && all.iter().all(|request| request.to != turn.to)
    {
        all.push(VersionRequest {
            to: turn.to.clone(),
            since: Some(turn.since.clone().unwrap_or(Time(now))),
            last: None,
        });
    }
    let running = |turn: Option<&TurnStatus>| turn.filter(|t| t.state == TurnState::Running).map(|t| t.to.clone());
    let (before, runs) = (running(old.turn.as_ref()), running(new));
    if before != runs {
        for request in all.iter_mut().filter(|r| [&before, &runs].contains(&&Some(r.to.clone()))) {
            request.last = Some(Time(now));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use TurnState::{Running, Succeeded, Waiting, Window};

    fn at(hours: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(hours)
    }

    /// What is remembered after each of these, so many hours after the beginning.
    fn played(turns: &[(i64, Option<(&str, TurnState)>)]) -> Vec<(String, i64, Option<i64>)> {
        let hours = |time: &Time| at(0).duration_until(time.0).as_hours();
        let mut status = ClusterStatus::default();
        for (hour, turn) in turns {
            let since = Some(Time(at(*hour)));
            let turn = turn.map(|(to, state)| TurnStatus { to: to.into(), state, since, ..TurnStatus::default() });
            status.requests = after(&status, turn.as_ref(), at(*hour));
            status.turn = turn;
        }
        let all = status.requests.into_iter();
        all.map(|r| (r.to, r.since.as_ref().map(hours).unwrap(), r.last.as_ref().map(hours))).collect()
    }

    #[test]
    fn a_request_is_as_old_as_the_first_one_however_often_it_is_made_anew() {
        let asked = |state| Some(("1.36.3", state));
        let again = [(0, asked(Window)), (100, None), (101, asked(Window)), (150, asked(Waiting))];
        assert_eq!(played(&again), [("1.36.3".to_owned(), 0, None)]);
        let through = [(0, asked(Waiting)), (1, asked(Running)), (2, asked(Running)), (5, asked(Succeeded))];
        assert_eq!(played(&through[..3]), [("1.36.3".to_owned(), 0, Some(1))]);
        assert_eq!(played(&through), [("1.36.3".to_owned(), 0, Some(5))]);
        let other = [(0, asked(Running)), (3, Some(("1.36.4", Running)))];
        assert_eq!(played(&other), [("1.36.3".to_owned(), 0, Some(3)), ("1.36.4".to_owned(), 3, Some(3))]);
        assert_eq!(played(&[(0, asked(Window)), (90 * 24, None)]), [], "not for ever");
        assert_eq!(played(&[(0, asked(Succeeded))]), [], "of an operator that recorded none");
    }

    #[test]
    fn of_many_requests_the_oldest_stay() {
        let versions: Vec<String> = (0..40).map(|n| format!("1.36.{n}")).collect();
        let turns: Vec<_> = (0_i64..).zip(&versions).map(|(n, v)| (n, Some((&**v, Waiting)))).collect();
        let kept = played(&turns);
        assert_eq!((kept.len(), &*kept[0].0, &*kept[MOST - 1].0), (MOST, "1.36.0", "1.36.15"));
    }
}
