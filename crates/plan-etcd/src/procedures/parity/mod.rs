//! Have all members the same data? Each is asked for the hash of its data at one revision: once a day, before the version changes, and
//! after each change of members. What came of it is in the status, which is written for that alone once a day. It is asked once in a
//! reconcile, and after one that got no answer only later: a call is long, and its deadline is a good part of a reconcile's.

mod decide;

pub(crate) use decide::*;
