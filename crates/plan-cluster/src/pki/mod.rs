//! Stage 3: keys and certificates.

pub(crate) mod certificates;
mod judge;
mod roots;
mod stage;

pub(crate) use certificates::{KUBELET_CLIENT, client};
pub(crate) use judge::judge_into;
pub(crate) use roots::roots_first;
pub(crate) use stage::stage;
