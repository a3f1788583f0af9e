//! Where tenants are made known by themselves: the chart's value `registration`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The platform's Argo CD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgoCd {
    /// Its namespace.
    pub namespace: String,
    /// The project of Argo CD that tenants of a namespace are for. Those of other namespaces are not registered.
    pub projects: BTreeMap<String, String>,
}

/// As the file has it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OfFile {
    #[serde(rename = "argoCD")]
    argo_cd: Option<ArgoCdOfFile>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ArgoCdOfFile {
    namespace: String,
    projects: BTreeMap<String, String>,
}

impl OfFile {
    pub(super) fn read(self) -> Result<Option<ArgoCd>, String> {
        let Some(ArgoCdOfFile { namespace, projects }) = self.argo_cd else { return Ok(None) };
        if namespace.is_empty() {
            return Err("registration.argoCD.namespace: it is missing. Set the namespace of Argo CD".to_owned());
        }
        // There Berth writes Secrets of one form alone, and a kubeconfig is of another.
        if projects.contains_key(&namespace) {
            return Err(format!(
                "registration.argoCD.projects: {namespace} is Argo CD's own namespace. Have Clusters in another one"
            ));
        }
        // A cluster without a project is for all of them.
        if let Some((team, _)) = projects.iter().find(|(_, project)| project.is_empty()) {
            return Err(format!("registration.argoCD.projects.{team}: it is empty. Set the name of an AppProject"));
        }
        Ok(Some(ArgoCd { namespace, projects }))
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Config;

    #[test]
    fn nobody_is_registered_by_default_and_nobody_for_all_projects() {
        let read = |text: &str| Config::parse(&format!("registration: {text}")).map(|config| config.argo_cd);
        assert_eq!((read(""), read("{}"), read("{argoCD: null}")), (Ok(None), Ok(None), Ok(None)));
        let argo_cd = read("{argoCD: {namespace: argocd, projects: {team-a: team-a}}}").unwrap().unwrap();
        assert_eq!((&*argo_cd.namespace, &*argo_cd.projects["team-a"]), ("argocd", "team-a"));
        for (wrong, field) in [
            ("{argoCD: {projects: {a: b}}}", "registration.argoCD.namespace: "),
            ("{argoCD: {namespace: a, projects: {a: b}}}", "registration.argoCD.projects: a is Argo CD's own"),
            ("{argoCD: {namespace: argocd, projects: {a: ''}}}", "registration.argoCD.projects.a: it is empty"),
        ] {
            assert!(read(wrong).unwrap_err().starts_with(field), "{wrong}");
        }
    }
}
