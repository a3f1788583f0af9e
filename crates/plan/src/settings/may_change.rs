//! What admission of the meta cluster may change of what Berth applies: the chart's value `admission.mayChange`.

use berth_render::Kind;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Kinds with pods, whose templates platforms rewrite. A Job is made once and compared with nothing; it may be named beside the others.
const KINDS: [Kind; 3] = [Kind::Deployment, Kind::StatefulSet, Kind::Job];

/// What may be declared, with all below it. Nothing else: not what a pod may do (`securityContext`, `serviceAccountName`,
/// `automountServiceAccountToken`), runs (`args`, `command`, `env`) or reads (`volumes` but for images), nor what Berth decides by
/// (`replicas`, `strategy`, `selector`, labels, annotations, owner references, finalizers).
const OPEN: [&str; 20] = [
    "/spec/revisionHistoryLimit",
    "/spec/template/spec/affinity",
    "/spec/template/spec/containers/*/image",
    "/spec/template/spec/containers/*/imagePullPolicy",
    "/spec/template/spec/containers/*/resources",
    "/spec/template/spec/containers/*/terminationMessagePolicy",
    "/spec/template/spec/imagePullSecrets",
    "/spec/template/spec/initContainers/*/image",
    "/spec/template/spec/initContainers/*/imagePullPolicy",
    "/spec/template/spec/initContainers/*/resources",
    "/spec/template/spec/initContainers/*/terminationMessagePolicy",
    "/spec/template/spec/nodeSelector",
    "/spec/template/spec/priorityClassName",
    "/spec/template/spec/runtimeClassName",
    "/spec/template/spec/schedulerName",
    "/spec/template/spec/terminationGracePeriodSeconds",
    "/spec/template/spec/tolerations",
    "/spec/template/spec/topologySpreadConstraints",
    "/spec/template/spec/volumes/*/emptyDir/sizeLimit",
    "/spec/template/spec/volumes/*/image",
];

/// Fields that the platform declares as its own, by kind. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MayChange(BTreeSet<(Kind, Vec<String>)>);

impl MayChange {
    /// Whether it may change on which nodes pods of that kind find room: what runs then says nothing of what was asked for.
    pub fn has_nodes(&self, kind: Kind) -> bool {
        let is_of_nodes = |path: &[String]| {
            ["tolerations", "nodeSelector", "affinity", "resources"]
                .iter()
                .any(|field| path.iter().any(|step| step == field))
        };
        self.0.iter().any(|(of, path)| *of == kind && is_of_nodes(path))
    }

    /// Whether it may change that field. `steps`: the names of fields and items from the object on.
    pub(crate) fn has(&self, kind: Kind, steps: &[&str]) -> bool {
        self.0.iter().any(|(of, path)| *of == kind && covers(path, steps))
    }
}

/// The path by which that field would be declared. None: Berth must have it.
pub(crate) fn declarable(kind: Kind, steps: &[&str]) -> Option<&'static str> {
    OPEN.into_iter().find(|open| KINDS.contains(&kind) && covers(&split(open), steps))
}

/// A path, as people write it (RFC 6901).
pub(crate) fn joined(steps: &[&str]) -> String {
    steps.iter().flat_map(|step| ["/".to_owned(), step.replace('~', "~0").replace('/', "~1")]).collect()
}

fn split(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// Whether the field is at that path, or below it. `*` stands for any item.
fn covers(path: &[String], steps: &[&str]) -> bool {
    path.len() <= steps.len() && path.iter().zip(steps).all(|(of, step)| of == "*" || of == step)
}

/// The file's part.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Admission {
    may_change: Vec<Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    kinds: Vec<String>,
    paths: Vec<String>,
}

impl Admission {
    pub(super) fn read(self) -> Result<MayChange, String> {
        let mut all = BTreeSet::new();
        for (i, Entry { kinds, paths }) in self.may_change.into_iter().enumerate() {
            let wrong = |why: String| format!("admission.mayChange[{i}].{why}");
            if kinds.is_empty() || paths.is_empty() {
                return Err(wrong(format!("{}: name at least one", if kinds.is_empty() { "kinds" } else { "paths" })));
            }
            for kind in &kinds {
                let kind = KINDS
                    .into_iter()
                    .find(|of| of.name() == kind)
                    .ok_or_else(|| wrong(format!("kinds: {kind} is none of {}", KINDS.map(Kind::name).join(", "))))?;
                for path in &paths {
                    all.insert((kind, read(path).map_err(|why| wrong(format!("paths: {path} {why}")))?));
                }
            }
        }
        Ok(MayChange(all))
    }
}

fn read(path: &str) -> Result<Vec<String>, String> {
    let steps = split(path);
    if !path.starts_with('/') || steps.iter().any(String::is_empty) {
        return Err("is no path, such as /spec/template/spec/containers/*/resources".to_owned());
    }
    let plain: Vec<&str> = steps.iter().map(String::as_str).collect();
    // A * in the path is narrower than no * in what is open.
    let is_open = OPEN.into_iter().any(|open| covers(&split(open), &plain));
    is_open.then_some(steps).ok_or_else(|| format!("is not, and not below, one of {}", OPEN.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;

    const RESOURCES: &str = "/spec/template/spec/containers/*/resources";

    fn parse(kinds: &str, paths: &str) -> Result<MayChange, String> {
        let file = format!("admission: {{mayChange: [{{kinds: {kinds}, paths: {paths}}}]}}");
        Config::parse(&file).map(|config| {
            assert!(config.unknown.is_empty());
            config.may_change
        })
    }

    #[test]
    fn a_path_covers_what_is_below_it() {
        let may = parse("[Deployment, Job]", &format!("[{RESOURCES}, /spec/template/spec/nodeSelector/a~1b]")).unwrap();
        for (kind, path, expected) in [
            (Kind::Deployment, "spec/template/spec/containers/x/resources", true),
            (Kind::Deployment, "spec/template/spec/containers/x/resources/requests/cpu", true),
            (Kind::Job, "spec/template/spec/containers/x/resources/limits", true),
            (Kind::StatefulSet, "spec/template/spec/containers/x/resources", false),
            (Kind::Deployment, "spec/template/spec/containers/x/image", false),
            (Kind::Deployment, "spec/template/spec/containers/x", false),
            (Kind::Deployment, "spec/template/spec/initContainers/x/resources", false),
        ] {
            assert_eq!(may.has(kind, &path.split('/').collect::<Vec<_>>()), expected, "{path}");
        }
        assert!(may.has(Kind::Deployment, &["spec", "template", "spec", "nodeSelector", "a/b"]));
        assert!(!may.has(Kind::Deployment, &["spec", "template", "spec", "nodeSelector", "a"]));
        let one = parse("[StatefulSet]", "[/spec/template/spec/containers/etcd/image]").unwrap();
        let image = |name| one.has(Kind::StatefulSet, &["spec", "template", "spec", "containers", name, "image"]);
        assert!(image("etcd") && !image("other"));
        assert_eq!(Config::parse("admission: {}").unwrap().may_change, MayChange::default());
        assert_eq!(joined(&["spec", "a/b", "c~d"]), "/spec/a~1b/c~0d");
    }

    #[test]
    fn what_berth_must_have_is_refused_with_what_may_be_declared() {
        let pods = "/spec/template/spec";
        for path in [
            "/",
            "",
            "/*",
            "/spec",
            "/*/*/*/*/*/*",
            "/spec/*",
            "/spec/replicas",
            "/spec/selector",
            "/spec/strategy",
            "/spec/template",
            "/spec/template/*/containers/*/resources",
            "/spec/template/metadata/labels",
            "/metadata/ownerReferences",
            "/metadata/finalizers",
            "/metadata/annotations",
        ] {
            assert!(parse("[Deployment]", &format!("['{path}']")).is_err(), "{path}");
        }
        for field in [
            "securityContext",
            "serviceAccountName",
            "automountServiceAccountToken",
            "hostNetwork",
            "hostAliases",
            "volumes",
            "volumes/*/secret",
            "volumes/*/projected",
            "volumes/*",
            "containers",
            "containers/*",
            "containers/*/*",
            "containers/*/args",
            "containers/*/command",
            "containers/*/env",
            "containers/*/securityContext",
            "containers/*/volumeMounts",
            "containers/*/lifecycle",
            "ephemeralContainers/*/image",
            "*/*/image",
            "containers/*/imagePullPolicy~1",
        ] {
            assert!(parse("[Deployment]", &format!("['{pods}/{field}']")).is_err(), "{field}");
        }
        let said = parse("[Deployment]", "[/spec/replicas]").unwrap_err();
        assert!(
            said.starts_with("admission.mayChange[0].paths: /spec/replicas is not, and not below, one of /spec/"),
            "{said}"
        );
        for (kinds, paths, why) in [
            ("[Service]", RESOURCES, "kinds: Service is none of Deployment, StatefulSet, Job"),
            ("[]", RESOURCES, "kinds: name at least one"),
            ("[Job]", "", "paths: name at least one"),
            ("[Job]", "spec/x", "paths: spec/x is no path, such as /spec/template/spec/containers/*/resources"),
            ("[Job]", "/spec//x", "paths: /spec//x is no path"),
        ] {
            let said = parse(kinds, &format!("[{paths}]")).unwrap_err();
            assert!(said.starts_with(&format!("admission.mayChange[0].{why}")), "{said}");
        }
    }
}
