//! One call as the client made it, and what became of it.

use std::fmt;

use http::{Method, Request};
use kube::client::Body;
use serde_json::Value;

/// What a call asks for, in the API's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// GET of one object, or of a path that is no resource.
    Get,
    /// GET of a collection.
    List,
    /// GET with `watch=true`.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH other than server-side apply.
    Patch,
    /// PATCH with an apply content type.
    Apply,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    /// Whether it may change what is stored.
    pub fn is_mutating(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// One call in the log of a [`FaultPlan`](super::FaultPlan).
#[derive(Clone, Debug)]
pub struct Call {
    /// Position in the log, from 1.
    pub seq: usize,
    /// Position among the mutating calls, from 1; `None` for reads, dry runs and reviews.
    pub mutation: Option<usize>,
    /// What was asked.
    pub verb: Verb,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name; empty for other paths.
    pub resource: String,
    /// `status`, `finalize`, …
    pub subresource: Option<String>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name from the path, or `metadata.name` (or `generateName`) of the body of a create.
    pub name: String,
    /// Path without the query.
    pub path: String,
    /// Query.
    pub query: String,
    /// `dryRun=All`.
    pub dry_run: bool,
    /// `preconditions.uid` of a delete's body, or `metadata.uid` of another body.
    pub uid: Option<String>,
    /// `preconditions.resourceVersion` of a delete's body, or `metadata.resourceVersion` of another body.
    pub resource_version: Option<String>,
    /// HTTP status that the server gave, even where the client did not get to see it.
    pub code: Option<u16>,
    /// What the plan did to it.
    pub fault: Option<String>,
    /// Which life of the client made it, see [`FaultPlan::restart`](super::FaultPlan::restart).
    pub life: usize,
}

impl Call {
    /// Whether the server committed it: a mutating call that got a 2xx.
    pub fn committed(&self) -> bool {
        self.mutation.is_some() && self.code.is_some_and(|c| (200..300).contains(&c))
    }

    /// `namespace/resource.group/name`, parts that are empty left out.
    pub fn object(&self) -> String {
        let mut resource = self.resource.clone();
        if !self.group.is_empty() {
            resource = format!("{resource}.{}", self.group);
        }
        let parts = [&self.namespace, &resource, &self.name];
        parts.into_iter().filter(|p| !p.is_empty()).cloned().collect::<Vec<_>>().join("/")
    }

    pub(super) fn of(request: &Request<Body>) -> Self {
        let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        let has = |wanted: &[&str]| query.split('&').any(|p| wanted.contains(&p));
        let target = Target::parse(&path);
        let content = request.headers().get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        let verb = match *request.method() {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH if content.contains("apply-patch") => Verb::Apply,
            Method::PATCH => Verb::Patch,
            Method::DELETE if target.name.is_empty() => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ if has(&["watch=true", "watch=1"]) => Verb::Watch,
            _ if target.name.is_empty() && !target.resource.is_empty() => Verb::List,
            _ => Verb::Get,
        };
        let body = json(request.body());
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let of = |field: &str| match verb {
            Verb::Delete | Verb::DeleteCollection => text(&format!("/preconditions/{field}")),
            _ => text(&format!("/metadata/{field}")),
        };
        let named = || text("/metadata/name").or_else(|| text("/metadata/generateName")).unwrap_or_default();
        Self {
            seq: 0,
            mutation: None,
            verb,
            name: if target.name.is_empty() && verb == Verb::Create { named() } else { target.name },
            group: target.group,
            resource: target.resource,
            subresource: target.subresource,
            namespace: target.namespace,
            path,
            dry_run: has(&["dryRun=All"]) || body["dryRun"].as_array().is_some_and(|d| !d.is_empty()),
            query,
            uid: of("uid"),
            resource_version: of("resourceVersion"),
            code: None,
            fault: None,
            life: 0,
        }
    }

    /// A call to somebody else than an API server.
    pub(super) fn outside(to: &str, verb: Verb, name: &str) -> Self {
        Self {
            seq: 0,
            mutation: None,
            verb,
            group: to.to_owned(),
            resource: String::new(),
            subresource: None,
            namespace: String::new(),
            name: name.to_owned(),
            path: format!("{to}/{name}"),
            query: String::new(),
            dry_run: false,
            uid: None,
            resource_version: None,
            code: None,
            fault: None,
            life: 0,
        }
    }

    /// Whether it takes a number: it changes what is stored.
    pub(super) fn counts(&self) -> bool {
        let review = matches!(&*self.group, "authorization.k8s.io" | "authentication.k8s.io")
            || self.subresource.as_deref() == Some("token");
        self.verb.is_mutating() && !self.dry_run && !review
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(k) = self.mutation {
            write!(f, "#{k} ")?;
        }
        write!(f, "{:?} {}", self.verb, if self.resource.is_empty() { self.path.clone() } else { self.object() })?;
        if let Some(sub) = &self.subresource {
            write!(f, "/{sub}")?;
        }
        if self.dry_run {
            f.write_str(" (dry run)")?;
        }
        match self.code {
            Some(code) => write!(f, " -> {code}")?,
            None => f.write_str(" -> no answer")?,
        }
        self.fault.as_ref().map_or(Ok(()), |fault| write!(f, " [{fault}]"))
    }
}

#[derive(Default, Debug, PartialEq)]
struct Target {
    group: String,
    resource: String,
    subresource: Option<String>,
    namespace: String,
    name: String,
}

impl Target {
    fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return Self::default(),
        };
        // `namespaces/x/finalize` and `namespaces/x/status` are subresources, other third parts are resources in x.
        let (namespace, rest) = match rest {
            ["namespaces", _, "finalize" | "status"] => ("", rest),
            ["namespaces", ns, rest @ ..] if !rest.is_empty() => (*ns, rest),
            _ => ("", rest),
        };
        let at = |i: usize| rest.get(i).map(ToString::to_string);
        Self {
            group: group.to_owned(),
            resource: at(0).unwrap_or_default(),
            subresource: at(2),
            namespace: namespace.to_owned(),
            name: at(1).unwrap_or_default(),
        }
    }
}

/// The body of a request as JSON (an apply may be YAML); `Null` for none and for streams.
fn json(body: &Body) -> Value {
    let bytes = body.try_clone().and_then(|b| futures::FutureExt::now_or_never(b.collect_bytes()));
    match bytes {
        Some(Ok(bytes)) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let t = Target::parse("/apis/apps/v1/namespaces/a/deployments/b/status");
        assert_eq!((&*t.group, &*t.resource, &*t.namespace, &*t.name), ("apps", "deployments", "a", "b"));
        assert_eq!(t.subresource.as_deref(), Some("status"));
        let t = Target::parse("/api/v1/namespaces/a/finalize");
        assert_eq!(
            (&*t.resource, &*t.namespace, &*t.name, t.subresource.as_deref()),
            ("namespaces", "", "a", Some("finalize"))
        );
        let t = Target::parse("/api/v1/namespaces/a");
        assert_eq!((&*t.resource, &*t.namespace, &*t.name), ("namespaces", "", "a"));
        assert_eq!(Target::parse("/api/v1/namespaces/a/secrets").namespace, "a");
        assert_eq!(Target::parse("/readyz"), Target::default());
    }
}
