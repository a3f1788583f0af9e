//! How far the backup before a sleep is.

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SleepBackup {
    /// Nobody asks for it, or the record says that it is proven.
    #[default]
    NotAwaited,
    /// It is not there.
    Missing,
    /// It is under way.
    Goes,
    /// It is proven.
    Proven,
    /// It comes to nothing.
    Failed(String),
}

impl SleepBackup {
    /// Whether it was begun.
    pub(crate) fn is_there(&self) -> bool {
        !matches!(self, Self::NotAwaited | Self::Missing)
    }
}
