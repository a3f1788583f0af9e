//! What the meta cluster's API server says of a token, and of what its owner may do. Each answer counts for a short while.

use berth_contract::access::ClusterName;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use moka::Expiry;
use moka::future::Cache;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::person::Person;

/// How long a yes, and a no, counts.
const YES: Duration = Duration::from_secs(10);
const NO: Duration = Duration::from_secs(5);
/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(8);
/// Reviews of each kind that are under way at once: strangers must not keep the API server busy, nor others waiting.
const AT_ONCE: usize = 64;
/// Answers that are kept, of each kind.
const KEPT: u64 = 100_000;

/// Nothing is known: the API server did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

/// What somebody wants to do. Without a name: with all tenants of the namespace; without a namespace: with all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) verb: String,
}

impl Wish {
    pub(crate) fn of(cluster: &ClusterName, verb: &str) -> Self {
        let ClusterName { namespace, name } = cluster.clone();
        Self { namespace: Some(namespace), name: Some(name), verb: verb.to_owned() }
    }
}

/// Asks, and remembers for a while.
pub(crate) struct Reviews {
    client: Client,
    people: Cache<[u8; 32], Option<Arc<Person>>>,
    allowed: Cache<(Arc<Person>, Wish), bool>,
    /// Of tokens, and of what somebody may do.
    under_way: [Semaphore; 2],
    failed: AtomicU64,
}

/// A yes longer than a no.
struct Counts;

impl<K> Expiry<K, bool> for Counts {
    fn expire_after_create(&self, _: &K, is_allowed: &bool, _: Instant) -> Option<Duration> {
        Some(if *is_allowed { YES } else { NO })
    }
}

impl<K> Expiry<K, Option<Arc<Person>>> for Counts {
    fn expire_after_create(&self, _: &K, person: &Option<Arc<Person>>, _: Instant) -> Option<Duration> {
        Some(if person.is_some() { YES } else { NO })
    }
}

impl Reviews {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            people: Cache::builder().max_capacity(KEPT).expire_after(Counts).build(),
            allowed: Cache::builder().max_capacity(KEPT).expire_after(Counts).build(),
            under_way: [Semaphore::new(AT_ONCE), Semaphore::new(AT_ONCE)],
            failed: AtomicU64::default(),
        }
    }

    /// Whose token that is. None: nobody's.
    pub(crate) async fn who(&self, token: &str) -> Result<Option<Arc<Person>>, Unknown> {
        self.people.try_get_with(key(token), self.ask_who(token)).await.map_err(|unknown| *unknown)
    }

    /// Whose that token was a moment ago. Nobody is asked.
    pub(crate) async fn known(&self, token: &str) -> Option<Arc<Person>> {
        self.people.get(&key(token)).await.flatten()
    }

    /// Whether they may.
    pub(crate) async fn may(&self, person: &Arc<Person>, wish: &Wish) -> Result<bool, Unknown> {
        let key = (person.clone(), wish.clone());
        self.allowed.try_get_with(key, self.ask_may(person, wish)).await.map_err(|unknown| *unknown)
    }

    /// Reviews that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    async fn ask_who(&self, token: &str) -> Result<Option<Arc<Person>>, Unknown> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = self.create(&review, &self.under_way[0], "the token of a caller (TokenReview)").await?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        Ok(user.map(|user| {
            Arc::new(Person {
                name: user.username.unwrap_or_default(),
                uid: user.uid,
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            })
        }))
    }

    async fn ask_may(&self, person: &Person, wish: &Wish) -> Result<bool, Unknown> {
        let attributes = ResourceAttributes {
            group: Some(berth_api::GROUP.to_owned()),
            resource: Some("clusters".to_owned()),
            subresource: Some("api".to_owned()),
            namespace: wish.namespace.clone(),
            name: wish.name.clone(),
            verb: Some(wish.verb.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(person.name.clone()),
            uid: person.uid.clone(),
            groups: Some(person.groups.clone()),
            extra: Some(person.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let status = self
            .create(&review, &self.under_way[1], "what a caller may do (SubjectAccessReview)")
            .await?
            .status
            .unwrap_or_default();
        Ok(status.allowed && status.denied != Some(true))
    }

    async fn create<K>(&self, review: &K, under_way: &Semaphore, what: &str) -> Result<K, Unknown>
    where
        K: kube::Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
    {
        let ask = async {
            let Ok(_permit) = under_way.acquire().await else { return Err("this program ends".to_owned()) };
            Api::all(self.client.clone())
                .create(&PostParams::default(), review)
                .await
                .map_err(|error| error.to_string())
        };
        let asked = timeout(DEADLINE, ask).await.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        asked.map_err(|error| {
            // A few lines say it; each caller's would be too many.
            if self.failed.fetch_add(1, Relaxed).is_multiple_of(100) {
                eprintln!("berth-access: cannot ask the API server of the meta cluster for {what}: {error}");
            }
            Unknown
        })
    }
}

/// By what a token is remembered: itself it is kept nowhere.
fn key(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}
