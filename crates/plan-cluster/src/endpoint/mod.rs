//! Stage 2: the Service of the API, and the address that it is published under.

mod answer;
mod facts;
mod names;
mod stage;

pub(crate) use answer::{no_answer, unresolved};
pub(crate) use facts::{Endpoint, KUBECONFIGS, authority, server_handed_out, url};
pub(crate) use names::sans;
pub(crate) use stage::stage;
