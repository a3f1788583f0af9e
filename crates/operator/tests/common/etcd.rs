//! etcds, simulated: members that are well, and what calls make of them.

use berth_etcdio::{EtcdTarget, Member};
use berth_plan::observed::{EtcdProbe, ListedMember, MemberProbe};
use berth_plan::{EtcdAnswer, EtcdCall, KvHash, Maintenance};
use berth_testkit::etcd_members;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// What calls were made of etcds, by the host of the first member. Others are as they were formed.
static CHANGED: LazyLock<Mutex<BTreeMap<String, Vec<ListedMember>>>> = LazyLock::new(Mutex::default);

fn of(target: &EtcdTarget) -> String {
    target.members.first().map(|m| m.host.to_str().into_owned()).unwrap_or_default()
}

fn id(n: usize) -> String {
    format!("{:x}", 0xe7cd_0000 + n)
}

fn formed(target: &EtcdTarget) -> Vec<ListedMember> {
    let listed = |(n, m): (usize, &Member)| ListedMember {
        name: m.name.clone(),
        id: id(n),
        peer_urls: vec![format!("https://{}:2380", m.host.to_str())],
        learner: false,
    };
    target.members.iter().enumerate().map(listed).collect()
}

/// Members that are well: asked only once their pods run.
pub(crate) fn ask(target: &EtcdTarget) -> EtcdProbe {
    let mut changed = CHANGED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut list = changed.get(&of(target)).cloned().unwrap_or_else(|| formed(target));
    let leader = list.iter().find(|m| !m.learner).map(|m| m.id.clone()).unwrap_or_default();
    let mut said = |asked: &Member| {
        let at = [asked.host.to_str().into_owned(), asked.address.ip().to_string()];
        let is = |m: &&mut ListedMember| at.iter().any(|at| m.peer_urls.contains(&format!("https://{at}:2380")));
        let listed = list.iter_mut().find(is).ok_or("connection refused")?;
        listed.name.clone_from(&asked.name);
        Ok(MemberProbe {
            cluster_id: "cdf818194e3a8c32".into(),
            member_id: listed.id.clone(),
            leader: leader.clone(),
            version: "3.6.16".into(),
            learner: listed.learner,
            ..MemberProbe::default()
        })
    };
    let members = target.members.iter().map(|m| (m.name.clone(), said(m).map_err(str::to_owned))).collect();
    if let Some(known) = changed.get_mut(&of(target)) {
        known.clone_from(&list);
    }
    EtcdProbe { members, list: Some(list), alarms: vec![] }
}

/// One call.
pub(crate) fn call(target: &EtcdTarget, what: &EtcdCall) -> Result<EtcdAnswer, String> {
    let what = match what {
        EtcdCall::Change(what) => what,
        EtcdCall::Maintain(Maintenance::CompareHashes { .. }) => {
            let same = |m: &Member| KvHash { member: m.name.clone(), said: Ok((7, 1)) };
            return Ok(EtcdAnswer::Hashes(target.members.iter().map(same).collect()));
        }
        EtcdCall::Maintain(_) => return Ok(EtcdAnswer::Done),
    };
    let mut changed = CHANGED.lock().unwrap_or_else(PoisonError::into_inner);
    let list = changed.entry(of(target)).or_insert_with(|| formed(target));
    let up: Vec<_> = list.iter().map(|m| m.id.clone()).collect();
    let taken = up.iter().filter_map(|id| u64::from_str_radix(id, 16).ok()).max().unwrap_or_default();
    etcd_members::apply(list, &up, what, &format!("{:x}", taken + 1)).map(|_| EtcdAnswer::Done)
}
