//! Who a client is to its API server.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use http::Method;
use serde_json::json;

impl Io {
    /// The user name that the API server takes this client for, as it is in its audit log.
    ///
    /// # Errors
    ///
    /// If it does not say so: then nobody knows.
    pub async fn who_am_i(&self) -> Result<String, IoError> {
        const WHAT: &str = "ask who you are";
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let url = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = self.call(Method::POST, WHAT, url, Some(&review), None).await?;
        let name = answer.pointer("/status/userInfo/username").and_then(serde_json::Value::as_str);
        name.map(str::to_owned).ok_or_else(|| IoError::new(ErrorKind::Other, WHAT, "the answer has no user name"))
    }
}
