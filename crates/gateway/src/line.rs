//! The access log: a line of JSON for each connection, when it has ended.

use serde::Serialize;
use std::net::SocketAddr;

use crate::ended::Ended;

/// One line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// When it ended.
    pub(crate) time: String,
    /// The client, by what is believed of a PROXY header.
    pub(crate) client: SocketAddr,
    /// The server name that it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// `namespace/name` of the `Cluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// This gateway's own address and port towards the API server, which has it as the source in its audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gateway: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_server: Option<SocketAddr>,
    /// How long it waited for the tenant to wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_seconds: Option<f64>,
    /// Bytes to the API server.
    pub(crate) bytes_up: u64,
    /// Bytes to the client.
    pub(crate) bytes_down: u64,
    /// From its begin to its end.
    pub(crate) seconds: f64,
    pub(crate) ended: Ended,
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_edge::log::Log;

    fn line() -> Line {
        Line {
            time: "2026-01-01T00:00:00Z".to_owned(),
            client: "203.0.113.7:40000".parse().unwrap(),
            name: Some("acme.example.com".to_owned()),
            tenant: Some("team-a/acme".to_owned()),
            gateway: Some("10.244.0.9:50000".parse().unwrap()),
            api_server: Some("10.244.0.10:6443".parse().unwrap()),
            held_seconds: None,
            bytes_up: 1,
            bytes_down: 2,
            seconds: 1.5,
            ended: Ended::Closed,
        }
    }

    #[test]
    fn a_line_is_written_so() {
        let (log, lines) = Log::captured();
        log.say(&line(), false);
        let whole = r#"{"time":"2026-01-01T00:00:00Z","client":"203.0.113.7:40000","name":"acme.example.com","tenant":"team-a/acme","gateway":"10.244.0.9:50000","apiServer":"10.244.0.10:6443","bytesUp":1,"bytesDown":2,"seconds":1.5,"ended":"Closed"}"#;
        assert_eq!(lines.try_recv().unwrap(), whole);
    }
}
