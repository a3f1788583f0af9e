//! Beginning a new epoch from a backup: a pure decision, one step at a time.
//!
//! Clients stop, then etcd; the record says that a new epoch begins, before anything of it is on a volume; an `EtcdRestore`'s Job puts the
//! backup onto the volume of the first member, which starts alone. Others join it by the code for members. A step is a write of the record,
//! or waiting, so a step follows from the record and from what is there, wherever the operator ended.
//!
//! Until the epoch has changed, everything can be turned back. From then on there is only the way ahead: the guard lets no data of an older
//! epoch run.

mod act;
mod decide;
mod view;

pub(crate) use act::*;
pub(crate) use decide::*;
pub(crate) use view::*;
