//! Connections that are opened from within a pod's network, whatever is in the pod.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::until;

/// Whether whoever has this process reaches `IP:port`, as it should be. What enforces policies follows a pod with a delay, so what is wrong at
/// first is tried again.
pub fn reaches((process, who): (i32, &str), to: &str, open: bool, what: &str) -> Result<()> {
    let network = format!("/proc/{process}/ns/net");
    let attempt = || {
        // Without it nothing is reached, and that would show nothing.
        ensure!(Path::new(&network).exists(), "{who} has ended");
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={network}"));
        let target = format!("TCP:{to},connect-timeout=2");
        let output = command.args(["--", "socat", "-u", "OPEN:/dev/null", &target]).output()?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(output.status.success() == open, "{who} to {what} at {to}: wanted open={open}: {said}");
        Ok(())
    };
    if attempt().is_ok() { Ok(()) } else { until("it to be so", attempt) }
}
