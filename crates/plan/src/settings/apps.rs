//! Apps in tenants: what installs them, and where charts may come from.

use super::port;
use serde::Deserialize;
use serde_json::Value;

/// What installs apps, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apps {
    /// Image of `berth-apps`. Empty: there are no apps.
    pub image: String,
    /// Where registries are, as peers of NetworkPolicies. Default: everywhere but in the meta cluster.
    pub peers: Vec<Value>,
    /// The operator's namespace: an `App` there is for `Cluster`s of all namespaces.
    pub namespace: String,
    /// Where charts of `App`s in other namespaces may come from; `*` at the end of one stands for any rest. Default: nowhere.
    pub sources: Vec<String>,
}

impl Apps {
    /// Whether apps are installed.
    pub fn are_enabled(&self) -> bool {
        !self.image.is_empty()
    }

    /// Whether an `App` in that namespace may have a chart from there.
    pub fn allows(&self, namespace: &str, source: &str) -> bool {
        let fits = |allowed: &String| match allowed.strip_suffix('*') {
            Some(start) => source.starts_with(start),
            None => allowed == source,
        };
        namespace == self.namespace || self.sources.iter().any(fits)
    }
}

/// The port of a registry or a repository, of its URL. `plain`: it speaks HTTP.
pub fn port_of_source(source: &str, plain: bool) -> Option<u16> {
    match source.strip_prefix("oci://") {
        Some(rest) => port(&format!("{}://{rest}", if plain { "http" } else { "https" })),
        None => port(source),
    }
}

/// The file's part.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OfFile {
    image: String,
    peers: Vec<Value>,
}

/// What of the file writers may ask for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AllowedApps {
    pub(super) sources: Vec<String>,
}

impl OfFile {
    pub(super) fn read(self, allowed: AllowedApps) -> Result<Apps, String> {
        // With oci://registry.example* that of registry.example.attacker.org would be allowed as well.
        let is_wrong = |source: &&String| {
            let has_scheme = ["oci://", "https://", "http://"].iter().any(|scheme| source.starts_with(scheme));
            let (start, is_open) = source.strip_suffix('*').map_or((&***source, false), |start| (start, true));
            let is_bounded = !is_open || (start.ends_with('/') && !start.ends_with("//"));
            *source != "*" && !(has_scheme && is_bounded && !start.contains('*'))
        };
        if let Some(source) = allowed.sources.iter().find(is_wrong) {
            return Err(format!(
                "writers.apps.sources: {source}: write a URL that begins with oci://, https:// or http:// and that has a * after a slash at its end or nowhere, such as oci://registry.example.com/charts/*"
            ));
        }
        // The file does not say the namespace.
        Ok(Apps { image: self.image, peers: self.peers, namespace: String::new(), sources: allowed.sources })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_teams_are_closed_by_default() {
        let apps = |sources: &[&str]| Apps {
            namespace: "berth-system".into(),
            sources: sources.iter().map(|&source| source.to_owned()).collect(),
            ..Apps::default()
        };
        let source = "oci://reg.example.com/charts/web";
        assert!(apps(&[]).allows("berth-system", source) && !apps(&[]).allows("team-a", source));
        for (allowed, fits) in [
            ("oci://reg.example.com/charts/*", true),
            (source, true),
            ("*", true),
            ("oci://reg.example.com/charts", false),
            ("oci://other/*", false),
        ] {
            assert_eq!(apps(&[allowed]).allows("team-a", source), fits, "{allowed}");
        }
        let read = |source: &str| OfFile::default().read(AllowedApps { sources: vec![source.into()] });
        for wrong in ["reg.example.com/*", "oci://reg.example*", "oci://*", "https://reg/*/web", "httpx://reg/*"] {
            assert!(read(wrong).unwrap_err().starts_with(&format!("writers.apps.sources: {wrong}:")), "{wrong}");
        }
        for fine in ["*", "oci://reg.example.com/*", "https://charts.example.com/stable/web"] {
            read(fine).unwrap();
        }
    }

    #[test]
    fn the_port_of_a_registry_is_in_its_reference() {
        for (source, plain, wanted) in [
            ("oci://reg.example.com/charts/web", false, Some(443)),
            ("oci://reg.example.com/charts/web", true, Some(80)),
            ("oci://10.0.0.7:5000/web", true, Some(5000)),
            ("https://charts.example.com/stable/web", false, Some(443)),
            ("reg", false, None),
        ] {
            assert_eq!(port_of_source(source, plain), wanted, "{source}");
        }
    }
}
