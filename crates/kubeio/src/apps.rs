//! Reading what a plan for an `App` or an `AppInstallation` looks at.

use crate::backups::{denied, get, pods, teams_secret};
use crate::calls::{Io, collection};
use crate::error::{ErrorKind, IoError};
use crate::snapshot::Snapshot;
use berth_api::app::APP_SECRET;
use berth_api::conditions::ConditionType;
use berth_api::{App, AppInstallation, labels};
use berth_plan::MetaCluster;
use berth_plan::jobs::secret_beside;
use berth_plan::object_meta::{deleting, label};
use berth_plan_apps::values::{config_maps, secrets};
use berth_plan_apps::{Target, app};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Objects in one answer.
const PAGE: usize = 50;

/// Reads the `Cluster`s that an `App` may be for, by their labels, its installations, and ConfigMaps with its values. `operator`: the operator's
/// namespace.
pub async fn observe_app(io: &Io, object: &App, operator: &str, meta: &Arc<MetaCluster>) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let url = format!("{}?limit={PAGE}", collection(Kind::Cluster, app::scope(object, operator)));
    io.list_in_pages(Kind::Cluster, &url, |page| snapshot.put_all(Kind::Cluster, page.iter().map(identity))).await?;
    // Labels can be lost: the App is not gone while something of it is left in its own scope.
    let installations =
        io.list(Kind::AppInstallation, app::scope(object, operator), Some(&app::selector(object))).await?;
    snapshot.put_all(Kind::AppInstallation, installations);
    if object.metadata.deletion_timestamp.is_none() {
        for map in sources(object) {
            let live = io.get(&map).await?;
            snapshot.put_all(Kind::ConfigMap, live.map(|live| values_in(object, &map, &live)));
        }
        for secret in secrets_of(object) {
            teams_secret(io, &mut snapshot, &secret, APP_SECRET).await?;
        }
    }
    if object.spec.after.is_empty() {
        return Ok(snapshot);
    }
    // All of them: who comes after whom is seen along the whole way.
    snapshot.put_all(Kind::App, io.list(Kind::App, object.metadata.namespace.as_deref(), None).await?);
    for other in &object.spec.after {
        let selector = app::selector_of(object.metadata.namespace.as_deref().unwrap_or_default(), &other.name);
        let installations = io.list(Kind::AppInstallation, app::scope(object, operator), Some(&selector)).await?;
        snapshot.put_all(Kind::AppInstallation, installations);
    }
    Ok(snapshot)
}

/// The Secrets that its values are in, each once.
fn secrets_of(app: &App) -> BTreeSet<ObjectKey> {
    secrets::sources(&app.spec.release, &app.namespace().unwrap_or_default()).map(|(secret, _)| secret).collect()
}

/// The ConfigMaps that its values are in, each once.
fn sources(app: &App) -> BTreeSet<ObjectKey> {
    config_maps::sources(app).map(|(map, _)| map).collect()
}

/// All that an `App` looks at in a ConfigMap: the keys that it names, and nothing of one whose owner does not consent.
fn values_in(app: &App, map: &ObjectKey, live: &Value) -> Value {
    let [name, namespace, resource_version] =
        ["name", "namespace", "resourceVersion"].map(|field| live["metadata"][field].clone());
    let metadata = json!({
        "name": name, "namespace": namespace, "resourceVersion": resource_version,
        "labels": {labels::APP_VALUES: label(live, labels::APP_VALUES)},
    });
    let keys = config_maps::sources(app).filter(|(of, _)| of == map && config_maps::consents(live));
    let data: serde_json::Map<String, Value> =
        keys.filter_map(|(_, key)| Some((key.to_owned(), live["data"].get(key)?.clone()))).collect();
    json!({"metadata": metadata, "data": data})
}

/// ConfigMaps and Secrets with values of an `App`, of which no watch tells, and what they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesSeen(Vec<(ObjectKey, Option<String>)>);

impl ValuesSeen {
    /// As they were observed. None: it names none.
    pub fn of(app: &App, snapshot: &Snapshot) -> Option<Self> {
        let all = sources(app).into_iter().chain(secrets_of(app));
        let all: Vec<_> = all.map(|key| (key.clone(), seen(snapshot, &key))).collect();
        (!all.is_empty()).then_some(Self(all))
    }

    /// Whether they still are so.
    pub async fn is_unchanged(&self, io: &Io) -> bool {
        let mut now = Snapshot::default();
        for (key, before) in &self.0 {
            let read = match key.kind {
                Kind::Secret => teams_secret(io, &mut now, key, APP_SECRET).await,
                kind => io.get(key).await.map(|live| now.put_all(kind, live)),
            };
            if read.is_err() || now.observed.denied || seen(&now, key) != *before {
                return false;
            }
        }
        true
    }
}

/// Which one it was, or what was in the way of seeing that.
fn seen(snapshot: &Snapshot, key: &ObjectKey) -> Option<String> {
    let refused = || snapshot.observed.secrets.get(key).map(|facts| facts.refused.clone().unwrap_or_default());
    snapshot.observed.get(key).and_then(version_of).or_else(refused)
}

fn version_of(live: &Value) -> Option<String> {
    live["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

/// All that an `App` looks at in a `Cluster`: of a thousand of them little is held.
fn identity(cluster: &Value) -> Value {
    let of = |field: &str| cluster["metadata"][field].clone();
    let fields = ["name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), of(field))).filter(|(_, value)| !value.is_null()).collect();
    let conditions = cluster["status"]["conditions"].as_array();
    let all = conditions.map_or(&[][..], Vec::as_slice).iter();
    let told = all.filter(|c| c["type"] == ConditionType::Available.as_str() || app::says_namespace_ends(c));
    let told = told.map(|c| json!({"type": c["type"], "status": c["status"], "reason": c["reason"]}));
    json!({
        "metadata": metadata, "spec": {"paused": cluster["spec"]["paused"]}, "status": {"conditions": told.collect::<Vec<_>>(), "since": cluster["status"]["since"]},
    })
}

/// Reads the tenant that an installation is in, its `App`, its Job and the pods of that, and what the Job is made from.
pub async fn observe_installation(
    io: &Io,
    object: &AppInstallation,
    meta: &Arc<MetaCluster>,
    now: Timestamp,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let target = Target::from(object);
    let own = ObjectKey::namespaced(Kind::AppInstallation, object.namespace().unwrap_or_default(), object.name_any());
    // Who takes one that may not be read for one that is gone uninstalls what is in use.
    for key in [&target.cluster, &target.app] {
        let live = io.get(key).await?;
        snapshot.put_all(key.kind, live);
    }
    if object.metadata.deletion_timestamp.is_some() {
        let team = io.get(&ObjectKey::cluster(Kind::Namespace, own.namespace.clone().unwrap_or_default())).await?;
        snapshot.observed.team_namespace_ends = team.is_none_or(|team| deleting(&team));
    }
    let Some(namespace) = io.get(&target.namespace()).await? else { return Ok(snapshot) };
    let is_home = label(&namespace, labels::CLUSTER_NAMESPACE) == own.namespace.as_deref();
    snapshot.put(Kind::Namespace, namespace);
    if !is_home {
        return Ok(snapshot);
    }
    let keys = [target.job.clone(), secret_beside(&target.job), target.policy(), target.etcd(), target.ca()];
    get(io, &mut snapshot, keys.into()).await?;
    pods(io, &mut snapshot, &target.home, &own, now).await?;
    if object.metadata.deletion_timestamp.is_none() {
        for secret in object.spec.release.secrets() {
            teams_secret(io, &mut snapshot, &target.source(&secret.name), APP_SECRET).await?;
        }
    }
    Ok(snapshot)
}

/// Reads the installations of a tenant, and the Apps that it may be required to have, into what was observed of it. `operator`: the operator's
/// namespace. The chart with the kinds, or with the right to them, may come a moment later.
pub(crate) async fn observe_installations(
    io: &Io,
    namespace: &str,
    operator: &str,
    snapshot: &mut Snapshot,
) -> Result<(), IoError> {
    let apps_of = async |namespace: &str| match namespace {
        "" => Ok(vec![]),
        namespace => io.list(Kind::App, namespace, None).await,
    };
    let (installations, own, platforms) = futures::join!(
        io.list(Kind::AppInstallation, namespace, Some(labels::CLUSTER_NAME)),
        apps_of(namespace),
        apps_of(if operator == namespace { "" } else { operator })
    );
    for (kind, listed) in [(Kind::AppInstallation, installations), (Kind::App, own), (Kind::App, platforms)] {
        match listed {
            Ok(mut listed) => {
                // Of all others a `Cluster` says nothing.
                listed.retain(|live| kind != Kind::App || live["spec"]["required"] == true);
                snapshot.put_all(kind, listed);
            }
            Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::Forbidden) => {}
            Err(e) => denied(snapshot, e)?,
        }
    }
    Ok(())
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

    #[test]
    fn of_a_config_map_only_what_is_named_is_kept_and_nothing_without_consent() {
        let app: App = serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "namespace": "team-a"},
            "spec": {
                "clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"},
                "valuesFrom": [{"configMapRef": {"name": "web"}}, {"configMapRef": {"name": "web"}, "key": "more"}],
            },
        }))
        .unwrap();
        let live = |labels: Value| {
            let metadata = json!({"name": "web", "namespace": "team-a", "resourceVersion": "7", "labels": labels});
            json!({"metadata": metadata, "data": {"values.yaml": "a: 1", "more": "b: 1", "other": "c: 1"}})
        };
        let maps = sources(&app);
        assert_eq!(maps.len(), 1);
        let map = maps.first().unwrap();
        let kept = values_in(&app, map, &live(json!({labels::APP_VALUES: "true", "x": "y"})));
        assert_eq!(kept["data"], json!({"values.yaml": "a: 1", "more": "b: 1"}));
        assert_eq!(kept["metadata"]["labels"], json!({labels::APP_VALUES: "true"}));
        assert_eq!(version_of(&kept).as_deref(), Some("7"));
        assert_eq!(values_in(&app, map, &live(json!({labels::APP_VALUES: "false"})))["data"], json!({}));
    }

    /// What is observed of an installation, by an API server that answers this to a path that ends so, and of all else says that it is not there.
    async fn observed(deleted: bool, answers: &'static [(&'static str, u16)]) -> Result<Snapshot, IoError> {
        let service = tower::service_fn(move |request: Request<Body>| {
            let uri = request.uri().path().to_owned();
            let answer = answers.iter().find(|(end, _)| uri.ends_with(end));
            let code = answer.map_or(404, |(_, code)| *code);
            let refused = r#"apps.berth.dev "web" is forbidden: User "x" cannot get resource "apps" in API group "berth.dev" in the namespace "team-a""#;
            let body = match code {
                200 => json!({"metadata": {"name": uri.rsplit('/').next(), "uid": "u"}}),
                _ => json!({"kind": "Status", "status": "Failure", "code": code, "message": refused}),
            };
            async move {
                Ok::<_, Infallible>(
                    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
                )
            }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::open());
        let io = Io::new(client, Arc::default(), Duration::from_secs(9));
        let mut object: AppInstallation = serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation", "metadata": {"name": "acme-web", "namespace": "team-a"},
            "spec": {
                "app": {"namespace": "team-a", "name": "web", "uid": "u"}, "cluster": {"name": "acme", "uid": "u"},
                "release": {"chart": {"oci": "oci://reg/web", "version": "1.0.0"}}, "digest": "d",
            },
        }))
        .unwrap();
        if deleted {
            object.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap();
        }
        observe_installation(&io, &object, &Arc::default(), "2026-01-31T12:00:00Z".parse().unwrap()).await
    }

    #[tokio::test]
    async fn an_app_or_a_cluster_that_may_not_be_read_is_not_taken_for_gone() {
        assert!(observed(false, &[]).await.unwrap().observed.objects.is_empty());
        for deleted in [false, true] {
            for answers in
                [&[("/apps/web", 403)], &[("/apps/web", 401)], &[("/clusters/acme", 403)], &[("/clusters/acme", 401)]]
            {
                let error = observed(deleted, answers).await.expect_err("refused");
                assert_eq!(error.kind, ErrorKind::Forbidden, "{answers:?}");
            }
        }
    }

    #[tokio::test]
    async fn of_one_that_is_deleted_it_is_known_whether_its_namespace_is() {
        let there = observed(true, &[("/namespaces/team-a", 200)]).await.unwrap();
        assert!(!there.observed.team_namespace_ends);
        assert!(observed(true, &[]).await.unwrap().observed.team_namespace_ends);
        let refused = observed(true, &[("/namespaces/team-a", 403)]).await;
        assert!(refused.is_err_and(|e| e.kind == ErrorKind::Forbidden));
    }

    #[tokio::test]
    async fn a_secret_that_turns_into_another_or_that_may_not_be_read_is_news() {
        let app: App = serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "namespace": "team-a"},
            "spec": {
                "clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"},
                "valuesFrom": [{"secretRef": {"name": "words"}}],
            },
        }))
        .unwrap();
        let secret = |version: &str, type_: &str| {
            let metadata = json!({"name": "words", "namespace": "team-a", "uid": "u", "resourceVersion": version});
            (200, json!({"kind": "Secret", "metadata": metadata, "type": type_, "data": {"values.yaml": "YTogMQ=="}}))
        };
        let refused = |code: u16, message: &str| {
            (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
        };
        let answers = [
            refused(404, "secrets \"words\" not found"),
            refused(422, "secrets \"words\" is forbidden: ValidatingAdmissionPolicy 'mine' denied request: no"),
            secret("1", "Opaque"),
            secret("2", APP_SECRET),
            secret("3", APP_SECRET),
        ];
        let io = |(code, body): (u16, Value)| {
            let service = tower::service_fn(move |request: Request<Body>| {
                assert!(request.uri().query().is_some_and(|query| query.contains("dryRun=All")), "{}", request.uri());
                let body = Body::from(body.to_string().into_bytes());
                async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
            });
            Io::new(
                FencedClient::new(Client::new(service, "default"), Fence::open()),
                Arc::default(),
                Duration::from_secs(9),
            )
        };
        for (n, before) in answers.iter().enumerate() {
            let mut snapshot = Snapshot::default();
            for secret in secrets_of(&app) {
                teams_secret(&io(before.clone()), &mut snapshot, &secret, APP_SECRET).await.unwrap();
            }
            let seen = ValuesSeen::of(&app, &snapshot).expect("it names a Secret");
            for (m, now) in answers.iter().enumerate() {
                assert_eq!(seen.is_unchanged(&io(now.clone())).await, n == m, "{before:?}, then {now:?}");
            }
        }
        assert!(ValuesSeen(vec![]).is_unchanged(&io(refused(500, "away"))).await);
        let away = io(refused(500, "away"));
        assert!(!ValuesSeen::of(&app, &Snapshot::default()).unwrap().is_unchanged(&away).await, "nobody knows");
    }
}
