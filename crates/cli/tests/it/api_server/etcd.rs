//! `etcd`, against an API server with an `EtcdCluster` that nobody works on.

use super::*;

fn text(output: &Output) -> String {
    format!("{}{}", out(output), err(output))
}

#[tokio::test]
async fn an_etcd_is_shown_and_asked_for_a_backup_and_a_defragmentation() {
    let team = Team::new(ADMIN).await;
    let none = team.here(&["etcd", "status", "acme"]);
    assert!(none.status.code() == Some(1) && text(&none).contains("EtcdCluster"), "{}", text(&none));
    let unknown = team.here(&["etcd", "backup", "nobody", "--store", "main"]);
    assert!(unknown.status.code() == Some(1) && text(&unknown).contains("does not exist"), "{}", text(&unknown));

    let etcds = format!("/apis/berth.dev/v1alpha1/namespaces/{}/etcdclusters", team.ns);
    let etcd = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "alone"},
        "spec": {"version": "3.6.16", "replicas": 3},
    });
    team.post(&etcds, &etcd).await;
    let shown = team.here(&["etcd", "status", "alone", "--stand-alone"]);
    assert_eq!(shown.status.code(), Some(3), "{}", text(&shown));
    assert!(text(&shown).contains("proven backup"), "{}", text(&shown));
    let members = team.here(&["etcd", "members", "alone", "--stand-alone", "-o", "json"]);
    assert_eq!((members.status.code(), String::from_utf8_lossy(&members.stdout).trim()), (Some(0), "[]"));

    // Without a terminal nobody can confirm.
    let asked = team.here(&["etcd", "defrag", "alone", "--stand-alone"]);
    assert!(asked.status.code() == Some(1) && text(&asked).contains("--yes"), "{}", text(&asked));
    let set = team.here(&["etcd", "defrag", "alone", "--stand-alone", "--yes"]);
    assert_eq!(set.status.code(), Some(0), "{}", text(&set));
    let live = team.get(&format!("{etcds}/alone")).await;
    assert!(live["metadata"]["annotations"]["berth.dev/defrag"].is_string(), "{live:#}");

    let taken = team.here(&["etcd", "backup", "acme", "--store", "main", "--as", "before"]);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken));
    let backup = team.get(&format!("/apis/berth.dev/v1alpha1/namespaces/{}/etcdbackups/before", team.ns)).await;
    assert_eq!(backup["spec"]["clusterRef"]["name"], "acme");
    let waited = ["etcd", "backup", "acme", "--store", "main", "--wait", "--timeout", "1s"];
    let waited = team.here(&waited);
    assert_eq!(waited.status.code(), Some(3), "no operator takes it: {}", text(&waited));
}
