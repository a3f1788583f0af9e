//! What the operator and each program in a Job of its agree on: how one ends. What a task is, and what comes of it, each says itself
//! ([`crate::backup`], [`crate::apps`]).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Exit code of a task that fails again however often it is tried.
pub const GIVE_UP: u8 = 42;

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure<At> {
    /// What is at fault.
    pub at: At,
    /// What is wrong, without credentials.
    pub message: String,
}

/// How a task ended: the container's termination message.
pub trait Said: Clone + DeserializeOwned {
    /// What can be at fault. Default: nothing that is known.
    type At: Clone + Default;

    /// Why it failed, if it did.
    fn failure(&self) -> Option<&Failure<Self::At>>;
}
