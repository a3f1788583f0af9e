//! Reading what a plan looks at. Always from the API server, never from memory: any reconcile may be the first one.

use crate::backups::observe_schedules;
use crate::calls::{Io, name_kind};
use crate::error::{ErrorKind, IoError};
use crate::facts;
use base64::Engine;
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_plan::observed::{AttachmentSeen, Published, annotation, deleting, label, sha256, uid};
use berth_plan::{MetaCluster, Observed, Settings};
use berth_plan_cluster::{copy_of_definition, is_ours, revision_templates, upgrade_templates};
use berth_plan_etcd::stranded;
use berth_render::{Catalog, Kind, ObjectKey, TemplateSet};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What was observed, with the bytes of Secrets beside it.
#[derive(Default)]
pub struct Snapshot {
    /// What plans see.
    pub observed: Observed,
    /// Data of Secrets. Never printed.
    pub(crate) raw: BTreeMap<ObjectKey, BTreeMap<String, Vec<u8>>>,
    /// What names of Secrets begin with. In a namespace that is full of other people's, those are not looked into.
    secrets: String,
    /// What is in the namespace could not be read: the operator's rights there are not there (yet).
    pub denied: Option<IoError>,
    /// What else could not be read, and holds up nothing but its own stage.
    pub unread: Option<IoError>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("objects", &self.observed.objects.len()).finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn of(meta: &Arc<MetaCluster>) -> Self {
        let observed = Observed { meta: meta.clone(), ..Observed::default() };
        Self { observed, ..Self::default() }
    }

    /// Takes in an object as the API server answered it. A Secret's data turns into facts.
    pub(crate) fn put(&mut self, kind: Kind, mut object: Value) {
        let key = ObjectKey::of(kind, &object);
        name_kind(&mut object, kind);
        // Without any, nobody's fields are known. In a simulation it is left out.
        if matches!(kind, Kind::Deployment | Kind::StatefulSet) && object["metadata"]["managedFields"].is_null() {
            object["metadata"]["managedFields"] = json!([]);
        }
        if kind == Kind::Secret && !(key.name.starts_with(&self.secrets) || labelled(&object)) {
            object.as_object_mut().and_then(|o| o.remove("data"));
        } else if kind == Kind::Secret {
            let data = take_data(&mut object);
            let type_ = object["type"].as_str().unwrap_or_default().to_owned();
            self.observed.secrets.insert(key.clone(), facts::of(&type_, &data));
            self.raw.insert(key.clone(), data);
        }
        self.observed.put(key, object);
    }

    /// The binding that gives the operator its rights in the namespace was made a moment ago: API servers take one up with a
    /// delay.
    pub fn rights_are_recent(&self, now: Timestamp) -> bool {
        const DELAY: SignedDuration = SignedDuration::from_secs(10);
        let ours = |key: &ObjectKey| key.kind == Kind::RoleBinding && key.name == names::OPERATOR_ROLE_BINDING;
        let binding = self.observed.objects.iter().find(|(key, _)| ours(key)).map(|(_, binding)| binding);
        let made = binding.and_then(|b| b.pointer("/metadata/creationTimestamp")?.as_str()?.parse().ok());
        made.is_some_and(|made: Timestamp| now.duration_since(made).abs() < DELAY)
    }

    /// The [`fingerprint`] of what was read.
    pub fn fingerprint(&self, namespace: &str) -> u64 {
        let text = |o: &Value, p: &str| o.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
        let version =
            |o: &Value| ["name", "uid", "resourceVersion"].map(|field| text(o, &format!("/metadata/{field}")));
        let all = UNWATCHED.iter().flat_map(|kind| self.observed.of_kind(*kind, namespace));
        hash(all.map(|(_, object)| version(object)).collect())
    }

    /// Bytes of one key of a Secret.
    pub fn secret(&self, key: &ObjectKey, name: &str) -> Option<&[u8]> {
        self.raw.get(key)?.get(name).map(Vec::as_slice)
    }
}

/// Kinds that no watch tells of: Berth may read them only in namespaces that it made or was given.
const UNWATCHED: [Kind; 2] = [Kind::Secret, Kind::ConfigMap];

/// What of a namespace no watch tells, as one number: as long as that is the same, nothing of it was changed.
pub async fn fingerprint(io: &Io, namespace: &str) -> Result<u64, IoError> {
    let [secrets, maps] = UNWATCHED.map(|kind| io.versions(kind, namespace));
    let (secrets, maps) = futures::try_join!(secrets, maps)?;
    Ok(hash([secrets, maps].concat()))
}

fn hash(mut versions: Vec<[String; 3]>) -> u64 {
    versions.sort_unstable();
    let mut state = DefaultHasher::new();
    versions.hash(&mut state);
    state.finish()
}

/// Whether it carries what Berth's Secrets do.
fn labelled(object: &Value) -> bool {
    label(object, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE) || label(object, labels::ETCD_CLUSTER).is_some()
}

/// Removes and decodes `data`.
pub(crate) fn take_data(secret: &mut Value) -> BTreeMap<String, Vec<u8>> {
    let data = secret.as_object_mut().and_then(|o| o.remove("data"));
    let Some(Value::Object(data)) = data else { return BTreeMap::new() };
    data.into_iter()
        .filter_map(|(k, v)| Some((k, base64::engine::general_purpose::STANDARD.decode(v.as_str()?).ok()?)))
        .collect()
}

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
                for item in items {
                    snapshot.put(kind, item);
                }
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

/// Reads a `Cluster`'s namespace, what is in it, the published kubeconfig, and, where backups are configured, the schedules beside it.
pub async fn observe_cluster(
    io: &Io,
    cluster: &Cluster,
    settings: &Settings,
    meta: &Arc<MetaCluster>,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    if settings.backups.are_enabled() {
        observe_schedules(io, namespace, &mut snapshot).await?;
    }
    let cp_namespace = names::control_plane_namespace(namespace, name);
    let key = ObjectKey::cluster(Kind::Namespace, cp_namespace.clone());
    let team = ObjectKey::cluster(Kind::Namespace, namespace);
    let (live, team, published, attachment) =
        futures::join!(io.get(&key), io.get(&team), published(io, namespace, name), attachment(io, cluster, namespace));
    snapshot.observed.attachment = attachment?;
    match team {
        Ok(Some(team)) => {
            snapshot.observed.team_namespace_ends = deleting(&team);
            snapshot.observed.team_uid = Some(uid(&team).to_owned());
        }
        Ok(None) => {}
        // The operator may always; who looks with a right for less is told less.
        Err(e) if e.kind == ErrorKind::Forbidden => {}
        Err(e) => return Err(e),
    }
    match published {
        Ok(published) => snapshot.observed.published = published,
        // Admission is asked about a dry run, too: a webhook that fails there holds up nothing else.
        Err(e) if matches!(e.kind, ErrorKind::Forbidden | ErrorKind::Transient) => snapshot.unread = Some(e),
        Err(e) => return Err(e),
    }
    let Some(live) = live? else { return Ok(snapshot) };
    let ours = is_ours(&live);
    let terminating = deleting(&live);
    snapshot.put(Kind::Namespace, live);
    if ours {
        // The rest may be read through this one, which the operator makes.
        let binding = ObjectKey::namespaced(Kind::RoleBinding, cp_namespace.clone(), names::OPERATOR_ROLE_BINDING);
        // Volumes are etcd's; only at the end they are looked at from here.
        let end = cluster.metadata.deletion_timestamp.is_some().then_some(Kind::PersistentVolumeClaim);
        let slots = cluster.spec.vpc.is_some().then_some(Kind::StatefulSet);
        let kinds: Vec<Kind> = CLUSTER_KINDS.into_iter().chain(slots).chain(end).collect();
        let revisions = io.list(Kind::ClusterRevision, &cp_namespace, None);
        let (listed, binding, revisions) =
            futures::join!(list_into(io, &mut snapshot, &kinds, &cp_namespace), io.get(&binding), revisions);
        listed?;
        match revisions {
            Ok(revisions) => {
                snapshot.observed.revisions_are_readable = true;
                for revision in revisions {
                    snapshot.put(Kind::ClusterRevision, revision);
                }
            }
            // Windows, turns and the way back go by revisions: of a tenant that has some, nothing is known without them.
            Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::Forbidden) && has_revisions(cluster) => {
                snapshot.observed.denied = true;
                snapshot.denied.get_or_insert(e);
            }
            // The chart with the kind, or with the right to it, comes a moment later; without a record all else goes on.
            Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::Forbidden) => {}
            Err(e) => return Err(e),
        }
        if let Some(binding) = binding? {
            snapshot.put(Kind::RoleBinding, binding);
        }
        if let Some(vpc) = &cluster.spec.vpc {
            match io.get(&copy_of_definition(vpc, &cp_namespace)).await {
                Ok(copy) => copy.into_iter().for_each(|copy| snapshot.put(Kind::NetworkAttachmentDefinition, copy)),
                // The chart with the right to it comes a moment later; only tenants of this build have a copy.
                Err(e) if e.kind == ErrorKind::Forbidden => {}
                Err(e) => return Err(e),
            }
        }
        if terminating {
            // The rights may go before the rest does. That is no failure.
            snapshot.denied = None;
        }
        let digest = snapshot.observed.get(&key).and_then(|n| annotation(n, labels::TEMPLATES));
        let map = digest.map(|d| ObjectKey::namespaced(Kind::ConfigMap, cp_namespace.clone(), names::templates(d)));
        snapshot.observed.pinned = stored_templates(io, &snapshot, map.as_ref()).await?;
        let next = snapshot.observed.get(&key).and_then(upgrade_templates);
        let map = next.map(|d| ObjectKey::namespaced(Kind::ConfigMap, cp_namespace.clone(), names::templates(&d)));
        snapshot.observed.pinned_next = stored_templates(io, &snapshot, map.as_ref()).await?;
        for digest in revision_templates(&snapshot.observed, &cp_namespace) {
            let known = |set: &Option<TemplateSet>| set.as_ref().is_some_and(|set| set.digest() == digest);
            if [&snapshot.observed.pinned, &snapshot.observed.pinned_next].into_iter().any(known) {
                continue;
            }
            let map = ObjectKey::namespaced(Kind::ConfigMap, cp_namespace.clone(), names::templates(&digest));
            snapshot.observed.pinned_before.extend(stored_templates(io, &snapshot, Some(&map)).await?);
        }
    }
    Ok(snapshot)
}

/// Reads the network that `spec.vpc` names, if it has one.
async fn attachment(io: &Io, cluster: &Cluster, namespace: &str) -> Result<AttachmentSeen, IoError> {
    let Some(vpc) = &cluster.spec.vpc else { return Ok(AttachmentSeen::Unknown) };
    let namespace = vpc.attachment.namespace.as_deref().unwrap_or(namespace);
    match io.get(&ObjectKey::namespaced(Kind::NetworkAttachmentDefinition, namespace, &vpc.attachment.name)).await {
        Ok(Some(definition)) => Ok(AttachmentSeen::Found(definition)),
        Ok(None) => Ok(AttachmentSeen::Missing),
        // The operator may always; who looks with a right for less is told less.
        Err(e) if e.kind == ErrorKind::Forbidden => Ok(AttachmentSeen::Unknown),
        Err(e) => Err(e),
    }
}

/// Reads the children of an `EtcdCluster`.
pub async fn observe_etcd(io: &Io, etcd: &EtcdCluster, meta: &Arc<MetaCluster>) -> Result<Snapshot, IoError> {
    let name = etcd.metadata.name.as_deref().unwrap_or_default();
    let mut snapshot = Snapshot { secrets: format!("{name}-"), ..Snapshot::of(meta) };
    let namespace = etcd.metadata.namespace.as_deref().unwrap_or_default();
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
        match io.get(&ObjectKey::cluster(Kind::StorageClass, class)).await {
            Ok(found) => found.into_iter().for_each(|class| snapshot.put(Kind::StorageClass, class)),
            // The plan says so; all else goes on.
            Err(e) if e.kind == ErrorKind::Forbidden => {}
            Err(e) => return Err(e),
        }
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
    let is_trouble = |e: &IoError| e.kind != ErrorKind::Forbidden;
    for name in stranded::volumes(etcd, &snapshot.observed) {
        let volume = match io.get(&ObjectKey::cluster(Kind::PersistentVolume, name)).await {
            Err(e) if is_trouble(&e) => return Err(e),
            found => found.ok().flatten(),
        };
        let Some((volume, host)) =
            volume.and_then(|v| stranded::host(&v).map(str::to_owned).map(|host| (v.clone(), host)))
        else {
            continue;
        };
        let nodes = match nodes_of(io, &host).await {
            Err(e) if is_trouble(&e) => return Err(e),
            Err(_) => continue,
            Ok(nodes) => nodes,
        };
        for node in nodes {
            snapshot.put(Kind::Node, node);
        }
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
    let mut secret = match answer {
        Ok(secret) => secret,
        Err(e) if e.kind == ErrorKind::NotFound => return Ok(Published::Absent),
        Err(e) if e.kind == ErrorKind::Rejected => return Ok(Published::Foreign(e.message)),
        Err(e) => return Err(e),
    };
    let data = take_data(&mut secret);
    if label(&secret, labels::CLUSTER_NAME) != Some(name) || secret["type"] != labels::CAPI_SECRET_TYPE {
        return Ok(Published::Foreign("it does not have Berth's labels".into()));
    }
    let labels =
        secret.pointer("/metadata/labels").cloned().and_then(|l| serde_json::from_value(l).ok()).unwrap_or_default();
    Ok(Published::Ours {
        uid: uid(&secret).to_owned(),
        value_sha256: data.get("value").map(|v| sha256(v)).unwrap_or_default(),
        labels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use std::convert::Infallible;
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
}
