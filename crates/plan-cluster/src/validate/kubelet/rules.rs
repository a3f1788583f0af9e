//! Rules of kubelet that look at more than one field, or into a text.

use super::fault::{Fault, Not};
use super::gates::Gates;
use super::parse::{duration, is_zero, seconds};
use super::{resources, taints, tls};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// The configuration, with kubelet's defaults where it says nothing.
struct Config<'a> {
    fields: &'a Map<String, Value>,
}

impl<'a> Config<'a> {
    fn text(&self, name: &str) -> &'a str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn list(&self, name: &str) -> &'a [Value] {
        self.fields.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn number(&self, name: &str, default: i64) -> i64 {
        self.fields.get(name).and_then(Value::as_i64).unwrap_or(default)
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.fields.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// In nanoseconds. kubelet takes 0 for the default.
    fn duration(&self, name: &str, default: i64) -> i64 {
        let set = self.fields.get(name).and_then(Value::as_str).and_then(duration);
        set.filter(|set| *set != 0).unwrap_or(default)
    }
}

/// Appends what kubelet refuses. The types are right.
pub(super) fn check(fields: &Map<String, Value>, gates: &Gates<'_>, faults: &mut Vec<Fault>) {
    let config = Config { fields };
    let mut not = |path: &str, why: String| faults.push(Fault::new(path, why));
    images(&config, gates, &mut not);
    shutdown(&config, gates, &mut not);
    logs(&config, gates, &mut not);
    of_gates(&config, gates, &mut not);
    network(&config, &mut not);
    tls::check(config.list("tlsCipherSuites"), config.list("tlsCurvePreferences"), &mut not);
    resources::cgroups(fields, &mut not);
    taints::check(config.list("registerWithTaints"), &mut not);
    if config.flag("runOnce", false) {
        not("runOnce", "cannot be true: kubelet has no such mode any more. Remove it".into());
    }
    if config.number("healthzPort", 10_248) == 0 {
        not("healthzPort", "cannot be 0: kubeadm join asks there whether kubelet is healthy. Set a port".into());
    }
    let hidden = config.text("showHiddenMetricsForVersion");
    if !hidden.is_empty() {
        let why = "cannot be set: kubelet takes its own previous minor alone, and nodes may run several. Remove it, and set it on each machine with kubeadm join --patches";
        not("showHiddenMetricsForVersion", why.into());
    }
}

fn images(config: &Config<'_>, gates: &Gates<'_>, not: Not<'_>) {
    let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
    let percents = (config.number(low, 80), config.number(high, 85));
    if percents.0 >= percents.1 {
        let (name, other) = if config.fields.contains_key(low) { (low, high) } else { (high, low) };
        let than = if name == low { "less than" } else { "more than" };
        let (own, its) = if name == low { percents } else { (percents.1, percents.0) };
        not(name, format!("is {own} and has to be {than} {other}, which is {its}"));
    }
    let least = config.duration("imageMinimumGCAge", seconds(120));
    let most = config.duration("imageMaximumGCAge", 0);
    for (name, age) in [("imageMinimumGCAge", least), ("imageMaximumGCAge", most)] {
        if age < 0 {
            not(name, "cannot be negative".into());
        }
    }
    if most > 0 && most <= least {
        not("imageMaximumGCAge", "has to be more than imageMinimumGCAge, whose default is 2m".into());
    }
    if most != 0 && gates.off("ImageMaximumGCAge") {
        not("imageMaximumGCAge", needs("ImageMaximumGCAge"));
    }
    if config.flag("serializeImagePulls", false) && config.number("maxParallelImagePulls", 1) > 1 {
        not(
            "maxParallelImagePulls",
            "cannot be more than 1 with serializeImagePulls. Remove serializeImagePulls".into(),
        );
    }
    let (policy, list) = ("imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist");
    let (is_set, allowed) = (!config.text(policy).is_empty(), config.list(list));
    if gates.off("KubeletEnsureSecretPulledImages") {
        for name in [is_set.then_some(policy), (!allowed.is_empty()).then_some(list)].into_iter().flatten() {
            not(name, needs("KubeletEnsureSecretPulledImages"));
        }
    } else if !allowed.is_empty() && config.text(policy) != "NeverVerifyAllowlistedImages" {
        not(list, format!("cannot be set without {policy}: NeverVerifyAllowlistedImages"));
    } else {
        for (at, pattern) in allowed.iter().enumerate() {
            if !pattern.as_str().is_some_and(is_image_pattern) {
                let why = "has to be an image without tag and digest, or a path that ends in /*";
                not(&format!("{list}[{at}]"), why.into());
            }
        }
    }
}

/// `pkg/kubelet/images/pullmanager`.
fn is_image_pattern(pattern: &str) -> bool {
    let path = pattern.strip_suffix("/*");
    let text = path.unwrap_or(pattern);
    let last = text.rsplit('/').next().unwrap_or_default();
    let is_plain = !text.is_empty() && pattern.trim() == pattern && !text.contains('*');
    is_plain && (path.is_some() || (!last.contains(':') && !text.contains('@')))
}

fn shutdown(config: &Config<'_>, gates: &Gates<'_>, not: Not<'_>) {
    let names = ["shutdownGracePeriod", "shutdownGracePeriodCriticalPods"];
    let [all, critical] = names.map(|name| config.duration(name, 0));
    let by_priority = "shutdownGracePeriodByPodPriority";
    let has_priorities = !config.list(by_priority).is_empty();
    if gates.off("GracefulNodeShutdown") {
        for (name, period) in names.into_iter().zip([all, critical]) {
            if period > 0 {
                not(name, needs("GracefulNodeShutdown"));
            }
        }
    } else {
        if critical > all {
            not(names[1], format!("cannot be longer than {}", names[0]));
        }
        for (name, period) in names.into_iter().zip([all, critical]) {
            if period < 0 || (period > 0 && period < seconds(1)) {
                not(name, "has to be 0s, or 1s and more".into());
            }
        }
    }
    if has_priorities && gates.off("GracefulNodeShutdownBasedOnPodPriority") {
        not(by_priority, needs("GracefulNodeShutdownBasedOnPodPriority"));
    } else if has_priorities && (all > 0 || critical > 0) {
        not(by_priority, format!("cannot be set beside {} and {}. Remove one of the two", names[0], names[1]));
    }
}

fn logs(config: &Config<'_>, gates: &Gates<'_>, not: Not<'_>) {
    if config.duration("containerLogMonitorInterval", seconds(10)) < seconds(3) {
        not("containerLogMonitorInterval", "has to be 3s or more".into());
    }
    let dir = config.text("podLogsDir");
    // What is relative, kubelet takes to be beside its file.
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_clean = dir.strip_prefix('/').is_none_or(|rest| rest.is_empty() || rest.split('/').all(is_plain));
    if !(is_clean && dir.is_ascii()) {
        not("podLogsDir", "has to be a path of ASCII characters without .. and // and / at its end".into());
    }
    let query = config.flag("enableSystemLogQuery", false);
    if query && gates.off("NodeLogQuery") {
        not("enableSystemLogQuery", needs("NodeLogQuery"));
    }
    if query && !config.flag("enableSystemLogHandler", true) {
        not("enableSystemLogQuery", "cannot be true without enableSystemLogHandler".into());
    }
    let Some(logging) = config.fields.get("logging").filter(|of| of.is_object()) else { return };
    let flush = match &logging["flushFrequency"] {
        Value::String(text) => duration(text).unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    };
    if flush < 0 {
        not("logging.flushFrequency", "has to be more than 0s".into());
    }
    let modules = logging["vmodule"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !modules.is_empty() && logging["format"] == "json" {
        not("logging.vmodule", "cannot be set with format: json".into());
    }
    for (at, module) in modules.iter().enumerate() {
        let pattern = module["filePattern"].as_str().unwrap_or_default();
        if pattern.is_empty() || pattern.contains(['=', ',']) {
            not(&format!("logging.vmodule[{at}].filePattern"), "has to be a pattern without = and comma".into());
        }
    }
    for format in ["text", "json"] {
        let size = &logging["options"][format]["infoBufferSize"];
        let is_size = size.as_i64().is_some_and(|n| n != 0) || size.as_str().is_some_and(|text| !is_zero(text));
        if is_size && gates.off("LoggingAlphaOptions") {
            not(&format!("logging.options.{format}.infoBufferSize"), needs("LoggingAlphaOptions"));
        }
    }
}

fn of_gates(config: &Config<'_>, gates: &Gates<'_>, not: Not<'_>) {
    let period = config.fields.get("cpuCFSQuotaPeriod").and_then(Value::as_str).and_then(duration);
    if let Some(period) = period {
        if gates.off("CustomCPUCFSQuotaPeriod") && period != seconds(1) / 10 {
            not("cpuCFSQuotaPeriod", needs("CustomCPUCFSQuotaPeriod"));
        } else if !(seconds(1) / 1000..=seconds(1)).contains(&period) {
            not("cpuCFSQuotaPeriod", "has to be from 1ms to 1s".into());
        }
    }
    let restarts = config.fields.get("crashLoopBackOff").map(|of| &of["maxContainerRestartPeriod"]);
    if let Some(period) = restarts.and_then(Value::as_str).and_then(duration) {
        let path = "crashLoopBackOff.maxContainerRestartPeriod";
        if gates.off("KubeletCrashLoopBackOffMax") {
            not(path, needs("KubeletCrashLoopBackOffMax"));
        } else if !(seconds(1)..=seconds(300)).contains(&period) {
            not(path, "has to be from 1s to 300s".into());
        }
    }
    let factor = config.fields.get("memoryThrottlingFactor").and_then(Value::as_f64);
    if factor.is_some_and(|factor| factor <= 0.0 || factor > 1.0) {
        not("memoryThrottlingFactor", "has to be more than 0 and at most 1.0".into());
    }
    if config.text("memoryReservationPolicy") == "TieredReservation" && gates.off("MemoryQoS") {
        not("memoryReservationPolicy", needs("MemoryQoS"));
    }
    let ids = config.fields.get("userNamespaces").and_then(|of| of["idsPerPod"].as_i64()).unwrap_or(65_536);
    if ids % 65_536 != 0 {
        not("userNamespaces.idsPerPod", "has to be a multiple of 65536".into());
    }
    let endpoint = config.fields.get("tracing").and_then(|of| of["endpoint"].as_str()).unwrap_or_default();
    if let Some((scheme, _)) = endpoint.split_once("//")
        && !["dns:", "unix:", "unix-abstract:"].contains(&scheme)
    {
        not(
            "tracing.endpoint",
            "has to be host:port, or a URL that begins with dns://, unix:// or unix-abstract://".into(),
        );
    }
}

fn needs(gate: &str) -> String {
    format!("needs feature gate {gate}, which is off. Set featureGates.{gate}: true, or remove it")
}

/// kubelet drops what is no address, and pods then resolve nothing.
fn network(config: &Config<'_>, not: Not<'_>) {
    for (at, address) in config.list("clusterDNS").iter().enumerate() {
        if address.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
            not(&format!("clusterDNS[{at}]"), "has to be an IP address".into());
        }
    }
}
