//! A plan as a value: stages, what each waits for, and the actions that bring the tenant closer.

mod action;
mod addition;
mod etcd_call;
mod registration;
mod secret;
mod stage;

pub use action::Action;
pub use addition::Addition;
pub use etcd_call::{EtcdAnswer, EtcdCall, EtcdCallResult, KvHash, Maintenance, MemberChange};
pub use registration::RegistrationPlan;
pub use secret::{SecretEntry, SecretPlan};
pub use stage::{LASTING, Plan, Stage, StageId, State};
