//! The wish to end, and waiting that it cuts short.

use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level::pipe,
};

/// Hears SIGTERM and SIGINT.
#[derive(Debug)]
pub(super) struct Stop(UnixStream);

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The time is over, or something came.
    Now,
    /// This process is to end.
    ToStop,
}

impl Stop {
    pub(super) fn new() -> io::Result<Self> {
        let (heard, signal) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        pipe::register(SIGTERM, signal.try_clone()?)?;
        pipe::register(SIGINT, signal)?;
        Ok(Self(heard))
    }

    pub(super) fn wait(&self, time: Duration) -> io::Result<Woken> {
        self.wait_for(&[], time)
    }

    /// Waits until one of these has something to be read.
    pub(super) fn wait_for(&self, others: &[BorrowedFd<'_>], time: Duration) -> io::Result<Woken> {
        let fds = std::iter::once(self.0.as_fd()).chain(others.iter().copied());
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A millisecond more, or it would come back just before the time.
        let time = PollTimeout::try_from(time + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, time) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let heard = (&self.0).read(&mut [0; 8]).is_ok_and(|read| read > 0);
        Ok(if heard { Woken::ToStop } else { Woken::Now })
    }
}
