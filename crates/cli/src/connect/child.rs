//! The command that uses the connection.

use crate::Outcome;
use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the command with `KUBECONFIG` set; its exit code is ours.
pub(super) async fn run(command: &[OsString], kubeconfig: &Path) -> anyhow::Result<Outcome> {
    let (program, arguments) = command.split_first().context("no command")?;
    let named = || format!("cannot run `{}`", program.display());
    // A terminal sends SIGINT to the command, too, and it may live on: so do we, until it has ended.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .spawn()
        .with_context(named)?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    loop {
        tokio::select! {
            status = child.wait() => return Ok(Outcome::Exited(code(status.with_context(named)?))),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {
                if let Some(pid) = pid {
                    let _ = kill(pid, Signal::SIGTERM);
                }
            }
        }
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(super) async fn interrupted() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// As shells do: 128 and the signal for a command that a signal ended.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ran(script: &str) -> Outcome {
        let command = ["sh", "-c", script].map(OsString::from);
        run(&command, Path::new("/tmp/kubeconfig of a tenant")).await.unwrap()
    }

    #[tokio::test]
    async fn the_command_has_the_kubeconfig_and_its_exit_code_is_ours() {
        assert_eq!(ran("test \"$KUBECONFIG\" = '/tmp/kubeconfig of a tenant'").await, Outcome::Exited(0));
        assert_eq!(ran("exit 7").await, Outcome::Exited(7));
        assert_eq!(ran("kill -9 $$").await, Outcome::Exited(137));
        let why = run(&["no-such-program".into()], Path::new("/")).await.unwrap_err();
        assert!(why.to_string().contains("cannot run `no-such-program`"), "{why}");
    }
}
