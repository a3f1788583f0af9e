//! The Gateway API's CustomResourceDefinition of `TLSRoute`, as its publishers released it: it is read from their Go module, whose sum is known.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use std::path::Path;
use std::process::Command;

const MODULE: &str = "sigs.k8s.io/gateway-api@v1.5.1";
const SUM: &str = "h1:RqVRIlkhLhUO8wOHKTLnTJA6o/1un4po4/6M1nRzdd0=";
const FILE: &str = "config/crd/standard/gateway.networking.k8s.io_tlsroutes.yaml";

/// The text of the file, of the standard channel of version 1.5. It has `v1`, and older versions that are not served.
///
/// # Errors
/// Go is not there, or the module cannot be had.
pub fn tls_route_text() -> Result<String> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .current_dir(std::env::temp_dir())
        .output()
        .context("cannot run `go`: install Go 1.26 or newer")?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`go mod download` of {MODULE}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let folder = told["Dir"].as_str().with_context(|| format!("cannot download {MODULE}: {}", told["Error"]))?;
    ensure!(told["Sum"] == SUM, "{MODULE} has another sum: {}", told["Sum"]);
    std::fs::read_to_string(Path::new(folder).join(FILE)).with_context(|| format!("{MODULE} has no {FILE}"))
}

/// Likewise, with these versions served.
///
/// # Errors
/// As [`tls_route_text`].
pub fn tls_route(served: &[&str]) -> Result<CustomResourceDefinition> {
    let mut crd: CustomResourceDefinition = serde_saphyr::from_str(&tls_route_text()?)?;
    for version in &mut crd.spec.versions {
        version.served = served.contains(&&*version.name);
    }
    Ok(crd)
}
