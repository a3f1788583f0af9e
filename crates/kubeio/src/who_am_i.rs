//! Who a client is to its API server.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use http::Method;
use jiff::Timestamp;
use serde_json::json;

/// What an API server says of whoever asks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// The user name, as it is in its audit log.
    pub name: String,
    /// When it was asked, by its own clock. None: it does not say so.
    pub asked: Option<Timestamp>,
}

impl Io {
    /// Whom the API server takes this client for.
    ///
    /// # Errors
    ///
    /// If it does not say so: then nobody knows.
    pub async fn who_am_i(&self) -> Result<Me, IoError> {
        const WHAT: &str = "ask who you are";
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let url = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = self.call(Method::POST, WHAT, url, Some(&review), None).await?;
        let name = answer.pointer("/status/userInfo/username").and_then(serde_json::Value::as_str);
        let asked = answer.pointer("/metadata/creationTimestamp").and_then(|at| at.as_str()?.parse().ok());
        name.map(|name| Me { name: name.to_owned(), asked })
            .ok_or_else(|| IoError::new(ErrorKind::Other, WHAT, "the answer has no user name"))
    }
}
