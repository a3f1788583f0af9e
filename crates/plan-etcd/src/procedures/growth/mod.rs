//! Volumes that are to be larger. The template of a StatefulSet's claims cannot be changed, so it stays, and each claim is patched: one after
//! the other, also that of a member that comes later, which begins as large as the template says. Nothing else waits for it, and it waits for
//! no member: a volume that is full is what it is for.

mod decide;

pub use decide::storage_class;
pub(crate) use decide::*;
