//! Whether the API server of this pod serves, over one connection that is kept.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ureq::{Agent, http::StatusCode, tls::TlsConfig};

/// Without etcd: when it is down, it is so for all slots, and an address that moves helps nobody.
const URL: &str = "https://127.0.0.1:6443/readyz?exclude=etcd&exclude=etcd-readiness";
/// Between two questions. It says early that it shuts down, and serves for seconds after that.
const INTERVAL: Duration = Duration::from_secs(1);
/// Of one question; one that got no answer is asked once more.
const TIMEOUT: Duration = Duration::from_millis(1250);

/// What was last found out.
#[derive(Debug)]
pub(super) struct Health {
    serves: Arc<AtomicBool>,
    /// Has something to be read after a change.
    changed: UnixStream,
}

impl Health {
    /// Asks from now on, in a thread of its own, for as long as this process runs.
    pub(super) fn watch() -> io::Result<Self> {
        let (changed, mut tell) = UnixStream::pair()?;
        changed.set_nonblocking(true)?;
        let serves = Arc::new(AtomicBool::new(false));
        let shared = serves.clone();
        let client = client();
        thread::Builder::new().name("health".to_owned()).stack_size(256 << 10).spawn(move || {
            loop {
                let now = ask(&client).or_else(|_| ask(&client)).unwrap_or(false);
                if shared.swap(now, Ordering::SeqCst) != now && tell.write_all(&[0]).is_err() {
                    return;
                }
                thread::sleep(INTERVAL);
            }
        })?;
        Ok(Self { serves, changed })
    }

    pub(super) fn serves(&self) -> bool {
        while (&self.changed).read(&mut [0; 8]).is_ok_and(|read| read > 0) {}
        self.serves.load(Ordering::SeqCst)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.changed.as_fd()
    }
}

/// An error: it gave no answer.
fn ask(client: &Agent) -> Result<bool, ureq::Error> {
    let mut response = client.get(URL).call()?;
    // Read to its end, or the connection is not kept.
    response.body_mut().with_config().limit(64 << 10).read_to_vec()?;
    Ok(serves(response.status()))
}

/// A tenant can forbid anonymous requests. The answer then says nothing of its health, but that it is there.
fn serves(status: StatusCode) -> bool {
    matches!(status, StatusCode::OK | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn client() -> Agent {
    // Fails only if there is a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The certificate is not verified: it is the pod's own loopback, to which nobody else can listen, and this container has no CA,
    // since it has no Secret. Nothing is sent that is secret.
    let tls = TlsConfig::builder().disable_verification(true).build();
    let config = Agent::config_builder()
        .https_only(true)
        .proxy(None)
        .max_redirects(0)
        .max_idle_connections(1)
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT))
        .tls_config(tls)
        .build();
    Agent::new_with_config(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_serves_unless_it_says_that_it_does_not() {
        let said = |status: u16| serves(StatusCode::from_u16(status).unwrap());
        assert_eq!([200, 401, 403].map(said), [true; 3]);
        assert_eq!([404, 429, 500, 503].map(said), [false; 4]);
    }
}
