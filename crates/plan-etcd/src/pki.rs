//! Stage 3: the etcd's own CAs, one for peers and one for clients, and what they sign.

use super::services;
use super::subject::{Subject, is_ours};
use crate::planned::EtcdPlan;
use berth_api::{labels, names};
use berth_pki::{CA_LIFETIME, CertSpec, Usage};
use berth_plan::model::{SecretEntry, Stage, StageId, State};
use berth_plan::secrets::{Renewal, SecretSpec};
use berth_render::{Kind, ObjectKey};
use std::net::{IpAddr, Ipv4Addr};

/// Secret type of key pairs.
const TLS: &str = "kubernetes.io/tls";

fn secret(s: &Subject<'_>, name: String, entries: Vec<SecretEntry>) -> SecretSpec {
    SecretSpec { key: s.secret(name), type_: TLS, labels: s.labels(), entries }
}

/// A CA, with what is there that trusts it, if anything.
fn root(s: &Subject<'_>, name: String, users: &[ObjectKey]) -> (SecretSpec, Option<String>) {
    let in_use = users.iter().find(|k| s.observed.get(k).is_some_and(|o| is_ours(o, s.name)));
    // The number is the CA's generation: two CAs of one name cannot be distinguished while one replaces the other.
    let spec = CertSpec::new(format!("{name}-1"), Usage::Ca, CA_LIFETIME);
    (secret(s, name, vec![SecretEntry::Ca(spec)]), in_use.map(ToString::to_string))
}

fn roots(s: &Subject<'_>) -> [(SecretSpec, Option<String>); 2] {
    let set = s.key(Kind::StatefulSet, s.name);
    let clients = s
        .observed
        .of_kind(Kind::Secret, s.namespace)
        .filter(|(_, o)| is_ours(o, s.name) && berth_plan::object_meta::label(o, labels::ETCD_CLIENT).is_some())
        .map(|(k, _)| k.clone());
    let trusts_clients: Vec<_> =
        [set.clone(), s.secret(names::etcd::server(s.name))].into_iter().chain(clients).collect();
    [
        root(s, names::etcd::peer_ca(s.name), &[set, s.secret(names::etcd::peer(s.name))]),
        root(s, names::etcd::client_ca(s.name), &trusts_clients),
    ]
}

fn leaf(s: &Subject<'_>, name: String, spec: CertSpec, ca: String) -> SecretSpec {
    let issuer = s.secret(ca);
    let trusted = SecretEntry::CaCopy { name: "ca.crt".into(), issuer: issuer.clone() };
    secret(s, name, vec![SecretEntry::leaf("tls", spec, issuer), trusted])
}

/// Certificates of the members; one for all of them, with every name and address. None: addresses are not known yet.
fn of_members(s: &Subject<'_>) -> Option<[SecretSpec; 2]> {
    let addresses = services::addresses(s.etcd, s.observed, s.addressed())?;
    let mut dns_names = vec!["localhost".to_owned()];
    for (member, _) in &addresses {
        let host = services::host(member, s.namespace);
        dns_names.extend([member.clone(), host.trim_end_matches(".svc").to_owned(), host]);
    }
    let ip_addresses: Vec<_> = addresses.iter().map(|(_, a)| *a).chain([IpAddr::V4(Ipv4Addr::LOCALHOST)]).collect();
    // Also for the client port both usages: etcd's JSON gateway is a client of its own port, with the server's certificate.
    let named = |common_name: &str| CertSpec {
        dns_names: dns_names.clone(),
        ip_addresses: ip_addresses.clone(),
        ..CertSpec::new(common_name, Usage::Peer, s.settings.leaf_lifetime)
    };
    let (server, peer) = (names::etcd::server(s.name), names::etcd::peer(s.name));
    Some([
        leaf(s, server.clone(), named(&server), names::etcd::client_ca(s.name)),
        leaf(s, peer.clone(), named(&peer), names::etcd::peer_ca(s.name)),
    ])
}

fn of_clients(s: &Subject<'_>) -> impl Iterator<Item = SecretSpec> {
    s.etcd.spec.clients.iter().filter(|c| c.name != "ca").map(|c| {
        let spec = CertSpec::new(&c.name, Usage::Client, s.settings.leaf_lifetime);
        let mut secret = leaf(s, names::etcd::client(s.name, &c.name), spec, names::etcd::client_ca(s.name));
        secret.labels.insert(labels::ETCD_CLIENT.into(), c.name.clone());
        secret
    })
}

/// The stage.
pub(super) fn stage(s: &Subject<'_>, out: &mut EtcdPlan) -> Stage {
    let mut stage = Stage::new(StageId::Pki, State::Ready);
    for (spec, in_use) in roots(s) {
        judge_into(s, &mut stage, out, &spec, in_use.as_deref());
    }
    if let Some(specs) = of_members(s) {
        for spec in &specs {
            judge_into(s, &mut stage, out, spec, None);
        }
    } else {
        stage.owns.extend([names::etcd::server(s.name), names::etcd::peer(s.name)].map(|n| s.secret(n)));
        if stage.state.is_done() {
            stage.state = State::waiting("addresses of the members' Services, for their certificates");
        }
    }
    for spec in of_clients(s) {
        judge_into(s, &mut stage, out, &spec, None);
    }
    stage
}

fn judge_into(s: &Subject<'_>, stage: &mut Stage, out: &mut EtcdPlan, spec: &SecretSpec, in_use: Option<&str>) {
    let seed = format!("{}/{}", s.namespace, s.name);
    let renewal =
        Renewal { now: s.now, seed: &seed, held: s.observed.meta.clocks_are_far_apart(s.settings.leaf_lifetime) };
    out.certificates.judge(stage, s.observed, spec, in_use, |o| is_ours(o, s.name), renewal);
}
