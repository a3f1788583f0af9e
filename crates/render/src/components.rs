//! One function per component: values in, objects in apply order out.

use std::collections::BTreeMap;

use berth_api::{etcd_bootstrap::BootstrapState, names};
use serde::Serialize;

use crate::{
    Binary, Object, RenderError, TemplateSet, env,
    finish::{Document, finish},
    shape,
    values::{ApiClientValues, ApiServerServiceValues, ApiServerValues, EtcdServicesValues, EtcdValues},
};

/// What templates see: the values, and what follows from them.
#[derive(Serialize)]
struct Context<'a, T> {
    #[serde(flatten)]
    values: &'a T,
    derived: Derived,
    /// What the templates in `files/` rendered, by name without `.j2`; goes into ConfigMaps as text.
    files: BTreeMap<String, String>,
}

/// Values that follow from others. As with the values, fields are only ever added.
#[derive(Default, Serialize)]
struct Derived {
    /// The workload's name.
    name: String,
    /// The workload's replicas; less than the component's if every slot is a workload.
    replicas: i32,
    /// `--initial-cluster` of etcd.
    initial_cluster: String,
    /// `--initial-cluster-token` of etcd.
    initial_cluster_token: String,
    /// `--initial-cluster-state` of etcd.
    initial_cluster_state: &'static str,
}

/// ConfigMap, Deployment or, of a slot, StatefulSet, and from two replicas on a PodDisruptionBudget.
pub fn render_apiserver(set: &TemplateSet, values: &ApiServerValues) -> Result<Vec<Object>, RenderError> {
    let name = Binary::ApiServer.name();
    let derived = match values.slot {
        None => Derived { name: name.to_owned(), replicas: values.workload.replicas, ..Derived::default() },
        Some(slot) => Derived { name: names::slot(name, slot), replicas: values.vpc.runs.into(), ..Derived::default() },
    };
    let documents = documents_of(set, Binary::ApiServer.folder(), values, derived)?;
    finish(documents, &values.meta, Some(&values.workload), set.format())
}

/// Of a component that talks to the apiserver: ConfigMap, Deployment, and from two replicas on a PodDisruptionBudget.
pub fn render_api_client(
    set: &TemplateSet,
    component: Binary,
    values: &ApiClientValues,
) -> Result<Vec<Object>, RenderError> {
    let replicas = values.workload.replicas;
    let derived = Derived { name: component.name().to_owned(), replicas, ..Derived::default() };
    let documents = documents_of(set, component.folder(), values, derived)?;
    finish(documents, &values.meta, Some(&values.workload), set.format())
}

/// The Service `kube-apiserver`, from the set of a Kubernetes minor.
pub fn render_apiserver_service(
    set: &TemplateSet,
    values: &ApiServerServiceValues,
) -> Result<Vec<Object>, RenderError> {
    finish(documents(set, "common/apiserver", values)?, &values.meta, None, set.format())
}

/// The governing Service `<name>` and one Service with an address of its own per member, from the set of an etcd minor.
pub fn render_etcd_services(set: &TemplateSet, values: &EtcdServicesValues) -> Result<Vec<Object>, RenderError> {
    finish(documents(set, "services", values)?, &values.meta, None, set.format())
}

/// ConfigMap `<name>-bootstrap`, StatefulSet `<name>`, and from two members on a PodDisruptionBudget, from the set of an etcd minor.
///
/// Which members there are and whether the cluster is new is in the ConfigMap and not in the StatefulSet, so that neither a
/// finished bootstrap nor a new member changes the pods of the others.
pub fn render_etcd(set: &TemplateSet, values: &EtcdValues) -> Result<Vec<Object>, RenderError> {
    let peer = |member: &String| format!("{member}=https://{member}.{}.svc:2380", values.meta.namespace);
    let derived = Derived {
        name: values.name.clone(),
        replicas: values.workload.replicas,
        initial_cluster: values.members.iter().map(peer).collect::<Vec<_>>().join(","),
        initial_cluster_token: format!("{}-{}", values.cluster_uid, values.epoch),
        initial_cluster_state: match values.state {
            BootstrapState::Bootstrapping => "new",
            BootstrapState::Established => "existing",
        },
    };
    finish(
        documents_of(set, Binary::Etcd.folder(), values, derived)?,
        &values.meta,
        Some(&values.workload),
        set.format(),
    )
}

/// Renders a folder of which nothing is derived.
pub(crate) fn documents<T: Serialize>(
    set: &TemplateSet,
    folder: &str,
    values: &T,
) -> Result<Vec<Document>, RenderError> {
    documents_of(set, folder, values, Derived::default())
}

/// Renders a folder: first what is under `files/`, then the templates of objects, which can put those texts into ConfigMaps.
fn documents_of<T: Serialize>(
    set: &TemplateSet,
    folder: &str,
    values: &T,
    derived: Derived,
) -> Result<Vec<Document>, RenderError> {
    let mut context = Context { values, derived, files: BTreeMap::new() };
    let mut files = BTreeMap::new();
    for (path, name, text) in set.folder(&format!("{folder}/files")) {
        files.insert(name.to_owned(), env::render(path, text, &context)?);
    }
    context.files = files;
    let mut out = Vec::new();
    let mut found = false;
    for (path, _, text) in set.folder(folder) {
        found = true;
        let values = shape::documents(path, text, &context)?;
        out.extend(values.into_iter().map(|value| Document { template: path.to_owned(), value }));
    }
    if found {
        Ok(out)
    } else {
        Err(RenderError::NoTemplates { set: set.name().to_owned(), folder: folder.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::{
        Catalog, KUBERNETES,
        values::{
            AccessValues, ApiProxyValues, AppsValues, ArgoCdValues, CoreDnsValues, EndpointValues, JoinValues,
            KubeProxyValues,
        },
    };

    /// Every path into the values that a template may name.
    fn known<T: Serialize>(values: &T) -> BTreeSet<String> {
        fn walk(value: &Value, path: &str, out: &mut BTreeSet<String>) {
            out.insert(path.to_owned());
            for (key, value) in value.as_object().into_iter().flatten() {
                walk(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, out);
            }
        }
        let context = Context { values, derived: Derived::default(), files: BTreeMap::new() };
        let mut out = BTreeSet::new();
        walk(&serde_json::to_value(context).unwrap(), "", &mut out);
        out
    }

    #[test]
    fn templates_ask_only_for_what_values_have() {
        let known_to = |component| match component {
            Binary::Etcd => known(&EtcdValues::default()),
            Binary::ApiServer => known(&ApiServerValues::default()),
            _ => known(&ApiClientValues::default()),
        };
        let kubernetes: Vec<_> = KUBERNETES
            .programs
            .iter()
            .map(|(binary, _)| (binary.folder(), known_to(*binary)))
            .chain([
                ("common/apiserver", known(&ApiServerServiceValues::default())),
                ("addons/coredns", known(&CoreDnsValues::default())),
                ("addons/kube-proxy", known(&KubeProxyValues::default())),
            ])
            .collect();
        let tenant = [
            ("tenant/api-proxy", known(&ApiProxyValues::default())),
            ("tenant/apps", known(&AppsValues::default())),
            ("tenant/argocd", known(&ArgoCdValues::default())),
            ("tenant/access", known(&AccessValues::default())),
            ("tenant/endpoint", known(&EndpointValues::default())),
            ("tenant/join", known(&JoinValues::default())),
        ];
        let etcd = [("services", known(&EtcdServicesValues::default())), ("cluster", known_to(Binary::Etcd))];
        let catalog = Catalog::builtin();
        let sets = catalog
            .minors()
            .into_iter()
            .filter_map(|minor| catalog.kubernetes(minor))
            .map(|set| (set, &kubernetes[..]));
        let inside =
            catalog.minors().into_iter().filter_map(|minor| catalog.tenant(minor)).map(|set| (set, &tenant[..]));
        let etcd_sets =
            catalog.etcd_minors().into_iter().filter_map(|minor| catalog.etcd(minor)).map(|set| (set, &etcd[..]));
        for (set, folders) in sets.chain(inside).chain(etcd_sets) {
            let mut seen = 0;
            for (folder, known) in folders {
                for (path, _, text) in set.folder(folder).chain(set.folder(&format!("{folder}/files"))) {
                    seen += 1;
                    let unknown: Vec<_> = env::variables(path, text)
                        .unwrap()
                        .into_iter()
                        .filter(|name| !known.contains(name) && !name.starts_with("files"))
                        .collect();
                    assert!(unknown.is_empty(), "{}/{path}: {unknown:?}", set.name());
                }
            }
            let templates = set.paths().into_iter().filter(|path| !path.ends_with("versions.yaml")).count();
            assert_eq!(seen, templates, "{}: a folder that nothing renders", set.name());
        }
    }

    /// An operator that does not know newer values reads newer templates from a tenant's namespace.
    #[test]
    fn an_operator_from_before_renders_newer_templates_as_without_what_it_does_not_know() {
        const NEWER: [&str; 5] = ["admission", "admission_enables", "audit", "proxy", "trusted_ca"];
        let catalog = Catalog::builtin();
        for set in catalog.minors().into_iter().filter_map(|minor| catalog.kubernetes(minor)) {
            let render = |values: &Value| {
                let all = documents_of(set, Binary::ApiServer.folder(), values, Derived::default()).unwrap();
                all.into_iter().map(|document| document.value).collect::<Vec<_>>()
            };
            let without = serde_json::to_value(ApiServerValues::default()).unwrap();
            let (mut before, mut with) = (without.clone(), without.clone());
            for name in NEWER {
                before.as_object_mut().unwrap().remove(name).unwrap();
            }
            with["proxy"] = serde_json::json!([{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]);
            assert_eq!(render(&before), render(&without), "{}", set.name());
            assert_ne!(render(&with), render(&without), "{}", set.name());
        }
    }
}
