//! Configurations, and whether kubelet judges them before it connects to anything.

use serde_json::{Value, json};

/// What people set.
pub(super) fn usual() -> Value {
    json!({
        "maxPods": 250, "podPidsLimit": 4096, "failSwapOn": false, "memorySwap": {"swapBehavior": "LimitedSwap"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "10Gi", "on": null},
        "evictionSoft": {"memory.available": "10%"}, "evictionSoftGracePeriod": {"memory.available": "90s"},
        "systemReserved": {"cpu": "500m", "memory": "1Gi"}, "kubeReserved": {"cpu": "100m", "ephemeral-storage": "1Gi", "pid": "1000"},
        "imageGCHighThresholdPercent": 75, "imageGCLowThresholdPercent": 70, "imageMaximumGCAge": "168h",
        "maxParallelImagePulls": 5, "registryPullQPS": 0, "serializeImagePulls": false,
        "shutdownGracePeriod": "60s", "shutdownGracePeriodCriticalPods": "20s",
        "containerLogMaxSize": "50Mi", "containerLogMaxFiles": 3, "cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1",
        "topologyManagerPolicy": "single-numa-node", "featureGates": {"KubeletInUserNamespace": false},
        "allowedUnsafeSysctls": ["net.core.somaxconn"], "seccompDefault": true, "protectKernelDefaults": false,
        "registerWithTaints": [{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}],
        "logging": {"format": "json", "verbosity": 2, "flushFrequency": "5s"}, "clusterDNS": ["169.254.20.10"],
        "authentication": {"webhook": {"cacheTTL": "1m"}}, "authorization": {"webhook": {"cacheAuthorizedTTL": "1m"}},
        "cgroupDriver": "systemd", "readOnlyPort": 0, "tlsMinVersion": "VersionTLS13", "rotateCertificates": null,
    })
}

/// Each with whether the real kubelet says at once what is wrong; the rest it finds when it runs.
pub(super) fn all() -> Vec<(Value, bool)> {
    let mut all = vec![];
    numbers(&mut all);
    let fields = [texts(), together(), types()].concat();
    all.extend(fields.into_iter().map(|config| (config, true)));
    all
}

/// At both ends of their ranges, and beyond.
fn numbers(all: &mut Vec<(Value, bool)>) {
    for (name, least, most) in [
        ("eventBurst", 0, None),
        ("eventRecordQPS", 0, None),
        ("healthzPort", 1, Some(65_535)),
        ("iptablesDropBit", 0, Some(31)),
        ("iptablesMasqueradeBit", 0, Some(31)),
        ("kubeAPIBurst", 0, None),
        ("kubeAPIQPS", 0, None),
        ("nodeStatusMaxImages", -1, None),
        ("maxPods", 0, Some(i64::from(i32::MAX))),
        ("maxOpenFiles", 0, None),
        ("nodeLeaseDurationSeconds", 0, None),
        ("oomScoreAdj", -1000, Some(1000)),
        ("podsPerCore", 0, None),
        ("port", 0, Some(65_535)),
        ("readOnlyPort", 0, Some(65_535)),
        ("registryBurst", 0, None),
        ("registryPullQPS", 0, None),
        ("maxParallelImagePulls", 1, None),
        ("containerLogMaxWorkers", 1, None),
        ("containerLogMaxFiles", 2, None),
    ] {
        all.push((json!({(name): least}), true));
        // Berth refuses a port of 0, at which kubeadm asks for kubelet's health.
        all.push((json!({(name): least - 1}), name != "healthzPort"));
        all.extend(most.map(|most| (json!({(name): most}), true)));
        all.extend(most.map(|most| (json!({(name): most + 1}), true)));
    }
}

/// One field.
fn texts() -> Vec<Value> {
    vec![
        json!({"imageMinimumGCAge": "-1s"}),
        json!({"imageMaximumGCAge": "2m"}),
        json!({"imageMaximumGCAge": "121s"}),
        json!({"imageGCLowThresholdPercent": 85}),
        json!({"imageGCLowThresholdPercent": 84}),
        json!({"imageGCHighThresholdPercent": 80}),
        json!({"imageGCHighThresholdPercent": 101}),
        json!({"syncFrequency": "1.5h30m"}),
        json!({"syncFrequency": "10"}),
        json!({"syncFrequency": "1d"}),
        json!({"syncFrequency": "9999999h"}),
        json!({"syncFrequency": ".5s"}),
        json!({"syncFrequency": "+1µs"}),
        json!({"syncFrequency": "1 s"}),
        json!({"cpuCFSQuotaPeriod": "1ms"}),
        json!({"cpuCFSQuotaPeriod": "999us"}),
        json!({"cpuCFSQuotaPeriod": "1001ms"}),
        json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "300s"}}),
        json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "301s"}}),
        json!({"containerLogMonitorInterval": "2s"}),
        json!({"containerLogMonitorInterval": "3s"}),
        json!({"podLogsDir": "/var/log/x"}),
        json!({"podLogsDir": "var/log"}),
        json!({"podLogsDir": "/var/log/"}),
        json!({"podLogsDir": "/var/../log"}),
        json!({"podLogsDir": "/var/lög"}),
        json!({"topologyManagerPolicy": "strict"}),
        json!({"topologyManagerScope": "node"}),
        json!({"hairpinMode": "veth"}),
        json!({"memoryReservationPolicy": "Some"}),
        json!({"imagePullCredentialsVerificationPolicy": "Never"}),
        json!({"imagePullCredentialsVerificationPolicy": "AlwaysVerify"}),
        json!({"memorySwap": {"swapBehavior": "UnlimitedSwap"}}),
        json!({"memoryThrottlingFactor": 0}),
        json!({"memoryThrottlingFactor": 1}),
        json!({"memoryThrottlingFactor": 1.1}),
        json!({"reservedSystemCPUs": "0-3,8"}),
        json!({"reservedSystemCPUs": "3-0"}),
        json!({"reservedSystemCPUs": "a"}),
        json!({"tlsCipherSuites": ["TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA"]}),
        json!({"tlsCipherSuites": ["TLS_X"]}),
        json!({"tlsMinVersion": "VersionTLS14"}),
        json!({"tlsMinVersion": ""}),
        json!({"tlsCurvePreferences": [23, 24, 25, 29, 4587, 4588, 4589]}),
        json!({"tlsCurvePreferences": [1]}),
        json!({"tlsCurvePreferences": [23, 23]}),
        json!({"userNamespaces": {"idsPerPod": 65_535}}),
        json!({"userNamespaces": {"idsPerPod": 131_072}}),
        json!({"userNamespaces": {"idsPerPod": 65_537}}),
        json!({"tracing": {"endpoint": "localhost:4317", "samplingRatePerMillion": 1_000_000}}),
        json!({"tracing": {"endpoint": "https://localhost:4317"}}),
        json!({"tracing": {"samplingRatePerMillion": 1_000_001}}),
        json!({"logging": {"format": "xml"}}),
        json!({"logging": {"format": ""}}),
        json!({"logging": {"verbosity": -1}}),
        json!({"logging": {"flushFrequency": 5_000_000_000_i64}}),
        json!({"logging": {"flushFrequency": "-1s"}}),
        json!({"logging": {"vmodule": [{"filePattern": "a=b", "verbosity": 1}]}}),
        json!({"logging": {"options": {"json": {"splitStream": true}}}}),
        json!({"logging": {"options": {"json": {"infoBufferSize": "1Mi"}}}}),
        json!({"runOnce": true}),
    ]
}

/// Several.
fn together() -> Vec<Value> {
    let taint = |taint: Value| json!({"registerWithTaints": [taint]});
    vec![
        json!({"shutdownGracePeriod": "10s", "shutdownGracePeriodCriticalPods": "11s"}),
        json!({"shutdownGracePeriod": "500ms"}),
        json!({"shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 10}]}),
        json!({"shutdownGracePeriod": "10s", "shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 10}]}),
        json!({"shutdownGracePeriod": "10s", "featureGates": {"GracefulNodeShutdown": false, "GracefulNodeShutdownBasedOnPodPriority": false}}),
        json!({"featureGates": {"GracefulNodeShutdown": false}}),
        json!({"featureGates": {"NodeSwap": false}}),
        json!({"featureGates": {"RotateKubeletServerCertificate": false}}),
        json!({"serializeImagePulls": true, "maxParallelImagePulls": 2}),
        json!({"maxParallelImagePulls": 2}),
        json!({"systemCgroups": "/system"}),
        json!({"systemCgroups": "/system", "cgroupRoot": "/"}),
        json!({"enforceNodeAllocatable": ["pods", "pods"]}),
        json!({"enforceNodeAllocatable": ["pods", "none"]}),
        json!({"enforceNodeAllocatable": ["none"], "cgroupsPerQOS": false}),
        json!({"cgroupsPerQOS": false}),
        json!({"enforceNodeAllocatable": ["system-reserved"]}),
        json!({"enforceNodeAllocatable": ["system-reserved"], "systemReservedCgroup": "/system.slice"}),
        json!({"enforceNodeAllocatable": ["kube-reserved", "kube-reserved-compressible"], "kubeReservedCgroup": "/kube"}),
        json!({"enforceNodeAllocatable": [""]}),
        json!({"reservedSystemCPUs": "0", "kubeReservedCgroup": "/kube"}),
        json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "2Mi"}}]}),
        json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "0"}}]}),
        json!({"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1"}}]}),
        json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}, {"numaNode": 0, "limits": {"memory": "1Gi"}}]}),
        json!({"preloadedImagesVerificationAllowlist": ["example.com/a"]}),
        json!({"imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages", "preloadedImagesVerificationAllowlist": ["example.com/a", "example.com/*"]}),
        json!({"imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages", "preloadedImagesVerificationAllowlist": ["example.com/a:1"]}),
        json!({"imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages", "preloadedImagesVerificationAllowlist": ["example.*/a"]}),
        json!({"featureGates": {"KubeletEnsureSecretPulledImages": false}, "imagePullCredentialsVerificationPolicy": "AlwaysVerify"}),
        json!({"featureGates": {"KubeletCrashLoopBackOffMax": false}, "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"}}),
        json!({"memoryReservationPolicy": "TieredReservation"}),
        json!({"memoryReservationPolicy": "TieredReservation", "featureGates": {"MemoryQoS": true}}),
        json!({"enableSystemLogQuery": true}),
        json!({"enableSystemLogQuery": true, "enableSystemLogHandler": false}),
        json!({"logging": {"format": "json", "vmodule": [{"filePattern": "a", "verbosity": 1}]}}),
        json!({"logging": {"format": "json", "options": {"json": {"infoBufferSize": "1Mi"}}}, "featureGates": {"LoggingAlphaOptions": true}}),
        taint(json!({"key": "example.com/gpu", "effect": "NoExecute"})),
        taint(json!({"key": "", "effect": "NoExecute"})),
        taint(json!({"key": "a b"})),
        taint(json!({"key": "a", "value": "b c"})),
        taint(json!({"key": "a", "effect": "Never"})),
        taint(json!({"key": "a", "timeAdded": "2026-01-01T00:00:00Z"})),
        taint(json!({"key": "EXAMPLE.com/a"})),
    ]
}

/// Of another type, and fields that there are not.
fn types() -> Vec<Value> {
    vec![
        json!({"maxPods": "30"}),
        json!({"maxPods": 30.5}),
        json!({"maxPods": true}),
        json!({"maxpods": 30}),
        json!({"failSwapOn": "no"}),
        json!({"featureGates": {"MemoryQoS": "true"}}),
        json!({"featureGates": ["MemoryQoS"]}),
        json!({"systemReserved": {"cpu": 1}}),
        json!({"evictionHard": "5%"}),
        json!({"clusterDNS": "169.254.20.10"}),
        json!({"clusterDNS": [1]}),
        json!({"syncFrequency": 60}),
        json!({"memorySwap": {"behavior": "NoSwap"}}),
        json!({"registerWithTaints": [{"name": "a"}]}),
        json!({"registerWithTaints": {"key": "a"}}),
        json!({"containerLogMaxSize": 5}),
        json!({"logging": {"options": {"xml": {}}}}),
        json!({"authentication": {"webhook": {"ttl": "1m"}}}),
        json!({"staticPodURLHeader": {"a": "b"}}),
        json!({"staticPodURLHeader": {"a": ["b"]}}),
    ]
}
