//! Calls Helm.

use crate::cas;
use crate::place::Place;
use crate::problem::Problem;
use berth_contract::apps::{At, Release, files, longest_call};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Public certificate authorities, in Helm's home.
const AUTHORITIES: &str = "cas.pem";
/// How long it may take to end once it is asked to: it says that it failed then.
const GRACE: Duration = Duration::from_secs(30);
/// What is read of Helm's output, at the most: a release with its chart, which it keeps packed in a megabyte.
pub(crate) const MOST: u64 = 32 << 20;

/// Helm, as it is called for a tenant.
#[derive(Clone, Debug)]
pub struct Helm {
    place: Place,
    home: std::path::PathBuf,
}

/// What it said, and whether it went well.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Whether it ended with 0.
    pub ok: bool,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Helm {
    /// With an empty home.
    ///
    /// # Errors
    ///
    /// Scratch cannot be written to.
    pub fn new(place: &Place) -> Result<Self, Problem> {
        let home = place.empty("helm")?;
        let authorities = home.join(AUTHORITIES);
        std::fs::write(&authorities, cas::public()).map_err(|e| Problem::file(&authorities, &e))?;
        Ok(Self { home, place: place.clone() })
    }

    /// Calls it, for so long at the most.
    ///
    /// # Errors
    ///
    /// It could not be called, or did not end.
    pub fn call(&self, args: &[&str], limit: Duration) -> Result<Said, Problem> {
        let what = args.first().copied().unwrap_or_default();
        match self.ended(args, limit, GRACE)? {
            (said, true) => Ok(said),
            (said, false) => Err(Problem::brief(
                At::Other,
                format!("helm {what} did not end within {} seconds: {}", limit.as_secs(), last(&said.err)),
            )),
        }
    }

    /// Calls it, and has it end after that time. Whether it ended before.
    fn ended(&self, args: &[&str], limit: Duration, grace: Duration) -> Result<(Said, bool), Problem> {
        let what = args.first().copied().unwrap_or_default();
        let mut command = Command::new(&self.place.helm);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME", "TMPDIR"] {
            command.env(variable, &self.home);
        }
        command.env("SSL_CERT_FILE", self.home.join(AUTHORITIES));
        command.env("KUBECONFIG", self.place.secret.join(files::KUBECONFIG));
        let mut child = command
            .spawn()
            .map_err(|e| Problem::brief(At::Other, format!("{} cannot be started: {e}", self.place.helm.display())))?;
        let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let ended =
            wait(&mut child, limit, grace).map_err(|e| Problem::brief(At::Other, format!("helm {what}: {e}")))?;
        let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
        let said = |ok| Said { ok, out: text(out), err: text(err) };
        match ended {
            Ended::Itself(status) if status.code().is_none() => Err(Problem::brief(
                At::Other,
                format!("helm {what} was killed: a chart that needs more memory than the Job has, if it stays"),
            )),
            Ended::Itself(status) => Ok((said(status.success()), true)),
            Ended::Asked => Ok((said(false), false)),
        }
    }
}

/// Calls Helm for what changes the release, for as long as the spec says. What it says.
pub(crate) fn done(helm: &Helm, release: &Release, args: &[String], roll_back: bool) -> Result<String, Problem> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let limit = Duration::from_secs(longest_call(release.timeout).try_into().unwrap_or_default());
    // It may have begun to roll back, or does so once it is asked to end.
    let grace = if roll_back { limit } else { GRACE };
    match helm.ended(&args, limit, grace)? {
        (said, true) if said.ok => Ok(said.out),
        (said, true) => Err(failed(&said)),
        (said, false) => {
            let what = args.first().copied().unwrap_or_default();
            Err(Problem::lasting(At::Release, late(what, release.timeout, limit, &last(&said.err))))
        }
    }
}

fn late(what: &str, timeout: i64, limit: Duration, last: &str) -> String {
    let limit = limit.as_secs();
    format!(
        "helm {what} did not end within {limit} seconds, by hooks that each may take spec.timeoutSeconds ({timeout}) of the App: raise that, or mend what they wait for. Helm says: {last}"
    )
}

fn failed(said: &Said) -> Problem {
    let message = last(&said.err);
    if is_unreachable(&said.err) {
        return Problem::brief(At::Tenant, format!("the tenant's API: {message}"));
    }
    Problem::lasting(At::Release, message)
}

/// How it ended.
enum Ended {
    /// In time.
    Itself(ExitStatus),
    /// It was asked to, and killed if that did not help.
    Asked,
}

/// Waits until it ends.
fn wait(child: &mut Child, limit: Duration, grace: Duration) -> std::io::Result<Ended> {
    if let Some(status) = wait_for(child, limit)? {
        return Ok(Ended::Itself(status));
    }
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::TERM)?;
    }
    if wait_for(child, grace)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(Ended::Asked)
}

/// Waits until it ends, for so long at the most.
fn wait_for(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() >= until {
            return Ok(ended);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = vec![];
        if let Some(mut from) = from {
            // What is beyond is read, and not kept: else it would wait for ever.
            let _cut = from.by_ref().take(MOST).read_to_end(&mut bytes);
            let _rest = std::io::copy(&mut from, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What it says at the end: warnings come before.
pub(crate) fn last(err: &str) -> String {
    let from = err.rfind("Error: ").unwrap_or_default();
    err.get(from..).unwrap_or(err).trim().trim_start_matches("Error: ").to_owned()
}

/// Whether the tenant's API is at fault: it does not answer, or does not know this user.
pub(crate) fn is_unreachable(err: &str) -> bool {
    const AWAY: [&str; 10] = [
        "connection refused",
        "connection reset",
        "i/o timeout",
        "no such host",
        "no route to host",
        "cluster unreachable",
        "TLS handshake timeout",
        "the server is currently unable",
        "etcdserver: ",
        "http2: client connection lost",
    ];
    AWAY.iter().any(|text| err.contains(text))
}

/// Whether the tenant does not let this user in: rights come a moment after the first app.
pub(crate) fn is_forbidden(err: &str) -> bool {
    err.contains("is forbidden: User") || err.contains("Unauthorized") || err.contains("must be logged in")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_asked_to_end_and_killed_if_it_does_not() {
        let started = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            // Once it says so, it has its trap.
            child.stdout.as_mut().unwrap().read_exact(&mut [0; 2]).unwrap();
            child
        };
        let mut child = started("echo a; exit 3");
        let long = Duration::from_mins(1);
        assert!(matches!(wait(&mut child, long, long).unwrap(), Ended::Itself(status) if status.code() == Some(3)));
        let mut child = started("trap 'echo failed; exit 1' TERM; echo a; while :; do sleep 0.1; done");
        assert!(matches!(wait(&mut child, Duration::ZERO, long).unwrap(), Ended::Asked));
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "failed\n", "it could say how it ended");
        let mut child = started("trap '' TERM; echo a; while :; do sleep 0.1; done");
        assert!(matches!(wait(&mut child, Duration::ZERO, Duration::ZERO).unwrap(), Ended::Asked));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), None, "it was killed");
    }

    #[test]
    fn what_takes_too_long_is_told_with_the_field() {
        let told = late("upgrade", 300, Duration::from_mins(16), "waiting for Job web");
        assert!(
            told.contains("960 seconds") && told.contains("spec.timeoutSeconds (300)") && told.ends_with("Job web")
        );
    }

    #[test]
    fn the_error_is_what_comes_last() {
        assert_eq!(last("level=WARN msg=\"x\"\nError: UPGRADE FAILED: no"), "UPGRADE FAILED: no");
        assert_eq!(last("plain\n"), "plain");
    }
}
