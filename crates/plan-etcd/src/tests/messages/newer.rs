//! What is said where the meta cluster's objects are older than etcd's volumes.

use super::super::newer::replaced_since;
use super::*;

pub(super) fn all() -> Vec<Situation> {
    let mut all = vec![];
    let mut e = Etcd::put_back(3);
    (0..3).for_each(|i| e.finds_epoch(i, "first-uid", 2));
    e.looks();
    all.push(e.said("the meta cluster was put back to before a restore"));
    let mut e = replaced_since();
    e.finds_id(1, "b1");
    e.looks();
    all.push(e.said("the meta cluster was put back to before a member was replaced"));
    let mut e = replaced_since();
    e.all_answer_as_replaced();
    e.looks();
    all.push(e.said("likewise, and the member's pod runs on"));
    all
}
