//! Somewhere to put backups: the meta cluster's S3 server.

use anyhow::Context as _;

use super::{Demo, SYSTEM};
use crate::images::devcluster;
use crate::shell::{Result, output, write_if_changed};

/// The name of the store in the chart, and of the Secret with its credentials.
const NAME: &str = "main";
const SECRET: &str = "backups";

/// Whether Berth has a store for backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    None,
    S3,
}

impl Store {
    /// Whether a cluster has an S3 server.
    pub(super) fn is_there(cluster: &str) -> bool {
        output(devcluster().args(["s3", "--name", cluster])).is_ok()
    }

    /// Options of `devcluster up`.
    pub(super) fn options(self) -> &'static [&'static str] {
        if self == Self::S3 { &["--s3"] } else { &[] }
    }
}

impl Demo {
    /// Writes down where the S3 server is, puts its credentials where Berth reads them, and gives the chart's values.
    pub(super) fn store(&self, store: Store) -> Result<Vec<String>> {
        if store == Store::None {
            return Ok(vec![]);
        }
        let variables = output(devcluster().args(["s3", "--name", &self.cluster]))?;
        write_if_changed(&self.dir.join("s3.env"), variables.as_bytes(), 0o600)?;
        let value = |name: &str| variable(&variables, name).with_context(|| format!("no {name} in:\n{variables}"));
        self.applied(&["create", "namespace", SYSTEM])?;
        let literals = [("accessKeyID", "AWS_ACCESS_KEY_ID"), ("secretAccessKey", "AWS_SECRET_ACCESS_KEY")]
            .into_iter()
            .map(|(key, name)| Ok(format!("--from-literal={key}={}", value(name)?)))
            .collect::<Result<Vec<_>>>()?;
        let secret = ["-n", SYSTEM, "create", "secret", "generic", SECRET];
        self.applied(&[&secret[..], &literals.iter().map(String::as_str).collect::<Vec<_>>()].concat())?;
        let endpoint = value("AWS_ENDPOINT_URL")?;
        let address = endpoint.trim_start_matches("http://").split(':').next().unwrap_or_default();
        // It is where nodes are, which Jobs reach only if somebody says so.
        let peer = format!("backups.peers[0].ipBlock.cidr={address}/32");
        let fields = [
            ("name", NAME.to_owned()),
            ("endpoint", endpoint),
            ("region", value("AWS_REGION")?),
            ("bucket", value("BUCKET")?),
            ("prefix", "demo".to_owned()),
            ("secretName", SECRET.to_owned()),
        ];
        Ok(fields
            .map(|(field, value)| format!("backups.stores[0].{field}={value}"))
            .into_iter()
            .chain([peer])
            .collect())
    }

    /// What `kubectl create` would make, applied: a second time it changes nothing.
    fn applied(&self, create: &[&str]) -> Result<()> {
        let object = output(self.kubectl().args(create).args(["--dry-run=client", "-o", "json"]))?;
        self.apply_object(&object)
    }
}

/// The value of a variable in lines such as `export A=b`.
fn variable(lines: &str, name: &str) -> Option<String> {
    let assigned = |line: &str| line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    lines.lines().find_map(assigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_their_whole_name() {
        let lines = "export BUCKET_DIR=/a=b\nexport BUCKET=berth\n";
        assert_eq!(variable(lines, "BUCKET").as_deref(), Some("berth"));
        assert_eq!(variable(lines, "BUCKET_DIR").as_deref(), Some("/a=b"));
        assert_eq!(variable(lines, "DIR"), None);
    }
}
