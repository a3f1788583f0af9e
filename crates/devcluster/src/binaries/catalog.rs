//! What is built, in the order in which it is needed, as data.

use std::path::PathBuf;

use crate::versions::{
    AGNHOST, AGNHOST_OLDER, CNI_PLUGINS, CONTAINERD, COREDNS, CRANE, DESCHEDULER, ETCD, ETCD_OLDER, HEALTH, HELM,
    HELM_NEXT, KUBE_ROUTER, KUBERNETES, KUBERNETES_OLDER, KUBERNETES_OLDEST, KUBERNETES_PREVIOUS_PATCH, KWOK,
    METRICS_SERVER, OTELCOL, RUNC, S3S_FS,
};

/// Which artifacts to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// What tests with an API server and without pods need: the newest Kubernetes and etcd, helm and health.
    Server,
    /// What `devcluster up` and the tests of every day need.
    Core,
    /// Also what only `make test-all` needs: the minors between the newest and the oldest, and the older minors' e2e suites.
    All,
    /// No more than one cluster needs: the newest Kubernetes and etcd, containerd and so on.
    Cluster,
    /// These by name (`kubernetes-v1.35.4`, `kube-apiserver-v1.36.3`, `etcd`, `e2e.test`, `kwok` …).
    Named(Vec<String>),
}

/// One or more binaries of one module and version that are built together.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The name for people and for `devcluster build NAME`.
    pub label: &'static str,
    /// The component: a folder of the cache, see [`super::directory`].
    pub component: &'static str,
    /// The version that the binaries report.
    pub version: &'static str,
    /// The binaries and the package of each.
    pub binaries: Vec<(&'static str, String)>,
    /// Whether [`Selection::Core`] has it.
    pub core: bool,
    pub(super) recipe: Recipe,
}

/// How an artifact is built.
#[derive(Clone, Debug)]
pub(super) enum Recipe {
    /// `go build` of the packages in a wrapper module that requires `modules` at `source_version`, and replaces others by versions as
    /// the first one does. With `has_staging`, the modules that it replaces by paths of its own are replaced by their published versions.
    /// With `test`, the package is a test suite, and the binary runs it.
    Wrapper { modules: Vec<&'static str>, source_version: &'static str, has_staging: bool, test: bool },
    /// `go install package@version`.
    Install { cgo_tags: Option<&'static str> },
    /// `cargo install` of a crate with these features.
    Cargo { features: &'static str },
    /// Embedded sources: files of one folder, with a go.mod if they need modules.
    Source { files: &'static [(&'static str, &'static str)] },
}

impl Artifact {
    /// The path of one binary in the cache.
    pub fn binary(&self, name: &str) -> PathBuf {
        super::directory(self.component, self.version).join(name)
    }

    /// Label and version, for example `etcd-v3.6.16`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.label, self.version)
    }

    /// Whether every file is there.
    pub fn is_built(&self) -> bool {
        self.binaries.iter().all(|(name, _)| self.binary(name).exists())
            && self.folder().is_none_or(|name| self.binary(name).exists())
    }

    /// A folder of the module that is kept beside its programs: kwok does nothing without stages, and other things are installed by
    /// their chart.
    pub(super) fn folder(&self) -> Option<&'static str> {
        match self.component {
            "kwok" => Some("stages"),
            "metrics-server" | "descheduler" => Some("chart"),
            _ => None,
        }
    }

    fn is_for_servers(&self) -> bool {
        ["kubernetes", "etcd", "helm", "health"].contains(&self.label) && self.is_newest()
    }

    fn is_for_clusters(&self) -> bool {
        ![
            "agnhost",
            "agnhost-older",
            "crane",
            "descheduler",
            "helm",
            "helm4",
            "health",
            "kube-router",
            "kwok",
            "metrics-server",
            "otelcol",
            "s3s-fs",
            "e2e.test",
        ]
        .contains(&self.label)
            && self.is_newest()
    }

    fn is_newest(&self) -> bool {
        match self.component {
            "kubernetes" => self.version == KUBERNETES,
            "etcd" => self.version == ETCD,
            _ => true,
        }
    }

    fn matches(&self, wanted: &str) -> bool {
        wanted == self.label
            || wanted == self.name()
            || self.binaries.iter().any(|(name, _)| wanted == *name || wanted == format!("{name}-{}", self.version))
    }
}

impl Selection {
    /// The artifacts, in build order. Names that match nothing are returned as the error.
    pub fn artifacts(&self) -> Result<Vec<Artifact>, Vec<String>> {
        let all = catalog();
        match self {
            Self::Server => Ok(all.into_iter().filter(Artifact::is_for_servers).collect()),
            Self::Core => Ok(all.into_iter().filter(|a| a.core).collect()),
            Self::All => Ok(all),
            Self::Cluster => Ok(all.into_iter().filter(Artifact::is_for_clusters).collect()),
            Self::Named(names) => {
                let unknown: Vec<_> = names.iter().filter(|n| !all.iter().any(|a| a.matches(n))).cloned().collect();
                if unknown.is_empty() {
                    Ok(all.into_iter().filter(|a| names.iter().any(|n| a.matches(n))).collect())
                } else {
                    Err(unknown)
                }
            }
        }
    }
}

const CONTROL_PLANE: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const NODE_AND_CLIENT: [&str; 4] = ["kubelet", "kube-proxy", "kubectl", "kubeadm"];

fn catalog() -> Vec<Artifact> {
    let mut all = vec![
        kubernetes(KUBERNETES, KUBERNETES, &[&CONTROL_PLANE[..], &NODE_AND_CLIENT[..]].concat()),
        etcd(ETCD),
        tool(
            "containerd",
            CONTAINERD,
            "github.com/containerd/containerd/v2/cmd/",
            &["containerd", "containerd-shim-runc-v2", "ctr"],
        ),
        Artifact {
            recipe: Recipe::Install { cgo_tags: Some("seccomp") },
            binaries: vec![("runc", "github.com/opencontainers/runc".to_owned())],
            ..tool("runc", RUNC, "", &[])
        },
        cni_plugins(),
        // With the plugins of the Corefiles here; a publisher's has all of them.
        Artifact {
            binaries: vec![("coredns", String::new())],
            recipe: Recipe::Source {
                files: &[
                    ("main.go", include_str!("coredns/main.go")),
                    ("go.mod", include_str!("coredns/go.mod")),
                    ("go.sum", include_str!("coredns/go.sum")),
                ],
            },
            ..tool("coredns", COREDNS, "", &[])
        },
        // A web server among much else: what the demo runs on a tenant's nodes.
        Artifact {
            binaries: vec![("agnhost", "k8s.io/kubernetes/test/images/agnhost".to_owned())],
            recipe: kubernetes_recipe(KUBERNETES, false),
            ..tool("agnhost", AGNHOST, "", &[])
        },
        Artifact {
            binaries: vec![("pause", String::new())],
            recipe: Recipe::Source { files: &[("main.go", include_str!("../images/pause.go"))] },
            ..tool("pause", crate::versions::PAUSE, "", &[])
        },
        tool("helm", HELM, "helm.sh/helm/v3/cmd/", &["helm"]),
        Artifact {
            binaries: vec![("health", String::new())],
            recipe: Recipe::Source {
                files: &[
                    ("main.go", include_str!("health/main.go")),
                    ("go.mod", include_str!("health/go.mod")),
                    ("go.sum", include_str!("health/go.sum")),
                ],
            },
            ..tool("health", HEALTH, "", &[])
        },
        // The sources of the newest patch, linked with the number of the one before: a test that rolls a patch needs
        // two versions that report different numbers, not two different programs, and this spares a build.
        kubernetes(KUBERNETES_PREVIOUS_PATCH, KUBERNETES, &CONTROL_PLANE),
    ];
    all.push(kubernetes(KUBERNETES_OLDEST, KUBERNETES_OLDEST, &CONTROL_PLANE));
    all.push(etcd(ETCD_OLDER));
    all.push(conformance(KUBERNETES));
    all.push(tool("kwok", KWOK, "sigs.k8s.io/kwok/cmd/", &["kwok"]));
    // An S3 server on a directory, for tests of backups.
    all.push(Artifact {
        binaries: vec![("s3s-fs", "s3s-fs".to_owned())],
        recipe: Recipe::Cargo { features: "binary" },
        ..tool("s3s-fs", S3S_FS, "", &[])
    });
    let seldom = |artifact| Artifact { core: false, ..artifact };
    let between = KUBERNETES_OLDER.into_iter().filter(|version| *version != KUBERNETES_OLDEST);
    // Under another name: the demo takes what is called helm.
    all.push(seldom(Artifact {
        binaries: vec![("helm4", "helm.sh/helm/v4/cmd/helm".to_owned())],
        recipe: Recipe::Wrapper {
            modules: vec!["helm.sh/helm/v4"],
            source_version: HELM_NEXT,
            has_staging: false,
            test: false,
        },
        ..tool("helm4", HELM_NEXT, "", &[])
    }));
    all.push(seldom(Artifact {
        label: "agnhost-older",
        binaries: vec![("agnhost", "k8s.io/kubernetes/test/images/agnhost".to_owned())],
        recipe: kubernetes_recipe(KUBERNETES_OLDEST, false),
        ..tool("agnhost", AGNHOST_OLDER, "", &[])
    }));
    all.extend(between.map(|version| seldom(kubernetes(version, version, &CONTROL_PLANE))));
    all.extend(KUBERNETES_OLDER.map(|version| seldom(conformance(version))));
    all.push(seldom(Artifact {
        binaries: vec![("otelcol", String::new())],
        recipe: Recipe::Source {
            files: &[
                ("main.go", include_str!("otelcol/main.go")),
                ("go.mod", include_str!("otelcol/go.mod")),
                ("go.sum", include_str!("otelcol/go.sum")),
            ],
        },
        ..tool("otelcol", OTELCOL, "", &[])
    }));
    all.push(seldom(tool(
        "kube-router",
        KUBE_ROUTER,
        "github.com/cloudnativelabs/kube-router/v2/cmd/",
        &["kube-router"],
    )));
    all.push(seldom(tool("metrics-server", METRICS_SERVER, "sigs.k8s.io/metrics-server/cmd/", &["metrics-server"])));
    all.push(seldom(Artifact {
        recipe: Recipe::Wrapper {
            modules: vec!["sigs.k8s.io/descheduler"],
            source_version: DESCHEDULER,
            has_staging: false,
            test: false,
        },
        ..tool("descheduler", DESCHEDULER, "sigs.k8s.io/descheduler/cmd/", &["descheduler"])
    }));
    // A registry, and what pushes to it: a release is installed from one.
    all.push(seldom(tool("crane", CRANE, "github.com/google/go-containerregistry/cmd/", &["crane"])));
    all
}

fn kubernetes(version: &'static str, source_version: &'static str, names: &[&'static str]) -> Artifact {
    Artifact {
        label: "kubernetes",
        component: "kubernetes",
        version,
        binaries: names.iter().map(|name| (*name, format!("k8s.io/kubernetes/cmd/{name}"))).collect(),
        core: true,
        recipe: kubernetes_recipe(source_version, false),
    }
}

/// Kubernetes' own e2e suite: each minor is judged by its own.
fn conformance(version: &'static str) -> Artifact {
    Artifact {
        label: "e2e.test",
        binaries: vec![("e2e.test", "k8s.io/kubernetes/test/e2e".to_owned())],
        recipe: kubernetes_recipe(version, true),
        ..kubernetes(version, version, &[])
    }
}

fn kubernetes_recipe(source_version: &'static str, test: bool) -> Recipe {
    Recipe::Wrapper { modules: vec!["k8s.io/kubernetes"], source_version, has_staging: true, test }
}

fn etcd(version: &'static str) -> Artifact {
    let modules = vec!["go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdutl/v3"];
    Artifact {
        label: "etcd",
        component: "etcd",
        version,
        binaries: ["etcd", "etcdctl", "etcdutl"].into_iter().zip(modules.iter().map(|m| (*m).to_owned())).collect(),
        core: true,
        recipe: Recipe::Wrapper { modules, source_version: version, has_staging: false, test: false },
    }
}

fn tool(component: &'static str, version: &'static str, prefix: &str, names: &[&'static str]) -> Artifact {
    Artifact {
        label: component,
        component,
        version,
        binaries: names.iter().map(|name| (*name, format!("{prefix}{name}"))).collect(),
        core: true,
        recipe: Recipe::Install { cgo_tags: None },
    }
}

fn cni_plugins() -> Artifact {
    let module = "github.com/containernetworking/plugins/plugins";
    let plugins = [
        ("bridge", "main"),
        ("macvlan", "main"),
        ("ptp", "main"),
        ("loopback", "main"),
        ("portmap", "meta"),
        ("host-local", "ipam"),
        ("static", "ipam"),
    ];
    Artifact {
        binaries: plugins.map(|(name, kind)| (name, format!("{module}/{kind}/{name}"))).to_vec(),
        ..tool("cni-plugins", CNI_PLUGINS, "", &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_an_artifact_a_binary_or_a_component() {
        let named = |n: &str| {
            let artifacts = Selection::Named(vec![n.to_owned()]).artifacts().unwrap();
            artifacts.iter().map(Artifact::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named("kwok"), "kwok-0.8.0");
        assert_eq!(named("etcd-v3.5.35"), "etcd-v3.5.35");
        assert_eq!(named("kubelet"), "kubernetes-v1.36.3");
        assert_eq!(named("e2e.test-v1.35.4"), "e2e.test-v1.35.4");
        assert_eq!(named("etcd"), "etcd-v3.6.16 etcd-v3.5.35");
        assert_eq!(Selection::Named(vec!["nope".to_owned()]).artifacts().unwrap_err(), ["nope"]);
    }

    /// Each word that begins a line within a server's block is a plugin, but for `import`.
    #[test]
    fn coredns_is_built_with_every_plugin_that_a_corefile_here_uses() {
        let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
        let mut corefiles = vec![std::fs::read_to_string(root.join("crates/devcluster/src/addons.rs")).unwrap()];
        for minor in std::fs::read_dir(root.join("templates")).unwrap() {
            let file = minor.unwrap().path().join("addons/coredns/files/Corefile.j2");
            corefiles.extend(std::fs::read_to_string(file));
        }
        // A newer minor has a file of its own only if it differs.
        assert!(corefiles.len() > 1, "the templates have a Corefile");
        let (main, module) = (include_str!("coredns/main.go"), include_str!("coredns/go.mod"));
        let mut used = 0;
        for corefile in &corefiles {
            let from = corefile.find(":53 {").unwrap();
            let block = corefile[from..].lines().take_while(|line| !line.starts_with("\";"));
            for word in
                block.filter_map(|line| line.strip_prefix("    ")).filter(|line| line.starts_with(char::is_alphabetic))
            {
                let plugin = match word.split_whitespace().next().unwrap_or_default() {
                    "import" => continue,
                    "prometheus" => "metrics",
                    name => name,
                };
                used += 1;
                assert!(main.contains(&format!("coredns/plugin/{plugin}\"")), "{plugin} is not in coredns/main.go");
            }
        }
        assert!(used > 15, "{used} plugins were found");
        assert!(module.contains(&format!("github.com/coredns/coredns v{COREDNS}\n")), "go.mod has another version");
    }

    #[test]
    fn each_selection_has_what_the_one_before_has_and_core_leaves_out_what_is_seldom_needed() {
        let names = |selection: Selection| -> Vec<String> {
            selection.artifacts().unwrap().iter().map(Artifact::name).collect()
        };
        let [server, cluster, core, all] =
            [Selection::Server, Selection::Cluster, Selection::Core, Selection::All].map(names);
        assert_eq!(server, ["kubernetes-v1.36.3", "etcd-v3.6.16", "helm-3.22.0", "health-1"]);
        assert!(server.iter().filter(|n| !n.starts_with("he")).all(|n| cluster.contains(n)), "{cluster:?}");
        assert!(server.iter().chain(&cluster).all(|n| core.contains(n)), "{core:?}");
        let seldom: Vec<_> = all.iter().filter(|n| !core.contains(n)).collect();
        assert_eq!(
            seldom,
            [
                "helm4-v4.3.1",
                "agnhost-older-2.56",
                "kubernetes-v1.35.4",
                "e2e.test-v1.35.4",
                "e2e.test-v1.34.4",
                "otelcol-0.160.0",
                "kube-router-2.1.0",
                "metrics-server-0.9.0",
                "descheduler-v0.36.0",
                "crane-0.22.1"
            ]
        );
    }
}
