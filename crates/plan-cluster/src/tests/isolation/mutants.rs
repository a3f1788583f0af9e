//! Policies with one thing taken away, widened or narrowed: a policy, whom it is about, a direction, a rule, a peer, a label, an
//! exception, a port, a protocol.

use super::*;

/// What was changed, and what became of the value.
type Change = (String, Value);

/// All policies with one of them changed.
pub(super) fn mutants(policies: &[NetworkPolicy]) -> Vec<(String, Vec<NetworkPolicy>)> {
    let mut out = vec![];
    for (i, policy) in policies.iter().enumerate() {
        let name = policy.metadata.name.clone().unwrap_or_default();
        out.push((format!("{name}: gone"), [&policies[..i], &policies[i + 1..]].concat()));
        for (what, spec) in specs(&serde_json::to_value(&policy.spec).unwrap()) {
            let mut all = policies.to_vec();
            all[i].spec = serde_json::from_value(spec).unwrap();
            out.push((format!("{name}: {what}"), all));
        }
    }
    out
}

fn specs(spec: &Value) -> Vec<Change> {
    let mut out = subjects(spec);
    for (direction, other, peers) in [("ingress", "Egress", "from"), ("egress", "Ingress", "to")] {
        out.push((format!("not about {direction}"), with(spec, "policyTypes", json!([other]))));
        out.push((format!("any {direction}"), with(spec, direction, json!([{}]))));
        for (what, list) in items(&spec[direction], |rule| rules(rule, peers)) {
            out.push((format!("{direction} {what}"), with(spec, direction, list)));
        }
    }
    out
}

/// About other pods.
fn subjects(spec: &Value) -> Vec<Change> {
    let others = [names::ETCD].into_iter().chain(components());
    let others = others.map(|c| json!({"matchLabels": {"app.kubernetes.io/component": c}}));
    let all = [json!({})].into_iter().chain(others).filter(|s| *s != spec["podSelector"]);
    all.map(|s| (format!("about the pods {s}"), with(spec, "podSelector", s))).collect()
}

fn rules(rule: &Value, peers: &str) -> Vec<Change> {
    let mut out = vec![];
    for (field, narrow, of) in [
        (peers, json!([{"podSelector": {}}]), of_peer as fn(&Value) -> Vec<Change>),
        ("ports", json!([{"protocol": "TCP"}]), of_port),
    ] {
        if rule.get(field).is_none() {
            out.push((format!("{rule} with only {narrow}"), with(rule, field, narrow)));
            continue;
        }
        out.push((format!("{rule} with any {field}"), without(rule, field)));
        // An empty list would mean all of them, which is the mutant before.
        let lists = items(&rule[field], of).into_iter().filter(|(_, list)| *list != json!([]));
        out.extend(lists.map(|(what, list)| (format!("{field} {what}"), with(rule, field, list))));
    }
    out.extend(by_both_protocols(rule).map(|ports| (format!("{rule} by both protocols"), with(rule, "ports", ports))));
    out
}

fn of_peer(peer: &Value) -> Vec<Change> {
    let mut out = vec![];
    for selector in ["namespaceSelector", "podSelector"].into_iter().filter(|s| peer.get(*s).is_some()) {
        out.push((format!("with an empty {selector}"), with(peer, selector, json!({}))));
        let labels = &peer[selector]["matchLabels"];
        let keys = labels.as_object().into_iter().flat_map(|l| l.keys());
        // The last one is the mutant before.
        for key in keys.filter(|_| labels.as_object().is_some_and(|l| l.len() > 1)) {
            let fewer = json!({"matchLabels": without(labels, key)});
            out.push((format!("whatever its {key}"), with(peer, selector, fewer)));
        }
    }
    if peer.get("podSelector").is_some() && peer.get("namespaceSelector").is_none() {
        out.push(("in every namespace".into(), with(peer, "namespaceSelector", json!({}))));
    }
    for (what, except) in items(&peer["ipBlock"]["except"], halves) {
        out.push((what, with(peer, "ipBlock", with(&peer["ipBlock"], "except", except))));
    }
    out
}

/// Each half of a range in place of the whole.
fn halves(range: &Value) -> Vec<Change> {
    let net: ipnet::IpNet = range.as_str().unwrap().parse().unwrap();
    let halves = net.subnets(net.prefix_len() + 1).into_iter().flatten();
    halves.map(|half| (format!("but for {half} alone"), json!(half.to_string()))).collect()
}

fn of_port(port: &Value) -> Vec<Change> {
    let number = port["port"].as_i64().unwrap();
    let range = |from: i64, to: i64| with(&with(port, "port", from.into()), "endPort", to.into());
    vec![
        ("and the next port".into(), range(number, number + 1)),
        ("and the port before".into(), range(number - 1, number)),
        ("and every port above".into(), range(number, 65535)),
        ("and every port of the protocol".into(), without(port, "port")),
        ("by the other protocol".into(), with(port, "protocol", other_protocol(port))),
    ]
}

fn other_protocol(port: &Value) -> Value {
    json!(if port["protocol"] == "UDP" { "TCP" } else { "UDP" })
}

/// The ports of a rule, by TCP and by UDP; none if they are so already.
fn by_both_protocols(rule: &Value) -> Option<Value> {
    let ports = rule["ports"].as_array()?;
    let others: Vec<Value> = ports.iter().map(|p| with(p, "protocol", other_protocol(p))).collect();
    let more = others.iter().any(|p| !ports.contains(p));
    more.then(|| [ports.as_slice(), &others].concat().into())
}

/// A list without each of its items, and with each of them changed.
fn items(list: &Value, of: impl Fn(&Value) -> Vec<Change>) -> Vec<Change> {
    let all = list.as_array().map_or(&[][..], Vec::as_slice);
    let mut out = vec![];
    for (i, item) in all.iter().enumerate() {
        let put = |instead: &[Value]| Value::from([&all[..i], instead, &all[i + 1..]].concat());
        out.push((format!("without {item}"), put(&[])));
        out.extend(of(item).into_iter().map(|(what, changed)| (format!("{item} {what}"), put(&[changed]))));
    }
    out
}

fn with(value: &Value, key: &str, new: Value) -> Value {
    let mut changed = value.clone();
    changed[key] = new;
    changed
}

fn without(value: &Value, key: &str) -> Value {
    let mut changed = value.clone();
    changed.as_object_mut().unwrap().remove(key);
    changed
}
