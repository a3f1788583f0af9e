//! Why a connection ended, or never led anywhere. The words are in the access log and in metrics, and stay.

use serde::{Serialize, Serializer};

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client left before its ClientHello was complete.
    Left,
    /// The ClientHello was not complete in time.
    SlowHello,
    /// What came is no ClientHello.
    BadHello,
    /// It is longer than it may be.
    LongHello,
    /// No PROXY header, or none that can be read, from where one has to be.
    BadProxyHeader,
    /// A PROXY header from where none is believed.
    ForgedProxyHeader,
    /// No server name.
    NoName,
    /// No tenant has that server name.
    UnknownName,
    /// The tenant does not take clients from there.
    SourceRefused,
    /// The tenant has as many connections as it may have.
    TooMany,
    /// More come to the tenant at once than may.
    TooFast,
    /// This gateway has as many connections as it may have.
    TooManyInAll,
    /// More come to this gateway at once than may.
    TooFastInAll,
    /// Whoever comes from there has as many connections as one may have.
    TooManyFromSource,
    /// More come from there at once than may.
    TooFastFromSource,
    /// None of the tenant's API servers is ready.
    NoApiServer,
    /// The tenant sleeps, and as many wait for that as may.
    TooManyHeld,
    /// The tenant did not wake in time. Clients that try again find it awake later.
    StillAsleep,
    /// No API server that is ready took the connection.
    Unreachable,
    /// Both sides have ended it.
    Closed,
    /// The client is gone without a word, or did not answer.
    ClientReset,
    /// The API server did that.
    ApiServerReset,
    /// The API server is no longer one of the tenant's.
    ApiServerGone,
    /// This gateway ends.
    Drained,
}

/// How a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// The end of the stream.
    End,
    /// A reset: it leaves nothing behind here, not even for a minute, and clients that may try again do.
    Reset,
    /// TLS' alert `unrecognized_name`, then the end: clients show it to people, and do not try again.
    Alert,
}

impl Ended {
    /// All of them.
    pub(crate) const ALL: [Self; 24] = [
        Self::Left,
        Self::SlowHello,
        Self::BadHello,
        Self::LongHello,
        Self::BadProxyHeader,
        Self::ForgedProxyHeader,
        Self::NoName,
        Self::UnknownName,
        Self::SourceRefused,
        Self::TooMany,
        Self::TooFast,
        Self::TooManyInAll,
        Self::TooFastInAll,
        Self::TooManyFromSource,
        Self::TooFastFromSource,
        Self::NoApiServer,
        Self::TooManyHeld,
        Self::StillAsleep,
        Self::Unreachable,
        Self::Closed,
        Self::ClientReset,
        Self::ApiServerReset,
        Self::ApiServerGone,
        Self::Drained,
    ];

    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Left => "Left",
            Self::SlowHello => "SlowHello",
            Self::BadHello => "BadHello",
            Self::LongHello => "LongHello",
            Self::BadProxyHeader => "BadProxyHeader",
            Self::ForgedProxyHeader => "ForgedProxyHeader",
            Self::NoName => "NoName",
            Self::UnknownName => "UnknownName",
            Self::SourceRefused => "SourceRefused",
            Self::TooMany => "TooMany",
            Self::TooFast => "TooFast",
            Self::TooManyInAll => "TooManyInAll",
            Self::TooFastInAll => "TooFastInAll",
            Self::TooManyFromSource => "TooManyFromSource",
            Self::TooFastFromSource => "TooFastFromSource",
            Self::NoApiServer => "NoApiServer",
            Self::TooManyHeld => "TooManyHeld",
            Self::StillAsleep => "StillAsleep",
            Self::Unreachable => "Unreachable",
            Self::Closed => "Closed",
            Self::ClientReset => "ClientReset",
            Self::ApiServerReset => "ApiServerReset",
            Self::ApiServerGone => "ApiServerGone",
            Self::Drained => "Drained",
        }
    }

    /// How the client is told. Only what is true of a name is said as an alert; what may pass (API servers that come back, a client too many) is a
    /// reset, and what is no TLS gets no TLS.
    pub(crate) fn farewell(self) -> Farewell {
        match self {
            Self::NoName | Self::UnknownName => Farewell::Alert,
            Self::Left | Self::Closed | Self::Drained => Farewell::End,
            Self::SlowHello
            | Self::BadHello
            | Self::LongHello
            | Self::BadProxyHeader
            | Self::ForgedProxyHeader
            | Self::SourceRefused
            | Self::TooMany
            | Self::TooFast
            | Self::TooManyInAll
            | Self::TooFastInAll
            | Self::TooManyFromSource
            | Self::TooFastFromSource
            | Self::NoApiServer
            | Self::TooManyHeld
            | Self::StillAsleep
            | Self::Unreachable
            | Self::ClientReset
            | Self::ApiServerReset
            | Self::ApiServerGone => Farewell::Reset,
        }
    }

    /// Whether the API server is told by a reset, too.
    pub(crate) fn resets_api_server(self) -> bool {
        matches!(self, Self::ClientReset | Self::ApiServerGone | Self::SourceRefused)
    }
}

impl Serialize for Ended {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_place_and_a_word_of_its_own() {
        let mut words: Vec<_> = Ended::ALL.iter().map(|ended| ended.as_str()).collect();
        for (at, ended) in Ended::ALL.into_iter().enumerate() {
            assert_eq!(ended as usize, at, "{ended:?}");
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Ended::ALL.len());
    }
}
