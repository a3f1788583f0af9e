//! Connections to a host that somebody else chose: each goes to an address that was looked at, whatever DNS says the next moment.

use berth_plan_cluster::HostRules;
use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{BoxError, Service};

/// The addresses of a name.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The system's resolver.
pub(super) fn system() -> Lookup {
    Arc::new(|host| {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
    })
}

/// Connects only to where the rules let a name lead.
pub(super) fn connector(rules: Option<HostRules>, lookup: Lookup) -> HttpConnector<Resolver> {
    let mut http = HttpConnector::new_with_resolver(Resolver { rules: rules.map(Arc::new), lookup });
    http.enforce_http(false);
    http
}

/// Gives the connector the addresses that it may use.
#[derive(Clone)]
pub(super) struct Resolver {
    rules: Option<Arc<HostRules>>,
    lookup: Lookup,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { rules, lookup } = self.clone();
        Box::pin(async move {
            let found = lookup(name.as_str().to_owned()).await?;
            if let Some(rules) = rules {
                check(&rules, name.as_str(), &found, &lookup).await?;
            }
            Ok(found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect::<Vec<_>>().into_iter())
        })
    }
}

/// One address that is not a tenant's refuses the host: which of several is dialled would be left to chance.
async fn check(rules: &HostRules, host: &str, found: &[IpAddr], lookup: &Lookup) -> Result<(), RefusedAddress> {
    let refusal = |ip: &IpAddr| rules.refusal(host, *ip);
    if found.iter().find_map(refusal).is_none() {
        return Ok(());
    }
    // A cloud may give its load balancers addresses of the network that its pods are in.
    let own = match rules.load_balancer() {
        Some(name) => lookup(name.to_owned()).await.unwrap_or_default(),
        None => vec![],
    };
    let refused = found.iter().filter(|ip| !own.contains(ip)).find_map(refusal);
    refused.map_or(Ok(()), |why| Err(RefusedAddress(why)))
}

/// The name leads to what is not a tenant's.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RefusedAddress(String);

impl RefusedAddress {
    /// Whether that is why a call failed.
    pub(crate) fn of(error: &kube::Error) -> Option<&Self> {
        let mut all = std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| (**cause).source());
        all.find_map(|cause| cause.downcast_ref())
    }
}
