//! What the schema does not tell: good values, what a value needs beside it, and where its effect is seen.
//!
//! Patterns are paths of [`berth_testkit::schema`]; `*` stands for anything. The first row that fits counts. A field without a row
//! fails `every_field_has_a_row`.

use super::subject::Kind;
use berth_plan_cluster::components::{self, Component};
use berth_testkit::schema::Samples;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// How a value that was accepted is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It stands somewhere in what changed at this place: a part of `object /pointer` of a change.
    At(&'static str),
    /// Something changed at this place, which does not hold the value itself.
    Changes(&'static str),
    /// Nothing that runs shows it; a test of this name does.
    Test(&'static str),
}
use Effect::{At, Changes, Test};

/// Fields of the two kinds and their effects.
const EFFECTS: &[(Kind, &str, Effect)] = &[
    (Kind::Cluster, "version", At("Deployment.apps/kube-apiserver /spec/template")),
    (Kind::Cluster, "replicas", At("Deployment.apps/kube-apiserver /spec/replicas")),
    (Kind::Cluster, "network.podCIDRs*", At("kube-controller-manager")),
    (Kind::Cluster, "network.nodeCIDRs*", At("NetworkPolicy.networking.k8s.io/kube-apiserver /spec/egress")),
    (Kind::Cluster, "network*", At("kube-apiserver")),
    (Kind::Cluster, "endpoint.type", At("Service/kube-apiserver /spec/type")),
    (Kind::Cluster, "endpoint.host", At("Cluster.berth.dev/acme /status/endpoints")),
    (Kind::Cluster, "endpoint.certSANs*", Changes("Secret/kube-apiserver-pki /data")),
    (Kind::Cluster, "endpoint.advertiseAddress", Changes("Secret/kube-apiserver-pki /data")),
    (Kind::Cluster, "endpoint*", At("Service/kube-apiserver /")),
    (Kind::Cluster, "proxy*", At("Deployment.apps/kube-apiserver /spec/template/spec/containers")),
    (Kind::Cluster, "vpc*", Test("a_tenant_in_a_vpc_has_an_api_server_for_each_address")),
    (Kind::Cluster, "etcd.autoscaling*", At("EtcdCluster.berth.dev/etcd /spec/autoscaling")),
    (Kind::Cluster, "*.autoscaling*", Test("requests_of_running_pods_follow_usage_and_no_pod_is_made_anew")),
    (Kind::Cluster, "etcd.storage*", At("PersistentVolumeClaim/data-etcd-0 /")),
    (Kind::Cluster, "etcd.replicas", At("StatefulSet.apps/etcd /spec/replicas")),
    (Kind::Cluster, "etcd.recovery", At("EtcdCluster.berth.dev/etcd /spec/recovery")),
    (Kind::Cluster, "etcd.keepOldData", At("EtcdCluster.berth.dev/etcd /spec/keepOldData")),
    (Kind::Cluster, "etcd.heartbeatInterval", At("EtcdCluster.berth.dev/etcd /spec/heartbeatInterval")),
    (Kind::Cluster, "etcd.electionTimeout", At("EtcdCluster.berth.dev/etcd /spec/electionTimeout")),
    (Kind::Cluster, "*.placement.antiAffinity", Changes("/affinity")),
    (Kind::Cluster, "etcd*", At("StatefulSet.apps/etcd /spec/template")),
    (Kind::Cluster, "apiServer.authentication*", At("ConfigMap/kube-apiserver")),
    (Kind::Cluster, "apiServer.audit.policy", At("ConfigMap/kube-apiserver")),
    (Kind::Cluster, "apiServer.audit.webhook.batch*", At("Deployment.apps/kube-apiserver /spec/template")),
    (Kind::Cluster, "apiServer.audit.webhook.initialBackoff", At("Deployment.apps/kube-apiserver /spec/template")),
    (Kind::Cluster, "apiServer.audit*", Changes("Deployment.apps/kube-apiserver /spec/template")),
    (Kind::Cluster, "apiServer.admission*", Changes("ConfigMap/kube-apiserver")),
    (Kind::Cluster, "apiServer.trustedCA", Changes("ConfigMap/kube-apiserver")),
    (Kind::Cluster, "kubelet*", Test("kubelet_config_is_merged_and_whoever_edits_it_in_the_tenant_is_told")),
    (
        Kind::Cluster,
        "addons.coreDNS.replicas",
        Test("the_number_of_pods_is_left_to_whoever_scales_and_kept_where_it_is_asked_for"),
    ),
    (
        Kind::Cluster,
        "addons.coreDNS.resources*",
        Test("the_number_of_pods_is_left_to_whoever_scales_and_kept_where_it_is_asked_for"),
    ),
    (Kind::Cluster, "addons.coreDNS.zones*", Test("zones_are_checked_and_end_up_in_the_corefile")),
    (Kind::Cluster, "addons.apiProxy*", Test("pods_are_led_to_the_api_by_an_address_of_their_node_and_back")),
    (Kind::Cluster, "addons*", Test("addons_are_on_by_default_go_and_come_back")),
    (
        Kind::Cluster,
        "registration*",
        Test("the_record_comes_first_then_rights_then_the_secret_and_they_go_the_other_way_round"),
    ),
    (Kind::Cluster, "deletion.protected", Test("a_protected_cluster_that_is_deleted_all_the_same_is_held")),
    (Kind::Cluster, "deletion*", Test("retain_keeps_data_and_roots_and_a_new_cluster_takes_them_over")),
    (
        Kind::Cluster,
        "helpers.jobs*",
        Test("each_container_of_a_job_gets_what_is_asked_for_and_else_what_the_chart_says"),
    ),
    (Kind::Cluster, "helpers*", At("Deployment.apps/kube-controller-manager /spec/template")),
    (
        Kind::Cluster,
        "apiServer.formerServiceAccountIssuers",
        Test("a_token_that_was_signed_before_another_issuer_is_accepted_after_it"),
    ),
    (Kind::Cluster, "images.layout", Test("a_registry_of_the_spec_has_upstreams_paths_if_it_says_so")),
    (Kind::Cluster, "images.overrides*", Test("a_single_image_comes_from_elsewhere_of_the_version_that_it_is_of")),
    (Kind::Cluster, "images*", At("/spec/template/spec/")),
    (Kind::Cluster, "upgrade.finalizeAfter", Test("a_minor_changes_in_two_steps_and_goes_back_in_the_first")),
    (Kind::Cluster, "upgrade.soak", Test("a_release_that_does_not_come_up_is_taken_back_once_it_is_late")),
    (Kind::Cluster, "upgrade.window*", Test("outside_of_its_window_nothing_begins_that_replaces_pods")),
    (Kind::Cluster, "upgrade.templates", Test("newest_takes_them_up_as_a_change_of_its_own")),
    (Kind::Cluster, "upgrade.skipChecks*", Test("what_stands_in_the_way_is_found_and_it_goes_on_once_it_is_gone")),
    (Kind::Cluster, "upgrade*", Test("a_release_that_does_not_come_up_is_taken_back_once_it_is_late")),
    (
        Kind::Cluster,
        "hibernation.backupFirst",
        Test("the_last_revision_is_backed_up_once_nothing_writes_and_before_etcd_stops"),
    ),
    (Kind::Cluster, "hibernation.schedules*", Test("it_sleeps_and_wakes_by_its_schedules_and_says_when")),
    (Kind::Cluster, "hibernation.afterIdle", Test("one_that_nobody_uses_sleeps_and_a_connection_wakes_it")),
    (Kind::Cluster, "hibernation.wake.stayFor", Test("woken_in_vain_it_sleeps_again_and_is_deaf_for_a_while")),
    (Kind::Cluster, "hibernation.wake*", Test("one_that_nobody_uses_sleeps_and_a_connection_wakes_it")),
    (Kind::Cluster, "hibernation*", Test("what_works_by_the_api_stops_first_then_the_api_then_etcd")),
    (Kind::Cluster, "paused", Changes("Cluster.berth.dev/acme /status/phase")),
    (Kind::Etcd, "version", At("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "replicas", At("StatefulSet.apps/acme /spec/replicas")),
    (Kind::Etcd, "storage*", At("PersistentVolumeClaim/data-acme-0 /")),
    (Kind::Etcd, "placement.antiAffinity", Changes("/affinity")),
    (Kind::Etcd, "placement*", At("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "resources*", At("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "helpers.jobs*", Test("each_container_of_a_job_gets_what_is_asked_for_and_else_what_the_chart_says")),
    (Kind::Etcd, "helpers*", At("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "quotaBackendBytes", At("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "heartbeatInterval", Changes("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "electionTimeout", Changes("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "snapshotCount", At("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "keepOldData", Changes("ConfigMap/acme-bootstrap /data")),
    (Kind::Etcd, "clients*", At("Secret/acme-client-")),
    (Kind::Etcd, "dataPolicy", Test("retain_keeps_what_finds_the_data_again_and_it_is_found")),
    (Kind::Etcd, "images.layout", Test("a_registry_of_the_spec_has_upstreams_paths_if_it_says_so")),
    (
        Kind::Etcd,
        "images.overrides*",
        Test("members_take_an_image_of_their_own_and_keep_it_where_another_does_not_fit"),
    ),
    (Kind::Etcd, "images*", At("StatefulSet.apps/acme /spec/template")),
    (Kind::Etcd, "clientsStopped", Test("an_etcd_stops_after_its_clients_and_begins_a_new_epoch_alone")),
    (Kind::Etcd, "recovery", Test("what_a_member_holds_that_is_left_is_restored_once_the_loss_has_lasted")),
    (Kind::Etcd, "hibernation*", Test("all_members_stop_and_start_as_they_were")),
    (Kind::Etcd, "autoscaling*", Test("requests_of_running_pods_follow_usage_and_no_pod_is_made_anew")),
    (Kind::Etcd, "shrinkWindow*", Test("of_etcd_requests_become_less_within_a_window_only")),
    (Kind::Etcd, "paused", Changes("EtcdCluster.berth.dev/acme /status/phase")),
];

/// Fields of the kinds of backups, and the test that shows their effect.
pub(crate) const BACKUPS: &[(&str, &str, &str)] = &[
    ("EtcdBackup", "clusterRef*", "a_backup_is_taken_by_a_job_recorded_and_deleted_once_it_is_superseded"),
    ("EtcdBackup", "etcdClusterRef*", "what_is_missing_is_named_with_the_way_out"),
    ("EtcdBackup", "store", "a_backup_is_taken_by_a_job_recorded_and_deleted_once_it_is_superseded"),
    ("EtcdBackup", "secretRef*", "a_teams_store_is_as_its_secret_says_within_what_is_allowed"),
    ("EtcdBackup", "claimRef*", "a_backup_of_a_stand_alone_etcd_goes_to_a_volume_without_any_store"),
    ("EtcdBackup", "withoutQuorum", "what_a_member_holds_without_a_quorum_is_kept_if_that_is_asked_for"),
    ("EtcdBackup", "members*", "members_that_are_named_are_all_asked_and_each_has_to_answer"),
    ("EtcdBackup", "deletionPolicy", "one_that_is_superseded_is_deleted_in_the_store_first"),
    ("EtcdBackupSchedule", "clusterRef*", "a_schedule_creates_what_is_due_and_deletes_what_is_not_kept"),
    ("EtcdBackupSchedule", "etcdClusterRef*", "without_a_schedule_nothing_is_said"),
    ("EtcdBackupSchedule", "store", "what_is_created_is_of_the_schedules_subject_and_is_deleted_with_its_snapshot"),
    (
        "EtcdBackupSchedule",
        "secretRef*",
        "what_is_created_is_of_the_schedules_subject_and_is_deleted_with_its_snapshot",
    ),
    ("EtcdBackupSchedule", "claimRef*", "what_is_created_is_of_the_schedules_subject_and_is_deleted_with_its_snapshot"),
    ("EtcdBackupSchedule", "schedule", "a_schedule_creates_what_is_due_and_deletes_what_is_not_kept"),
    ("EtcdBackupSchedule", "timeZone", "of_what_was_missed_the_last_is_made_up_for_and_nothing_twice"),
    ("EtcdBackupSchedule", "keep*", "the_newest_of_each_period_stays"),
    ("EtcdBackupSchedule", "suspend", "one_backup_is_created_for_each_time_and_none_while_another_is_under_way"),
    ("ClusterAccess", "clusterSelector*", "a_selector_means_clusters_of_its_namespace_and_of_the_operators_all"),
    ("ClusterAccess", "clusterRefs*", "who_gives_what_is_bounded"),
    ("ClusterAccess", "subjects*", "rights_in_a_tenant_are_those_of_the_table_while_they_last"),
    ("ClusterAccess", "role", "rights_in_a_tenant_are_those_of_the_table_while_they_last"),
    ("ClusterAccess", "namespaces*", "rights_in_a_tenant_are_those_of_the_table_while_they_last"),
    ("ClusterAccess", "expiresAt", "rights_in_a_tenant_are_those_of_the_table_while_they_last"),
    ("ClusterAccess", "issuer", "what_is_given_is_there_and_what_ends_is_gone"),
    ("ClusterAccess", "grantedBy", "the_status_says_where_it_is_not_as_asked_for"),
    // It is for people, and nothing follows from it.
    ("ClusterAccess", "reason", "each_subject_has_a_line"),
];

/// Good values of theirs.
pub(crate) struct Backups;

impl Samples for Backups {
    fn of(&self, path: &str) -> Vec<Value> {
        match path {
            "clusterRef.name" | "etcdClusterRef.name" => vec![json!("acme"), json!("a-1")],
            "store" => vec![json!("main"), json!("store-{n}")],
            "claimRef.name" => vec![json!("disk"), json!("my.disk")],
            "secretRef.name" => vec![json!("mine"), json!("my.store")],
            "members[]" => vec![json!("etcd-1"), json!("etcd-{n}")],
            "schedule" => vec![json!("*/5 * * * *"), json!("0 3 * * 1-5")],
            "timeZone" => vec![json!("Europe/Berlin"), json!("UTC")],
            "clusterSelector.matchLabels{key}" => vec![json!("tier-{n}")],
            "clusterSelector.matchExpressions[]" => vec![json!({"key": "tier-{n}", "operator": "Exists"})],
            "clusterSelector.matchExpressions[].key" => vec![json!("tier")],
            "clusterSelector.matchExpressions[].values[]" => vec![json!("gold-{n}")],
            "clusterRefs[].name" => vec![json!("acme-{n}")],
            "clusterRefs[].namespace" => vec![json!("team-a")],
            "subjects[].name" => vec![json!("jane-{n}"), json!("jane@example.com")],
            "role" => vec![json!("Viewer"), json!("audit.all")],
            "namespaces[]" => vec![json!("web-{n}")],
            "expiresAt" => vec![json!("2026-12-01T18:00:00Z"), json!("9998-12-31T23:59:59.5Z")],
            _ => vec![],
        }
    }
}

/// Of nobody, for `apiServer.trustedCA`.
const CERTIFICATE: &str = include_str!("certificate.pem");

/// Good values, and those that only judgement finds bad.
fn samples(kind: Kind) -> Vec<(&'static str, Vec<Value>)> {
    let quantity = vec![json!("250m"), json!("99999999999999999999")];
    let mut all = vec![
        ("*.placement.tolerations[]", vec![json!({"key": "berth.dev/sweep-{n}", "effect": "NoExecute"})]),
        ("*placement.tolerations[].key", vec![json!("berth.dev/sweep")]),
        ("*placement.tolerations[].value", vec![json!("yes")]),
        ("*placement.topologySpread[]", vec![json!({"topologyKey": "example.com/zone-{n}"})]),
        ("*placement.topologySpread[].topologyKey", vec![json!("topology.kubernetes.io/zone")]),
        ("*placement.nodeSelector{key}", vec![json!("berth.dev/sweep-{n}")]),
        ("*placement.nodeSelector{}", vec![json!("yes")]),
        ("*placement.priorityClassName", vec![json!("sweep")]),
        ("images.registry", vec![json!("mirror.example.com:5000/k8s"), json!("UPPER/case"), json!("a//b")]),
        ("images.layout", vec![json!("Flat")]),
        ("images.overrides{key}", vec![json!("etcd"), json!("agent")]),
        ("images.overrides{}", vec![json!("mirror.example.com/k8s/etcd"), json!("mirror.example.com:5000")]),
        ("images.pullSecrets[]", vec![json!("mirror-{n}")]),
        ("*resources.limits{key}", vec![json!("cpu")]),
        ("*resources.requests{key}", vec![json!("cpu"), json!("memory"), json!("example.com/gpu")]),
        ("*resources.limits{}", quantity.clone()),
        ("*resources.requests{}", quantity.clone()),
        ("*autoscaling.*.cpu", quantity.clone()),
        ("*autoscaling.*.memory", quantity),
    ];
    match kind {
        Kind::Cluster => all.extend([
            ("hibernation.afterIdle", vec![json!("5m"), json!("1h"), json!("4m59s"), json!("8761h"), json!("")]),
            ("hibernation.wake.from[]", vec![json!("192.0.{n}.0/24"), json!("2001:db8::/32"), json!("192.0.2.1")]),
            ("hibernation.wake.stayFor", vec![json!("1m"), json!("10m"), json!("59s"), json!("25h"), json!("")]),
            ("upgrade.finalizeAfter", vec![json!("0s"), json!("1h30m"), json!("169h"), json!("")]),
            ("upgrade.progressDeadline", vec![json!("30s"), json!("1h30m"), json!("29s"), json!("25h"), json!("")]),
            ("upgrade.window.start", vec![json!("22:30"), json!("24:00"), json!("2:30")]),
            ("upgrade.window.duration", vec![json!("30m"), json!("4h"), json!("29m"), json!("25h"), json!("")]),
            ("upgrade.window.timeZone", vec![json!("Europe/Berlin"), json!("Mars/Base")]),
            ("upgrade.soak", vec![json!("0s"), json!("90s"), json!("25h"), json!("")]),
            ("version", vec![json!("1.36.2"), json!("1.35.8"), json!("1.36.99999999999"), json!("0.0.0")]),
            ("network.serviceCIDRs", vec![json!(["10.113.0.0/16"]), json!(["10.113.0.0/16", "fd00:113::/112"])]),
            ("network.serviceCIDRs[]", vec![json!("10.{n}.0.0/16"), json!("10.113.0.1/16"), json!("0.0.0.0/0")]),
            ("network.podCIDRs", vec![json!(["10.161.0.0/16"]), json!(["10.161.0.0/16", "fd00:161::/56"])]),
            ("network.podCIDRs[]", vec![json!("172.{n}.0.0/16"), json!("::/0")]),
            ("network.nodeCIDRs[]", vec![json!("10.{n}.0.0/16"), json!("fd00:{n}::/64"), json!("10.20.0.1/16")]),
            ("network.dnsDomain", vec![json!("tenant.example")]),
            ("endpoint.host", vec![json!("acme.example.com"), json!("192.0.2.7"), json!("2001:db8::7")]),
            ("endpoint.advertiseAddress", vec![json!("192.0.2.8"), json!("2001:db8::7"), json!("127.0.0.1")]),
            ("endpoint.certSANs[]", vec![json!("san-{n}.example.com"), json!("*.example.com"), json!("2001:db8::8")]),
            ("endpoint.service.annotations{key}", vec![json!("example.com/sweep-{n}")]),
            ("endpoint.gateway.sourceRanges[]", vec![json!("192.0.{n}.0/24"), json!("2001:db8::/32")]),
            ("endpoint.service.loadBalancerClass", vec![json!("example.com/fast")]),
            ("endpoint.service.loadBalancerSourceRanges[]", vec![json!("192.0.{n}.0/24"), json!("2001:db8::/32")]),
            ("registration.argoCD.labels{key}", vec![json!("example.com/sweep-{n}"), json!("berth.dev/sweep")]),
            ("registration.argoCD.labels{}", vec![json!("yes"), json!("-no")]),
            ("addons.coreDNS.zones[]", vec![json!({"name": "zone-{n}.example", "servers": ["192.0.2.53"]})]),
            ("addons.coreDNS.zones[].name", vec![json!("zone-{n}.example"), json!("svc.cluster.local")]),
            (
                "addons.coreDNS.zones[].servers[]",
                vec![json!("192.0.2.{n}"), json!("[2001:db8::{n}]:5353"), json!("127.0.0.1"), json!("::::")],
            ),
            ("vpc", vec![json!({"attachment": {"name": "vpc-{n}"}, "addresses": ["172.20.0.2/24"]})]),
            ("vpc.attachment.name", vec![json!("vpc-{n}")]),
            (
                "proxy.http*",
                vec![json!("http://proxy-{n}.example.com:3128"), json!("proxy:3128"), json!("http://a:b@proxy")],
            ),
            ("proxy.noProxy[]", vec![json!(".n{n}.example.com"), json!("10.{n}.0.0/16"), json!("*"), json!("a b")]),
            ("vpc.attachment.namespace", vec![json!("networks-{n}")]),
            ("vpc.attachment.interface", vec![json!("net2"), json!("eth0")]),
            ("vpc.addresses[]", vec![json!("172.20.0.{n}/24"), json!("172.20.0.0/24"), json!("fd00:{n}::1/64")]),
            ("vpc.host", vec![json!("acme.vpc.example.com")]),
            ("vpc.virtualIP", vec![json!("172.20.0.200"), json!("172.21.0.1"), json!("fd00::10")]),
            ("vpc.routes[]", vec![json!({"dst": "10.{n}.0.0/16", "via": "172.20.0.1"})]),
            ("vpc.routes[].dst", vec![json!("10.{n}.0.0/16"), json!("0.0.0.0/0"), json!("10.160.0.1/16")]),
            ("vpc.routes[].via", vec![json!("172.20.0.1"), json!("172.21.0.1")]),
            ("vpc.podAnnotations{key}", vec![json!("example.com/sweep-{n}"), json!("berth.dev/sweep")]),
            ("vpc.podLabels{key}", vec![json!("example.com/sweep-{n}"), json!("berth.dev/sweep")]),
            ("etcd.version", vec![json!("3.5.21"), json!("2.0.0")]),
            ("etcd.storage.size", sizes()),
            ("etcd.keepOldData", vec![json!("48h"), json!("0s"), json!("9000h")]),
            ("etcd.heartbeatInterval", vec![json!("150ms"), json!("201ms"), json!("0s"), json!("1h")]),
            ("etcd.electionTimeout", vec![json!("2s"), json!("499ms"), json!("50001ms"), json!("1h")]),
            ("etcd.storage.className", vec![json!("fast")]),
            ("*.extraArgs[]", vec![json!({"name": "sweep-{n}", "value": "1"})]),
            ("*.extraArgs[].name", vec![json!("v"), json!("kubeconfig"), json!("secure-port")]),
            (
                "apiServer.audit.policy",
                vec![json!({"rules": [{"level": "Metadata", "users": ["sweep-{n}"]}]}), json!({"rules": []})],
            ),
            ("apiServer.audit.webhook", vec![json!({"secretRef": {"name": "sink"}})]),
            ("apiServer.audit.webhook.secretRef.name", vec![json!("sink"), json!("another")]),
            ("apiServer.audit.webhook.initialBackoff", vec![json!("1s"), json!("30s"), json!("0s"), json!("31s")]),
            ("apiServer.audit.webhook.batch.maxWait", vec![json!("1s"), json!("5m"), json!("0s"), json!("6m")]),
            ("apiServer.serviceAccountIssuers[]", vec![json!("https://issuer-{n}.example.com")]),
            (
                "apiServer.admission.configuration[]",
                vec![json!({"name": "PodSecurity", "configuration": {
                    "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
                    "exemptions": {"usernames": ["sweep-{n}"]}}})],
            ),
            ("apiServer.admission.configuration[].name", vec![json!("ImagePolicyWebhook")]),
            ("apiServer.trustedCA", vec![json!(CERTIFICATE), json!("a PRIVATE KEY"), json!("")]),
            (
                "apiServer.authentication.jwt[]",
                vec![json!({"issuer": {"url": "https://idp-{n}.example.com", "audiences": ["berth"]},
                    "claimMappings": {"username": {"claim": "sub", "prefix": ""}}})],
            ),
        ]),
        Kind::Etcd => all.extend([
            ("version", vec![json!("3.6.15"), json!("3.5.21"), json!("2.0.0")]),
            ("storage.size", sizes()),
            ("keepOldData", vec![json!("48h"), json!("0s"), json!("9000h")]),
            ("heartbeatInterval", vec![json!("150ms"), json!("201ms"), json!("0s"), json!("1h")]),
            ("electionTimeout", vec![json!("2s"), json!("499ms"), json!("50001ms"), json!("1h")]),
            ("storage.className", vec![json!("fast")]),
            ("shrinkWindow.start", vec![json!("22:30"), json!("24:00"), json!("2:30")]),
            ("shrinkWindow.duration", vec![json!("30m"), json!("4h"), json!("29m"), json!("25h"), json!("")]),
            ("shrinkWindow.timeZone", vec![json!("Europe/Berlin"), json!("Mars/Base")]),
            ("clients[].name", vec![json!("client-{n}"), json!("ca")]),
            ("placement.tolerations[]", vec![json!({"key": "berth.dev/sweep-{n}", "effect": "NoExecute"})]),
        ]),
    }
    all
}

/// Volumes of etcd: as texts and numbers, too small and too large.
fn sizes() -> Vec<Value> {
    let large = json!("99999999999999999Ti");
    vec![json!("20Gi"), json!("21474836480"), json!(21_474_836_480_i64), json!("1Mi"), json!("0.5Gi"), large]
}

/// What has to be in the spec beside a value.
fn beside(kind: Kind) -> Vec<(&'static str, Value)> {
    match kind {
        Kind::Cluster => vec![
            ("endpoint.service.loadBalancer*", json!({"endpoint": {"type": "LoadBalancer"}})),
            ("endpoint.gateway*", json!({"endpoint": {"type": "Gateway"}})),
            ("endpoint.nodePort", json!({"endpoint": {"type": "NodePort", "host": "nodes.example.com"}})),
            ("endpoint.type", json!({"endpoint": {"host": "nodes.example.com"}})),
            ("proxy.noProxy*", json!({"proxy": {"https": "http://proxy.example.com:3128"}})),
            ("network.serviceCIDRs*", json!({"network": {"podCIDRs": ["10.160.0.0/16", "fd00:160::/56"]}})),
        ],
        Kind::Etcd => vec![],
    }
}

/// What a running one keeps: a walk leaves it alone.
const ONE_WAY: &[(Kind, &str)] = &[
    (Kind::Cluster, "apiServer.serviceAccountIssuers"),
    (Kind::Cluster, "apiServer.serviceAccountIssuers[]"),
    (Kind::Cluster, "etcd.version"),
    (Kind::Cluster, "etcd.replicas"),
    (Kind::Cluster, "etcd.storage.size"),
    (Kind::Etcd, "storage.size"),
    (Kind::Etcd, "version"),
    (Kind::Etcd, "replicas"),
];

/// Rows of the control plane's components, for what has none above.
static COMPONENTS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let row = |c: &&Component| (format!("{}*", c.field()), format!("Deployment.apps/{} /spec/", c.name()));
    components::ALL.iter().map(row).collect()
});

/// The rows of one kind.
pub(crate) struct Table {
    kind: Kind,
    samples: Vec<(&'static str, Vec<Value>)>,
    beside: Vec<(&'static str, Value)>,
}

impl Table {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, samples: samples(kind), beside: beside(kind) }
    }

    /// Where the effect of a field is seen.
    pub(crate) fn effect(&self, path: &str) -> Option<Effect> {
        let row = EFFECTS.iter().find(|(kind, pattern, _)| *kind == self.kind && fits(pattern, path));
        let component = COMPONENTS.iter().find(|(pattern, _)| self.kind == Kind::Cluster && fits(pattern, path));
        row.map(|(_, _, effect)| *effect).or_else(|| component.map(|(_, place)| At(place)))
    }

    /// Whether it cannot be changed, or not back.
    pub(crate) fn one_way(&self, path: &str) -> bool {
        ONE_WAY.contains(&(self.kind, path))
    }

    /// What has to be beside a value of this field, as a merge patch.
    pub(crate) fn beside(&self, path: &str) -> Option<&Value> {
        self.beside.iter().find(|(pattern, _)| fits(pattern, path)).map(|(_, value)| value)
    }
}

impl Samples for Table {
    fn of(&self, path: &str) -> Vec<Value> {
        self.samples.iter().find(|(pattern, _)| fits(pattern, path)).map(|(_, v)| v.clone()).unwrap_or_default()
    }
}

/// Whether a path is as the pattern says.
pub(super) fn fits(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((start, rest)) => {
            let Some(tail) = path.strip_prefix(start) else { return false };
            rest.is_empty() || (0..=tail.len()).any(|at| tail.is_char_boundary(at) && fits(rest, &tail[at..]))
        }
    }
}
