//! What the operator and `berth-backup` in a Job agree on: the task, which is in the environment, and the outcome, which is the
//! container's termination message. Both are of the same Berth, but for a Job that runs while the operator is replaced.

use crate::jobs::{self, Said};
use serde::{Deserialize, Serialize};

pub use crate::jobs::GIVE_UP;

/// Environment variable with the [`Task`] as JSON. It holds no secret.
pub const TASK: &str = "BERTH_BACKUP_TASK";

/// Keys of the Secret of a store, which are files for the program.
pub mod keys {
    /// Access key.
    pub const ACCESS_KEY_ID: &str = "accessKeyID";
    /// Secret key.
    pub const SECRET_ACCESS_KEY: &str = "secretAccessKey";
    /// CAs in PEM of the store's certificate. Not needed with `http`.
    pub const CA: &str = "ca.crt";
    /// URL of a team's own store.
    pub const ENDPOINT: &str = "endpoint";
    /// Bucket of a team's own store.
    pub const BUCKET: &str = "bucket";
    /// Region that requests to a team's own store are signed for. Default `us-east-1`.
    pub const REGION: &str = "region";
    /// What keys in a team's own store begin with. Default: nothing.
    pub const PREFIX: &str = "prefix";
    /// Whether a team's own store has the bucket in the path: `true` or `false`. Default `true`.
    pub const PATH_STYLE: &str = "pathStyle";
    /// Token of a session, where the access key is one for a time. Default: none.
    pub const SESSION_TOKEN: &str = "sessionToken";
    /// How a team's own store encrypts what is written: `AES256`, `aws:kms` or `aws:kms:dsse`. Default: as the bucket says.
    pub const SERVER_SIDE_ENCRYPTION: &str = "serverSideEncryption";
    /// The KMS key that it encrypts with. Default: the bucket's.
    pub const KMS_KEY_ID: &str = "kmsKeyID";
    /// Those that are no secret.
    pub const PLAIN: [&str; 7] = [ENDPOINT, BUCKET, REGION, PREFIX, PATH_STYLE, SERVER_SIDE_ENCRYPTION, KMS_KEY_ID];
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Task {
    /// Take a snapshot, keep it in the store, and prove that it can be restored.
    Take(Take),
    /// Delete a snapshot and its manifest.
    Delete(Delete),
    /// Read a snapshot back, and compare its SHA-256.
    Read(Read),
    /// Find out whether a backup can be restored, before anything stops for it.
    Check(Check),
    /// Put a backup onto the volume of one member whose etcd does not run.
    Restore(Restore),
}

/// A snapshot to take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Take {
    /// Where it is kept.
    pub store: Store,
    /// What its key begins with, without a slash at the end.
    pub prefix: String,
    /// URLs of the members for clients.
    pub members: Vec<String>,
    /// What it is a backup of.
    pub of: Subject,
    /// Members without a leader count, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_quorum: bool,
    /// Each of the members has to answer: any of them may hold what the others do not have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// An older backup in this store that is read back first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
}

/// A backup that was proven some time ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Earlier {
    /// Name of its `EtcdBackup`.
    pub name: String,
    /// Its key.
    pub key: String,
    /// SHA-256 of the snapshot.
    pub sha256: String,
}

/// A snapshot to read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Read {
    /// Where it is.
    pub store: Store,
    /// Which one.
    pub of: Earlier,
}

/// A snapshot to delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delete {
    /// Where it is.
    pub store: Store,
    /// Its key.
    pub key: String,
}

/// A backup to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Where it is.
    pub store: Store,
    /// Its key.
    pub key: String,
    /// SHA-256 of the snapshot as the `EtcdBackup` has it. Empty: there is none, and what the manifest says counts.
    pub sha256: String,
    /// What it has to be a backup of: identity, namespace and name, and the key that secrets are encrypted with. What is empty may be any.
    pub into: Subject,
}

/// A backup to restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restore {
    /// Where it is.
    pub store: Store,
    /// Its key.
    pub key: String,
    /// SHA-256 of the snapshot.
    pub sha256: String,
    /// UID of the `EtcdCluster` that the data was first made for.
    pub identity: String,
    /// The epoch that begins with it.
    pub epoch: i64,
    /// The member.
    pub member: String,
    /// Where its peers will reach it.
    pub peer_url: String,
    /// What is added to the snapshot's revision: more than clients have seen since it was taken.
    pub bump: i64,
    /// For how many seconds data that was set aside is kept, see [`crate::aside`]. None: until a person deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_old_data: Option<u64>,
}

/// What is added to a revision for each epoch since a snapshot: at 1500 writes a second, those of a week.
pub const REVISIONS_PER_EPOCH: i64 = 1_000_000_000;

/// Where backups are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Store {
    /// Directory in the Job, where the store is a volume and not a server. Default: it is a server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// URL of an S3-compatible server. Empty: it is a volume.
    pub endpoint: String,
    /// Bucket; of a volume, the name of its PersistentVolumeClaim.
    pub bucket: String,
    /// Region that requests are signed for.
    pub region: String,
    /// Whether the bucket is part of the path, and not of the host's name.
    pub path_style: bool,
    /// How the server encrypts what is written, of [`ENCRYPTIONS`]. Empty: as the bucket says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server_side_encryption: String,
    /// The key of its key service that it encrypts with. Empty: the bucket's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kms_key_id: String,
}

/// How a server can encrypt what is written.
pub const ENCRYPTIONS: [&str; 3] = ["AES256", "aws:kms", "aws:kms:dsse"];

impl Store {
    /// What is wrong with how it encrypts: the key (see [`keys`]), and a sentence.
    pub fn encryption_problem(&self) -> Option<(&'static str, &'static str)> {
        let Self { server_side_encryption: how, kms_key_id: key, .. } = self;
        if !how.is_empty() && !ENCRYPTIONS.contains(&how.as_str()) {
            return Some((keys::SERVER_SIDE_ENCRYPTION, "none of AES256, aws:kms and aws:kms:dsse"));
        }
        let is_plain = key.len() <= 300 && key.chars().all(|c| c.is_ascii_alphanumeric() || ":/_.-".contains(c));
        if !is_plain {
            return Some((keys::KMS_KEY_ID, "no ID or ARN of a key"));
        }
        let lacks_kms = !key.is_empty() && !how.starts_with("aws:kms");
        lacks_kms
            .then_some((keys::KMS_KEY_ID, "a key that goes with serverSideEncryption aws:kms or aws:kms:dsse only"))
    }
}

/// Whose data it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Namespace of the `Cluster` or `EtcdCluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// UID of the `EtcdCluster` that the data was first made for.
    pub identity: String,
    /// Grows each time that the data is started from nothing or from a backup.
    pub epoch: i64,
    /// Kubernetes version of a tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// SHA-256 of the `EncryptionConfiguration` without which a tenant's Secrets in it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_key: Option<String>,
}

/// What is kept beside a snapshot that was proven, under its key with `.json` at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Key of the snapshot in the bucket.
    pub key: String,
    /// SHA-256 of the snapshot in hexadecimal.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
    /// etcd's revision.
    pub revision: i64,
    /// Keys at that revision.
    pub keys: u64,
    /// etcd's hash of keys and values at that revision.
    pub hash: u64,
    /// etcd's cluster ID in hexadecimal.
    pub cluster_id: String,
    /// etcd's version.
    pub etcd_version: String,
    /// When it was taken, by the clock of the node.
    pub taken_at: String,
    /// When it was proven.
    pub verified_at: String,
    /// What it is a backup of.
    pub of: Subject,
}

/// What a task found that took a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// What was taken.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// What became of reading the older one back. None: that was not asked for, or there was no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<ReadBack>,
}

/// An older backup that was read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBack {
    /// Which one.
    pub of: Earlier,
    /// Why that failed. None: the store gives back what was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It was restored, and is the same.
    Verified(Proof),
    /// It is what was proven.
    Read,
    /// It is gone.
    Deleted,
    /// The store keeps it, whoever deletes it.
    Kept(Kept),
    /// It can be restored.
    Checked(Manifest),
    /// It is on the volume, and the marker beside it says so.
    Restored,
    /// It failed.
    Failed(Failure),
}

impl From<Manifest> for Outcome {
    fn from(manifest: Manifest) -> Self {
        Self::Verified(Proof { manifest, earlier: None })
    }
}

/// A snapshot under retention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Until when, by RFC 3339. None: the store does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What the store says, without credentials.
    pub message: String,
}

impl Said for Outcome {
    type At = At;

    fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// Why a task failed.
pub type Failure = jobs::Failure<At>;

/// What is at fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum At {
    /// The store: it refuses, or does not answer.
    Store,
    /// etcd: no member answers, or it gives no snapshot.
    Etcd,
    /// What was read back is not what was taken.
    Proof,
    /// The snapshot in the store, which was proven once: it was read, twice, and is another one, or etcd's own program refuses it as corrupt.
    /// The manifest beside it is its own, so it is the right store.
    Damaged,
    /// Anything else.
    #[default]
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An earlier Berth's program says no more than the manifest, and is asked for no more.
    #[test]
    fn an_earlier_programs_words_are_understood() {
        let manifest = r#"{"key": "a.db", "sha256": "ab", "size": 1, "revision": 1, "keys": 1, "hash": 18446744073709551615, "clusterId": "", "etcdVersion": "3.6.16", "takenAt": "", "verifiedAt": "", "of": {"namespace": "a", "name": "b", "identity": "c", "epoch": 1}}"#;
        let said = serde_json::from_str::<Outcome>(&format!(r#"{{"verified": {manifest}}}"#)).unwrap();
        assert_eq!(said, serde_json::from_str::<Manifest>(manifest).unwrap().into());
        assert!(!serde_json::to_string(&said).unwrap().contains("earlier"));
    }

    #[test]
    fn a_newer_programs_words_are_understood() {
        let text = r#"{"failed": {"at": "Moon", "message": "m", "more": 1}}"#;
        let failure = Failure { at: At::Other, message: "m".into() };
        assert_eq!(serde_json::from_str::<Outcome>(text).unwrap(), Outcome::Failed(failure));
    }
}
