//! The fields of `KubeletConfiguration`, `kubelet.config.k8s.io/v1beta1`.

use super::fault::Fault;
use super::gates::is_from;
use super::shape;
use super::shape::Shape::{
    self, Bool, Duration, DurationOrNanos, Fields, Float, Int, List, Map, OneOf, Quantity, Size, Text,
};
use berth_api::version::Minor;
use serde_json::{Map as Object, Value};

/// Appends what is of another type, out of its range, or unknown, to the tenant's minor or at all.
pub(super) fn check(config: &Object<String, Value>, minor: Minor, faults: &mut Vec<Fault>) {
    shape::fields(config, "", TOP, faults);
    for (name, since) in SINCE.iter().filter(|(name, since)| config.contains_key(*name) && !is_from(minor, since)) {
        let why = format!("is a field of Kubernetes {since} on, and the tenant is of {minor}. Remove it");
        faults.push(Fault::new(name, why));
    }
}

/// The largest int32 and int64.
const M32: i64 = i32::MAX as i64;
const M64: i64 = i64::MAX;

/// Fields that came with a later minor than the oldest that Berth has.
const SINCE: &[(&str, &str)] = &[("memoryReservationPolicy", "1.36"), ("tlsCurvePreferences", "1.36")];

const TEXTS: Shape = List(&Text);
const BY_NAME: Shape = Map(&Text);

/// What of a port is taken; 0 is the default.
const PORT: Shape = Int(0, 65_535);
const COUNT: Shape = Int(0, M32);

const ROUTING: Shape = Fields(&[("splitStream", Bool), ("infoBufferSize", Quantity)]);
const VERBOSITY: Shape = Int(0, M32);

/// Its fields.
const TOP: &[(&str, Shape)] = &[
    ("address", Text),
    ("allowedUnsafeSysctls", TEXTS),
    (
        "authentication",
        Fields(&[("anonymous", Fields(&[])), ("webhook", Fields(&[("cacheTTL", Duration)])), ("x509", Fields(&[]))]),
    ),
    (
        "authorization",
        Fields(&[("webhook", Fields(&[("cacheAuthorizedTTL", Duration), ("cacheUnauthorizedTTL", Duration)]))]),
    ),
    ("cgroupDriver", OneOf(&["systemd", "cgroupfs"])),
    ("cgroupRoot", Text),
    ("cgroupsPerQOS", Bool),
    ("clusterDNS", TEXTS),
    ("configMapAndSecretChangeDetectionStrategy", OneOf(&["Get", "Cache", "Watch"])),
    ("containerLogMaxFiles", Int(2, M32)),
    ("containerLogMaxSize", Size),
    ("containerLogMaxWorkers", Int(1, M32)),
    ("containerLogMonitorInterval", Duration),
    ("containerRuntimeEndpoint", Text),
    ("contentType", Text),
    ("cpuCFSQuota", Bool),
    ("cpuCFSQuotaPeriod", Duration),
    ("cpuManagerPolicy", OneOf(&["none", "static"])),
    ("cpuManagerPolicyOptions", BY_NAME),
    ("cpuManagerReconcilePeriod", Duration),
    ("crashLoopBackOff", Fields(&[("maxContainerRestartPeriod", Duration)])),
    ("enableContentionProfiling", Bool),
    ("enableControllerAttachDetach", Bool),
    ("enableDebugFlagsHandler", Bool),
    ("enableDebuggingHandlers", Bool),
    ("enableProfilingHandler", Bool),
    ("enableServer", Bool),
    ("enableSystemLogHandler", Bool),
    ("enableSystemLogQuery", Bool),
    (
        "enforceNodeAllocatable",
        List(&OneOf(&[
            "pods",
            "system-reserved",
            "system-reserved-compressible",
            "kube-reserved",
            "kube-reserved-compressible",
            "none",
        ])),
    ),
    ("eventBurst", COUNT),
    ("eventRecordQPS", COUNT),
    ("evictionHard", BY_NAME),
    ("evictionMaxPodGracePeriod", Int(i32::MIN as i64, M32)),
    ("evictionMinimumReclaim", BY_NAME),
    ("evictionPressureTransitionPeriod", Duration),
    ("evictionSoft", BY_NAME),
    ("evictionSoftGracePeriod", BY_NAME),
    ("failCgroupV1", Bool),
    ("failSwapOn", Bool),
    ("featureGates", Map(&Bool)),
    ("fileCheckFrequency", Duration),
    ("hairpinMode", OneOf(&["hairpin-veth", "promiscuous-bridge", "none"])),
    ("healthzBindAddress", Text),
    ("healthzPort", PORT),
    ("httpCheckFrequency", Duration),
    ("imageGCHighThresholdPercent", Int(0, 100)),
    ("imageGCLowThresholdPercent", Int(0, 100)),
    ("imageMaximumGCAge", Duration),
    ("imageMinimumGCAge", Duration),
    (
        "imagePullCredentialsVerificationPolicy",
        OneOf(&["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"]),
    ),
    ("imageServiceEndpoint", Text),
    ("iptablesDropBit", Int(0, 31)),
    ("iptablesMasqueradeBit", Int(0, 31)),
    ("kernelMemcgNotification", Bool),
    ("kubeAPIBurst", COUNT),
    ("kubeAPIQPS", COUNT),
    ("kubeReserved", BY_NAME),
    ("kubeReservedCgroup", Text),
    ("kubeletCgroups", Text),
    ("localStorageCapacityIsolation", Bool),
    (
        "logging",
        Fields(&[
            ("format", OneOf(&["text", "json"])),
            ("flushFrequency", DurationOrNanos),
            ("verbosity", VERBOSITY),
            ("vmodule", List(&Fields(&[("filePattern", Text), ("verbosity", VERBOSITY)]))),
            ("options", Fields(&[("text", ROUTING), ("json", ROUTING)])),
        ]),
    ),
    ("makeIPTablesUtilChains", Bool),
    ("maxOpenFiles", Int(0, M64)),
    ("maxParallelImagePulls", Int(1, M32)),
    ("maxPods", COUNT),
    ("memoryManagerPolicy", OneOf(&["None", "Static"])),
    ("memoryReservationPolicy", OneOf(&["None", "TieredReservation"])),
    ("memorySwap", Fields(&[("swapBehavior", OneOf(&["NoSwap", "LimitedSwap"]))])),
    ("memoryThrottlingFactor", Float),
    ("mergeDefaultEvictionSettings", Bool),
    ("nodeLeaseDurationSeconds", COUNT),
    ("nodeStatusMaxImages", Int(-1, M32)),
    ("nodeStatusReportFrequency", Duration),
    ("nodeStatusUpdateFrequency", Duration),
    ("oomScoreAdj", Int(-1000, 1000)),
    ("podLogsDir", Text),
    ("podPidsLimit", Int(i64::MIN, M64)),
    ("podsPerCore", COUNT),
    ("port", PORT),
    ("preloadedImagesVerificationAllowlist", TEXTS),
    ("protectKernelDefaults", Bool),
    ("qosReserved", BY_NAME),
    ("readOnlyPort", PORT),
    ("registerNode", Bool),
    ("registerWithTaints", List(&Fields(&[("key", Text), ("value", Text), ("effect", Text), ("timeAdded", Text)]))),
    ("registryBurst", COUNT),
    ("registryPullQPS", COUNT),
    ("reservedMemory", List(&Fields(&[("numaNode", Int(i32::MIN as i64, M32)), ("limits", Map(&Quantity))]))),
    ("reservedSystemCPUs", Text),
    ("resolvConf", Text),
    ("runOnce", Bool),
    ("runtimeRequestTimeout", Duration),
    ("seccompDefault", Bool),
    ("serializeImagePulls", Bool),
    ("showHiddenMetricsForVersion", Text),
    ("shutdownGracePeriod", Duration),
    (
        "shutdownGracePeriodByPodPriority",
        List(&Fields(&[("priority", Int(i32::MIN as i64, M32)), ("shutdownGracePeriodSeconds", Int(i64::MIN, M64))])),
    ),
    ("shutdownGracePeriodCriticalPods", Duration),
    ("singleProcessOOMKill", Bool),
    ("staticPodPath", Text),
    ("staticPodURL", Text),
    ("staticPodURLHeader", Map(&TEXTS)),
    ("streamingConnectionIdleTimeout", Duration),
    ("syncFrequency", Duration),
    ("systemCgroups", Text),
    ("systemReserved", BY_NAME),
    ("systemReservedCgroup", Text),
    ("tlsCipherSuites", TEXTS),
    ("tlsCurvePreferences", List(&Int(1, 65_535))),
    ("tlsMinVersion", OneOf(&["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"])),
    ("topologyManagerPolicy", OneOf(&["none", "best-effort", "restricted", "single-numa-node"])),
    ("topologyManagerPolicyOptions", BY_NAME),
    ("topologyManagerScope", OneOf(&["container", "pod"])),
    ("tracing", Fields(&[("endpoint", Text), ("samplingRatePerMillion", Int(0, 1_000_000))])),
    ("userNamespaces", Fields(&[("idsPerPod", Int(65_536, u32::MAX as i64))])),
    ("volumePluginDir", Text),
    ("volumeStatsAggPeriod", Duration),
];
