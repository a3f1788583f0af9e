//! Up to four of them on a wire that loses, delays, doubles and repeats, with nodes that pause and end.

use super::*;

const STEP: Duration = Duration::from_millis(5);
/// The longest that a packet is on its way.
const DELAY: u64 = 50;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn address(slot: usize) -> Ipv4Addr {
    [172, 20, 0, 2 + u8::try_from(slot).unwrap()].into()
}

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    arrives: Now,
    from: usize,
    to: usize,
    priority: u8,
}

struct Node {
    machine: Machine,
    /// Until when the kernel has the address.
    holds: Option<Now>,
    paused: Now,
    /// Whether it starts anew when its pause ends.
    killed: bool,
    heard: Vec<Packet>,
    serves: bool,
}

/// What may go wrong.
#[derive(Clone, Copy)]
struct Faults {
    /// Packets that get lost, kills and pauses.
    severe: bool,
    /// API servers that stop serving, packets that come twice or much later.
    mild: bool,
}

struct World {
    now: Now,
    random: Random,
    nodes: Vec<Node>,
    wire: Vec<Packet>,
    past: Vec<Packet>,
    faults: Faults,
    /// What no packet of passes.
    cut: Option<usize>,
}

impl World {
    fn new(nodes: usize, seed: u64, faults: Faults) -> Self {
        let node = |slot| Node {
            machine: Machine::new(address(slot), priority(slot)),
            holds: None,
            paused: Now::ZERO,
            killed: false,
            heard: vec![],
            serves: true,
        };
        let nodes = (0..nodes).map(node).collect();
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { now: Now::ZERO, random, nodes, wire: vec![], past: vec![], faults, cut: None }
    }

    fn holders(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].holds.is_some()).collect()
    }

    fn act(&mut self, n: usize, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Send(priority) => self.send(n, *priority),
                // The kernel looks only now and then whether an address has ended.
                Action::Hold => self.nodes[n].holds = Some(self.now + LIFETIME + ms(self.random.below(1000))),
                Action::Drop => self.nodes[n].holds = None,
                Action::Announce => assert!(self.nodes[n].holds.is_some(), "announces what it does not have"),
            }
        }
    }

    fn send(&mut self, from: usize, priority: u8) {
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            let times = if self.faults.mild && self.random.one_in(20) { 2 } else { 1 };
            for _ in 0..times {
                let arrives = self.now + ms(1 + self.random.below(DELAY));
                let packet = Packet { arrives, from, to, priority };
                self.past.push(packet);
                if !(self.faults.severe && self.random.one_in(5)) {
                    self.wire.push(packet);
                }
            }
        }
    }

    fn fail(&mut self) {
        let n = usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap();
        if self.faults.mild && self.random.one_in(400) {
            self.nodes[n].serves = !self.nodes[n].serves;
        }
        if self.faults.mild && self.random.one_in(100) && !self.past.is_empty() {
            let old = self.past[usize::try_from(self.random.below(self.past.len() as u64)).unwrap()];
            self.wire.push(Packet { arrives: self.now, ..old });
        }
        if self.faults.severe && self.random.one_in(300) {
            self.nodes[n].paused = self.now + ms(self.random.below(6000));
            self.nodes[n].killed |= self.random.one_in(3);
        }
        if self.faults.severe && self.random.one_in(500) {
            self.cut = if self.cut.is_some() { None } else { Some(n) };
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        self.fail();
        let (arrived, on_the_way) = self.wire.drain(..).partition(|packet| packet.arrives <= self.now);
        self.wire = on_the_way;
        let arrived: Vec<Packet> = arrived;
        for packet in arrived {
            if self.cut != Some(packet.from) && self.cut != Some(packet.to) {
                self.nodes[packet.to].heard.push(packet);
            }
        }
        for n in 0..self.nodes.len() {
            // The kernel does not pause.
            if self.nodes[n].holds.is_some_and(|until| until <= self.now) {
                self.nodes[n].holds = None;
            }
            if self.nodes[n].paused <= self.now {
                self.run(n);
            }
        }
    }

    fn run(&mut self, n: usize) {
        if std::mem::take(&mut self.nodes[n].killed) {
            // One that starts takes away what it finds.
            self.nodes[n].machine = Machine::new(address(n), priority(n));
            self.nodes[n].holds = None;
            self.nodes[n].heard.clear();
        }
        for packet in std::mem::take(&mut self.nodes[n].heard) {
            let event = Event::Heard { from: address(packet.from), priority: packet.priority, interval: INTERVAL };
            let actions = self.nodes[n].machine.on(event, self.now);
            self.act(n, &actions);
            let better = packet.from < n && packet.priority > 0;
            assert!(!better || self.nodes[n].holds.is_none(), "{n} hears {} and holds on", packet.from);
        }
        let serves = self.nodes[n].serves;
        let actions = self.nodes[n].machine.on(Event::Serves(serves), self.now);
        self.act(n, &actions);
        let actions = self.nodes[n].machine.on(Event::Tick, self.now);
        self.act(n, &actions);
        assert_eq!(self.nodes[n].machine.is_active(), self.nodes[n].holds.is_some(), "{n} knows whether it has it");
    }

    fn run_for(&mut self, time: Duration, mut each: impl FnMut(&Self)) {
        let end = self.now + time;
        while self.now < end {
            self.step();
            each(self);
        }
    }

    fn calm(&mut self) {
        self.faults = Faults { severe: false, mild: false };
        self.cut = None;
        for node in &mut self.nodes {
            node.paused = node.paused.min(self.now);
        }
    }
}

#[test]
fn two_never_hold_it_while_they_hear_each_other() {
    let mut changes = 0;
    for seed in 0..200 {
        let mut world = World::new(2 + usize::try_from(seed % 3).unwrap(), seed, Faults { severe: false, mild: true });
        let mut last = vec![];
        world.run_for(ms(40_000), |world| {
            let holders = world.holders();
            assert!(holders.len() <= 1, "seed {seed}, {:?}: {holders:?}", world.now);
            if holders != last {
                changes += 1;
                last = holders;
            }
        });
    }
    assert!(changes > 500, "it moved {changes} times only");
}

#[test]
fn after_whatever_happened_exactly_one_holds_it() {
    let (mut two, mut moments) = (0, 0);
    for seed in 0..200 {
        let mut world = World::new(2 + usize::try_from(seed % 3).unwrap(), seed, Faults { severe: true, mild: true });
        world.run_for(ms(30_000), |world| {
            moments += 1;
            two += usize::from(world.holders().len() > 1);
        });
        world.calm();
        world.nodes[0].serves = true;
        world.run_for(ms(1300), |_| {});
        world.run_for(ms(5000), |world| assert!(world.holders().len() <= 1, "seed {seed}, {:?}", world.now));
        world.run_for(ms(2000), |world| assert_eq!(world.holders().len(), 1, "seed {seed}, {:?}", world.now));
    }
    assert!(two > 0, "faults never made two of them hold it");
    assert!(two * 50 < moments, "two held it in {two} of {moments} moments");
}

/// How long it takes until another one has it.
fn moved(world: &mut World, from: usize) -> Duration {
    let start = world.now;
    while !world.holders().iter().any(|holder| *holder != from) {
        world.step();
        assert!(world.now < start + ms(20_000), "nobody takes it");
    }
    let took = world.now.saturating_sub(start);
    world.run_for(ms(1000), |_| {});
    assert_eq!(world.holders(), [1], "the next one, and the kernel took it from the first");
    took
}

fn settled() -> World {
    let mut world = World::new(3, 1, Faults { severe: false, mild: false });
    world.run_for(ms(5000), |_| {});
    assert_eq!(world.holders(), [0], "the first slot");
    world
}

#[test]
fn one_that_is_killed_is_replaced_within_four_seconds() {
    let mut world = settled();
    world.nodes[0].paused = world.now + ms(60_000);
    let took = moved(&mut world, 0);
    assert!(took < ms(4000), "{took:?}");
}

#[test]
fn one_that_does_not_serve_hands_over_at_once_and_does_not_take_it_back() {
    let mut world = settled();
    world.nodes[0].serves = false;
    let took = moved(&mut world, 0);
    assert!(took < ms(500), "{took:?}");
    world.nodes[0].serves = true;
    world.run_for(ms(10_000), |world| assert_eq!(world.holders(), [1], "no preemption"));
}

#[test]
fn one_that_ends_says_so() {
    let mut machine = Machine::new(address(0), 254);
    assert_eq!(machine.on(Event::Stop, ms(0)), [], "it had nothing");
    let mut machine = Machine::new(address(0), 254);
    machine.on(Event::Serves(true), ms(0));
    assert_eq!(machine.on(Event::Tick, ms(3007)), []);
    assert_eq!(machine.on(Event::Tick, ms(3008)), [Action::Send(254)], "wants it");
    assert_eq!(machine.on(Event::Tick, ms(3158)), [Action::Hold, Action::Send(254), Action::Announce]);
    assert_eq!(machine.next(), Some(ms(4158)));
    let renewed = |machine: &mut Machine, at| machine.on(Event::Tick, ms(at)).contains(&Action::Announce);
    assert_eq!([4158, 5158, 6158].map(|at| renewed(&mut machine, at)), [true, true, false], "told three times");
    assert_eq!(machine.on(Event::Tick, ms(7158)), [Action::Hold, Action::Send(254)]);
    assert_eq!(machine.on(Event::Stop, ms(7200)), [Action::Drop, Action::Send(0), Action::Send(0)]);
    assert_eq!(machine.on(Event::Serves(true), ms(8000)), [], "for ever");
    assert_eq!(machine.next(), None);
}

#[test]
fn one_that_was_paused_lets_go_before_anything_else() {
    let active = || {
        let mut machine = Machine::new(address(0), 254);
        for (event, at) in [(Event::Serves(true), 0), (Event::Tick, 3008), (Event::Tick, 3158)] {
            machine.on(event, ms(at));
        }
        assert!(machine.is_active());
        machine
    };
    let heard = Event::Heard { from: address(1), priority: 222, interval: INTERVAL };
    for event in [Event::Tick, heard, Event::Serves(true), Event::Serves(false), Event::Stop] {
        let actions = active().on(event, ms(3158 + 2501));
        assert_eq!(actions.first(), Some(&Action::Drop), "{event:?}");
        assert!(!actions.contains(&Action::Hold), "{event:?}");
    }
    assert_eq!(active().on(Event::Tick, ms(3158 + 2500)).first(), Some(&Action::Hold), "late, but in time");
}

#[test]
fn priorities_are_apart_and_never_those_of_an_owner_or_of_nobody() {
    let all: Vec<u8> = (0..20).map(priority).collect();
    assert_eq!(all[..9], [254, 222, 190, 158, 126, 94, 62, 30, 1]);
    assert!(all.iter().all(|priority| (1..255).contains(priority)));
    assert_eq!(priority(usize::MAX), 1);
}
