//! Where things lie, from the environment or beside this test.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use berth_devcluster::paths::cache;

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// `berth-operator`: `$BERTH_OPERATOR_BIN`, else the one in the same target directory as this test.
pub fn operator() -> Result<PathBuf> {
    let current = env::current_exe().context("cannot find this program's own path")?;
    // Tests lie in target/<profile>/deps.
    let beside = current.ancestors().nth(2).unwrap_or(Path::new(".")).join("berth-operator");
    existing("BERTH_OPERATOR_BIN", beside, "cargo build -p berth-operator")
}

/// `berth-agent`, static: `$BERTH_AGENT_BIN`, else the release build in `$BERTH_CACHE/target`.
pub fn agent() -> Result<PathBuf> {
    let built = cache().join("target/x86_64-unknown-linux-gnu/release/berth-agent");
    existing(
        "BERTH_AGENT_BIN",
        built,
        "RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target x86_64-unknown-linux-gnu -p berth-agent",
    )
}

fn existing(variable: &str, default: PathBuf, how: &str) -> Result<PathBuf> {
    let path = env::var_os(variable).filter(|v| !v.is_empty()).map_or(default, PathBuf::from);
    if !path.is_file() {
        bail!("there is no {}: run `{how}`, or set {variable} (`make test` does both)", path.display());
    }
    Ok(path)
}
