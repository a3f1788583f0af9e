//! The endpoints of the tenant's `kubernetes` Service: without them no pod of the tenant reaches the API, and nobody but Berth writes them.
//! The operator looks at them every quarter of an hour; here a watch says at once that they are gone.
//!
//! What they are to be the operator writes into the set's stamp, after the endpoints themselves, and it is read anew before each write. An
//! operator that changes them is therefore ahead of their stamp for a moment, or for longer where a webhook of the tenant's keeps the stamp from
//! being written: what its field manager owns is left as it is.

mod decide;
mod run;

pub(crate) use run::run;
