//! A port on this machine whose connections end in a ready pod of kube-apiserver.

use crate::access::Access;
use crate::output;
use anyhow::{Context as _, anyhow};
use berth_api::{labels, names};
use berth_plan::workload;
use berth_render::Kind;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Where kube-apiserver listens in its pods.
const PORT: u16 = 6443;

/// Serves until it is dropped.
pub(super) struct Forward {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Forward {
    /// Listens on a free port of the loopback interface. An error if no pod is ready, or pods may not be listed.
    pub(super) async fn to(access: &Access, cp_namespace: String) -> anyhow::Result<Self> {
        let target = Arc::new(Target { access: access.clone(), cp_namespace });
        target.pod().await?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on 127.0.0.1")?;
        let address = listener.local_addr().context("127.0.0.1")?;
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let target = target.clone();
                tokio::spawn(async move {
                    if let Err(error) = target.serve(socket).await {
                        output::note(&format!("{error:#}"));
                    }
                });
            }
        });
        Ok(Self { address, serving })
    }

    /// For a kubeconfig.
    pub(super) fn server(&self) -> String {
        format!("https://{}", self.address)
    }
}

struct Target {
    access: Access,
    cp_namespace: String,
}

impl Target {
    /// A ready pod, looked up for each connection, since pods come and go.
    async fn pod(&self) -> anyhow::Result<String> {
        let ns = &self.cp_namespace;
        let selector = format!("{}={}", labels::COMPONENT, names::APISERVER);
        let pods = self.access.io.list(Kind::Pod, &**ns, Some(&selector)).await.map_err(|e| self.access.explain(e)).with_context(|| {
            format!(
                "the address is not reachable from here, and a port-forward needs the rights to list pods and to create pods/portforward in namespace {ns}"
            )
        })?;
        let ready = pods.iter().find(|pod| workload::pod_ready(pod));
        let name = ready.and_then(|p| p["metadata"]["name"].as_str());
        name.map(str::to_owned).ok_or_else(|| anyhow!("no pod of kube-apiserver in namespace {ns} is ready"))
    }

    async fn serve(&self, mut socket: TcpStream) -> anyhow::Result<()> {
        let ns = &self.cp_namespace;
        let name = self.pod().await?;
        let pods: Api<Pod> = Api::namespaced((**self.access.io.client()).clone(), ns);
        let lost = || format!("port-forward to pod {ns}/{name}");
        let mut forwarder = pods.portforward(&name, &[PORT]).await.with_context(lost)?;
        let mut stream = forwarder.take_stream(PORT).with_context(lost)?;
        // Either side may end a connection at any time: that is no error of the way between them.
        let _ = tokio::io::copy_bidirectional(&mut socket, &mut stream).await;
        drop(stream);
        forwarder.abort();
        Ok(())
    }
}
