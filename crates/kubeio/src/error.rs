//! What can go wrong with a call.

use crate::tenant::RefusedAddress;
use berth_api::conditions::{Reason, shortened};
use berth_api::text::printable;
use berth_fence::Closed;
use berth_plan::Failure;
use kube::runtime::watcher;

/// What kind of failure it is; decides what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// 404.
    NotFound,
    /// 409: somebody was quicker. Look again.
    Conflict,
    /// 403 by RBAC.
    Forbidden,
    /// 400, 422, or 403 by admission: the object is refused.
    Rejected,
    /// 429, 5xx, timeout, connection: try again later.
    Transient,
    /// The lease is lost: this process must not write.
    Fenced,
    /// Nothing was dialled: the host's name leads to what is not a tenant's.
    Refused,
    /// Everything else.
    Other,
}

/// Of an answer an error tells no more, in bytes: whoever answered may have written anything.
const LONGEST: usize = 4000;

/// A failed call. What it says is one line, whatever was answered.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {message}")]
pub struct IoError {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Verb and object.
    pub what: String,
    /// What was answered.
    pub message: String,
    /// It was a write of a plan's inside the tenant.
    pub in_tenant: bool,
}

impl IoError {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>, message: impl Into<String>) -> Self {
        let said = |text: String| shortened(&printable(&shortened(&text, LONGEST)), LONGEST);
        Self { kind, what: said(what.into()), message: said(message.into()), in_tenant: false }
    }

    pub(crate) fn from_kube(what: &str, error: &kube::Error) -> Self {
        let (kind, message) = match error {
            kube::Error::Api(status) => {
                let kind = match status.code {
                    404 => ErrorKind::NotFound,
                    409 => ErrorKind::Conflict,
                    403 if is_rbac(&refusal(&status.message)) => ErrorKind::Forbidden,
                    400 | 403 | 405 | 413 | 415 | 422 => ErrorKind::Rejected,
                    401 => ErrorKind::Forbidden,
                    429 | 500..=599 => ErrorKind::Transient,
                    _ => ErrorKind::Other,
                };
                (kind, refusal(&status.message))
            }
            error if let Some(refused) = RefusedAddress::of(error) => (ErrorKind::Refused, refused.to_string()),
            error if Closed::is(error) => (ErrorKind::Fenced, Closed.to_string()),
            kube::Error::HyperError(_) | kube::Error::Service(_) => (ErrorKind::Transient, plainly(&chain(error))),
            _ => (ErrorKind::Other, chain(error)),
        };
        Self::new(kind, what, message)
    }

    /// Of a watch.
    pub fn from_watch(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error) => Self::from_kube("list for a watch", error),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
                Self::from_kube("watch", error)
            }
            watcher::Error::WatchError(status) => Self::from_kube("watch", &kube::Error::Api(status.clone())),
            watcher::Error::NoResourceVersion => Self::new(ErrorKind::Other, "watch", error.to_string()),
        }
    }

    /// The refusal, if it is for lack of a right.
    pub fn denial(&self) -> Option<&str> {
        Some(&*self.message).filter(|_| self.kind == ErrorKind::Forbidden && is_rbac(&self.message))
    }

    /// What a condition says of it.
    pub fn failure(&self) -> Failure {
        let (reason, message) = match self.kind {
            ErrorKind::Forbidden => (Reason::PermissionDenied, format!("{self}. {GRANT}")),
            ErrorKind::Rejected => (Reason::Rejected, self.to_string()),
            _ => (Reason::Error, self.to_string()),
        };
        Failure { reason, message, in_tenant: self.in_tenant }
    }
}

/// Where an operator's rights come from.
const GRANT: &str = "Berth's chart grants it with the ClusterRoles berth-operator and, in control-plane namespaces, \
    berth-control-plane-namespace: restore them with helm upgrade and the same values";

/// How the API server refuses a binding to a role that one neither holds nor may bind; all rules of that role follow.
const ESCALATION: &str = "is attempting to grant RBAC permissions not currently held";

/// What to tell of a refusal.
fn refusal(message: &str) -> String {
    match message.split_once(ESCALATION) {
        Some((who, _)) => {
            format!("{who}cannot bind resource \"clusterroles\" in API group \"rbac.authorization.k8s.io\"")
        }
        None => message.to_owned(),
    }
}

/// What to tell of several refusals.
pub fn lacks(refusals: &[String]) -> String {
    format!("{}. {GRANT}", refusals.join("; "))
}

/// RBAC and admission both answer 403. The authorizer writes `<object> is forbidden: User "x" cannot <verb> resource "y" in API group
/// "z"` and then the place; admission writes anything, such a sentence included, but never right behind the object.
fn is_rbac(message: &str) -> bool {
    let Some((object, why)) = message.split_once(" is forbidden: ") else { return false };
    let named = object.split(' ').count() <= 2;
    let who = why.starts_with("User \"") || why.starts_with("user \"");
    named && who && why.split(" cannot ").skip(1).any(says_what)
}

/// `<verb> resource "y" in API group "z"`.
fn says_what(right: &str) -> bool {
    let resource = right.split_once(" resource \"").filter(|(verb, _)| !verb.is_empty() && !verb.contains(' '));
    resource.is_some_and(|(_, resource)| resource.contains("\" in API group \""))
}

/// Without the layers of the client, which say nothing to a reader of a condition.
fn plainly(text: &str) -> String {
    let layers = ["ServiceError: ", "client error (Connect): "];
    layers.iter().fold(text, |text, layer| text.strip_prefix(layer).unwrap_or(text)).to_owned()
}

/// The error with its causes, each once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (**cause).source()).map(ToString::to_string);
    causes.fold(error.to_string(), |text, said| if text.contains(&said) { text } else { format!("{text}: {said}") })
}

/// What was read. None: that is not permitted. The operator always may; who looks with a right for less is told less.
pub(crate) fn permitted<T>(answer: Result<T, IoError>) -> Result<Option<T>, IoError> {
    match answer {
        Err(e) if e.kind == ErrorKind::Forbidden => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_the_client_are_left_out() {
        let refused = "tcp connect error: Connection refused (os error 111)";
        assert_eq!(plainly(&format!("ServiceError: client error (Connect): {refused}")), refused);
        assert_eq!(plainly(refused), refused);
    }

    #[test]
    fn rbac_is_known_by_what_its_authorizer_writes() {
        for message in [
            r#"secrets is forbidden: User "x" cannot list resource "secrets" in API group "" in the namespace "a""#,
            r#"secrets "b" is forbidden: User "x" cannot patch resource "secrets" in API group "" in the namespace "a""#,
            r#"clusters.berth.dev "b" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "clusters/status" in API group "berth.dev" in the namespace "a""#,
            r#"clusterroles.rbac.authorization.k8s.io "berth:x" is forbidden: User "x" cannot delete resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope"#,
            r#"secrets "b" is forbidden: User "x" cannot get resource "secrets" in API group "" in the namespace "a": RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#,
            r#"pods is forbidden: User "who cannot spell" cannot list resource "pods" in API group "" at the cluster scope"#,
        ] {
            assert!(is_rbac(message), "{message}");
        }
        let escalation = r#"rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "x" (groups=["y"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["list"]}"#;
        assert!(
            is_rbac(&refusal(escalation)) && refusal(escalation).contains("user \"x\" (groups=[\"y\"]) cannot bind")
        );
    }

    #[test]
    fn a_lack_is_known_by_the_type_of_a_watchs_error() {
        let pods = r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope"#;
        let status =
            |code, message: &str| Box::new(kube::core::Status { code, message: message.into(), ..Default::default() });
        let api = |code, message| kube::Error::Api(status(code, message));
        for error in [
            watcher::Error::InitialListFailed(api(403, pods)),
            watcher::Error::WatchStartFailed(api(403, pods)),
            watcher::Error::WatchError(status(403, pods)),
        ] {
            let error = IoError::from_watch(&error);
            assert!(error.denial() == Some(pods) && error.to_string().ends_with(&format!("watch: {pods}")), "{error}");
        }
        for error in [
            watcher::Error::InitialListFailed(api(403, r#"pods "a" is forbidden: exceeded quota: q"#)),
            watcher::Error::WatchStartFailed(api(401, "Unauthorized")),
            watcher::Error::WatchError(status(410, "too old resource version")),
            watcher::Error::NoResourceVersion,
        ] {
            assert_eq!(IoError::from_watch(&error).denial(), None);
        }
        assert!(
            lacks(&[pods.into(), "b".into()])
                .contains(&format!("{pods}; b. Berth's chart grants it with the ClusterRoles"))
        );
    }

    #[test]
    fn what_admission_writes_is_not_rbac() {
        for message in [
            r#"pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"#,
            r#"services "a" is forbidden: exceeded quota: you cannot have more of resource "services" in API group "", requested: services=1"#,
            r#"admission webhook "x" denied the request: you cannot create this resource type"#,
            r#"admission webhook "x" denied the request: secrets is forbidden: User "x" cannot create resource "secrets" in API group "" in the namespace "a""#,
            r#"secrets "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: User "x" cannot create resource "secrets" in API group """#,
            r#"secrets "a" is forbidden: unable to create new content in namespace b because it is being terminated"#,
            r#"pods "a" is forbidden: violates PodSecurity "restricted:latest": you cannot use resource "hostPath""#,
            r#"secrets "a" is forbidden: User "x" cannot create this resource type"#,
        ] {
            assert!(!is_rbac(message), "{message}");
        }
    }
}
