//! What the kubelet of the next minor refuses of a configuration that this one's takes.
//!
//! Gates are named here by what changes with a minor. Of the minor that a tenant has, no name is judged: its nodes may have older kubelets.

use super::fault::Fault;
use super::judge::{faults, said};
use berth_api::version::Minor;
use serde_json::{Map, Value};

/// What a minor changes of gates.
struct Changes {
    minor: &'static str,
    /// It knows them no more.
    removed: &'static [&'static str],
    /// They may not be turned off any more.
    on: &'static [&'static str],
    /// They may not be turned on any more.
    off: &'static [&'static str],
}

/// `pkg/features/kube_features.go` of Kubernetes and of k8s.io/apiserver: a kubelet registers both.
const CHANGES: &[Changes] = &[
    Changes {
        minor: "1.35",
        removed: &[
            "AllowServiceLBStatusOnNonLB",
            "CronJobsScheduledAnnotation",
            "LoadBalancerIPMode",
            "PodIndexLabel",
            "ProbeHostPodSecurityStandards",
            "SizeMemoryBackedVolumes",
            "StatefulSetAutoDeletePVC",
            "StrictCostEnforcementForVAP",
            "StrictCostEnforcementForWebhooks",
            "UserNamespacesPodSecurityStandards",
        ],
        on: &[
            "AggregatedDiscoveryRemoveBetaType",
            "DisableAllocatorDualWrite",
            "DynamicResourceAllocation",
            "ExecProbeTimeout",
            "ImageMaximumGCAge",
            "InPlacePodVerticalScaling",
            "JobManagedBy",
            "PodObservedGenerationTracking",
            "PreferSameTrafficDistribution",
            "SupplementalGroupsPolicy",
            "SystemdWatchdog",
        ],
        off: &["AllowOverwriteTerminationGracePeriodSeconds"],
    },
    Changes {
        minor: "1.36",
        removed: &[
            "CSIMigrationPortworx",
            "HonorPVReclaimPolicy",
            "InPlacePodVerticalScalingAllocatedStatus",
            "InTreePluginPortworxUnregister",
            "MemoryManager",
            "ServiceTrafficDistribution",
            "StructuredAuthorizationConfiguration",
            "TopologyAwareHints",
            "WatchFromStorageWithoutResourceVersion",
        ],
        on: &[
            "CSIServiceAccountTokenSecrets",
            "DRAAdminAccess",
            "DeclarativeValidation",
            "DisableNodeKubeProxyVersion",
            "ExternalServiceAccountTokenSigner",
            "ImageVolume",
            "KubeletFineGrainedAuthz",
            "KubeletPSI",
            "KubeletPodResourcesDynamicResources",
            "KubeletPodResourcesGet",
            "MutableCSINodeAllocatableCount",
            "NodeLogQuery",
            "ProcMountType",
            "SELinuxChangePolicy",
            "SELinuxMountReadWriteOncePod",
            "TopologyManagerPolicyOptions",
            "UserNamespacesSupport",
            "VolumeAttributesClass",
        ],
        off: &["GitRepoVolumeDriver", "SeparateCacheWatchRPC"],
    },
];

/// Gates with the value with which kubelets of a minor do not start, and those of the minor before do.
pub fn refused_gates(minor: Minor) -> impl Iterator<Item = (&'static str, bool)> {
    let of = CHANGES.iter().filter(move |changes| changes.minor.parse() == Ok(minor));
    of.flat_map(|Changes { removed, on, off, .. }| {
        let removed = removed.iter().flat_map(|name| [(*name, true), (*name, false)]);
        removed.chain(on.iter().map(|name| (*name, false))).chain(off.iter().map(|name| (*name, true)))
    })
}

/// Why nodes of the next minor would not run with this configuration.
pub(crate) fn refusal_by_next(config: &Map<String, Value>, next: Minor) -> Option<String> {
    let mut faults = faults(config, next);
    let set = config.get("featureGates").and_then(Value::as_object);
    for (name, to) in
        refused_gates(next).filter(|(name, to)| set.is_some_and(|set| set.get(*name) == Some(&(*to).into())))
    {
        let why = if CHANGES.iter().any(|changes| changes.removed.contains(&name)) {
            "is a feature gate that it does not know any more. Remove it".to_owned()
        } else {
            let to = if to { "on" } else { "off" };
            format!("cannot be turned {to}: Kubernetes {next} has it locked. Remove it")
        };
        let fault = Fault::new(format!("featureGates.{name}"), why);
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    said(&faults).map(|why| format!("kubelet {next} refuses {why}"))
}
