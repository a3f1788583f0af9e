//! The versions that Berth is built and tested against. A new one is a line here.

/// The Kubernetes of the meta cluster, and the newest that tenants may run.
pub const KUBERNETES: &str = "v1.36.3";

/// The patch release before [`KUBERNETES`], for tests that roll a patch.
pub const KUBERNETES_PREVIOUS_PATCH: &str = "v1.36.2";

/// Older minors that tenants may run: only their control-plane binaries are built.
pub const KUBERNETES_OLDER: [&str; 2] = ["v1.35.4", KUBERNETES_OLDEST];

/// The oldest minor. `make test` runs this one and the newest: what lies between renders what both take, which a test of `render`
/// holds, and runs with `make test-all`.
pub const KUBERNETES_OLDEST: &str = "v1.34.4";

/// The etcd of the meta cluster and the default of tenants.
pub const ETCD: &str = "v3.6.16";

/// The older etcd minor that tenants may run.
pub const ETCD_OLDER: &str = "v3.5.35";

pub const CONTAINERD: &str = "2.4.2";
pub(crate) const RUNC: &str = "1.5.2";
pub(crate) const CNI_PLUGINS: &str = "1.9.1";
/// Of the meta cluster, and of tenants of [`KUBERNETES`]: as in templates/v1.36/addons.
pub const COREDNS: &str = "1.14.2";
pub(crate) const CRANE: &str = "0.22.1";
pub(crate) const HELM: &str = "3.22.0";

/// The Helm that installs apps in tenants; it also waits for custom resources.
pub const HELM_NEXT: &str = "v4.3.1";

/// Enforces NetworkPolicies, where a cluster is asked for that; and tenants' network plugin, as in examples/apps.
pub const KUBE_ROUTER: &str = "2.1.0";

/// For tenants, as in examples/apps. Its module has its chart.
pub const METRICS_SERVER: &str = "0.9.0";

/// For tenants, as in examples/apps. Its module has its chart.
pub const DESCHEDULER: &str = "v0.36.0";
pub(crate) const KWOK: &str = "0.8.0";
/// An S3 server that keeps objects in a directory.
pub const S3S_FS: &str = "0.14.1";
/// Its image holds the namespaces of each pod.
pub const PAUSE: &str = "3.10.1";

/// Of the program in `binaries/health`, which is ours. Any change of it is a new version.
pub const HEALTH: &str = "1";

/// Of the image that [`KUBERNETES`]' own tests ask for.
pub const AGNHOST: &str = "2.63.0";

/// Of the image to which a test of theirs rolls back. They ask for 2.55, which no module has: this one is built, and called that.
pub(crate) const AGNHOST_OLDER: &str = "2.56";

/// The pause image that they ask for.
pub(crate) const PAUSE_OF_TESTS: &str = "3.10.2";

/// The busybox image that they ask for: Debian's program, whatever its version.
pub(crate) const BUSYBOX: &str = "1.37.0-1";

/// Of the program in `binaries/otelcol`: the OpenTelemetry Collector's, as in examples/audit-logs.yaml.
pub const OTELCOL: &str = "0.160.0";
