//! Calls to an etcd, and what it answers.

use serde::Serialize;

/// A call to an etcd.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EtcdCall {
    /// Changes its members.
    Change(MemberChange),
    /// Looks after its databases.
    Maintain(Maintenance),
}

impl EtcdCall {
    /// What a person reads.
    pub fn describe(&self) -> String {
        match self {
            Self::Change(change) => change.describe(),
            Self::Maintain(what) => what.describe(),
        }
    }
}

/// What is done to an etcd's databases. Each can be done twice without harm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Maintenance {
    /// The member that is told gives back what is free in its database. It answers nothing else meanwhile.
    Defragment,
    /// Revisions before this one are forgotten, by all members.
    Compact {
        /// A revision that there is.
        revision: i64,
    },
    /// An alarm is over.
    Disarm {
        /// Which alarm, such as `NOSPACE`.
        alarm: String,
        /// ID of the member that raised it, in hexadecimal.
        id: String,
    },
    /// One key of Berth's own is written, to see whether etcd takes writes.
    Put,
    /// Every member is asked for the hash of its data. It reads the whole database, and changes nothing.
    CompareHashes {
        /// At a revision that all of them have.
        revision: i64,
    },
}

/// What an etcd answered to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdAnswer {
    /// It did as it was told.
    Done,
    /// To [`Maintenance::CompareHashes`], from each member.
    Hashes(Vec<KvHash>),
}

/// A member, and the hash of its data at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvHash {
    /// Its name.
    pub member: String,
    /// Hash, and the revision that it was compacted at: only hashes with the same one can be compared. Err: why there is none.
    pub said: Result<(u32, i64), String>,
}

impl Maintenance {
    /// What a person reads.
    pub fn describe(&self) -> String {
        match self {
            Self::Defragment => "defragment".to_owned(),
            Self::Compact { revision } => format!("compact at revision {revision}"),
            Self::Disarm { alarm, id } => format!("disarm alarm {alarm} on {id}"),
            Self::Put => "write a key".to_owned(),
            Self::CompareHashes { revision } => format!("compare hashes at revision {revision}"),
        }
    }
}

/// A change of an etcd's members. IDs are etcd's, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum MemberChange {
    /// A member without a vote, which copies the data first.
    AddLearner {
        /// Where its peers reach it.
        peer_url: String,
    },
    /// The learner gets a vote.
    Promote {
        /// Its ID.
        id: String,
    },
    /// It is no member any more, for ever: another of its name has another ID.
    Remove {
        /// Its ID.
        id: String,
    },
    /// Another member leads.
    MoveLeader {
        /// The ID of the one that is to lead.
        id: String,
    },
}

impl MemberChange {
    /// What a person reads.
    pub fn describe(&self) -> String {
        match self {
            Self::AddLearner { peer_url } => format!("add learner {peer_url}"),
            Self::Promote { id } => format!("promote member {id}"),
            Self::Remove { id } => format!("remove member {id}"),
            Self::MoveLeader { id } => format!("move leadership to member {id}"),
        }
    }
}

/// A call that was made in this reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdCallResult {
    /// Name of the member that was told.
    pub via: String,
    /// What.
    pub call: EtcdCall,
    /// Whether it said that it did.
    pub done: bool,
    /// What members answered that were asked for the hash of their data.
    pub hashes: Vec<KvHash>,
}

impl EtcdCallResult {
    /// A call and its answer.
    pub fn new<E>(via: &str, call: EtcdCall, answer: &Result<EtcdAnswer, E>) -> Self {
        let hashes = match answer {
            Ok(EtcdAnswer::Hashes(hashes)) => hashes.clone(),
            _ => vec![],
        };
        Self { via: via.to_owned(), call, done: answer.is_ok(), hashes }
    }
}
