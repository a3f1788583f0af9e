//! How a verb ends.

/// How a verb ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is as it should be.
    Done,
    /// Not ready, a kubeconfig does not work yet, changes are pending, or there is nothing to adopt.
    NotYet,
    /// There was an error. It is printed already, and the rest was done.
    Failed,
    /// A command that was run exited with this code.
    Exited(u8),
}

impl Outcome {
    /// `Done` if so, else `NotYet`.
    pub(crate) fn done_if(done: bool) -> Self {
        if done { Self::Done } else { Self::NotYet }
    }

    /// 0 or 3; any error is 1, and 2 is clap's for wrong usage. `connect` exits with the code of its command.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotYet => 3,
            Self::Failed => 1,
            Self::Exited(code) => code,
        }
    }
}

/// Does what speaks to the meta cluster.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // The only TLS provider in this workspace; a second one would be a bug of the build.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        anyhow::bail!("a TLS provider is installed already");
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_that_scripts_know() {
        assert_eq!(Outcome::Done.code(), 0);
        assert_eq!(Outcome::NotYet.code(), 3);
        assert_eq!(Outcome::Failed.code(), 1);
        assert_eq!(Outcome::done_if(true), Outcome::Done);
        assert_eq!(Outcome::done_if(false), Outcome::NotYet);
    }
}
