//! Where a task finds what it needs.

use crate::problem::Problem;
use std::path::PathBuf;

/// What is where.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// Directory of the Secret beside the Job (see [`berth_contract::apps::files`]).
    #[arg(long)]
    pub secret: PathBuf,
    /// Directory for the chart and for what Helm keeps. It is emptied first.
    #[arg(long)]
    pub scratch: PathBuf,
    /// Helm, in version 4.
    #[arg(long, default_value = "/helm")]
    pub helm: PathBuf,
    /// How long the tenant's API may take to answer and to let this user in, in seconds: rights come a moment after the first app.
    #[arg(long, default_value_t = 60)]
    pub patience: u64,
}

impl Place {
    /// An empty directory in scratch.
    pub(crate) fn empty(&self, name: &str) -> Result<PathBuf, Problem> {
        let path = self.scratch.join(name);
        let done = if path.exists() { std::fs::remove_dir_all(&path) } else { Ok(()) };
        done.and_then(|()| std::fs::create_dir_all(&path)).map_err(|e| Problem::file(&path, &e))?;
        Ok(path)
    }

    /// A file of the Secret, if it is there.
    pub(crate) fn secret(&self, name: &str) -> Option<PathBuf> {
        Some(self.secret.join(name)).filter(|path| path.exists())
    }
}
