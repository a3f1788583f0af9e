//! Three requests to the API server: a pod, a NetworkAttachmentDefinition, a pod's status.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use ureq::{
    Agent,
    tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem},
};

use crate::{
    error::{Code, Error, Result},
    kubeconfig::Access,
    selection::Selection,
    status,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Of one request. kubelet tries again with a new sandbox.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The API server.
pub(crate) struct Api {
    agent: Agent,
    server: String,
    authorization: Option<String>,
}

/// The pod that a sandbox is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Empty if the runtime does not say.
    pub(crate) uid: String,
}

impl std::fmt::Display for PodRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pod {}/{}", self.namespace, self.name)
    }
}

impl Api {
    pub(crate) fn new(access: Access) -> Result<Self> {
        // Fails only if there is a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wrong = |what: &str| Error::new(Code::Config, format!("kubeconfig: {what}"));
        let cas: Vec<Certificate<'static>> = parse_pem(&access.ca)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        let mut tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(cas)));
        if let Some((certificate, key)) = &access.client {
            let certificate = Certificate::from_pem(certificate).map_err(|_| wrong("the certificate is no PEM"))?;
            let key = PrivateKey::from_pem(key).map_err(|_| wrong("the key is no PEM"))?;
            tls = tls.client_cert(Some(ClientCert::new_with_certs(&[certificate], key)));
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            // A proxy for the world outside must not send us there.
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .build();
        Ok(Self {
            agent: Agent::new_with_config(config),
            server: access.server,
            authorization: access.token.map(|token| format!("Bearer {token}")),
        })
    }

    /// The pod itself; one of the same name that came after it is not meant.
    pub(crate) fn pod(&self, pod: &PodRef) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let object = self.get(&path, &pod.to_string())?;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let is_mirror = object["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string();
        if !pod.uid.is_empty() && pod.uid != uid && !is_mirror {
            return Err(Error::new(
                Code::Api,
                format!("{pod} has the UID {uid} by now, the sandbox is of {}", pod.uid),
            ));
        }
        Ok(object)
    }

    /// A definition that a pod has selected.
    pub(crate) fn definition(&self, selection: &Selection) -> Result<Value> {
        let path = format!(
            "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions/{}",
            selection.namespace, selection.name
        );
        self.get(&path, &crate::attachment::definition(selection))
    }

    /// Writes the pod's network-status. The UID makes the API server refuse it for another pod.
    pub(crate) fn write_status(&self, pod: &PodRef, uid: &str, value: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
        let patch = json!({"metadata": {"uid": uid, "annotations": {status::ANNOTATION: value}}});
        let mut request = self.agent.patch(format!("{}{path}", self.server));
        request = request.header("Content-Type", "application/merge-patch+json");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let what = format!("{pod}, annotation {}", status::ANNOTATION);
        read(request.send(patch.to_string()), &what).map(drop)
    }

    fn get(&self, path: &str, what: &str) -> Result<Value> {
        let mut request = self.agent.get(format!("{}{path}", self.server));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        read(request.call(), what)
    }
}

/// The object in an answer, or what the API server says is wrong.
fn read(answer: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>, what: &str) -> Result<Value> {
    let failed = |why: String| Error::new(Code::Api, format!("{what}: {why}"));
    let mut answer = answer.map_err(|e| failed(format!("the API server does not answer: {e}")))?;
    let status = answer.status();
    let text = answer.body_mut().read_to_string().map_err(|e| failed(e.to_string()))?;
    let object: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        return Ok(object);
    }
    // A kind that is not there gets a page and no Status.
    let said = object["message"].as_str().unwrap_or(text.trim());
    Err(failed(format!("the API server says {}: {said}", status.as_u16())))
}
