//! The flags that Berth decides about, one row each: where the value comes from, and what a user sets instead.
//!
//! A flag without a row is the user's own. To add a flag with a field of the spec, add the field to `ClusterSpec` and one
//! [`Source::Field`] row here: its arguments go where extra arguments go, which every template set has room for, also one that a tenant
//! was pinned to before the field existed. `tests/flags.rs` holds the table against templates and real binaries.

mod audit;
mod files;

use berth_api::{ClusterSpec, common::Arg};

use crate::{
    Binary::{self, ApiServer, ControllerManager, Etcd, Scheduler},
    values::ExtraArg,
};

pub use files::{file_of, names_a_file};

/// Flags that share everything.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Whose flags.
    pub components: &'static [Binary],
    /// Their names, without dashes.
    pub names: &'static [&'static str],
    /// Where their values come from.
    pub source: Source,
    /// What to use instead, or why there is nothing: the end of the message that refuses them. For [`Source::Field`]: the field.
    pub instead: &'static str,
}

/// Where the value of a flag comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The templates set it; users may not.
    Template,
    /// Nobody may set it.
    Closed,
    /// Users set it, but for values of which this is true.
    Except(fn(&str) -> bool),
    /// A field of the spec: each value is one `--name=value`. Empty while the field is not set; only then users may set the flag themselves,
    /// as they could before there was a field. The flag exists in every supported minor.
    Field(fn(&ClusterSpec) -> Vec<String>),
}

const fn template(components: &'static [Binary], names: &'static [&'static str], instead: &'static str) -> Flag {
    Flag { components, names, source: Source::Template, instead }
}

const fn closed(components: &'static [Binary], names: &'static [&'static str], instead: &'static str) -> Flag {
    Flag { components, names, source: Source::Closed, instead }
}

const KUBERNETES: &[Binary] = &[ApiServer, ControllerManager, Scheduler];
const CLIENTS: &[Binary] = &[ControllerManager, Scheduler];
const API_SERVER: &[Binary] = &[ApiServer];
const CONTROLLER_MANAGER: &[Binary] = &[ControllerManager];
const SCHEDULER: &[Binary] = &[Scheduler];
const ETCD: &[Binary] = &[Etcd];

const HEADERS: &[&str] =
    &["requestheader-extra-headers-prefix", "requestheader-group-headers", "requestheader-username-headers"];

/// Admission plugins without which nodes, and whoever may ask for certificates, could take another identity.
const IDENTITY_PLUGINS: [&str; 2] = ["CertificateSubjectRestriction", "NodeRestriction"];

/// Whether a plugin may be turned off. kube-apiserver reads the list as CSV, so a name in quotes is that name, too: plain names only.
fn is_free(plugin: &str) -> bool {
    plugin.bytes().all(|b| b.is_ascii_alphanumeric()) && !IDENTITY_PLUGINS.contains(&plugin)
}

const AUTHORIZERS: &str = "the authorizers are Node and RBAC, which Berth's own access needs";
const CERTIFICATES: &str = "Berth issues and mounts every certificate and key";
const EMULATION: &str =
    "Berth sets what is emulated while the minor version changes; use spec.version and spec.upgrade";
const EXITS: &str = "the component would print something and exit";
const FIXED_PORT: &str = "pods listen on all addresses, at a fixed port";
const FRONT_PROXY: &str = "certificates and headers of the front proxy are fixed";
const LIFETIMES: &str = "what a tenant issues lives for 90 days at most, since it cannot be revoked";
const KUBECONFIG: &str = "Berth writes the component's kubeconfig";
const ONE_LEADER: &str = "replicas elect a leader by a Lease, so that only one is active";

/// The table.
pub const FLAGS: &[Flag] = &[
    template(KUBERNETES, &["client-ca-file", "tls-cert-file", "tls-private-key-file"], CERTIFICATES),
    closed(KUBERNETES, &["cert-dir"], CERTIFICATES),
    closed(API_SERVER, &["tls-sni-cert-key"], "use spec.endpoint.certSANs"),
    closed(CLIENTS, &["tls-sni-cert-key"], CERTIFICATES),
    template(API_SERVER, &["secure-port"], "use spec.endpoint.port"),
    template(CLIENTS, &["secure-port"], FIXED_PORT),
    closed(KUBERNETES, &["bind-address", "permit-address-sharing", "permit-port-sharing"], FIXED_PORT),
    closed(KUBERNETES, &["help", "version"], EXITS),
    closed(KUBERNETES, &["emulated-version", "min-compatibility-version"], EMULATION),
    closed(API_SERVER, &["emulation-forward-compatible", "runtime-config-emulation-forward-compatible"], EMULATION),
    template(KUBERNETES, &["requestheader-allowed-names", "requestheader-client-ca-file"], FRONT_PROXY),
    template(API_SERVER, HEADERS, FRONT_PROXY),
    closed(CLIENTS, HEADERS, FRONT_PROXY),
    closed(KUBERNETES, &["requestheader-uid-headers"], FRONT_PROXY),
    Flag {
        components: API_SERVER,
        names: &["enable-aggregator-routing"],
        // Behind routes are the tenant's pods; to its Services nothing leads from here.
        source: Source::Field(|spec| {
            let routes = spec.vpc.as_ref().is_some_and(|vpc| !vpc.routes.is_empty());
            routes.then(|| "true".to_owned()).into_iter().collect()
        }),
        instead: "spec.vpc.routes",
    },
    // kube-apiserver
    template(API_SERVER, &["etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-servers"], "use spec.etcd"),
    closed(API_SERVER, &["etcd-prefix", "etcd-servers-overrides", "storage-backend"], "use spec.etcd"),
    template(API_SERVER, &["advertise-address", "endpoint-reconciler-type"], "use spec.endpoint"),
    template(API_SERVER, &["service-account-issuer"], "use spec.apiServer.serviceAccountIssuers"),
    template(API_SERVER, &["service-account-key-file", "service-account-signing-key-file"], CERTIFICATES),
    closed(API_SERVER, &["service-account-signing-endpoint"], CERTIFICATES),
    template(API_SERVER, &["authentication-config"], "use spec.apiServer.authentication"),
    closed(
        API_SERVER,
        &["anonymous-auth"],
        "anonymous requests may only read the health endpoints and what kubeadm join needs",
    ),
    closed(
        API_SERVER,
        &[
            "oidc-ca-file",
            "oidc-client-id",
            "oidc-groups-claim",
            "oidc-groups-prefix",
            "oidc-issuer-url",
            "oidc-required-claim",
            "oidc-signing-algs",
            "oidc-username-claim",
            "oidc-username-prefix",
            "token-auth-file",
        ],
        "use spec.apiServer.authentication.jwt",
    ),
    template(API_SERVER, &["authorization-mode"], AUTHORIZERS),
    closed(API_SERVER, &["authorization-config", "authorization-policy-file"], AUTHORIZERS),
    template(API_SERVER, &["enable-bootstrap-token-auth"], "kubeadm join needs bootstrap tokens"),
    template(
        API_SERVER,
        &["encryption-provider-config", "encryption-provider-config-automatic-reload"],
        "Secrets are encrypted at rest with a key of the tenant's own",
    ),
    template(
        API_SERVER,
        &["audit-log-path"],
        "the audit log goes to the container's output; to send it elsewhere, too, use spec.apiServer.audit.webhook",
    ),
    template(API_SERVER, &["audit-policy-file"], "use spec.apiServer.audit.policy"),
    template(API_SERVER, &["audit-webhook-config-file"], "use spec.apiServer.audit.webhook"),
    audit::MODE,
    audit::TRUNCATE,
    audit::INITIAL_BACKOFF,
    audit::BUFFER_SIZE,
    audit::MAX_SIZE,
    audit::MAX_WAIT,
    audit::THROTTLE_QPS,
    audit::THROTTLE_BURST,
    template(
        API_SERVER,
        &["kubelet-certificate-authority", "kubelet-client-certificate", "kubelet-client-key"],
        CERTIFICATES,
    ),
    template(API_SERVER, &["service-account-max-token-expiration"], LIFETIMES),
    Flag {
        components: API_SERVER,
        names: &["disable-admission-plugins"],
        source: Source::Except(|value| value.split(',').map(str::trim).any(|name| !is_free(name))),
        instead: "NodeRestriction and CertificateSubjectRestriction keep nodes and certificates from taking another identity",
    },
    closed(
        API_SERVER,
        &["admission-control"],
        "it would turn off every plugin that it does not name; use enable-admission-plugins and disable-admission-plugins",
    ),
    template(API_SERVER, &["admission-control-config-file"], "use spec.apiServer.admission.configuration"),
    template(API_SERVER, &["kubelet-preferred-address-types"], "kubelets are reached at their InternalIP first"),
    template(API_SERVER, &["proxy-client-cert-file", "proxy-client-key-file"], FRONT_PROXY),
    template(
        API_SERVER,
        &["shutdown-delay-duration", "shutdown-send-retry-after"],
        "it fits the pod's grace period, which follows spec.apiServer.replicas",
    ),
    // kube-controller-manager and kube-scheduler
    template(CLIENTS, &["authentication-kubeconfig", "authorization-kubeconfig"], KUBECONFIG),
    template(CONTROLLER_MANAGER, &["kubeconfig"], KUBECONFIG),
    closed(SCHEDULER, &["kubeconfig"], KUBECONFIG),
    closed(CLIENTS, &["master"], KUBECONFIG),
    template(CLIENTS, &["leader-elect"], ONE_LEADER),
    closed(CLIENTS, &["leader-elect-resource-lock"], ONE_LEADER),
    template(&[ApiServer, ControllerManager], &["service-cluster-ip-range"], "use spec.network.serviceCIDRs"),
    template(CONTROLLER_MANAGER, &["allocate-node-cidrs", "cluster-cidr"], "use spec.network.podCIDRs"),
    template(CONTROLLER_MANAGER, &["cluster-name"], "it is the name of the Cluster"),
    template(
        CONTROLLER_MANAGER,
        &["cluster-signing-cert-file", "cluster-signing-key-file", "root-ca-file", "service-account-private-key-file"],
        CERTIFICATES,
    ),
    template(CONTROLLER_MANAGER, &["cluster-signing-duration"], LIFETIMES),
    closed(
        CONTROLLER_MANAGER,
        &[
            "cluster-signing-kube-apiserver-client-cert-file",
            "cluster-signing-kube-apiserver-client-key-file",
            "cluster-signing-kubelet-client-cert-file",
            "cluster-signing-kubelet-client-key-file",
            "cluster-signing-kubelet-serving-cert-file",
            "cluster-signing-kubelet-serving-key-file",
            "cluster-signing-legacy-unknown-cert-file",
            "cluster-signing-legacy-unknown-key-file",
        ],
        CERTIFICATES,
    ),
    template(
        CONTROLLER_MANAGER,
        &["use-service-account-credentials"],
        "every controller has a ServiceAccount of its own",
    ),
    template(SCHEDULER, &["config"], "the scheduler's configuration file is fixed"),
    closed(SCHEDULER, &["write-config-to"], EXITS),
    // etcd, which has no extra arguments: these rows are for the test that every flag of a template has an owner
    template(
        ETCD,
        &[
            "advertise-client-urls",
            "data-dir",
            "initial-advertise-peer-urls",
            "listen-client-urls",
            "listen-metrics-urls",
            "listen-peer-urls",
            "name",
        ],
        "Berth manages the members and their addresses",
    ),
    closed(
        ETCD,
        &[
            "config-file",
            "discovery",
            "discovery-srv",
            "force-new-cluster",
            "initial-cluster",
            "initial-cluster-state",
            "initial-cluster-token",
            "listen-client-http-urls",
            "strict-reconfig-check",
            "wal-dir",
        ],
        "Berth manages the members and their addresses",
    ),
    template(
        ETCD,
        &[
            "cert-file",
            "client-cert-auth",
            "experimental-peer-skip-client-san-verification",
            "key-file",
            "peer-cert-file",
            "peer-client-cert-auth",
            "peer-key-file",
            "peer-skip-client-san-verification",
            "peer-trusted-ca-file",
            "trusted-ca-file",
        ],
        CERTIFICATES,
    ),
    closed(ETCD, &["auto-tls", "peer-auto-tls"], CERTIFICATES),
    template(ETCD, &["quota-backend-bytes"], "use spec.quotaBackendBytes of the EtcdCluster"),
    template(
        ETCD,
        &["election-timeout", "heartbeat-interval", "snapshot-count"],
        "use spec.electionTimeout, spec.heartbeatInterval and spec.snapshotCount of the EtcdCluster",
    ),
    closed(ETCD, &["unsafe-no-fsync"], "it loses data"),
];

impl Flag {
    /// The row of a component's flag, if it has one.
    pub fn find<'a>(flags: &'a [Self], component: Binary, name: &str) -> Option<&'a Self> {
        let name = Self::spelled(name);
        flags.iter().find(|flag| flag.components.contains(&component) && flag.names.contains(&name.as_str()))
    }

    /// As in the tables: pflag takes `--log_dir` for `--log-dir`.
    fn spelled(name: &str) -> String {
        name.replace('_', "-")
    }

    /// Why a user may not set it to that by an extra argument.
    fn refusal(&self, spec: &ClusterSpec, value: &str) -> Option<String> {
        let instead = self.instead;
        match self.source {
            Source::Template => Some(format!("is managed by Berth; {instead}")),
            Source::Closed => Some(format!("is not supported; {instead}")),
            Source::Except(is_closed) => is_closed(value).then(|| format!("may not be {value}; {instead}")),
            Source::Field(values) if values(spec).is_empty() => None,
            Source::Field(_) => Some(format!("is set by {instead}; remove one of the two")),
        }
    }
}

/// The arguments of a component that come after those of its template: from fields of the spec, then the user's own. The error says
/// which of those is refused, and what to use instead.
pub fn extra_args(flags: &[Flag], component: Binary, spec: &ClusterSpec, own: &[Arg]) -> Result<Vec<ExtraArg>, String> {
    let mut args = vec![];
    for flag in flags.iter().filter(|flag| flag.components.contains(&component)) {
        let Source::Field(values) = flag.source else { continue };
        for name in flag.names {
            args.extend(values(spec).into_iter().map(|value| ExtraArg { name: (*name).to_owned(), value }));
        }
    }
    for Arg { name, value } in own {
        if let Some(why) = Flag::find(flags, component, name).and_then(|flag| flag.refusal(spec, value)) {
            return Err(format!("--{name} {why}"));
        }
        args.push(ExtraArg { name: name.clone(), value: value.clone() });
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn spec(text: &str) -> ClusterSpec {
        serde_json::from_str(text).unwrap()
    }

    fn own(args: &[(&str, &str)]) -> Vec<Arg> {
        args.iter().map(|(name, value)| Arg { name: (*name).to_owned(), value: (*value).to_owned() }).collect()
    }

    #[test]
    fn a_refusal_says_what_to_use_instead() {
        let spec = spec(r#"{"version": "1.36.3"}"#);
        for (component, name, message) in [
            (ApiServer, "etcd-servers", "--etcd-servers is managed by Berth; use spec.etcd"),
            (ApiServer, "oidc-client-id", "--oidc-client-id is not supported; use spec.apiServer.authentication.jwt"),
            (
                ApiServer,
                "anonymous-auth",
                "--anonymous-auth is not supported; anonymous requests may only read the health endpoints and what kubeadm join needs",
            ),
            (
                ApiServer,
                "admission-control",
                "--admission-control is not supported; it would turn off every plugin that it does not name; use enable-admission-plugins and disable-admission-plugins",
            ),
            (Scheduler, "config", "--config is managed by Berth; the scheduler's configuration file is fixed"),
        ] {
            assert_eq!(extra_args(FLAGS, component, &spec, &own(&[(name, "x")])).unwrap_err(), message);
        }
        extra_args(FLAGS, ApiServer, &spec, &own(&[("service_cluster_ip_range", "x")])).unwrap_err();
        let disable = |value: &str| extra_args(FLAGS, ApiServer, &spec, &own(&[("disable-admission-plugins", value)]));
        assert!(disable("PodSecurity").is_ok());
        let why = disable("PodSecurity, NodeRestriction").unwrap_err();
        assert!(why.starts_with("--disable-admission-plugins may not be PodSecurity, NodeRestriction; "), "{why}");
        for name in IDENTITY_PLUGINS {
            for spelling in [
                name.to_owned(),
                format!("\"{name}\""),
                format!("PodSecurity,\"{name}\""),
                format!("\"PodSecurity\",\"{name}\""),
                format!("\"PodSecurity,{name}\""),
                format!("PodSecurity, {name}"),
                format!("PodSecurity\n{name}"),
                format!("\"{name}"),
                format!("{name}\u{200b}"),
            ] {
                disable(&spelling).expect_err(&spelling);
            }
        }
        assert!(disable("PodSecurity,ServiceAccount").is_ok());
        for free in ["v", "feature-gates", "goaway-chance", "runtime-config", "config"] {
            let args = extra_args(FLAGS, ApiServer, &spec, &own(&[(free, "x")])).unwrap();
            assert_eq!(args, [ExtraArg { name: free.to_owned(), value: "x".to_owned() }]);
        }
    }

    #[test]
    fn a_flag_with_a_field_is_the_fields_once_it_is_set() {
        const FIELD: &[Flag] = &[Flag {
            components: API_SERVER,
            names: &["external-hostname"],
            source: Source::Field(|spec| spec.endpoint.host.iter().cloned().collect()),
            instead: "spec.endpoint.host",
        }];
        let args = |spec: &ClusterSpec, own: &[Arg]| -> Result<Vec<String>, String> {
            let args = extra_args(FIELD, ApiServer, spec, own)?;
            Ok(args.into_iter().map(|arg| format!("--{}={}", arg.name, arg.value)).collect())
        };
        let set = spec(r#"{"version": "1.36.3", "endpoint": {"host": "acme.example.com"}}"#);
        let more = own(&[("v", "2")]);
        assert_eq!(args(&set, &more).unwrap(), ["--external-hostname=acme.example.com", "--v=2"]);
        assert!(extra_args(FIELD, Scheduler, &set, &[]).unwrap().is_empty());
        let twice = own(&[("external-hostname", "b.example.com")]);
        let message = "--external-hostname is set by spec.endpoint.host; remove one of the two";
        assert_eq!(args(&set, &twice).unwrap_err(), message);
        // As before there was a field.
        let unset = spec(r#"{"version": "1.36.3"}"#);
        assert_eq!(args(&unset, &twice).unwrap(), ["--external-hostname=b.example.com"]);
    }

    /// Otherwise a new operator would roll every tenant.
    #[test]
    fn a_field_that_is_not_set_sets_no_flag() {
        let spec = spec(r#"{"version": "1.36.3"}"#);
        for component in Binary::ALL {
            assert_eq!(extra_args(FLAGS, component, &spec, &[]), Ok(vec![]));
        }
    }

    #[test]
    fn a_flag_has_one_row() {
        let mut seen = BTreeSet::new();
        for flag in FLAGS {
            for component in flag.components {
                assert!(flag.names.iter().all(|name| seen.insert((component, name))), "{flag:?}");
            }
        }
    }

    #[test]
    fn every_field_that_a_row_names_exists() {
        let crds = serde_json::to_value(berth_api::crds::all()).unwrap();
        let schema = |kind: &str| -> Value {
            let crd = crds.as_array().unwrap().iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
        };
        let mut seen = 0;
        for flag in FLAGS {
            let schema = schema(if flag.components == ETCD { "EtcdCluster" } else { "Cluster" });
            let words = flag.instead.split([' ', ',', ';']);
            for path in words.filter(|word| word.starts_with("spec.")) {
                let place = path.split('.').fold(&schema, |at, name| &at["properties"][name]);
                assert!(place.is_object(), "{:?}: there is no {path}", flag.names);
                seen += 1;
            }
            let named = matches!(flag.source, Source::Field(_));
            assert!(!named || flag.instead.starts_with("spec.") && !flag.instead.contains(' '), "{flag:?}");
        }
        assert!(seen > 10);
    }
}
