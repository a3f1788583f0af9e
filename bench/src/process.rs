//! Processes as `/proc` shows them.

use std::path::Path;

/// What a process holds and has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Memory that is in RAM, in MiB, with what it shares with others.
    pub(crate) rss: f64,
    /// What of it is the process's own: heap and stacks, and not the program, which all that run it share.
    pub(crate) anonymous: f64,
    /// The most memory that there ever was.
    pub(crate) peak: f64,
    /// Seconds of CPU since it started.
    pub(crate) cpu: f64,
    /// When it started, in the kernel's ticks: another process of the same number has another start.
    pub(crate) started: u64,
}

/// A process, if it is there.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let dir = Path::new("/proc").join(pid.to_string());
    let status = std::fs::read_to_string(dir.join("status")).ok()?;
    let stat = std::fs::read_to_string(dir.join("stat")).ok()?;
    // The name comes first, in parentheses, and may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().filter_map(|i| fields.get(*i)?.parse::<f64>().ok()).sum();
    Some(Usage {
        rss: mib(&status, "VmRSS:"),
        anonymous: mib(&status, "RssAnon:"),
        peak: mib(&status, "VmHWM:"),
        // USER_HZ is 100 on every Linux that Berth runs on.
        cpu: ticks / 100.0,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Memory in MiB with each shared page counted by how many share it; `None` if the process is gone.
pub(crate) fn pss(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(mib(&text, "Pss:"))
}

/// A line such as `VmRSS:  1024 kB`.
fn mib(text: &str, name: &str) -> f64 {
    let kib = text.lines().find_map(|l| l.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

/// Whether a process is one of the pod with this UID.
pub(crate) fn is_of(pid: u32, pod: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(pod))
}

/// All processes: pid and name, cut at 15 letters as the kernel does.
pub(crate) fn all() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            Some((pid, name.trim().to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_a_start() {
        let own = usage(std::process::id()).expect("this process");
        assert!(own.anonymous > 0.0 && own.anonymous < own.rss && own.rss <= own.peak, "{own:?}");
        let first = usage(1).expect("the first process");
        assert!(first.started < own.started, "{first:?} {own:?}");
    }
}
