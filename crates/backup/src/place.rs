//! Where a task finds what it needs.

use crate::etcd::Programs;
use crate::problem::Problem;
use crate::proxies::Proxies;
use crate::s3::Bucket;
use crate::store::Remote;
use crate::volume::Volume;
use berth_contract::backup::Store;
use std::path::PathBuf;
use std::time::Duration;

/// What is where.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// Directory with a client's certificate for etcd: ca.crt, tls.crt, tls.key.
    #[arg(long)]
    pub etcd_pki: PathBuf,
    /// Directory with the credentials of a store that is a server.
    #[arg(long)]
    pub credentials: PathBuf,
    /// How long one request to a store that is a server may take, in seconds.
    #[arg(long, default_value_t = 120)]
    pub store_timeout: u64,
    /// Directory for the snapshot and for the etcd that it is restored into. It is emptied first.
    #[arg(long)]
    pub scratch: PathBuf,
    /// Directory of etcd's programs. Default: those in PATH.
    #[arg(long)]
    pub programs: Option<PathBuf>,
    /// Volume of the member that a backup is restored to.
    #[arg(long)]
    pub volume: Option<PathBuf>,
    /// Proxies of the environment. etcd's programs know none of them.
    #[arg(skip = Proxies::from_env())]
    pub proxies: Proxies,
}

impl Place {
    /// The store: reads its credentials, if it is a server, and asks it nothing.
    pub fn open(&self, store: &Store) -> Result<Box<dyn Remote>, Problem> {
        if !store.directory.is_empty() {
            return Ok(Box::new(Volume::open(store)?));
        }
        let timeout = Duration::from_secs(self.store_timeout);
        Ok(Box::new(Bucket::open(store, &self.credentials, timeout, &self.proxies)?))
    }

    pub(crate) fn programs(&self) -> Programs {
        Programs(self.programs.clone())
    }
}
