//! The kinds of backups, and who may do what in tenants: a schedule's effect is an `EtcdBackup`, and that of an `EtcdBackup` is a Job, which a world without etcd does not
//! finish. So the API server alone judges each value, as a dry run, and [`super::table::BACKUPS`] says which test shows each field's effect.

use super::table::{BACKUPS, Backups, fits};
use crate::common::{alone_at_a_server, team::Team};
use berth_testkit::schema::{Class, fields, put, tries};
use serde_json::{Value, json};

const KINDS: [(&str, &str); 3] = [
    ("EtcdBackup", "etcdbackups"),
    ("EtcdBackupSchedule", "etcdbackupschedules"),
    ("ClusterAccess", "clusteraccesses"),
];

fn schema(kind: &str) -> Value {
    let crds = berth_api::crds::all();
    let crd = crds.iter().find(|c| c.spec.names.kind == kind).expect("its CRD");
    let crd = serde_json::to_value(crd).expect("JSON");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

fn first(kind: &str) -> Value {
    if kind == "ClusterAccess" {
        let subjects = json!([{"kind": "User", "name": "jane"}]);
        return json!({"clusterRefs": [{"name": "acme"}], "subjects": subjects, "role": "Viewer"});
    }
    let mut spec = json!({"clusterRef": {"name": "acme"}, "store": "main"});
    if kind == "EtcdBackupSchedule" {
        spec["schedule"] = "0 3 * * *".into();
    }
    spec
}

#[tokio::test]
async fn every_value_of_a_backup_a_schedule_and_an_access_is_taken_or_refused_by_name() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::new(server).await;
    let (mut taken, mut refused) = (0, 0);
    for (kind, plural) in KINDS {
        let schema = schema(kind);
        for field in fields(&schema) {
            for value in tries(&field, &Backups) {
                let mut spec = first(kind);
                if field.path.starts_with("etcdClusterRef") {
                    spec.as_object_mut().expect("a spec").remove("clusterRef");
                }
                if field.path.starts_with("claimRef") {
                    spec.as_object_mut().expect("a spec").remove("clusterRef");
                    spec["etcdClusterRef"] = json!({"name": "acme"});
                }
                if field.path.starts_with("clusterSelector") {
                    spec.as_object_mut().expect("a spec").remove("clusterRefs");
                }
                if field.path.starts_with("secretRef") || field.path.starts_with("claimRef") {
                    spec.as_object_mut().expect("a spec").remove("store");
                }
                if field.path.starts_with("members") {
                    spec["withoutQuorum"] = true.into();
                }
                put(&mut spec, &schema, &field.path, Some(value.value.clone()), &Backups);
                let object = json!({
                    "apiVersion": "berth.dev/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec,
                });
                let url = format!(
                    "/apis/berth.dev/v1alpha1/namespaces/{}/{plural}?dryRun=All&fieldValidation=Strict",
                    team.ns
                );
                let request = http::Request::post(url).header("content-type", "application/json");
                let request = request.body(serde_json::to_vec(&object).expect("JSON")).expect("a request");
                let what = format!("{kind} {} {:?} {}", field.path, value.class, value.value);
                match team.client.request::<Value>(request).await {
                    Ok(_) => {
                        assert!(!value.class.is_wrong(), "{what}: taken");
                        taken += 1;
                    }
                    Err(why) => {
                        let said = why.to_string();
                        let name = if value.class == Class::Unknown { "sweepNoSuchField" } else { field.name() };
                        let parent = field.path.split('.').next().unwrap_or_default();
                        assert!(said.contains(name) || said.contains(parent), "{what}: {said}");
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("{taken} values are taken, {refused} refused");
    assert!(taken > 20 && refused > 50, "{taken} {refused}");
}

#[test]
fn every_field_of_a_backup_a_schedule_and_an_access_has_a_row() {
    let sources = [
        include_str!("../../backup.rs"),
        include_str!("../../../../../plan-backup/src/backup/tests/mod.rs"),
        include_str!("../../../../../backup/tests/real/main.rs"),
        include_str!("../../../../../plan-backup/src/store.rs"),
        include_str!("../../../../../plan-backup/src/backup/tests/deletion.rs"),
        include_str!("../../../../../plan-backup/src/backup/tests/volumes.rs"),
        include_str!("../../../../../plan-backup/src/schedule/tests/mod.rs"),
        include_str!("../../../../../plan/src/times.rs"),
        include_str!("../../../../../plan-backup/src/schedule/keep.rs"),
        include_str!("../../../../../plan-backup/src/schedule/ready.rs"),
        include_str!("../../../../../plan-cluster/src/users/tests.rs"),
        include_str!("../../../../../cli/src/grants.rs"),
        include_str!("../../../shared/users.rs"),
    ];
    for (kind, _) in KINDS {
        for field in fields(&schema(kind)) {
            let row = BACKUPS.iter().find(|(of, pattern, _)| *of == kind && fits(pattern, &field.path));
            let (.., test) = row.unwrap_or_else(|| panic!("{kind} {}: give it a row in schema/table.rs", field.path));
            assert!(
                sources.iter().any(|s| s.contains(&format!("fn {test}("))),
                "{kind} {}: {test} is gone",
                field.path
            );
        }
    }
}
