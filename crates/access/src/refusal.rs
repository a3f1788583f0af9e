//! What callers are told who get no further.

use berth_contract::access::{ClusterName, Reason};
use http::StatusCode;
use std::error::Error;

use crate::line::Why;
use crate::person::Person;
use crate::tenants::NoWay;

/// Why a call goes no further, and what the caller is told.
pub(crate) struct Refusal {
    pub(crate) why: Why,
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    /// What is not there, what is somebody else's, and who is nobody look all the same.
    pub(crate) fn nothing_here(why: Why) -> Self {
        const NOTHING: &str = "nothing here that you may use: a tenant is at /clusters/<namespace>/<name>/. Log in again, or ask \
                               whoever grants roles in that namespace of the platform for clusters/api";
        Self { why, code: StatusCode::NOT_FOUND, reason: "NotFound", message: NOTHING.to_owned() }
    }

    pub(crate) fn later(why: Why, message: impl Into<String>) -> Self {
        Self { why, code: StatusCode::SERVICE_UNAVAILABLE, reason: "ServiceUnavailable", message: message.into() }
    }

    pub(crate) fn no_review() -> Self {
        Self::later(
            Why::NoReview,
            "the platform's API server, which knows who may use what, does not answer. Try again",
        )
    }

    pub(crate) fn too_many() -> Self {
        let message = "too many unknown tokens come from your address. Try again in some seconds".to_owned();
        Self { why: Why::TooManyUnknown, code: StatusCode::TOO_MANY_REQUESTS, reason: "TooManyRequests", message }
    }

    /// Of somebody who may use the tenant, but not so.
    pub(crate) fn not_allowed(person: &Person, cluster: &ClusterName, verb: &str) -> Self {
        let ClusterName { namespace, name } = cluster;
        let message = format!(
            "{} may not {verb} in the tenant {name}: grant the verb {verb} for clusters/api of group berth.dev in namespace \
             {namespace} of the platform",
            person.name
        );
        Self { why: Why::NotAllowed, code: StatusCode::FORBIDDEN, reason: "Forbidden", message }
    }

    pub(crate) fn unreachable(name: &str, error: &dyn Error) -> Self {
        let message = format!(
            "no API server of the tenant {name} answers: {}. Try again; kubectl describe cluster says how it is doing",
            chain(error)
        );
        Self { why: Why::Unreachable, code: StatusCode::BAD_GATEWAY, reason: "InternalError", message }
    }
}

impl From<NoWay> for Refusal {
    fn from(why: NoWay) -> Self {
        match why {
            NoWay::NoOperator => Refusal::later(
                Why::NoOperator,
                "the platform's operator, which lets berth-access into a tenant, does not answer. Try again; tenants go on meanwhile",
            ),
            NoWay::Refused(refused) => match refused.reason {
                Reason::NotFound => Refusal::nothing_here(Why::NoTenant),
                Reason::NotInTemplates => Refusal::later(Why::NotInTemplates, refused.message),
                Reason::NotReady | Reason::Failed => Refusal::later(Why::NotReady, refused.message),
            },
        }
    }
}

/// With all causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
