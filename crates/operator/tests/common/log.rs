//! What the operator under test logs, in a test of one thread.

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Level};

/// Beside a single subscriber tracing asks the thread that comes to a line first whether anybody wants it, for all threads and for
/// ever: another test's thread, which listens to nothing. With two it asks both.
static SECOND: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(tracing_subscriber::fmt().with_writer(std::io::sink).finish()));

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Listens to this thread until the guard is dropped.
    pub(crate) fn listen(&self) -> DefaultGuard {
        self.listen_at(Level::INFO)
    }

    /// Likewise, for all that an operator at level debug says.
    pub(crate) fn listen_for_all(&self) -> DefaultGuard {
        self.listen_at(Level::DEBUG)
    }

    fn listen_at(&self, level: Level) -> DefaultGuard {
        LazyLock::force(&SECOND);
        let writer = self.clone();
        let logs = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        tracing::subscriber::set_default(logs.with_writer(move || writer.clone()).finish())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Lines so far, as a program reads them: quotes are not escaped.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.text().replace('\\', "").lines().map(str::to_owned).collect::<Vec<_>>().into_iter()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
