//! Reading what a plan looks at. Always from the API server, never from memory: any reconcile may be the first one.

use crate::apps::observe_installations;
use crate::audit::{AuditSecret, audit_secret};
use crate::backups::observe_schedules;
use crate::calls::Io;
use crate::error::{ErrorKind, IoError, permitted};
use crate::registration;
use crate::routes::read_routes;
use crate::snapshot::{Snapshot, take_data};
use berth_api::cluster::EndpointType;
use berth_api::gateway::ClusterName;
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_plan::digest::sha256;
use berth_plan::gateway_hosts;
use berth_plan::object_meta::{annotation, deleting, label, uid};
use berth_plan::observed::{AttachmentSeen, Published};
use berth_plan::{MetaCluster, Settings};
use berth_plan_cluster::{
    audit_secrets, copy_of_definition, is_ours, reads_service_account, revision_templates, sleep_backups,
    upgrade_templates,
};
use berth_plan_etcd::stranded;
use berth_render::{Catalog, Kind, ObjectKey, TemplateSet};
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lists of one object under way at once: a few objects whose calls hang shall not have all calls.
const LISTS: usize = 4;

/// Takes in everything of these kinds. Without the right to one of them nothing is taken in: half a view would look like
/// things that are lost.
async fn list_into(io: &Io, snapshot: &mut Snapshot, kinds: &[Kind], namespace: &str) -> Result<(), IoError> {
    let lists = stream::iter(kinds.to_vec()).map(|kind| async move {
        match io.list(kind, namespace, None).await {
            Err(e) if e.kind == ErrorKind::Forbidden => Ok(Err(e)),
            Err(e) => Err(e),
            Ok(items) => Ok(Ok((kind, items))),
        }
    });
    let lists: Vec<_> = lists.buffered(LISTS).try_collect().await?;
    match lists.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(lists) => {
            for (kind, items) in lists {
                snapshot.put_all(kind, items);
            }
        }
        Err(denied) => {
            snapshot.observed.denied = true;
            snapshot.denied = Some(denied);
        }
    }
    Ok(())
}

/// Whether its status tells of any.
fn has_revisions(cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    status.is_some_and(|s| !s.history.is_empty() || s.turn.is_some() || s.rollout.is_some())
}

const CLUSTER_KINDS: [Kind; 8] = [
    Kind::NetworkPolicy,
    Kind::PodDisruptionBudget,
    Kind::Secret,
    Kind::ConfigMap,
    Kind::Service,
    Kind::EtcdCluster,
    Kind::Deployment,
    Kind::Pod,
];

/// Reads a `Cluster`'s namespace, what is in it, the published kubeconfig, where it is registered, and, where backups are configured, the
/// schedules beside it.
pub async fn observe_cluster(
    io: &Io,
    cluster: &Cluster,
    settings: &Settings,
    meta: &Arc<MetaCluster>,
) -> Result<Snapshot, IoError> {
    let mut snapshot = observe_home(io, cluster, settings, meta).await?;
    registration::observe(io, cluster, settings, &mut snapshot).await;
    Ok(snapshot)
}

async fn observe_home(
    io: &Io,
    cluster: &Cluster,
    settings: &Settings,
    meta: &Arc<MetaCluster>,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let (namespace, name) = (&*cluster.namespace().unwrap_or_default(), &*cluster.name_any());
    if settings.backups.are_enabled() {
        observe_schedules(io, namespace, &mut snapshot).await?;
    }
    if settings.apps.are_enabled() {
        observe_installations(io, namespace, &settings.apps.namespace, &mut snapshot).await?;
    }
    let key = ObjectKey::cluster(Kind::Namespace, names::control_plane_namespace(namespace, name));
    let team = ObjectKey::cluster(Kind::Namespace, namespace);
    let (live, team, published, attachment, host_is_of) = futures::join!(
        io.get(&key),
        io.get(&team),
        published(io, namespace, name),
        attachment(io, cluster, namespace),
        host_is_of(io, cluster, namespace, name)
    );
    snapshot.observed.attachment = attachment?;
    snapshot.observed.host_is_of = host_is_of?;
    if let Some(team) = permitted(team)?.flatten() {
        snapshot.observed.team_namespace_ends = deleting(&team);
        snapshot.observed.team_uid = Some(uid(&team).to_owned());
    }
    match published {
        Ok(published) => snapshot.observed.published = published,
        // Admission is asked about a dry run, too: a webhook that fails there holds up nothing else.
        Err(e) if matches!(e.kind, ErrorKind::Forbidden | ErrorKind::Transient) => snapshot.unread = Some(e),
        Err(e) => return Err(e),
    }
    let live = live?;
    if live.as_ref().is_none_or(|live| !is_ours(live)) {
        read_audit_secrets(io, cluster, &key.name, &mut snapshot).await?;
    }
    let Some(live) = live else { return Ok(snapshot) };
    let (ours, terminating) = (is_ours(&live), deleting(&live));
    if let Some(selector) = sleep_backups(cluster, &live).filter(|_| ours) {
        let backups = permitted(io.list(Kind::EtcdBackup, namespace, Some(&selector)).await)?;
        snapshot.put_all(Kind::EtcdBackup, backups.unwrap_or_default());
    }
    snapshot.put(Kind::Namespace, live);
    if ours {
        observe_control_plane(io, cluster, &key.name, &mut snapshot).await?;
        let service = ObjectKey::namespaced(Kind::Service, &*key.name, names::APISERVER);
        let service = snapshot.observed.get(&service);
        let (seen, routes) = read_routes(io, cluster, settings, &key.name, service).await?;
        snapshot.observed.routes = seen;
        snapshot.put_all(Kind::TLSRoute, routes);
        read_audit_secrets(io, cluster, &key.name, &mut snapshot).await?;
        if reads_service_account(&settings.pull_secrets, &key, &snapshot.observed) {
            // Copies are made from these.
            for (key, type_, data) in io.pull_secrets.all() {
                snapshot.put_data(key, &type_, data);
            }
            let account = ObjectKey::namespaced(Kind::ServiceAccount, &*key.name, names::DEFAULT_SERVICE_ACCOUNT);
            let account = permitted(io.get(&account).await)?.flatten();
            snapshot.put_all(Kind::ServiceAccount, account);
        }
        if terminating {
            // The rights may go before the rest does. That is no failure.
            snapshot.denied = None;
        }
        read_templates(io, &key, &mut snapshot).await?;
    }
    Ok(snapshot)
}

/// Reads what is in a control-plane namespace.
async fn observe_control_plane(
    io: &Io,
    cluster: &Cluster,
    namespace: &str,
    snapshot: &mut Snapshot,
) -> Result<(), IoError> {
    // The rest may be read through this one, which the operator makes.
    let binding = ObjectKey::namespaced(Kind::RoleBinding, namespace, names::OPERATOR_ROLE_BINDING);
    // Volumes are etcd's; only at the end they are looked at from here.
    let end = cluster.metadata.deletion_timestamp.is_some().then_some(Kind::PersistentVolumeClaim);
    let slots = cluster.spec.vpc.is_some().then_some(Kind::StatefulSet);
    let kinds: Vec<Kind> = CLUSTER_KINDS.into_iter().chain(slots).chain(end).collect();
    let revisions = io.list(Kind::ClusterRevision, namespace, None);
    let (listed, binding, revisions) =
        futures::join!(list_into(io, snapshot, &kinds, namespace), io.get(&binding), revisions);
    listed?;
    match revisions {
        Ok(revisions) => {
            snapshot.observed.revisions_are_readable = true;
            snapshot.put_all(Kind::ClusterRevision, revisions);
        }
        Err(e) if !matches!(e.kind, ErrorKind::NotFound | ErrorKind::Forbidden) => return Err(e),
        // Windows, turns and the way back go by revisions: of a tenant that has some, nothing is known without them.
        Err(e) if has_revisions(cluster) => {
            snapshot.observed.denied = true;
            snapshot.denied.get_or_insert(e);
        }
        // The chart with the kind, or with the right to it, comes a moment later; without a record all else goes on.
        Err(_) => {}
    }
    if let Some(binding) = binding? {
        snapshot.put(Kind::RoleBinding, binding);
    }
    if let Some(vpc) = &cluster.spec.vpc {
        // The chart with the right to it comes a moment later; only tenants of this build have a copy.
        let copy = permitted(io.get(&copy_of_definition(vpc, namespace)).await)?.flatten();
        snapshot.put_all(Kind::NetworkAttachmentDefinition, copy);
    }
    Ok(())
}

/// Reads what audit webhooks of the spec, and of releases that count, are described by.
async fn read_audit_secrets(io: &Io, cluster: &Cluster, home: &str, snapshot: &mut Snapshot) -> Result<(), IoError> {
    for key in audit_secrets(cluster, &snapshot.observed, home) {
        match audit_secret(io, &key).await? {
            Some(AuditSecret::Whole(secret)) => snapshot.put(Kind::Secret, secret),
            Some(AuditSecret::Known(facts)) => {
                snapshot.observed.secrets.insert(key, (*facts).into());
            }
            None => {}
        }
    }
    Ok(())
}

/// Reads the templates that are pinned in a control-plane namespace.
async fn read_templates(io: &Io, namespace: &ObjectKey, snapshot: &mut Snapshot) -> Result<(), IoError> {
    let map = |digest: &str| ObjectKey::namespaced(Kind::ConfigMap, &*namespace.name, names::templates(digest));
    let pinned = snapshot.observed.get(namespace).and_then(|n| annotation(n, labels::TEMPLATES)).map(map);
    snapshot.observed.pinned = stored_templates(io, snapshot, pinned.as_ref()).await?;
    let next = snapshot.observed.get(namespace).and_then(upgrade_templates).map(|digest| map(&digest));
    snapshot.observed.pinned_next = stored_templates(io, snapshot, next.as_ref()).await?;
    for digest in revision_templates(&snapshot.observed, &namespace.name) {
        let known = [&snapshot.observed.pinned, &snapshot.observed.pinned_next];
        if !known.into_iter().flatten().any(|set| set.digest() == digest) {
            let before = stored_templates(io, snapshot, Some(&map(&digest))).await?;
            snapshot.observed.pinned_before.extend(before);
        }
    }
    Ok(())
}

/// Reads the network that `spec.vpc` names, if it has one.
async fn attachment(io: &Io, cluster: &Cluster, namespace: &str) -> Result<AttachmentSeen, IoError> {
    let Some(vpc) = &cluster.spec.vpc else { return Ok(AttachmentSeen::Unknown) };
    let namespace = vpc.attachment.namespace.as_deref().unwrap_or(namespace);
    let key = ObjectKey::namespaced(Kind::NetworkAttachmentDefinition, namespace, &vpc.attachment.name);
    Ok(match permitted(io.get(&key).await)? {
        Some(Some(definition)) => AttachmentSeen::Found(definition),
        Some(None) => AttachmentSeen::Missing,
        None => AttachmentSeen::Unknown,
    })
}

/// Reads who else has the name that it asks for at the platform's gateway.
async fn host_is_of(io: &Io, cluster: &Cluster, namespace: &str, name: &str) -> Result<Option<ClusterName>, IoError> {
    let asked = &cluster.spec.endpoint;
    let host = asked.host.as_ref().filter(|_| asked.type_ == EndpointType::Gateway);
    let Some(host) = host else { return Ok(None) };
    let selectors = gateway_hosts::selectors(host);
    let [asks, still_has] = selectors.each_ref().map(|selector| io.list(Kind::Service, None, Some(selector)));
    let (asks, still_has) = futures::join!(asks, still_has);
    let services = [permitted(asks)?, permitted(still_has)?].into_iter().flatten().flatten();
    let own = ClusterName { namespace: namespace.to_owned(), name: name.to_owned() };
    Ok(gateway_hosts::other(&services.collect::<Vec<_>>(), host, &own))
}

/// Reads the children of an `EtcdCluster`.
pub async fn observe_etcd(io: &Io, etcd: &EtcdCluster, meta: &Arc<MetaCluster>) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot { secrets: format!("{}-", etcd.name_any()), ..Snapshot::of(meta) };
    let namespace = &*etcd.namespace().unwrap_or_default();
    list_into(io, &mut snapshot, &berth_plan_etcd::OBSERVED, namespace).await?;
    if let Some(denied) = &snapshot.denied {
        // In a namespace that is being deleted the rights may go first. What is left goes with it, and nothing can be added.
        let terminating = etcd.metadata.deletion_timestamp.is_some()
            && io.get(&ObjectKey::cluster(Kind::Namespace, namespace)).await?.is_none_or(|n| deleting(&n));
        let denied = denied.clone();
        snapshot.denied = None;
        return if terminating { Ok(snapshot) } else { Err(denied) };
    }
    if let Some(class) = berth_plan_etcd::storage_class(etcd, &snapshot.observed) {
        // Without the right to it the plan says so; all else goes on.
        let found = permitted(io.get(&ObjectKey::cluster(Kind::StorageClass, class)).await)?.flatten();
        snapshot.put_all(Kind::StorageClass, found);
    }
    read_nodes(io, &mut snapshot, etcd).await?;
    let key = berth_plan_etcd::pinned_templates(etcd, &snapshot.observed);
    snapshot.observed.pinned = stored_templates(io, &snapshot, key.as_ref()).await?;
    let key = berth_plan_etcd::pinned_next_templates(etcd, &snapshot.observed);
    snapshot.observed.pinned_next = stored_templates(io, &snapshot, key.as_ref()).await?;
    Ok(snapshot)
}

/// Reads volumes of members whose pods find no node, and the nodes that these are on. Whoever may not read all of it knows nothing of it.
async fn read_nodes(io: &Io, snapshot: &mut Snapshot, etcd: &EtcdCluster) -> Result<(), IoError> {
    for name in stranded::volumes(etcd, &snapshot.observed) {
        let volume = permitted(io.get(&ObjectKey::cluster(Kind::PersistentVolume, name)).await)?.flatten();
        let with_host = volume.and_then(|volume| Some((stranded::host(&volume)?.to_owned(), volume)));
        let Some((host, volume)) = with_host else { continue };
        let Some(nodes) = permitted(nodes_of(io, &host).await)? else { continue };
        snapshot.put_all(Kind::Node, nodes);
        snapshot.put(Kind::PersistentVolume, volume);
    }
    Ok(())
}

/// Nodes of that name, or with it as their hostname.
async fn nodes_of(io: &Io, host: &str) -> Result<Vec<Value>, IoError> {
    let mut all = vec![];
    for selector in
        [format!("fieldSelector=metadata.name%3D{host}"), format!("labelSelector=kubernetes.io%2Fhostname%3D{host}")]
    {
        let mut found = io.raw(&format!("/api/v1/nodes?{selector}")).await?;
        if let Value::Array(items) = found["items"].take() {
            all.extend(items);
        }
    }
    Ok(all)
}

/// Reads a template set that is stored, if this build does not have it built in: lists come without it.
async fn stored_templates(
    io: &Io,
    snapshot: &Snapshot,
    wanted: Option<&ObjectKey>,
) -> Result<Option<TemplateSet>, IoError> {
    let Some(key) = wanted.filter(|k| !builtin(&k.name)) else { return Ok(None) };
    if snapshot.observed.get(key).is_none_or(|o| o["immutable"] != true) {
        return Ok(None);
    }
    let data = io.get(key).await?.and_then(|mut map| map.as_object_mut()?.remove("data"));
    Ok(data.and_then(|d| serde_json::from_value(d).ok()).and_then(|d| TemplateSet::from_data(d).ok()))
}

/// True if the ConfigMap of that name holds a template set that this build has.
fn builtin(name: &str) -> bool {
    let catalog = Catalog::builtin();
    let kubernetes = catalog.minors().into_iter().filter_map(|m| catalog.kubernetes(m));
    let etcd = catalog.etcd_minors().into_iter().filter_map(|m| catalog.etcd(m));
    kubernetes.chain(etcd).any(|s| name.ends_with(&names::templates(&s.digest())))
}

/// Looks at the published kubeconfig without the right to read Secrets: an empty patch, as a dry run, changes nothing and
/// answers with the object. The chart's admission policy refuses it for Secrets that are not Berth's.
async fn published(io: &Io, namespace: &str, name: &str) -> Result<Published, IoError> {
    let key = ObjectKey::namespaced(Kind::Secret, namespace, names::kubeconfig(name));
    let answer = io.merge(&key, "", "dryRun=All", &json!({})).await;
    let secret = match answer {
        Ok(secret) => secret,
        Err(e) if e.kind == ErrorKind::NotFound => return Ok(Published::Absent),
        Err(e) if e.kind == ErrorKind::Rejected => return Ok(Published::Foreign(e.message)),
        Err(e) => return Err(e),
    };
    if label(&secret, labels::CLUSTER_NAME) != Some(name) || secret["type"] != labels::CAPI_SECRET_TYPE {
        return Ok(Published::Foreign("it does not have Berth's labels".into()));
    }
    let labels =
        secret.pointer("/metadata/labels").cloned().and_then(|l| serde_json::from_value(l).ok()).unwrap_or_default();
    Ok(ours(secret, labels))
}

/// That a Secret with these labels is published.
pub(crate) fn ours(mut secret: Value, labels: BTreeMap<String, String>) -> Published {
    let value_sha256 = take_data(&mut secret).get("value").map(|value| sha256(value)).unwrap_or_default();
    Published::Ours { uid: uid(&secret).to_owned(), value_sha256, labels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// A namespace with these Secrets, and nothing else.
    fn io(secrets: Value) -> Io {
        let service = tower::service_fn(move |request: Request<Body>| {
            let items = if request.uri().path().ends_with("/secrets") { secrets.clone() } else { json!([]) };
            let list = Body::from(json!({"items": items}).to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::new(list)) }
        });
        Io::new(
            FencedClient::new(Client::new(service, "default"), Fence::closed()),
            Arc::default(),
            Duration::from_mins(1),
        )
    }

    #[tokio::test]
    async fn beside_an_etcd_only_secrets_that_may_be_ours_are_looked_into() {
        let secret = |name: &str, labels: Value| json!({"metadata": {"name": name, "namespace": "n", "labels": labels}, "data": {"value": "YQ=="}});
        let secrets = json!([
            secret("nobodys", json!({})),
            secret("helms", json!({labels::MANAGED_BY: "Helm"})),
            secret("berths", json!({labels::MANAGED_BY: labels::MANAGED_BY_VALUE})),
            secret("another-etcds", json!({labels::ETCD_CLUSTER: "another"})),
            secret("e-server", json!({})),
        ]);
        let etcd = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "e", "namespace": "n"},
            "spec": {"version": "3.6.16"},
        });
        let snapshot =
            observe_etcd(&io(secrets), &serde_json::from_value(etcd).unwrap(), &Arc::default()).await.unwrap();
        let all: Vec<_> = snapshot.observed.of_kind(Kind::Secret, "n").map(|(key, _)| key).collect();
        assert_eq!(all.len(), 5, "each is seen");
        assert!(all.iter().all(|key| snapshot.observed.get(key).unwrap()["data"].is_null()));
        let known = |key: &&&ObjectKey| snapshot.observed.secrets.contains_key(**key);
        let known: Vec<_> = all.iter().filter(known).map(|key| &*key.name).collect();
        assert_eq!(known, ["another-etcds", "berths", "e-server"]);
        let read: Vec<_> = snapshot.raw.keys().map(|key| &*key.name).collect();
        assert_eq!(read, known);
    }

    #[tokio::test]
    async fn the_service_account_is_read_where_pull_secrets_are_or_are_to_be() {
        let cluster = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme", "namespace": "team-a"},
            "spec": {"version": "1.36.3"},
        });
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let home = names::control_plane_namespace("team-a", "acme");
        let ours = json!({labels::MANAGED_BY: labels::MANAGED_BY_VALUE});
        let mut copy = ours.clone();
        copy[labels::PULL_SECRET] = "reg".into();
        for (secret, wanted, asked) in [(&ours, None, 0), (&copy, None, 1), (&ours, Some("reg"), 1)] {
            let (counted, home) = (Arc::new(AtomicUsize::new(0)), home.clone());
            let (seen, labels) = (counted.clone(), ours.clone());
            let secret = json!({"metadata": {"name": "reg", "namespace": home, "labels": secret}});
            let service = tower::service_fn(move |request: Request<Body>| {
                let path = request.uri().path();
                let answer = if path.ends_with(&format!("/namespaces/{home}")) {
                    json!({"metadata": {"name": home, "labels": labels}})
                } else if path.ends_with("/serviceaccounts/default") {
                    seen.fetch_add(1, Ordering::Relaxed);
                    json!({"metadata": {"name": "default", "namespace": home}})
                } else if path.ends_with("/secrets") {
                    json!({"items": [secret]})
                } else {
                    json!({"items": []})
                };
                async move { Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes()))) }
            });
            let client = FencedClient::new(Client::new(service, "default"), Fence::open());
            let io = Io::new(client, Arc::default(), Duration::from_secs(5));
            let settings =
                Settings { pull_secrets: wanted.map(str::to_owned).into_iter().collect(), ..Settings::default() };
            observe_cluster(&io, &cluster, &settings, &Arc::default()).await.unwrap();
            assert_eq!(counted.load(Ordering::Relaxed), asked, "{wanted:?}");
        }
    }
}
