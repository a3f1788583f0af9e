//! The command that uses the connection.

use crate::outcome::Outcome;
use anyhow::Context as _;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use tokio::process::Command;

/// Runs the command with `KUBECONFIG` set; its exit code is ours.
pub(super) async fn run(command: &[OsString], kubeconfig: &Path) -> anyhow::Result<Outcome> {
    let (program, arguments) = command.split_first().context("no command")?;
    let named = || format!("cannot run `{}`", program.display());
    // A terminal sends SIGINT to the command, too, and it may live on: so do we, until it has ended.
    let mut signals = Signals::new()?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .spawn()
        .with_context(named)?;
    let pid = child.id();
    loop {
        tokio::select! {
            status = child.wait() => return Ok(Outcome::Exited(code(status.with_context(named)?))),
            () = signals.next(pid) => {}
        }
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(super) async fn interrupted() -> anyhow::Result<()> {
    Signals::new()?.next(None).await;
    Ok(())
}

/// What ends this program.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one. SIGTERM is passed on to the command, which the terminal's SIGINT has reached already.
    async fn next(&mut self, command: Option<u32>) {
        use nix::{sys::signal, unistd::Pid};
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {
                if let Some(pid) = command.and_then(|id| i32::try_from(id).ok()) {
                    let _ = signal::kill(Pid::from_raw(pid), signal::Signal::SIGTERM);
                }
            }
        }
    }
}

/// Windows has no signals but Ctrl-C, which reaches the command, too.
#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self, _: Option<u32>) {
        self.0.recv().await;
    }
}

/// As shells do: 128 and the signal for a command that a signal ended.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let by_signal = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal);
    #[cfg(not(unix))]
    let by_signal = None;
    let code = status.code().or(by_signal).unwrap_or(1);
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
