//! What needs no cluster: `render` and `images`.

use berth_api::common::AgentDelivery;
use berth_api::version::Version;
use clap::ValueEnum;
use std::path::PathBuf;

/// `render`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Render {
    /// File with the Cluster; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Image of Berth's agent, as the operator's flag of that name.
    #[arg(long, default_value = "berth.dev/agent:dev", value_name = "IMAGE")]
    pub(crate) agent_image: String,
    /// How the agent gets into the pods, as the operator's flag of that name.
    #[arg(long, value_enum, default_value_t, ignore_case = true)]
    pub(crate) agent_delivery: Delivery,
    /// Registry with upstream's images, as the operator's flag of that name. Default: registry.k8s.io.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "REGISTRY")]
    pub(crate) image_registry: String,
    /// Namespace of the operator.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
    /// The operator's configuration file, see the chart's values `meta`, `isolation`, `writers`, `vpc` and `backups`.
    #[arg(long, value_name = "FILE")]
    pub(crate) operator_config: Option<PathBuf>,
    /// Print the objects in the tenant instead of those on the meta cluster.
    #[arg(long)]
    pub(crate) inside: bool,
    /// How to print: documents, or one List.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Objects,
}

/// `images`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Images {
    /// Kubernetes versions of tenants, such as 1.36.3, separated by commas. Default: one of each minor that this Berth is tested with.
    #[arg(long = "version", value_name = "VERSIONS", value_delimiter = ',')]
    pub(crate) versions: Vec<Version>,
    /// etcd version of tenants that set `spec.etcd.version`. Default: the one of new tenants.
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub(crate) etcd: Vec<Version>,
    /// Registry to mirror to. Print each image and what it is called there, with the chart's imageRegistry.
    #[arg(long, value_name = "REGISTRY")]
    pub(crate) to: Option<String>,
    /// Where that registry has upstream's images, as the chart's imageLayout.
    #[arg(long, value_enum, default_value_t, ignore_case = true, requires = "to")]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) of: ImagesOf,
}

/// Apps whose images are meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ImagesOf {
    /// Instead, the images of the charts of all Apps: of a namespace with -n, else of all.
    #[arg(long, conflicts_with_all = ["versions", "etcd", "app", "file"])]
    pub(crate) apps: bool,
    /// Instead, the images of this App's chart; several times for several.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["versions", "etcd", "file"])]
    pub(crate) app: Vec<String>,
    /// Instead, the images of the chart of the App in this file, which is not stored yet; `-` is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["versions", "etcd"])]
    pub(crate) file: Option<PathBuf>,
    /// Only with the values of this Cluster; several times for several. As `<namespace>/<name>` if it is in another namespace.
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Vec<String>,
    /// Namespace of the operator, whose Apps are for Clusters of all namespaces.
    #[arg(long, default_value = "berth-system", value_name = "NAMESPACE")]
    pub(crate) operator_namespace: String,
}

impl ImagesOf {
    /// Whether any are meant.
    pub(crate) fn are_asked(&self) -> bool {
        self.apps || !self.app.is_empty() || self.file.is_some()
    }
}

/// Where a registry has upstream's images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Under the last part of their names.
    #[default]
    Flat,
    /// Under their whole paths.
    Upstream,
}

impl From<Layout> for berth_render::images::Layout {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Flat => Self::Flat,
            Layout::Upstream => Self::Upstream,
        }
    }
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Objects {
    /// Documents.
    #[default]
    Yaml,
    /// A `v1` List.
    Json,
}

/// How the agent gets into pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Delivery {
    /// By an init container.
    #[default]
    InitContainer,
    /// As an image volume.
    ImageVolume,
}

impl From<Delivery> for AgentDelivery {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::InitContainer => Self::InitContainer,
            Delivery::ImageVolume => Self::ImageVolume,
        }
    }
}
