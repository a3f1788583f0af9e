//! Where backups are kept: a store of the platform, or a team's own, which a Secret beside the backup describes. What a team says is held
//! to what the platform team allows, and to its form: a Job dials it, from where etcd runs. For a stand-alone etcd it may be a volume beside it.

mod claim;

use berth_api::backup::{BackupRef, STORE_SECRET, Store, StoreRef, StoreSecret, keys};
use berth_api::conditions::Reason;
use berth_plan::model::State;
use berth_plan::observed::Observed;
use berth_plan::settings::{BackupStore, Backups, Settings, port};
use berth_plan::workload::{image_of, version_of};
use berth_render::{Binary, Kind, ObjectKey, UPSTREAM_REGISTRY, relocated};
use serde_json::Value;

/// What a [`StoreRef`] leads to: a store, and where its credentials are.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedStore {
    /// For messages.
    pub(crate) name: String,
    pub(crate) store: Store,
    /// What keys in it begin with, without slashes at its ends.
    pub(crate) prefix: String,
    /// None: it is a volume.
    pub(crate) secret: Option<ObjectKey>,
}

/// What has to be read to use a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreObject {
    /// A team's Secret, wherever it is: its type says whether Berth may read it.
    TeamSecret(ObjectKey),
    /// A Secret of the platform's, or, for a stand-alone etcd, the claim of a volume.
    Readable(ObjectKey),
}

/// `cluster`: what the backups in it are of, if that is a tenant. None: no store of that name is known.
pub(crate) fn object(
    store: &StoreRef,
    cluster: Option<&BackupRef>,
    namespace: &str,
    settings: &Settings,
) -> Option<StoreObject> {
    let key = match (&store.secret_ref, &store.claim_ref) {
        (Some(own), _) => {
            return Some(StoreObject::TeamSecret(ObjectKey::namespaced(Kind::Secret, namespace, &*own.name)));
        }
        (None, Some(own)) => cluster.is_none().then(|| claim::key(own, namespace))?,
        (None, None) => credentials(settings.backups.store(&store.name)?, &settings.backups),
    };
    Some(StoreObject::Readable(key))
}

fn credentials(store: &BackupStore, backups: &Backups) -> ObjectKey {
    ObjectKey::namespaced(Kind::Secret, &*backups.namespace, &*store.secret)
}

/// Where a store is named, and who uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreUser<'a> {
    /// What names it, for messages, such as `spec`.
    pub(crate) at: &'a str,
    /// Namespace of what names it.
    pub(crate) namespace: &'a str,
    /// What its backups are of, if that is a tenant.
    pub(crate) cluster: Option<&'a BackupRef>,
    /// Its Job runs in that namespace, beside a stand-alone `EtcdCluster`; else in that of a control plane, where no team reads Secrets.
    pub(crate) stands_alone: bool,
}

/// The image of a Job, for etcd's programs of the version that the members run. The Job has keys of a store, and reaches what no other pod of a
/// tenant does: so nothing in it is of a registry, or an image, that a team has chosen.
pub(crate) fn image(set: &Value, settings: &Settings) -> Option<String> {
    if let Some(version) = version_of(set) {
        return Some(berth_render::image(&settings.registry, Binary::Etcd, version));
    }
    let registry = if settings.registry.is_empty() { UPSTREAM_REGISTRY } else { &settings.registry };
    image_of(set).map(|runs| relocated(registry, runs))
}

/// The store that a spec names. Err: the same for all who name it.
pub(crate) fn resolve(
    store: &StoreRef,
    user: StoreUser<'_>,
    observed: &Observed,
    settings: &Settings,
) -> Result<ResolvedStore, State> {
    let StoreUser { at, namespace, stands_alone, .. } = user;
    let backups = &settings.backups;
    if backups.image.is_empty() && (backups.are_enabled() || store.claim_ref.is_some()) {
        return Err(problem("the operator was started without --backup-image: upgrade Berth's chart"));
    }
    if let Some(own) = &store.secret_ref {
        return teams(own, at, namespace, observed, backups);
    }
    if let Some(own) = &store.claim_ref {
        return claim::resolve(own, user, observed);
    }
    let asked = &store.name;
    let store = backups.store(asked).ok_or_else(|| {
        let known: Vec<&str> = backups.stores.iter().map(|s| s.name.as_str()).collect();
        let known =
            if known.is_empty() { "none is configured".to_owned() } else { format!("only {}", known.join(", ")) };
        problem(format!(
            "{at}.store: no store {asked}: {known}. The platform team adds it to the chart value backups.stores"
        ))
    })?;
    if !store.serves(stands_alone.then_some(namespace)) {
        return Err(State::blocked(
            Reason::NotAllowed,
            format!(
                "{at}.store: store {asked} is not for a stand-alone EtcdCluster in namespace {namespace}, where its credentials can be read. The platform team adds the namespace to namespaces of that store (chart value backups.stores); or use secretRef or claimRef instead"
            ),
        ));
    }
    Ok(ResolvedStore {
        name: format!("store {}", store.name),
        store: store.store.clone(),
        prefix: store.prefix.clone(),
        secret: Some(credentials(store, backups)),
    })
}

/// Whether a key is that of a backup of this namespace, whatever its store began with then: `…/<namespace>/<name>/<identity>/<file>`.
pub(crate) fn is_of_namespace(key: &str, namespace: &str) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    let is_plain = parts.iter().all(|part| !["", ".", ".."].contains(part));
    is_plain && parts.len().checked_sub(4).is_some_and(|at| parts[at] == namespace)
}

fn problem(message: impl Into<String>) -> State {
    State::blocked(Reason::StoreUnavailable, message)
}

/// What a team's Secret says. Nothing of it is repeated before it has the form of what it is to be: a key may be in the wrong place.
fn teams(
    own: &StoreSecret,
    at: &str,
    namespace: &str,
    observed: &Observed,
    backups: &Backups,
) -> Result<ResolvedStore, State> {
    let secret = ObjectKey::namespaced(Kind::Secret, namespace, &*own.name);
    if backups.endpoints.is_empty() {
        return Err(problem(format!(
            "{at}.secretRef: stores of teams are not allowed here. The platform team allows their endpoints (chart value writers.backups.endpoints); or set store, in place of secretRef, to one of the platform's"
        )));
    }
    let Some(facts) = observed.secrets.get(&secret) else {
        let on = format!("{secret} ({at}.secretRef), which does not exist");
        return Err(State::Waiting { reason: Reason::StoreUnavailable, on });
    };
    if let Some(why) = facts.refusal() {
        return Err(problem(format!("{at}.secretRef: {secret} {why}")));
    }
    if facts.type_ != STORE_SECRET {
        return Err(problem(format!(
            "{at}.secretRef: {secret} is not of type {STORE_SECRET}, so Berth does not read it. The type of a Secret cannot be changed: create another one with this type"
        )));
    }
    let said = &facts.store;
    let of = |key: &str| said.get(key).map(String::as_str).filter(|text| !text.is_empty());
    let lacks = |key: &str| problem(format!("{at}.secretRef: {secret} has no key {key}"));
    let wrong = |key: &str, what: &str| problem(format!("{at}.secretRef: key {key} of {secret} is {what}"));
    let endpoint = of(keys::ENDPOINT).ok_or_else(|| lacks(keys::ENDPOINT))?.trim_end_matches('/');
    if port(endpoint).is_none() || endpoint.len() > 300 {
        return Err(wrong(keys::ENDPOINT, "no URL such as https://s3.example.com:9000"));
    }
    if !backups.endpoints.iter().any(|allowed| allowed == endpoint) {
        return Err(State::blocked(
            Reason::NotAllowed,
            format!(
                "{at}.secretRef: {secret} has the endpoint {endpoint}, which is not allowed here. The platform team adds it to the chart value writers.backups.endpoints"
            ),
        ));
    }
    let bucket = of(keys::BUCKET).ok_or_else(|| lacks(keys::BUCKET))?;
    let form = |text: &str, more: &str, most: usize| {
        text.len() <= most && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    if !form(bucket, "-.", 63) {
        return Err(wrong(keys::BUCKET, "no name of a bucket"));
    }
    let region = of(keys::REGION).unwrap_or("us-east-1");
    if !form(region, "-", 63) {
        return Err(wrong(keys::REGION, "no region such as us-east-1"));
    }
    let prefix = of(keys::PREFIX).unwrap_or_default().trim_matches('/');
    if !form(prefix, "/_.-", 300) || (!prefix.is_empty() && prefix.split('/').any(|p| ["", ".", ".."].contains(&p))) {
        return Err(wrong(keys::PREFIX, "no prefix such as berth/prod"));
    }
    let path_style = match of(keys::PATH_STYLE) {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(wrong(keys::PATH_STYLE, "neither true nor false")),
    };
    let text = |key: &str| of(key).unwrap_or_default().to_owned();
    let store = Store {
        directory: String::new(),
        endpoint: endpoint.to_owned(),
        bucket: bucket.to_owned(),
        region: region.to_owned(),
        path_style,
        server_side_encryption: text(keys::SERVER_SIDE_ENCRYPTION),
        kms_key_id: text(keys::KMS_KEY_ID),
    };
    if let Some((key, what)) = store.encryption_problem() {
        return Err(wrong(key, what));
    }
    Ok(ResolvedStore { name: secret.to_string(), store, prefix: prefix.to_owned(), secret: Some(secret) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_plan::secrets::SecretFacts;
    use std::collections::BTreeMap;

    fn found(type_: &str, data: &[(&str, &str)]) -> Result<ResolvedStore, State> {
        let mut observed = Observed::default();
        let data: BTreeMap<String, Vec<u8>> =
            data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        let key = ObjectKey::namespaced(Kind::Secret, "team-a", "mine");
        observed.secrets.insert(key, SecretFacts::read(type_, &data).into());
        let mut settings = Settings::default();
        settings.backups.image = "backup:1".into();
        settings.backups.endpoints = vec!["https://s3.team:9000".into()];
        let store = StoreRef { secret_ref: Some(StoreSecret { name: "mine".into() }), ..StoreRef::default() };
        let user = StoreUser { at: "spec", namespace: "team-a", cluster: None, stands_alone: false };
        resolve(&store, user, &observed, &settings)
    }

    const SECRET: &str = "dontsay";

    #[test]
    fn a_teams_store_is_as_its_secret_says_within_what_is_allowed() {
        let endpoint = ("endpoint", "https://s3.team:9000/\n");
        let kept = found(STORE_SECRET, &[endpoint, ("bucket", "b"), ("prefix", "/x/y/")]).unwrap();
        assert_eq!(
            (&*kept.store.endpoint, &*kept.store.region, &*kept.prefix),
            ("https://s3.team:9000", "us-east-1", "x/y")
        );
        assert!(kept.store.path_style);
        let kms = [("serverSideEncryption", "aws:kms"), ("kmsKeyID", "arn:aws:kms:us-east-1:1:key/1a")];
        let kept_so = found(STORE_SECRET, &[&[endpoint, ("bucket", "b")][..], &kms].concat()).unwrap().store;
        assert_eq!((&*kept_so.server_side_encryption, &*kept_so.kms_key_id), (kms[0].1, kms[1].1));
        assert_eq!(kept.secret.and_then(|key| key.namespace).as_deref(), Some("team-a"));
        for (data, word) in [
            (vec![], "has no key endpoint"),
            (vec![("endpoint", "https://u:dontsay@s3.team:9000")], "key endpoint of"),
            (vec![("endpoint", SECRET)], "key endpoint of"),
            (vec![("endpoint", "https://169.254.169.254")], "not allowed here"),
            (vec![("endpoint", "http://s3.team:9000")], "not allowed here"),
            (vec![endpoint], "has no key bucket"),
            (vec![endpoint, ("bucket", "dontsay/../other")], "no name of a bucket"),
            (vec![endpoint, ("bucket", "b"), ("region", "dontsay\n\nx")], "no region"),
            (vec![endpoint, ("bucket", "b"), ("prefix", "../dontsay")], "no prefix"),
            (vec![endpoint, ("bucket", "b"), ("pathStyle", SECRET)], "neither true nor false"),
            (vec![endpoint, ("bucket", "b"), ("serverSideEncryption", SECRET)], "none of AES256, aws:kms"),
            (vec![endpoint, ("bucket", "b"), ("kmsKeyID", SECRET)], "goes with serverSideEncryption"),
            (
                vec![endpoint, ("bucket", "b"), ("serverSideEncryption", "aws:kms"), ("kmsKeyID", "dontsay?")],
                "no ID or ARN",
            ),
        ] {
            let said = format!("{:?}", found(STORE_SECRET, &data).unwrap_err());
            assert!(said.contains(word) && !said.contains(SECRET), "{word}: {said}");
        }
        for type_ in ["Opaque", "", "kubernetes.io/tls"] {
            let said = format!("{:?}", found(type_, &[endpoint, ("bucket", "b")]).unwrap_err());
            assert!(said.contains("is not of type berth.dev/object-store"), "{said}");
        }
    }

    #[test]
    fn a_key_tells_its_namespace() {
        for (key, wanted) in [
            ("team-a/acme/id/1.db", true),
            ("team-a/acme/id/20260102T030405Z-3414.db", true),
            ("team-a/acme/id/20260102T030405Z-3414-0a1b2c3d.db", true),
            ("prod/eu/team-a/acme/id/1.db", true),
            ("team-b/acme/id/1.db", false),
            ("team-a/team-b/acme/id/1.db", false),
            ("team-a/acme/../1.db", false),
            ("team-a/acme//1.db", false),
            ("acme/id/1.db", false),
            ("", false),
        ] {
            assert_eq!(is_of_namespace(key, "team-a"), wanted, "{key}");
        }
    }

    #[test]
    fn only_what_is_no_secret_is_among_the_facts() {
        let data = [("endpoint", "e"), ("accessKeyID", "dontsay"), ("secretAccessKey", "dontsay")];
        let data: BTreeMap<String, Vec<u8>> =
            data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        assert!(!format!("{:?}", SecretFacts::read(STORE_SECRET, &data)).contains(SECRET));
        assert!(SecretFacts::read("Opaque", &data).store.is_empty());
    }
}
