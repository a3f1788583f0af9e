//! Calls Helm.

use crate::cas;
use crate::place::Place;
use crate::problem::Problem;
use berth_contract::apps::{At, Release, files};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Public certificate authorities, in Helm's home.
const AUTHORITIES: &str = "cas.pem";
/// What Helm needs beside its own timeout.
const MORE: Duration = Duration::from_mins(1);
/// What is read of Helm's output, at the most.
pub(crate) const MOST: u64 = 8 << 20;

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
        let ended = wait(&mut child, limit).map_err(|e| Problem::brief(At::Other, format!("helm {what}: {e}")))?;
        let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
        let said = Said { ok: ended.is_some_and(|status| status.success()), out: text(out), err: text(err) };
        match ended {
            Some(status) if status.code().is_none() => Err(Problem::brief(
                At::Other,
                format!("helm {what} was killed: a chart that needs more memory than the Job has, if it stays"),
            )),
            Some(_) => Ok(said),
            None => Err(Problem::brief(
                At::Other,
                format!("helm {what} did not end within {} seconds: {}", limit.as_secs(), last(&said.err)),
            )),
        }
    }
}

/// Calls Helm, for as long as the spec says.
pub(crate) fn done(helm: &Helm, release: &Release, args: &[String]) -> Result<(), Problem> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let limit = Duration::from_secs(release.timeout.try_into().unwrap_or_default()) + MORE;
    let said = helm.call(&args, limit)?;
    if said.ok { Ok(()) } else { Err(failed(&said)) }
}

fn failed(said: &Said) -> Problem {
    let message = last(&said.err);
    if is_unreachable(&said.err) {
        return Problem::brief(At::Tenant, format!("the tenant's API: {message}"));
    }
    Problem::lasting(At::Release, message)
}

/// Waits until it ends. None: it was killed after that time.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
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
    fn the_error_is_what_comes_last() {
        assert_eq!(last("level=WARN msg=\"x\"\nError: UPGRADE FAILED: no"), "UPGRADE FAILED: no");
        assert_eq!(last("plain\n"), "plain");
    }
}
