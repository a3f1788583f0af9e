//! Flags that Berth owns: a user's extra argument of that name is refused, with what to do in its place.
//!
//! A closed table. A test holds it against the templates: whatever they render is either here or in the short list of flags that a
//! user may set again (the last one wins).

use crate::Component;

type Rows = &'static [(&'static [&'static str], &'static str)];

const PATHS: &str = "Berth mounts the certificates and keys of every component itself";
const PORT: &str = "pods always listen on Berth's own ports; the published port is spec.endpoint.port";
const EXITS: &str = "it prints something and exits";
const KUBECONFIG: &str = "Berth writes the credentials of every component itself";
const PROXY: &str = "Berth sets up the front proxy itself";

/// For every component.
const COMMON: Rows = &[
    (&["cert-dir", "client-ca-file", "tls-cert-file", "tls-private-key-file", "tls-sni-cert-key"], PATHS),
    (&["bind-address", "permit-address-sharing", "permit-port-sharing", "secure-port"], PORT),
    (&["help", "version"], EXITS),
    (
        &[
            "requestheader-allowed-names",
            "requestheader-client-ca-file",
            "requestheader-extra-headers-prefix",
            "requestheader-group-headers",
            "requestheader-uid-headers",
            "requestheader-username-headers",
        ],
        PROXY,
    ),
];

const API_SERVER: Rows = &[
    (
        &[
            "etcd-cafile",
            "etcd-certfile",
            "etcd-keyfile",
            "etcd-prefix",
            "etcd-servers",
            "etcd-servers-overrides",
            "storage-backend",
        ],
        "Berth sets it from spec.etcd",
    ),
    (&["service-cluster-ip-range"], "use spec.network.serviceCIDRs"),
    (&["advertise-address", "endpoint-reconciler-type"], "Berth publishes the API's address itself; use spec.endpoint"),
    (&["service-account-issuer"], "use spec.apiServer.serviceAccountIssuers"),
    (
        &["service-account-key-file", "service-account-signing-endpoint", "service-account-signing-key-file"],
        "Berth keeps the service account key itself",
    ),
    (
        &[
            "anonymous-auth",
            "authentication-config",
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
    (
        &["authorization-config", "authorization-mode", "authorization-policy-file"],
        "Berth authorizes with Node and RBAC, which its own access relies on",
    ),
    (&["enable-bootstrap-token-auth"], "joins of nodes rely on bootstrap tokens"),
    (
        &["encryption-provider-config", "encryption-provider-config-automatic-reload"],
        "Berth encrypts Secrets at rest with a key of its own",
    ),
    (&["audit-log-path", "audit-policy-file"], "the audit log goes to the container's output, with Berth's policy"),
    (&["kubelet-certificate-authority", "kubelet-client-certificate", "kubelet-client-key"], PATHS),
    (&["kubelet-preferred-address-types"], "Berth reaches kubelets by their InternalIP first"),
    (&["proxy-client-cert-file", "proxy-client-key-file"], PROXY),
    (
        &["shutdown-delay-duration", "shutdown-send-retry-after"],
        "Berth sets it together with the pod's grace period, from spec.replicas",
    ),
];

const CONTROLLER_MANAGER: Rows = &[
    (&["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "master"], KUBECONFIG),
    (&["allocate-node-cidrs", "cluster-cidr"], "use spec.network.podCIDRs"),
    (&["service-cluster-ip-range"], "use spec.network.serviceCIDRs"),
    (&["cluster-name"], "it is the name of the Cluster"),
    (
        &["cluster-signing-cert-file", "cluster-signing-key-file", "root-ca-file", "service-account-private-key-file"],
        PATHS,
    ),
    (&["use-service-account-credentials"], "every controller uses its own service account"),
    (&["leader-elect", "leader-elect-resource-lock"], "two active controller-managers would damage the tenant"),
];

const SCHEDULER: Rows = &[
    (&["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "master"], KUBECONFIG),
    (&["config"], "Berth writes the scheduler's configuration itself"),
    (&["write-config-to"], EXITS),
    (&["leader-elect", "leader-elect-resource-lock"], "two active schedulers would bind pods twice"),
];

const ETCD: Rows = &[
    (
        &[
            "advertise-client-urls",
            "config-file",
            "data-dir",
            "discovery",
            "discovery-srv",
            "force-new-cluster",
            "initial-advertise-peer-urls",
            "initial-cluster",
            "initial-cluster-state",
            "initial-cluster-token",
            "listen-client-http-urls",
            "listen-client-urls",
            "listen-metrics-urls",
            "listen-peer-urls",
            "name",
            "strict-reconfig-check",
            "wal-dir",
        ],
        "Berth manages the membership of etcd itself",
    ),
    (
        &[
            "auto-tls",
            "cert-file",
            "client-cert-auth",
            "experimental-peer-skip-client-san-verification",
            "key-file",
            "peer-auto-tls",
            "peer-cert-file",
            "peer-client-cert-auth",
            "peer-key-file",
            "peer-skip-client-san-verification",
            "peer-trusted-ca-file",
            "trusted-ca-file",
        ],
        PATHS,
    ),
    (&["quota-backend-bytes"], "Berth sets it from the size of the volume"),
    (&["unsafe-no-fsync"], "it loses data"),
];

/// Says why a flag (without dashes) of a component is Berth's own and what to use in its place; none: a user may set it.
pub fn owned_flag(component: Component, name: &str) -> Option<&'static str> {
    let (own, common) = match component {
        Component::ApiServer => (API_SERVER, COMMON),
        Component::ControllerManager => (CONTROLLER_MANAGER, COMMON),
        Component::Scheduler => (SCHEDULER, COMMON),
        Component::Etcd => (ETCD, &[] as Rows),
    };
    // pflag takes `--log_dir` for `--log-dir`.
    let name = name.trim_start_matches('-').replace('_', "-");
    own.iter().chain(common).find(|(names, _)| names.contains(&name.as_str())).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_and_free() {
        assert_eq!(owned_flag(Component::ApiServer, "etcd-servers"), Some("Berth sets it from spec.etcd"));
        assert_eq!(
            owned_flag(Component::ApiServer, "--service_cluster_ip_range"),
            Some("use spec.network.serviceCIDRs")
        );
        for free in ["v", "feature-gates", "goaway-chance", "runtime-config"] {
            assert_eq!(owned_flag(Component::ApiServer, free), None, "{free}");
        }
        assert!(owned_flag(Component::Scheduler, "config").is_some());
        assert_eq!(owned_flag(Component::ControllerManager, "config"), None);
    }
}
