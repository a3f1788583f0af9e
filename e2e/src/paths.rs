//! Where things lie, from the environment or beside this test.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The checkout.
pub fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    package.parent().map(Path::to_owned).unwrap_or_default()
}

/// One of Berth's programs as it goes into an image, static: `$BERTH_OPERATOR_BIN` and `$BERTH_AGENT_BIN`, else the one beside
/// this test.
pub fn program(name: &str) -> Result<PathBuf> {
    let variable = format!("{}_BIN", name.to_uppercase().replace('-', "_"));
    let path = match env::var_os(&variable).filter(|v| !v.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => built()?.join(name),
    };
    if !path.is_file() {
        bail!("there is no {}: run `cargo build -p {name}` or set {variable} (`make test` builds it)", path.display());
    }
    Ok(path)
}

/// Where cargo puts programs: tests lie in `deps` there.
fn built() -> Result<PathBuf> {
    let current = env::current_exe().context("cannot find this program's own path")?;
    Ok(current.ancestors().nth(2).unwrap_or(Path::new("target")).to_owned())
}
