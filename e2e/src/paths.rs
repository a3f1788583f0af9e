//! Where things lie, from the environment or beside this test.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

const HOST: &str = "x86_64-unknown-linux-gnu";

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// One of Berth's programs as it goes into an image, static: `$BERTH_OPERATOR_BIN` and `$BERTH_AGENT_BIN`, else the release
/// build in the target directory of this test.
pub fn program(name: &str) -> Result<PathBuf> {
    let variable = format!("{}_BIN", name.to_uppercase().replace('-', "_"));
    let path = match env::var_os(&variable).filter(|v| !v.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => target()?.join(HOST).join("release").join(name),
    };
    if !path.is_file() {
        bail!(
            "there is no {}: run `RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target {HOST} -p {name}` \
             or set {variable} (`make test` builds it)",
            path.display()
        );
    }
    Ok(path)
}

/// Cargo's target directory: tests lie in `target/<profile>/deps`.
fn target() -> Result<PathBuf> {
    let current = env::current_exe().context("cannot find this program's own path")?;
    Ok(current.ancestors().nth(3).unwrap_or(Path::new("target")).to_owned())
}
