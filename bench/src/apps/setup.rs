//! What a step needs to know, and the operator with pretended pods that most of them have.

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::charts;
use crate::kubelet::{Kubelet, Runs};
use crate::outside::{self, AGENT, Operator, Outside};
use crate::{audit, operator, tenant};

/// How long what came up takes to settle before rest is measured.
pub(super) const SETTLE: Duration = Duration::from_mins(2);

/// What steps need to know.
pub(crate) struct Setup<'a> {
    pub(crate) client: &'a Client,
    /// Access to the meta cluster; the operator gets the same address.
    pub(crate) kubeconfig: &'a Path,
    pub(crate) audit_log: &'a Path,
    /// Where the operator's files are put.
    pub(crate) dir: PathBuf,
    /// `berth-pretended`.
    pub(crate) operator: Option<&'a Path>,
    /// `berth-apps`.
    pub(crate) program: Option<&'a Path>,
    /// Name of the meta cluster that has nodes.
    pub(crate) cluster: Option<&'a str>,
    pub(crate) tenants: usize,
    pub(crate) runs: usize,
    /// Minutes at rest.
    pub(crate) rest_minutes: u64,
}

impl Setup<'_> {
    /// Writes of the operator so far.
    pub(super) fn written(&self) -> Result<usize> {
        Ok(audit::writes(self.audit_log)?.len())
    }
}

/// The operator as a process of this machine, and a stand-in of a kubelet.
pub(super) struct Pretended {
    client: Client,
    outside: Outside,
    operator: Option<Operator>,
    kubelet: Kubelet,
}

impl Pretended {
    /// `tenants`: where it finds out where tenants' own API servers are. None: that of the meta cluster stands for all of them.
    pub(super) async fn start(setup: &Setup<'_>, runs: Runs, tenants: Option<PathBuf>) -> Result<Self> {
        let program = setup.operator.context("this step needs --operator: `make bench` gives it")?;
        let mut outside = Outside::write(setup.client, setup.kubeconfig, program, setup.dir.clone()).await?;
        outside.env.push(("BERTH_PRETENDED", setup.kubeconfig.to_owned()));
        outside.env.extend(tenants.map(|folder| ("BERTH_TENANTS", folder)));
        let kubelet = Kubelet::start_with(setup.client, runs).await?;
        let operator = Some(outside.start(AGENT)?);
        let pretended = Self { client: setup.client.clone(), outside, operator, kubelet };
        pretended.clear().await?;
        Ok(pretended)
    }

    /// Makes these tenants, so many at once, and waits until they are ready.
    pub(super) async fn make(&self, names: &[String], at_once: usize, checks: impl Fn() -> Result<()>) -> Result<()> {
        // Nothing is to run inside.
        let spec = json!({"addons": {"coreDNS": {"enabled": false}, "kubeProxy": {"enabled": false}}});
        let (since, mut done) = (Instant::now(), 0);
        for some in names.chunks(at_once) {
            checks()?;
            tenant::create_unasked(&self.client, some, &spec).await?;
            done += some.len();
            println!("{done} of {} tenants are ready after {:.0} s", names.len(), since.elapsed().as_secs_f64());
        }
        Ok(())
    }

    pub(super) fn operator(&self) -> Result<&Operator> {
        self.operator.as_ref().context("no operator")
    }

    /// A new process, which has looked at all of these tenants, and has settled.
    pub(super) async fn anew(&mut self, tenants: usize) -> Result<()> {
        // Two of them would be after the same lease, and the same port.
        drop(self.operator.take());
        self.operator = Some(self.outside.start(AGENT)?);
        operator::all_reconciled("127.0.0.1", outside::PORT, tenants, Instant::now()).await?;
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }

    /// Deletes all that steps make, as one that was cut off leaves it, too. Apps go after tenants: then nothing is uninstalled.
    async fn clear(&self) -> Result<()> {
        tenant::clear(&self.client).await?;
        charts::clear(&self.client).await
    }

    pub(super) async fn end(self) -> Result<()> {
        self.clear().await?;
        drop(self.operator);
        self.kubelet.end(&self.client).await
    }
}
