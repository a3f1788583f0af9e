//! A report as a tree.

use super::report::{Component, Etcd, Hibernation, Member, Pod, Report, Told};
use super::sizes::Share;
use crate::age::{age, until};
use crate::paint::{bad, faint, good, safe, strong, warn};
use crate::sleep::by_schedule;
use jiff::Timestamp;
use std::fmt::Write as _;

/// A line with lines below it.
struct Node {
    text: String,
    below: Vec<Node>,
}

impl Node {
    fn leaf(text: String) -> Self {
        Self { text, below: vec![] }
    }
}

/// The tree, and the line `next:`.
pub(super) fn draw(report: &Report, now: Timestamp) -> String {
    let mut text = format!("{}\n", head(report, now));
    lines(&nodes(report, now), "", &mut text);
    for note in &report.notes {
        let _ = writeln!(text, "{}", faint(note));
    }
    let next = if report.ready { good(&report.next) } else { safe(&report.next) };
    let _ = writeln!(text, "{} {next}", strong("next:"));
    text
}

fn lines(nodes: &[Node], before: &str, text: &mut String) {
    for (i, node) in nodes.iter().enumerate() {
        let last = i + 1 == nodes.len();
        let _ = writeln!(text, "{before}{}{}", if last { "└─ " } else { "├─ " }, node.text);
        lines(&node.below, &format!("{before}{}", if last { "   " } else { "│  " }), text);
    }
}

fn head(report: &Report, now: Timestamp) -> String {
    let phase = report.phase.as_deref().unwrap_or("not reconciled yet");
    let painted = report.painted(phase);
    let since = report.since.map(|s| age(s, now));
    let since = match (&since, report.ready) {
        (Some(_), false) if !report.observed => ", newest spec not reconciled yet".to_owned(),
        (Some(since), true) => format!(" for {since}"),
        (Some(since), false) => format!(", not ready for {since}"),
        (None, _) => String::new(),
    };
    format!("{} {painted}{since}", strong(&format!("Cluster {}/{}", report.namespace, report.name)))
}

fn nodes(report: &Report, now: Timestamp) -> Vec<Node> {
    let mut all = vec![];
    let version = match &report.version {
        Some(v) if *v == report.wanted_version => v.clone(),
        Some(v) => format!("{v}, asked for {}", report.wanted_version),
        None => format!("none yet, asked for {}", report.wanted_version),
    };
    let or_none = |text: &Option<String>| safe(text.as_deref().unwrap_or("none yet"));
    all.push(Node::leaf(format!("version    {}", safe(&version))));
    all.push(Node::leaf(format!("endpoint   {}", or_none(&report.endpoint))));
    all.push(Node::leaf(format!("namespace  {}", or_none(&report.control_plane_namespace))));
    all.extend(report.hibernation.as_ref().map(|said| Node::leaf(hibernation(said, now))));
    let problems = problems(&report.conditions, now);
    if !problems.is_empty() {
        all.push(Node { text: "conditions".to_owned(), below: problems });
    }
    all.extend(report.etcd.as_ref().map(|e| etcd(e, now)));
    all.extend(report.components.iter().map(|c| component(c, now)));
    all.extend(report.next_expiry.map(|at| Node::leaf(certificates(at, now))));
    all
}

/// Whether it sleeps, what led to it, and when a schedule changes it.
fn hibernation(said: &Hibernation, now: Timestamp) -> String {
    let then = said.next.as_ref().map(|next| by_schedule(next.state, next.at, &next.cause)).unwrap_or_default();
    safe(&format!("sleep      {:?} for {}, by {}{then}", said.state, age(said.since, now), said.cause))
}

/// Conditions that are not as they should be. A message that was printed already, as a whole or as a part, is not printed again.
fn problems(all: &[Told], now: Timestamp) -> Vec<Node> {
    let all: Vec<&Told> = all.iter().filter(|c| c.is_problem()).collect();
    let told = |i: usize, c: &Told| all.iter().take(i).any(|before| before.message.contains(&c.message));
    all.iter().enumerate().map(|(i, &c)| Node::leaf(problem(c, !told(i, c), now))).collect()
}

fn problem(c: &Told, with_message: bool, now: Timestamp) -> String {
    let text = format!("{} is {} for {}: {}", c.type_, c.status, age(c.since, now), c.reason);
    let text = if c.type_ == "Progressing" { warn(&text) } else { bad(&text) };
    if with_message { format!("{text}: {}", safe(&c.message)) } else { text }
}

fn certificates(at: Timestamp, now: Timestamp) -> String {
    let day = at.strftime("%Y-%m-%d %H:%M UTC");
    match until(at, now) {
        Some(span) => format!("certificates: the first one expires in {span} ({day})"),
        None => format!("certificates: {}", bad(&format!("one expired ({day})"))),
    }
}

fn etcd(etcd: &Etcd, now: Timestamp) -> Node {
    let version = etcd.version.as_deref().map(|v| format!(" {}", safe(v))).unwrap_or_default();
    let ready = etcd.ready_members.as_deref().unwrap_or("0");
    let whole = ready.split_once('/').is_some_and(|(a, b)| a == b);
    let text = format!("etcd{version}  {}{}", share(whole, &format!("{ready} ready")), size(etcd.size.as_ref()));
    let conditions = problems(&etcd.conditions, now).into_iter();
    let members = etcd.members.iter().map(|m| Node::leaf(member(m, now)));
    Node { text, below: conditions.chain(members).collect() }
}

fn member(m: &Member, now: Timestamp) -> String {
    let state = if m.ready { good("ready") } else { bad("not ready") };
    let pod = m.pod.as_ref().map(|p| facts(p, now)).unwrap_or_default();
    let said = m.message.as_deref().filter(|_| !m.ready).map(|t| format!(": {}", safe(t))).unwrap_or_default();
    format!("{}  {state}{pod}{said}", safe(&m.name))
}

fn component(c: &Component, now: Timestamp) -> Node {
    let version = c.version.as_deref().map(|v| format!(" {}", safe(v))).unwrap_or_default();
    let whole = c.ready >= c.desired && c.desired > 0;
    let ready = share(whole, &format!("{}/{} ready", c.ready, c.desired));
    Node {
        text: format!("{}{version}  {ready}{}", safe(&c.name), size(c.size.as_ref())),
        below: c.pods.iter().map(|p| Node::leaf(pod(p, now))).collect(),
    }
}

fn size(of: Option<&Share>) -> String {
    of.map(|share| format!(", {}", share.text)).unwrap_or_default()
}

fn share(whole: bool, text: &str) -> String {
    if whole { good(text) } else { bad(text) }
}

fn pod(p: &Pod, now: Timestamp) -> String {
    let state = match (p.ready, p.deleting) {
        (_, true) => warn("ending"),
        (true, _) => good("ready"),
        (false, _) => bad("not ready"),
    };
    let said = p.problem.as_deref().map(|t| format!(": {}", safe(t))).unwrap_or_default();
    format!("{}  {state}{}{said}", safe(&p.name), facts(p, now))
}

/// Age, and restarts if there were any.
fn facts(p: &Pod, now: Timestamp) -> String {
    let old = p.created.map(|c| format!(", {}", age(c, now))).unwrap_or_default();
    let restarts = match p.restarts {
        0 => String::new(),
        1 => ", 1 restart".to_owned(),
        n => format!(", {n} restarts"),
    };
    format!("{old}{restarts}")
}
