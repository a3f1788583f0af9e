//! Where binaries come from: what `BERTH_BINARIES` asks for, and what publishers offer at which address. Pure.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::catalog::Artifact;

/// The variable of the environment that says where binaries come from.
pub(super) const VARIABLE: &str = "BERTH_BINARIES";

/// The list of sums at the root of a [`Base`].
pub(super) const SUMS: &str = "SHA256SUMS";

/// What `BERTH_BINARIES` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// From publishers, and what cannot be had there is built. The default.
    Auto,
    /// From publishers, or not at all; what none of them offers is built.
    Download,
    /// Built.
    Build,
    /// From one place that has the layout of the cache's `bin`.
    Base(Base),
}

/// A copy of a cache's `bin` with a list of sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Folder(PathBuf),
    /// `http://` or `https://`, without a slash at the end.
    Url(String),
}

impl Base {
    /// Where a file of it is, for people.
    pub(super) fn place(&self, path: &str) -> String {
        match self {
            Self::Folder(folder) => folder.join(path).display().to_string(),
            Self::Url(url) => format!("{url}/{path}"),
        }
    }
}

impl Mode {
    /// Reads the variable's value; `is_folder` looks whether there is such a folder.
    pub(super) fn parse(value: &str, is_folder: impl Fn(&Path) -> bool) -> Result<Self> {
        match value {
            "" | "auto" => return Ok(Self::Auto),
            "download" => return Ok(Self::Download),
            "build" => return Ok(Self::Build),
            _ => {}
        }
        let scheme = value.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("http" | "https") => {
                let url = value.trim_end_matches('/');
                let parsed =
                    url.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
                let Some(uri) = parsed.filter(|uri| uri.scheme().is_some()) else {
                    bail!("{VARIABLE} is no address: {value}")
                };
                if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
                    bail!("{VARIABLE} is an address with a password, which is not sent: use one without");
                }
                if uri.query().is_some() {
                    bail!("{VARIABLE} is an address with a question mark: names of files are added to its end");
                }
                Ok(Self::Base(Base::Url(url.to_owned())))
            }
            Some(scheme) => {
                bail!("{VARIABLE} is an address with {scheme}://: http://, https:// and the path of a folder are known")
            }
            None if is_folder(Path::new(value)) => Ok(Self::Base(Base::Folder(PathBuf::from(value)))),
            None => bail!(
                "{VARIABLE} is `{value}`, and there is no such folder: it is auto, download, build, a folder, or an \
                 address with http:// or https://"
            ),
        }
    }
}

/// A processor for which publishers offer binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// This machine's.
    pub(super) fn here() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// As publishers call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// A file of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Its address without `https://`: so it is named in the checkout's table of sums.
    pub address: String,
    /// The address of the publisher's file with its sum, also without `https://`.
    pub sums: String,
    pub holds: Holds,
}

/// What a file of a publisher is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// The program of this name.
    Program(&'static str),
    /// A compressed archive: names of programs, and where each is inside.
    Archive(Vec<(&'static str, String)>),
}

impl Offer {
    /// The names of its programs in the cache.
    pub(super) fn programs(&self) -> Vec<&'static str> {
        match &self.holds {
            Holds::Program(name) => vec![name],
            Holds::Archive(members) => members.iter().map(|(name, _)| *name).collect(),
        }
    }

    /// The file's own name, as lists of sums have it.
    pub(super) fn file(&self) -> &str {
        self.address.rsplit('/').next().unwrap_or_default()
    }
}

/// What the publisher offers of an artifact; nothing if it has to be built.
pub(super) fn offers(artifact: &Artifact, arch: Arch) -> Vec<Offer> {
    let (version, arch) = (artifact.version.trim_start_matches('v'), arch.name());
    let names = || artifact.binaries.iter().map(|(name, _)| *name);
    let archive = |address: String, sums: &str, inside: &dyn Fn(&str) -> String| {
        let holds = Holds::Archive(names().map(|name| (name, inside(name))).collect());
        vec![Offer { sums: beside(&address, sums), address, holds }]
    };
    let github = |project: &str, file: &str| format!("github.com/{project}/releases/download/v{version}/{file}");
    match artifact.label {
        "kubernetes" => names()
            .map(|name| {
                let address = format!("dl.k8s.io/release/v{version}/bin/linux/{arch}/{name}");
                Offer { sums: beside(&address, ".sha256"), address, holds: Holds::Program(name) }
            })
            .collect(),
        "etcd" => {
            let folder = format!("etcd-v{version}-linux-{arch}");
            let address = github("etcd-io/etcd", &format!("{folder}.tar.gz"));
            archive(address, "/SHA256SUMS", &|name| format!("{folder}/{name}"))
        }
        "containerd" => {
            let file = format!("containerd-static-{version}-linux-{arch}.tar.gz");
            archive(github("containerd/containerd", &file), ".sha256sum", &|name| format!("bin/{name}"))
        }
        "runc" => {
            let address = github("opencontainers/runc", &format!("runc.{arch}"));
            vec![Offer { sums: beside(&address, "/runc.sha256sum"), address, holds: Holds::Program("runc") }]
        }
        "cni-plugins" => {
            let file = format!("cni-plugins-linux-{arch}-v{version}.tgz");
            archive(github("containernetworking/plugins", &file), ".sha256", &str::to_owned)
        }
        "coredns" => {
            let file = format!("coredns_{version}_linux_{arch}.tgz");
            archive(github("coredns/coredns", &file), ".sha256", &str::to_owned)
        }
        // The program is called helm in the archive of each major.
        "helm" | "helm4" => archive(format!("get.helm.sh/helm-v{version}-linux-{arch}.tar.gz"), ".sha256sum", &|_| {
            format!("linux-{arch}/helm")
        }),
        _ => Vec::new(),
    }
}

/// The address of the file with sums: an ending, or with a slash another name in the same folder.
fn beside(address: &str, sums: &str) -> String {
    match (sums.strip_prefix('/'), address.rsplit_once('/')) {
        (Some(name), Some((folder, _))) => format!("{folder}/{name}"),
        _ => format!("{address}{sums}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::Selection;

    fn parse(value: &str) -> String {
        match Mode::parse(value, |folder| folder == Path::new("/mnt/berth") || folder == Path::new("mirror")) {
            Ok(mode) => format!("{mode:?}"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn the_variable_is_a_word_a_folder_or_an_address() {
        assert_eq!(["", "auto", "download", "build"].map(parse), ["Auto", "Auto", "Download", "Build"]);
        assert_eq!(parse("/mnt/berth"), r#"Base(Folder("/mnt/berth"))"#);
        assert_eq!(parse("mirror"), r#"Base(Folder("mirror"))"#);
        assert_eq!(parse("http://10.0.0.1:8000/"), r#"Base(Url("http://10.0.0.1:8000"))"#);
        assert_eq!(parse("https://mirror.example.com/a/b//"), r#"Base(Url("https://mirror.example.com/a/b"))"#);
    }

    #[test]
    fn what_is_none_of_these_is_refused_and_a_password_is_not_repeated() {
        for (value, says) in [
            ("biuld", "`biuld`, and there is no such folder"),
            ("/mnt/gone", "no such folder"),
            ("Auto", "no such folder"),
            ("ftp://example.com", "with ftp://"),
            ("file:///mnt/berth", "with file://"),
            ("http://", "no address"),
            ("http://a b", "no address"),
            ("https://me:secret@example.com", "without"),
            ("https://example.com/?token=secret", "question mark"),
        ] {
            let said = parse(value);
            assert!(said.contains(says) && said.starts_with(VARIABLE), "{value}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn each_publisher_is_asked_where_it_keeps_its_releases() {
        let mut all = Vec::new();
        for artifact in Selection::All.artifacts().unwrap() {
            for offer in offers(&artifact, Arch::Amd64) {
                let holds = match &offer.holds {
                    Holds::Program(name) => format!("is {name}"),
                    Holds::Archive(members) => {
                        members.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>().join(" ")
                    }
                };
                let sums = offer.sums.strip_prefix(&offer.address).unwrap_or(&offer.sums);
                all.push(format!("{} [{sums}] {holds}", offer.address));
            }
        }
        for expected in [
            "dl.k8s.io/release/v1.36.3/bin/linux/amd64/kube-apiserver [.sha256] is kube-apiserver",
            "dl.k8s.io/release/v1.36.2/bin/linux/amd64/kube-scheduler [.sha256] is kube-scheduler",
            "github.com/etcd-io/etcd/releases/download/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz \
             [github.com/etcd-io/etcd/releases/download/v3.6.16/SHA256SUMS] \
             etcd-v3.6.16-linux-amd64/etcd etcd-v3.6.16-linux-amd64/etcdctl etcd-v3.6.16-linux-amd64/etcdutl",
            "github.com/containerd/containerd/releases/download/v2.4.2/containerd-static-2.4.2-linux-amd64.tar.gz \
             [.sha256sum] bin/containerd bin/containerd-shim-runc-v2 bin/ctr",
            "github.com/opencontainers/runc/releases/download/v1.5.2/runc.amd64 \
             [github.com/opencontainers/runc/releases/download/v1.5.2/runc.sha256sum] is runc",
            "github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz \
             [.sha256] bridge macvlan ptp loopback portmap host-local static",
            "github.com/coredns/coredns/releases/download/v1.14.2/coredns_1.14.2_linux_amd64.tgz [.sha256] coredns",
            "get.helm.sh/helm-v3.22.0-linux-amd64.tar.gz [.sha256sum] linux-amd64/helm",
            "get.helm.sh/helm-v4.3.1-linux-amd64.tar.gz [.sha256sum] linux-amd64/helm",
        ] {
            assert!(all.iter().any(|offer| offer == expected), "{expected} is not in\n{}", all.join("\n"));
        }
        assert!(all.iter().all(|offer| !offer.contains("vv")), "{all:?}");
    }

    #[test]
    fn an_offer_has_every_program_of_its_artifact_for_either_processor() {
        let mut built = Vec::new();
        for artifact in Selection::All.artifacts().unwrap() {
            let [amd64, arm64] = [Arch::Amd64, Arch::Arm64].map(|arch| offers(&artifact, arch));
            if amd64.is_empty() {
                built.push(artifact.label);
                continue;
            }
            let programs: Vec<_> = amd64.iter().flat_map(Offer::programs).collect();
            assert_eq!(programs, artifact.binaries.iter().map(|(name, _)| *name).collect::<Vec<_>>());
            let renamed = format!("{amd64:?}").replace("amd64", "arm64");
            assert_eq!(renamed, format!("{arm64:?}"));
        }
        built.dedup();
        assert_eq!(
            built,
            [
                "agnhost",
                "pause",
                "health",
                "e2e.test",
                "kwok",
                "s3s-fs",
                "agnhost-older",
                "e2e.test",
                "otelcol",
                "kube-router",
                "metrics-server",
                "descheduler",
                "crane"
            ]
        );
    }
}
