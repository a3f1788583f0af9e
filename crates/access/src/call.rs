//! What a call does, in the words of Kubernetes: verb and resource follow from method and path as in its
//! [`RequestInfo`](https://github.com/kubernetes/apiserver/blob/master/pkg/endpoints/request/requestinfo.go).

use http::Method;
use percent_encoding::percent_decode_str;

/// A call of a tenant's API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// Such as get, list, watch or create; of what is no resource the method.
    pub(crate) verb: String,
    /// What has to be allowed beside that. An upgrade runs or opens something, whatever the method is.
    pub(crate) also: Option<&'static str>,
    /// Such as `pods` or `pods/exec`, with `.<group>` unless that is the core one. None: it is no resource.
    pub(crate) resource: Option<String>,
    /// The namespace in the tenant.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

/// What opens a stream and nothing else, with GET as with POST.
const STREAMS: [&str; 3] = ["exec", "attach", "portforward"];

/// `path`: in the tenant. `upgrades`: bytes both ways are asked for, such as by exec.
pub(crate) fn call(method: &Method, path: &str, query: Option<&str>, upgrades: bool) -> Call {
    let mut call = read(method, path, query.unwrap_or_default());
    let sub = call.resource.as_deref().and_then(|resource| resource.split('.').next()?.split_once('/'));
    match sub {
        Some(("pods", sub)) if upgrades && STREAMS.contains(&sub) => "create".clone_into(&mut call.verb),
        _ if upgrades => call.also = Some("create"),
        _ => {}
    }
    call
}

fn read(method: &Method, path: &str, query: &str) -> Call {
    let other = || Call { verb: method.as_str().to_ascii_lowercase(), ..Call::default() };
    // Before anything is compared: the tenant looks at them so, too.
    let mut parts = path.split('/').filter(|part| !part.is_empty()).map(decoded);
    let (prefix, group) = match parts.next().as_deref() {
        Some("api") => ("api", None),
        Some("apis") => ("apis", parts.next()),
        _ => return other(),
    };
    // The version.
    if parts.next().is_none() || (prefix == "apis" && group.is_none()) {
        return other();
    }
    let mut parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return other();
    }
    let mut verb = match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return other(),
    };
    // An older form of a watch.
    let is_special = parts[0] == "watch" && parts.len() > 1;
    if is_special {
        parts.remove(0);
        verb = "watch";
    }
    let mut namespace = None;
    if parts[0] == "namespaces" && parts.len() > 1 {
        namespace = Some(parts[1].clone());
        if parts.len() > 2 && !["status", "finalize"].contains(&parts[2].as_str()) {
            parts.drain(..2);
        }
    }
    let (resource, name, sub) = (&parts[0], parts.get(1), parts.get(2));
    let verb = match (verb, name) {
        ("get", None) if is_true(query, "watch") => "watch",
        ("get", None) => "list",
        ("delete", None) => "deletecollection",
        (verb, _) => verb,
    };
    let resource = sub.map_or_else(|| resource.clone(), |sub| format!("{resource}/{sub}"));
    let resource = group.map_or_else(|| resource.clone(), |group| format!("{resource}.{group}"));
    Call { verb: verb.to_owned(), resource: Some(resource), namespace, name: name.cloned(), also: None }
}

fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// As Kubernetes reads such a parameter: it is there, and not `false` or `0`.
fn is_true(query: &str, key: &str) -> bool {
    let mut values = query.split('&').filter_map(|field| {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        (decoded(name) == key).then(|| decoded(value).to_ascii_lowercase())
    });
    values.next().is_some_and(|value| !["false", "0"].contains(&value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let Call { verb, resource, namespace, name, also: _ } = call(&method.parse().unwrap(), path, query, false);
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        format!("{verb} {} {} {}", or(resource), or(namespace), or(name))
    }

    #[test]
    fn verbs_and_resources_are_kubernetes_own() {
        for (method, target, is) in [
            ("GET", "/api/v1/pods", "list pods - -"),
            ("GET", "/api/v1/pods?watch=true", "watch pods - -"),
            ("GET", "/api/v1/pods?watch", "watch pods - -"),
            ("GET", "/api/v1/pods?limit=1&watch=0", "list pods - -"),
            ("GET", "/api/v1/watch/namespaces/a/pods", "watch pods a -"),
            ("GET", "/api/v1/namespaces/a/pods/b", "get pods a b"),
            ("HEAD", "/api/v1/namespaces/a/pods/b", "get pods a b"),
            ("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", "get pods/log a b"),
            ("POST", "/api/v1/namespaces/a/pods/b/exec", "create pods/exec a b"),
            ("POST", "/api/v1/namespaces/a/pods", "create pods a -"),
            ("PUT", "/apis/apps/v1/namespaces/a/deployments/b/scale", "update deployments/scale.apps a b"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b", "patch deployments.apps a b"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods a -"),
            ("DELETE", "/api/v1/namespaces/a", "delete namespaces a a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a a"),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "get clusterroles.rbac.authorization.k8s.io - system:node",
            ),
            ("GET", "/api/v1/nodes/n/proxy/metrics", "get nodes/proxy - n"),
            ("GET", "/%61pi/v1/secrets", "list secrets - -"),
            ("GET", "/api%73/apps/v1/deployments?%77atch=1", "watch deployments.apps - -"),
            ("DELETE", "/%61%70i/v1/n%61mespaces/a/pods", "deletecollection pods a -"),
            ("GET", "/api/v1/%77atch/pods", "watch pods - -"),
            ("GET", "/version", "get - - -"),
            ("GET", "/api/v1", "get - - -"),
            ("GET", "/apis/apps", "get - - -"),
            ("POST", "/livez", "post - - -"),
            ("OPTIONS", "/api/v1/pods", "options - - -"),
        ] {
            assert_eq!(said(method, target), is, "{method} {target}");
        }
    }

    /// A websocket is opened with GET.
    #[test]
    fn what_opens_something_is_no_read() {
        let needs = |method: Method, path: &str| {
            let Call { verb, also, .. } = call(&method, path, None, true);
            (verb, also)
        };
        let create = |verb: &str| (verb.to_owned(), Some("create"));
        for path in ["/api/v1/namespaces/a/pods/b/exec", "/api/v1/namespaces/a/pods/b/%65xec"] {
            assert_eq!(needs(Method::GET, path), ("create".to_owned(), None));
        }
        // An API server does not look at the header elsewhere: what the method does has to be allowed.
        assert_eq!(needs(Method::GET, "/api/v1/secrets"), create("list"));
        assert_eq!(needs(Method::DELETE, "/api/v1/namespaces/a/pods/b"), create("delete"));
        assert_eq!(needs(Method::GET, "/api/v1/namespaces/a/services/b/proxy"), create("get"));
        assert_eq!(needs(Method::GET, "/apis/x.example/v1/namespaces/a/things/b/exec"), create("get"));
    }
}
