use super::*;
use serde_json::{Value, json};

fn said(config: &Value) -> String {
    said_of("1.36", config)
}

fn said_of(minor: &str, config: &Value) -> String {
    refusal(config.as_object().unwrap(), minor.parse().unwrap()).unwrap_or_default()
}

/// The field, what is wrong, and the way out.
#[test]
fn a_refusal_names_the_field_and_what_to_do() {
    for (config, message) in [
        (json!({}), ""),
        (json!({"maxPods": 30, "featureGates": {"Whatever": true}}), ""),
        (json!({"maxpods": 30}), "maxpods: is no field of KubeletConfiguration. Did you mean maxPods?"),
        (json!({"evictionHrad": {}}), "evictionHrad: is no field of KubeletConfiguration. Did you mean evictionHard?"),
        (
            json!({"shutdown": "1s"}),
            "shutdown: is no field of KubeletConfiguration (kubelet.config.k8s.io/v1beta1). Remove it",
        ),
        (
            json!({"memorySwap": {"behaviour": "NoSwap"}}),
            "memorySwap.behaviour: is no field of KubeletConfiguration. Known are swapBehavior",
        ),
        (json!({"maxPods": "30"}), "maxPods: has to be a whole number from 0 to 2147483647"),
        (json!({"cgroupDriver": "cgroup"}), "cgroupDriver: has to be one of systemd, cgroupfs"),
        (
            json!({"syncFrequency": 60}),
            "syncFrequency: has to be a length of time as a string, such as \"90s\" or \"1h30m\"",
        ),
        (json!({"systemReserved": {"cpu": 1}}), "systemReserved.cpu: has to be a string"),
        (
            json!({"systemReserved": {"gpu": "1"}}),
            "systemReserved.gpu: cannot be reserved. Known are cpu, memory, ephemeral-storage, pid",
        ),
        (
            json!({"kubeReserved": {"memory": "1GiB"}}),
            "kubeReserved.memory: has to be a quantity of 0 or more, such as 100Mi",
        ),
        (
            json!({"evictionHard": {"memory.availible": "5%"}}),
            "evictionHard.memory.availible: is no signal of eviction. Did you mean memory.available?",
        ),
        (
            json!({"evictionHard": {"memory.available": "101%"}}),
            "evictionHard.memory.available: has to be a quantity of more than 0, or a percentage from 0% to 100%, such as 500Mi or 5%",
        ),
        (
            json!({"evictionSoft": {"memory.available": "5%"}}),
            "evictionSoft.memory.available: needs evictionSoftGracePeriod.memory.available, such as 90s",
        ),
        (
            json!({"imageGCLowThresholdPercent": 90}),
            "imageGCLowThresholdPercent: is 90 and has to be less than imageGCHighThresholdPercent, which is 85",
        ),
        (
            json!({"imageGCHighThresholdPercent": 80}),
            "imageGCHighThresholdPercent: is 80 and has to be more than imageGCLowThresholdPercent, which is 80",
        ),
        (json!({"clusterDNS": ["dns"]}), "clusterDNS[0]: has to be an IP address"),
        (
            json!({"healthzPort": 0}),
            "healthzPort: cannot be 0: kubeadm join asks there whether kubelet is healthy. Set a port",
        ),
        (
            json!({"memoryReservationPolicy": "TieredReservation"}),
            "memoryReservationPolicy: needs feature gate MemoryQoS, which is off. Set featureGates.MemoryQoS: true, or remove it",
        ),
        (
            json!({"enforceNodeAllocatable": ["system-reserved"]}),
            "enforceNodeAllocatable[0]: is system-reserved, which needs systemReservedCgroup",
        ),
        (
            json!({"maxPods": -1, "podsPerCore": -1}),
            "maxPods: has to be a whole number from 0 to 2147483647. spec.kubelet.config has 1 more of such faults",
        ),
    ] {
        let message = if message.is_empty() { String::new() } else { format!("spec.kubelet.config.{message}") };
        assert_eq!(said(&config), message);
    }
}

#[test]
fn what_berth_sets_is_refused_with_the_reason() {
    for (config, path, reason) in [
        (json!({"apiVersion": "kubelet.config.k8s.io/v1beta1"}), "apiVersion", "Remove it"),
        (json!({"kind": "KubeletConfiguration"}), "kind", "Remove it"),
        (json!({"authentication": {"x509": {"clientCAFile": "/x"}}}), "authentication.x509", "the tenant's CA"),
        (
            json!({"authentication": {"anonymous": {"enabled": true}}}),
            "authentication.anonymous",
            "whoever reaches a node",
        ),
        (
            json!({"authentication": {"webhook": {"enabled": false}}}),
            "authentication.webhook.enabled",
            "who a token is",
        ),
        (json!({"authorization": {"mode": "AlwaysAllow"}}), "authorization.mode", "RBAC"),
        (json!({"clusterDomain": "x"}), "clusterDomain", "spec.network.dnsDomain"),
        (json!({"rotateCertificates": false}), "rotateCertificates", "certificate expires"),
        (json!({"serverTLSBootstrap": true}), "serverTLSBootstrap", "serving certificates"),
        (json!({"tlsCertFile": "/x"}), "tlsCertFile", "serving certificates"),
        (json!({"tlsPrivateKeyFile": "/x"}), "tlsPrivateKeyFile", "serving certificates"),
        (json!({"providerID": "x"}), "providerID", "kubeadm join --patches"),
        (json!({"podCIDR": "10.0.0.0/24"}), "podCIDR", "spec.network.podCIDRs"),
        (json!({"showHiddenMetricsForVersion": "1.35"}), "showHiddenMetricsForVersion", "kubeadm join --patches"),
        (
            json!({"featureGates": {"RotateKubeletServerCertificate": false}}),
            "featureGates.RotateKubeletServerCertificate",
            "serving certificate",
        ),
    ] {
        let said = said(&config);
        assert!(said.starts_with(&format!("spec.kubelet.config.{path}: ")) && said.contains(reason), "{said}");
    }
    // Beside what is Berth's, the times are not; and nothing is what is not set.
    let times = json!({
        "authentication": {"webhook": {"cacheTTL": "1m"}, "x509": null},
        "authorization": {"webhook": {"cacheAuthorizedTTL": "1m", "cacheUnauthorizedTTL": "1m"}},
        "clusterDomain": null,
    });
    assert_eq!(said(&times), "");
}

/// What a minor does not know yet, or has off.
#[test]
fn a_minor_has_its_own_fields_and_gates() {
    let restarts = json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "10s"}});
    let period = json!({"cpuCFSQuotaPeriod": "50ms"});
    let curves = json!({"tlsCurvePreferences": [29]});
    for (minor, config, is_taken) in [
        ("1.34", &restarts, false),
        ("1.35", &restarts, true),
        ("1.35", &period, false),
        ("1.36", &period, true),
        ("1.35", &curves, false),
        ("1.36", &curves, true),
    ] {
        assert_eq!(said_of(minor, config).is_empty(), is_taken, "{minor} {config}");
    }
    let all = json!({"featureGates": {"AllAlpha": true}, "memoryReservationPolicy": "TieredReservation"});
    assert_eq!(said(&all), "", "what is on is not known");
}

#[test]
fn what_the_next_minor_refuses_is_named_with_it() {
    for (next, config, message) in [
        ("1.36", json!({"maxPods": 30, "featureGates": {"ImageVolume": true, "Whatever": true}}), ""),
        ("1.35", json!({"featureGates": {"ImageVolume": false, "MemoryManager": true}}), ""),
        (
            "1.36",
            json!({"featureGates": {"NodeLogQuery": false}}),
            "kubelet 1.36 refuses spec.kubelet.config.featureGates.NodeLogQuery: cannot be turned off: Kubernetes 1.36 has it locked. Remove it",
        ),
        (
            "1.36",
            json!({"featureGates": {"GitRepoVolumeDriver": true}}),
            "kubelet 1.36 refuses spec.kubelet.config.featureGates.GitRepoVolumeDriver: cannot be turned on: Kubernetes 1.36 has it locked. Remove it",
        ),
        (
            "1.36",
            json!({"featureGates": {"MemoryManager": true, "ImageVolume": false}}),
            "kubelet 1.36 refuses spec.kubelet.config.featureGates.MemoryManager: is a feature gate that it does not know any more. Remove it. spec.kubelet.config has 1 more of such faults",
        ),
        (
            "1.35",
            json!({"imageMaximumGCAge": "1h", "featureGates": {"ImageMaximumGCAge": false}}),
            "kubelet 1.35 refuses spec.kubelet.config.featureGates.ImageMaximumGCAge: cannot be turned off: Kubernetes 1.35 has it locked. Remove it",
        ),
    ] {
        let said = refusal_by_next(config.as_object().unwrap(), next.parse().unwrap()).unwrap_or_default();
        assert!(said.starts_with(message) && said.is_empty() == message.is_empty(), "{config}: {said}");
    }
}

#[test]
fn each_minor_but_the_oldest_says_what_it_changes_of_gates() {
    let minors = berth_render::Catalog::builtin().minors();
    let silent: Vec<_> = minors.iter().skip(1).filter(|minor| refused_gates(**minor).next().is_none()).collect();
    assert!(silent.is_empty(), "{silent:?}: a row in validate/kubelet/next.rs");
}

/// A message is quoted in conditions.
#[test]
fn what_a_user_wrote_stays_short_and_its_values_unsaid() {
    let long = "x\n".repeat(200);
    for config in [
        json!({(long.clone()): 1}),
        json!({"evictionHard": {(long.clone()): "5%"}}),
        json!({"evictionHard": {"memory.available": long}}),
        json!({"staticPodURLHeader": {"Authorization": "Bearer hunter2"}}),
    ] {
        let said = said(&config);
        assert!(!said.is_empty() && said.len() < 500 && !said.contains('\n') && !said.contains("hunter2"), "{said}");
    }
    let much = json!({"allowedUnsafeSysctls": vec!["x".repeat(1000); 70]});
    assert!(said(&much).ends_with("six each). At most 65536 are possible"), "{}", said(&much));
}

/// Berth reads what it wrote, in an answer of 256 KiB, whatever a configuration is full of.
#[test]
fn what_is_taken_is_read_again() {
    for of in ["x", "<", "\"", "\\", "\u{1}", "\u{2028}", "é"] {
        let with = |n: usize| json!({"staticPodURLHeader": {"X": vec![of.repeat(n)]}});
        let is_taken = |n: usize| !said(&with(n)).contains("bytes of JSON");
        let mut most = 0;
        for step in (0..17).rev().map(|bit| 1 << bit) {
            most += if is_taken(most + step) { step } else { 0 };
        }
        // The ConfigMap has it as a string.
        let answer = Value::from(with(most).to_string()).to_string();
        let answer = answer.len() + 5 * answer.matches(['<', '>', '&', '\u{2028}']).count();
        assert!(most > 5000 && answer < 192 << 10, "{of:?}: {most} times, {answer} bytes");
    }
}
