//! What is said of members whose nodes do not come back, and of those whose data is not that of the others.

use super::super::stranded::out_of_service;
use super::*;

pub(super) fn all() -> Vec<Situation> {
    let mut all = vec![];
    let mut e = Etcd::loses_a_node(3, None);
    e.looks();
    all.push(e.said("a node with a member's volume was deleted a minute ago"));
    e.answer(&[0], 0);
    e.passes(600);
    e.looks();
    all.push(e.said("a node with a member's volume was deleted, and there is no quorum"));
    let mut e = Etcd::loses_a_node(3, Some(out_of_service()));
    e.answer(&[0], 0);
    e.looks();
    all.push(e.said("a node with a member's volume is out of service, and there is no quorum"));
    let mut e = Etcd::loses_a_node(1, Some(out_of_service()));
    e.looks();
    all.push(e.said("a node with the only member's volume is out of service"));
    let mut e = Etcd::loses_a_node(3, None);
    e.answer(&[0], 0);
    e.edit(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1"))["status"]["phase"] = "Lost".into();
    e.looks();
    all.push(e.said("a member's PersistentVolume is gone, and there is no quorum"));
    let mut e = Etcd::loses_a_node(1, Some(out_of_service()));
    e.edit(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-0"))["status"]["phase"] = "Lost".into();
    e.looks();
    all.push(e.said("the only member's PersistentVolume is gone"));
    let mut e = Etcd::formed(3);
    e.differs(true);
    e.answer(&[0, 1], 0);
    e.looks();
    all.push(e.said("one member has other data than the others, and another is away"));
    let mut e = Etcd::formed(3);
    e.older_templates();
    e.differs(true);
    e.looks();
    all.push(e.said("one member has other data than the others, and an earlier Berth made the etcd"));
    all
}
