//! Which tenants somebody may use.

use berth_api::Cluster;
use berth_contract::access::ClusterName;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use moka::future::Cache;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::person::Person;
use crate::reviews::{Reviews, Unknown, Wish};

/// How long a list counts.
const COUNTS: Duration = Duration::from_secs(5);
const PAGE: u32 = 500;
/// Questions under way at once, for one caller.
const AT_ONCE: usize = 4;

type All = BTreeMap<String, Vec<String>>;

/// All there are.
pub(crate) struct Clusters {
    clusters: Api<Cluster>,
    known: Cache<(), Arc<All>>,
}

impl Clusters {
    pub(crate) fn new(client: Client) -> Self {
        let known = Cache::builder().max_capacity(1).time_to_live(COUNTS).build();
        Self { clusters: Api::all(client), known }
    }

    /// Those that this one may read something in.
    pub(crate) async fn of(&self, reviews: &Reviews, person: &Arc<Person>) -> Result<Vec<ClusterName>, Unknown> {
        let all = self.known.try_get_with((), self.list()).await.map_err(|unknown| *unknown)?;
        let wish = |namespace: Option<&str>, name: Option<&str>| Wish {
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            verb: "get".to_owned(),
        };
        // The fewest questions first: most people may use all, or all of their team's.
        let may_all = reviews.may(person, &wish(None, None)).await?;
        let in_one = async |(namespace, names): (&String, &Vec<String>)| {
            let may_all = may_all || reviews.may(person, &wish(Some(namespace), None)).await?;
            let mut mine = vec![];
            for name in names {
                if may_all || reviews.may(person, &wish(Some(namespace), Some(name))).await? {
                    mine.push(ClusterName { namespace: namespace.clone(), name: name.clone() });
                }
            }
            Ok::<_, Unknown>(mine)
        };
        let all: Vec<_> = stream::iter(all.iter()).map(in_one).buffered(AT_ONCE).try_collect().await?;
        Ok(all.concat())
    }

    async fn list(&self) -> Result<Arc<All>, Unknown> {
        let (mut all, mut params) = (All::new(), ListParams::default().limit(PAGE));
        loop {
            let page = self.clusters.list_metadata(&params).await.map_err(|error| {
                eprintln!("berth-access: cannot list Clusters: {error}");
                Unknown
            })?;
            for one in &page.items {
                all.entry(one.namespace().unwrap_or_default()).or_default().push(one.name_any());
            }
            match page.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(Arc::new(all)),
            }
        }
    }
}
