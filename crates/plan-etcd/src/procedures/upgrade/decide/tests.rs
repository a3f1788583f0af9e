//! Single decisions; whole changes are in `etcd/tests/versions.rs`.

use super::*;

#[test]
fn a_target_names_its_member() {
    let version = "3.6.16".parse().unwrap();
    assert_eq!(target("etcd-2", version), "etcd-2@3.6.16");
    assert!(names("etcd-2@3.6.16", "etcd-2") && !names("etcd-2@3.6.16", "etcd-20") && !names("etcd-2", "etcd-2"));
}
