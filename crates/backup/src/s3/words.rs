//! An error in words, where the store has none of its own.

use crate::direct::Redirects;
use object_store::Error;
use object_store::client::HttpErrorKind;

/// Whether a write may have been done all the same.
pub(super) enum Unclear {
    /// It was refused.
    No,
    /// The store does not know the condition.
    NoCondition,
    /// It may have been. `again`: sending it again helps, if it was not.
    Answer { again: bool },
}

/// An error of the connection, if it is one.
fn http_error(error: &Error) -> Option<&object_store::client::HttpError> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(http) = inner.downcast_ref() {
            return Some(http);
        }
        source = inner.source();
    }
    None
}

/// Whether the store may have had a request whose answer did not come.
pub(super) fn is_cut(error: &Error) -> bool {
    let Some(http) = http_error(error) else { return false };
    let mut causes = std::iter::successors(std::error::Error::source(http), |e| e.source());
    http.kind() != HttpErrorKind::Connect && !causes.any(<dyn std::error::Error>::is::<Redirects>)
}

/// What is known without the server's own words.
pub(super) fn words(error: &Error) -> String {
    if let Some(http) = http_error(error) {
        let deepest = std::iter::successors(std::error::Error::source(http), |e| e.source()).last();
        let why = deepest.map(|e| format!(": {e}")).unwrap_or_default();
        return match http.kind() {
            HttpErrorKind::Connect => format!("no connection{why}"),
            HttpErrorKind::Timeout => "no answer in time".into(),
            HttpErrorKind::Interrupted => format!("the connection was cut{why}"),
            _ => format!("the request failed{why}"),
        };
    }
    match error {
        Error::NotFound { .. } => "it answers 404: there is no such object or bucket".into(),
        Error::PermissionDenied { .. } => "it answers 403: the credentials do not allow it".into(),
        Error::Unauthenticated { .. } => "it answers 401: the credentials are not valid".into(),
        _ => redirect(error).map_or_else(|| "the request failed".into(), |status| Redirects(status).to_string()),
    }
}

/// The status, if the server sends on a request whose body cannot be sent again.
fn redirect(error: &Error) -> Option<u16> {
    let text = error.to_string();
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok().filter(|status| (300..400).contains(status))
}
