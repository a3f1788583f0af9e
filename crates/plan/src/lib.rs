//! What plans are made of: what was observed, what is done about it, and what all planners share. No client, no clock, no randomness.
//!
//! The planners are crates of their own, each above the one before: `berth-plan-backup` (`EtcdBackup`, `EtcdBackupSchedule`,
//! `EtcdRestore`), `berth-plan-etcd` (`EtcdCluster`), `berth-plan-cluster` (`Cluster`). Controllers, the command line and the tests call the
//! same functions.

pub mod admission;
pub mod apps;
pub mod asked;
pub mod backup_jobs;
pub mod digest;
pub mod ending;
pub mod etcd_home;
pub mod failure;
pub mod fleet;
pub mod gateway_hosts;
pub mod heard;
pub mod jobs;
pub mod leads;
pub mod meta_cluster;
pub mod model;
pub mod networks;
pub mod object_meta;
pub mod objects;
pub mod observed;
pub mod planner;
pub mod requeue;
pub mod room;
pub mod run_level;
pub mod secrets;
pub mod settings;
pub mod sizes;
pub mod times;
pub mod unread;
pub mod verdicts;
pub mod workload;

pub use failure::Failure;
pub use meta_cluster::MetaCluster;
pub use model::{
    Action, Addition, EtcdAnswer, EtcdCall, EtcdCallResult, KvHash, Maintenance, MemberChange, Plan, RegistrationPlan,
    SecretEntry, SecretPlan, Stage, StageId, State,
};
pub use observed::Observed;
pub use planner::{Input, Outcome, Planner};
pub use run_level::RunLevel;
pub use secrets::SecretFacts;
pub use settings::Settings;
