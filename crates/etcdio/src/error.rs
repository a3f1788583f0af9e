//! What can go wrong when a member is asked. The texts end in conditions: they hold no ports, times or pointers that change
//! from call to call.

use berth_pki::PkiError;
use std::error::Error;
use std::io;
use std::time::Duration;

/// Why a member did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing listens there: the process does not run.
    #[error("connection refused")]
    Refused,
    /// The network says no.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// The deadline passed.
    #[error("no answer within {} s while {doing}", .limit.as_secs_f32())]
    Timeout {
        /// The deadline.
        limit: Duration,
        /// What was under way: `connecting`, `TLS handshake`, `asking for …`.
        doing: &'static str,
    },
    /// No trust between the two sides.
    #[error("TLS: {0}")]
    Tls(String),
    /// etcd refused.
    #[error("HTTP {status}: {message}")]
    Http {
        /// Status code.
        status: u16,
        /// What etcd says.
        message: String,
    },
    /// The connection ended in the middle.
    #[error("the connection was lost: {0}")]
    Broken(String),
    /// An ID that is none.
    #[error("{0} is not the ID of a member")]
    NoId(String),
    /// There is no member of that name to ask.
    #[error("no member {0} is known")]
    NoMember(String),
    /// The answer is not one of etcd's.
    #[error("the answer to {call} cannot be read: {problem}")]
    Garbled {
        /// Path of the call.
        call: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// Why a cluster cannot be asked at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The address is none.
    #[error("member {member}: {address} is not an IP address")]
    Address {
        /// Name of the member.
        member: String,
        /// What it is said to be reached at.
        address: String,
    },
    /// The host is no DNS name.
    #[error("member {member}: {host} is not a host name")]
    Host {
        /// Name of the member.
        member: String,
        /// Its host.
        host: String,
    },
    /// The CA cannot issue a certificate.
    #[error("the operator's certificate: {0}")]
    Pki(#[from] PkiError),
    /// The TLS library does not take the CA or the certificate.
    #[error("the operator's certificate: {0}")]
    Tls(String),
}

impl CallError {
    /// From an error while connecting or shaking hands.
    pub(crate) fn io(error: &io::Error) -> Self {
        if let Some(tls) = tls_in(error) {
            return Self::Tls(tls);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
                Self::Broken(error.kind().to_string())
            }
            kind => Self::Unreachable(kind.to_string()),
        }
    }

    /// From an error of HTTP, which may hide one of TLS: with TLS 1.3 a server refuses a client's certificate only after the
    /// client has finished its handshake.
    pub(crate) fn http(error: &hyper::Error) -> Self {
        let mut all = std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| (**cause).source());
        let io = all.find_map(|cause| cause.downcast_ref::<io::Error>());
        io.map_or_else(|| Self::Broken(error.to_string()), Self::io)
    }
}

fn tls_in(error: &io::Error) -> Option<String> {
    error.get_ref()?.downcast_ref::<rustls::Error>().map(ToString::to_string)
}
