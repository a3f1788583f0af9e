//! Asks the members of an etcd, and why pods of it are missing.

use crate::context::Context;
use berth_api::{EtcdCluster, names};
use berth_etcdio::{Credential, EtcdTarget};
use berth_kubeio::{CallEtcd, ResourceRef, Snapshot, fingerprint, refused};
use berth_pki::Clocks;
use berth_plan::observed::EtcdProbe;
use berth_plan_etcd::{can_probe, endpoints, missing_members};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Asks the members, if one of them runs, and puts the answer into the snapshot. Returns what a look asks.
pub(super) async fn members(
    ctx: &Context,
    etcd: &EtcdCluster,
    snapshot: &mut Snapshot,
    clocks: Clocks,
) -> Option<IdleCheck> {
    let target = target(etcd, snapshot, clocks)?;
    let answer = (ctx.ask_etcd)(target.clone()).await;
    snapshot.observed.etcd = Some(answer.clone());
    let namespace = etcd.metadata.namespace.clone()?;
    let (fingerprint, listed) = (snapshot.fingerprint(&namespace), Mutex::new(Instant::now()));
    Some(IdleCheck { namespace, fingerprint, listed, target, answer })
}

fn target(etcd: &EtcdCluster, snapshot: &Snapshot, clocks: Clocks) -> Option<EtcdTarget> {
    if etcd.metadata.deletion_timestamp.is_some() || !can_probe(etcd, &snapshot.observed) {
        return None;
    }
    let etcd_key = ResourceRef::of(Kind::EtcdCluster, etcd).key;
    let ca = ObjectKey { kind: Kind::Secret, name: names::etcd::client_ca(&etcd_key.name), ..etcd_key };
    let (cert, key) = (snapshot.secret(&ca, "tls.crt")?, snapshot.secret(&ca, "tls.key")?);
    let target = Credential::issue(cert, key, clocks)
        .and_then(|credential| EtcdTarget::new(&endpoints(etcd, &snapshot.observed), credential));
    let target = target.inspect_err(|error| tracing::warn!(%ca, %error, "cannot ask etcd"));
    target.ok().filter(|target| !target.members.is_empty())
}

/// What is asked about an idle etcd.
pub(in crate::controllers) struct IdleCheck {
    namespace: String,
    fingerprint: u64,
    listed: Mutex<Instant>,
    target: EtcdTarget,
    answer: EtcdProbe,
}

impl IdleCheck {
    /// How often Secrets and ConfigMaps are looked at: members are asked more often.
    const LIST: Duration = Duration::from_secs(55);

    /// Of an etcd without members.
    #[cfg(test)]
    pub(in crate::controllers) fn of_nothing() -> Self {
        let ca = berth_pki::CertSpec::new("ca", berth_pki::Usage::Ca, berth_pki::CA_LIFETIME);
        let ca = berth_pki::issue_ca(&ca, Timestamp::now()).unwrap();
        let credential =
            Credential::issue(ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), Timestamp::now()).unwrap();
        Self {
            namespace: String::new(),
            fingerprint: 0,
            listed: Mutex::new(Instant::now()),
            target: EtcdTarget { members: vec![], credential },
            answer: EtcdProbe::default(),
        }
    }

    /// What calls the members that were asked.
    pub(super) fn calls(&self, ctx: &Context) -> CallEtcd {
        let (call, target) = (ctx.call_etcd.clone(), self.target.clone());
        CallEtcd(Box::new(move |via, what| call(target.clone(), via, what)))
    }

    /// Whether all is as it was.
    pub(super) async fn is_unchanged(&self, ctx: &Context) -> bool {
        let listed = *self.listed.lock();
        let same = async {
            if listed.elapsed() < Self::LIST {
                return true;
            }
            let same = fingerprint(&ctx.io, &self.namespace).await.is_ok_and(|f| f == self.fingerprint);
            *self.listed.lock() = Instant::now();
            same
        };
        let (same, answer) = futures::join!(same, (ctx.ask_etcd)(self.target.clone()));
        same && answer.says_the_same_as(&self.answer)
    }
}

/// Asks what refuses pods that are not there.
pub(super) async fn missing_pods(ctx: &Context, etcd: &EtcdCluster, snapshot: &mut Snapshot, now: Timestamp) {
    let etcd_key = ResourceRef::of(Kind::EtcdCluster, etcd).key;
    let missing = missing_members(etcd, &snapshot.observed);
    snapshot.observed.refused =
        refused(&ctx.io, etcd_key.namespace.as_deref().unwrap_or_default(), &etcd_key.name, missing, now).await;
}
