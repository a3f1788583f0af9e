//! Counts a tenant's nodes, by the columns that `kubectl get nodes -o wide` shows: nothing else of them is read.

use super::pages::{Next, next_page};
use crate::calls::Io;
use crate::error::IoError;
use berth_api::cluster::NodesStatus;
use berth_api::text::TenantText;
use berth_api::version::Version;
use berth_plan::observed::Nodes;
use serde_json::Value;
use std::net::IpAddr;

/// Nodes that are read at once: with names and versions of usual length far less than what is read of an answer.
const PAGE: usize = 250;

/// Pages that are read: of more nodes than these hold, nobody is told a part as the whole.
const PAGES: usize = 20;

/// A name has no more bytes.
const NAME: usize = 253;

/// All nodes. None: it was not to be learnt, or there are more than five thousand.
pub(super) async fn count(tenant: &Io) -> Result<Option<Nodes>, IoError> {
    let mut count = Count::default();
    let mut more = String::new();
    for _ in 0..PAGES {
        let table = tenant.table(&format!("/api/v1/nodes?includeObject=None&limit={PAGE}{more}")).await?;
        if count.add(&table).is_none() {
            return Ok(None);
        }
        match next_page(&table) {
            Next::None => return Ok(Some(count.nodes())),
            Next::At(next) => more = next,
            Next::Odd => return Ok(None),
        }
    }
    Ok(None)
}

#[derive(Default)]
struct Count {
    total: i32,
    ready: i32,
    oldest: Option<Version>,
    newest: Option<Version>,
    addresses: Vec<(TenantText, IpAddr)>,
}

impl Count {
    /// Takes in a page. None: it is not a table of nodes.
    fn add(&mut self, table: &Value) -> Option<()> {
        let columns = table["columnDefinitions"].as_array()?;
        let column = |name: &str| columns.iter().position(|column| column["name"] == name);
        let (status, version) = (column("Status")?, column("Version")?);
        // Without them nodes are counted all the same.
        let (name, address) = (column("Name"), column("Internal-IP"));
        for row in table["rows"].as_array()? {
            let cell = |at: usize| row["cells"][at].as_str().unwrap_or_default();
            self.total += 1;
            // `Ready,SchedulingDisabled` is a cordoned node.
            self.ready += i32::from(cell(status).split(',').next() == Some("Ready"));
            // What is no version, a kubelet's own invention, is the oldest of nobody.
            let kubelet = cell(version).trim_start_matches('v').split(['-', '+']).next().and_then(|v| v.parse().ok());
            self.newest = self.newest.max(kubelet);
            self.oldest = [self.oldest, kubelet].into_iter().flatten().min();
            let named =
                name.zip(address).map(|(name, address)| (TenantText::of(cell(name), NAME), cell(address).parse()));
            self.addresses.extend(named.and_then(|(name, address)| Some((name, address.ok()?))));
        }
        Some(())
    }

    fn nodes(self) -> Nodes {
        let count = NodesStatus {
            total: self.total,
            ready: self.ready,
            oldest_kubelet: self.oldest.map(|version| version.to_string()),
        };
        Nodes { count, newest_kubelet: self.newest, addresses: self.addresses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_counted_by_their_columns() {
        let rows = [
            ("Ready", "v1.36.3"),
            ("Ready,SchedulingDisabled", "v1.34.10"),
            ("NotReady", "v1.34.9-eks-abc"),
            ("Unknown", "mine"),
        ];
        let rows = rows.map(|(status, version)| json!({"cells": ["n", version, status]}));
        let columns = json!([{"name": "Name"}, {"name": "Version"}, {"name": "Status"}]);
        let mut count = Count::default();
        assert_eq!(count.add(&json!({"columnDefinitions": columns, "rows": rows})), Some(()));
        assert_eq!(count.add(&json!({"columnDefinitions": columns, "rows": null})), None);
        assert_eq!(count.add(&json!({"kind": "NodeList", "items": []})), None);
        assert_eq!(count.add(&json!({"columnDefinitions": columns, "rows": [rows[0]]})), Some(()));
        let status = NodesStatus { total: 5, ready: 3, oldest_kubelet: Some("1.34.9".into()) };
        assert_eq!(count.nodes(), Nodes { count: status, newest_kubelet: "1.36.3".parse().ok(), addresses: vec![] });
    }

    #[test]
    fn addresses_are_those_that_nodes_say() {
        let columns = ["Name", "Status", "Version", "Internal-IP"].map(|name| json!({"name": name}));
        let row = |name: &str, address: &str| json!({"cells": [name, "Ready", "v1.36.3", address]});
        let rows = [row("a", "10.20.0.5"), row("b", "<none>"), row("c", "fd00::5")];
        let mut count = Count::default();
        assert_eq!(count.add(&json!({"columnDefinitions": columns, "rows": rows})), Some(()));
        let found: Vec<_> = count.nodes().addresses.iter().map(|(name, ip)| format!("{name} {ip}")).collect();
        assert_eq!(found, ["a 10.20.0.5", "c fd00::5"]);
    }
}
