//! The API of the meta cluster.

use anyhow::{Context as _, Result};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use std::time::Duration;
use tower::{BoxError, ServiceBuilder};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Longer than the client library lets API servers hold a watch on which nothing happens.
const READ_WITHIN: Duration = Duration::from_secs(295);
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// By the pod's ServiceAccount, or by `KUBECONFIG`. No call is made.
///
/// # Errors
/// If there is neither, or one of them cannot be read.
pub async fn client() -> Result<Client> {
    let config = Config::infer().await.context("no access to a meta cluster; set KUBECONFIG")?;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    // A watch has nothing to say for minutes; that its API server's node is gone shows within half of one.
    http.set_keepalive(Some(Duration::from_secs(15)));
    http.set_keepalive_interval(Some(Duration::from_secs(5)));
    http.set_keepalive_retries(Some(3));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(http)?);
    connector.set_connect_timeout(Some(CONNECT_WITHIN));
    connector.set_read_timeout(Some(READ_WITHIN));
    connector.set_write_timeout(Some(WRITE_WITHIN));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector));
    Ok(Client::new(service, config.default_namespace))
}
