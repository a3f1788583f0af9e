//! Who has the virtual IP: VRRP's state machine (RFC 9568) without clock or network.
//!
//! It differs from the standard in three ways. Whoever wants the address says so and waits for [`CLAIM`] before it takes it: one that
//! has the address and hears that either objects or gives it up, so that two have it only while they do not hear each other. One that
//! finds that it was paused gives the address up, since another one may have it by now. And one whose API server does not serve takes
//! no part.

use std::{net::Ipv4Addr, time::Duration};

/// Time since some moment.
pub(super) type Now = Duration;

/// Between two advertisements.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Longer than an answer takes in one network.
pub(super) const CLAIM: Duration = Duration::from_millis(150);
/// The kernel keeps the address for so long after it was last renewed. Others take it after more than three intervals.
pub(super) const LIFETIME: Duration = Duration::from_secs(3);
/// Who was not here for so long may have lost it.
const PAUSED: Duration = Duration::from_millis(2500);
/// So many times the network is told where the address is, with an interval between: what is sent to all may get lost.
const ANNOUNCEMENTS: u8 = 3;
/// A peer cannot make others wait for longer than ten of these.
const LONGEST: Duration = Duration::from_secs(10);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Time went by.
    Tick,
    /// A peer's advertisement.
    Heard { from: Ipv4Addr, priority: u8, interval: Duration },
    /// Whether the API server serves.
    Serves(bool),
    /// This process ends.
    Stop,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// An advertisement to all peers, with this priority.
    Send(u8),
    /// Puts the address on the interface, or renews it.
    Hold,
    /// Takes it away.
    Drop,
    /// Tells the network where the address is.
    Announce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Takes no part.
    Out,
    /// Waits for the one that has the address to fall silent.
    Backup { until: Now },
    /// Has said that it wants the address.
    Claiming { until: Now },
    /// Has it.
    Active { next: Now, renewed: Now, announce: u8 },
    /// For ever.
    Stopped,
}

/// One of those that may have the address.
#[derive(Debug)]
pub(super) struct Machine {
    own: Ipv4Addr,
    /// 1 to 254. Of several that want the address the highest gets it; nobody loses it to a higher one.
    priority: u8,
    state: State,
    /// As the last advertisement said, but no shorter than our own.
    interval: Duration,
}

/// Priority of a slot: those of the first are so far apart that the second is heard before the third wants the address, too.
pub(super) fn priority(slot: usize) -> u8 {
    u8::try_from(slot).ok().and_then(|slot| 254_u8.checked_sub(slot.checked_mul(32)?)).unwrap_or(1)
}

impl Machine {
    pub(super) fn new(own: Ipv4Addr, priority: u8) -> Self {
        Self { own, priority, state: State::Out, interval: INTERVAL }
    }

    pub(super) fn is_active(&self) -> bool {
        matches!(self.state, State::Active { .. })
    }

    /// When the next [`Event::Tick`] is due.
    pub(super) fn next(&self) -> Option<Now> {
        match self.state {
            State::Backup { until } | State::Claiming { until } => Some(until),
            State::Active { next, .. } => Some(next),
            State::Out | State::Stopped => None,
        }
    }

    /// Events that are older come first: what was heard before a timer ran out counts.
    pub(super) fn on(&mut self, event: Event, now: Now) -> Vec<Action> {
        if let State::Active { renewed, .. } = self.state
            && now.saturating_sub(renewed) > PAUSED
        {
            // Whoever took it in the meantime is heard within an interval; if nobody did, there is no need to wait for three.
            self.state = State::Backup { until: now + self.interval + self.skew() };
            let mut actions = vec![Action::Drop];
            actions.extend(self.on(event, now));
            return actions;
        }
        match event {
            Event::Tick => self.tick(now),
            Event::Heard { priority: 0, .. } => self.given_away(now),
            Event::Heard { from, priority, interval } => self.heard(from, priority, interval, now),
            Event::Serves(true) if self.state == State::Out => {
                self.wait(now);
                vec![]
            }
            Event::Serves(true) => vec![],
            Event::Serves(false) if self.state == State::Stopped => vec![],
            Event::Serves(false) => self.leave(State::Out),
            Event::Stop => self.leave(State::Stopped),
        }
    }

    fn tick(&mut self, now: Now) -> Vec<Action> {
        match self.state {
            State::Backup { until } if now >= until => self.claim(now),
            // It was paused: nobody may have heard of the claim.
            State::Claiming { until } if now >= until + CLAIM => self.claim(now),
            State::Claiming { until } if now >= until => self.renew(now, ANNOUNCEMENTS),
            State::Active { next, announce, .. } if now >= next => self.renew(now, announce),
            _ => vec![],
        }
    }

    fn claim(&mut self, now: Now) -> Vec<Action> {
        self.state = State::Claiming { until: now + CLAIM };
        vec![Action::Send(self.priority)]
    }

    fn renew(&mut self, now: Now, announce: u8) -> Vec<Action> {
        self.state = State::Active { next: now + INTERVAL, renewed: now, announce: announce.saturating_sub(1) };
        let mut actions = vec![Action::Hold, Action::Send(self.priority)];
        if announce > 0 {
            actions.push(Action::Announce);
        }
        actions
    }

    fn heard(&mut self, from: Ipv4Addr, priority: u8, interval: Duration, now: Now) -> Vec<Action> {
        let better = (priority, from) > (self.priority, self.own);
        match self.state {
            State::Backup { .. } => {
                self.interval = interval.clamp(INTERVAL, LONGEST);
                self.wait(now);
                vec![]
            }
            State::Claiming { .. } if better => {
                self.interval = interval.clamp(INTERVAL, LONGEST);
                self.wait(now);
                vec![]
            }
            // It may not have heard of the claim; if it has the address, it gives it up now.
            State::Claiming { .. } => self.claim(now),
            // The other one tells the network where the address is, once it hears that there were two.
            State::Active { .. } if better => {
                self.wait(now);
                vec![Action::Drop, Action::Send(self.priority)]
            }
            // If it had the address, too, then others look for it there.
            State::Active { .. } => self.renew(now, ANNOUNCEMENTS),
            State::Out | State::Stopped => vec![],
        }
    }

    /// Nobody has it now: whoever has the highest priority waits for the shortest time.
    fn given_away(&mut self, now: Now) -> Vec<Action> {
        match self.state {
            State::Backup { until } => {
                self.state = State::Backup { until: until.min(now + self.skew()) };
                vec![]
            }
            State::Active { announce, .. } => self.renew(now, announce),
            _ => vec![],
        }
    }

    fn leave(&mut self, state: State) -> Vec<Action> {
        let left = std::mem::replace(&mut self.state, state);
        match left {
            // First away from here, then to the others.
            State::Active { .. } => vec![Action::Drop, Action::Send(0), Action::Send(0)],
            // Others heard the claim, and wait.
            State::Claiming { .. } => vec![Action::Send(0)],
            _ => vec![],
        }
    }

    fn wait(&mut self, now: Now) {
        self.state = State::Backup { until: now + 3 * self.interval + self.skew() };
    }

    fn skew(&self) -> Duration {
        self.interval * (256 - u32::from(self.priority)) / 256
    }
}

#[cfg(test)]
mod tests;
