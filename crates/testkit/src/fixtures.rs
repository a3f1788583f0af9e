//! Objects from YAML or JSON, and polling.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::de::DeserializeOwned;

use crate::patience::patience;

/// Where the package of the test is: what runs may have been built in another checkout with the same sources.
///
/// # Panics
/// If neither cargo nor `make test` runs the test.
pub fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo and `make test` set CARGO_MANIFEST_DIR").into()
}

/// An object of the wanted type from YAML.
///
/// # Panics
/// If it is not such an object.
pub fn from_yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text)
        .unwrap_or_else(|e| panic!("fixture is not a {}: {e}\n{text}", std::any::type_name::<T>()))
}

/// An object of the wanted type from a JSON value.
///
/// # Panics
/// If it is not such an object.
pub fn from_json<T: DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap_or_else(|e| panic!("fixture is not a {}: {e}", std::any::type_name::<T>()))
}

/// `yaml!("…{name}…")`: formats like `format!`, then reads the YAML as the type that the context asks for.
/// Braces of flow mappings are doubled, as in any format string.
#[macro_export]
macro_rules! yaml {
    ($($arg:tt)*) => { $crate::fixtures::from_yaml(&format!($($arg)*)) };
}

/// What the message of a missed deadline begins with: `make test` then says what else ran.
pub const LATE: &str = "LATE:";

/// Calls `attempt` every 25 ms until it succeeds; after `timeout`, as long as [`patience`] makes it, its last error.
pub async fn eventually<T, E: Debug>(
    timeout: Duration,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T> {
    let (began, timeout) = (Instant::now(), patience(timeout));
    let mut attempts = 0;
    loop {
        attempts += 1;
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(e) if began.elapsed() > timeout => {
                bail!("{LATE} {what}: not within {timeout:.0?}, after {attempts} looks: {e:?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(25)).await,
        }
    }
}

/// [`eventually`] for a condition.
///
/// # Panics
/// If it does not hold within `timeout`.
pub async fn until(timeout: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let attempt = async || if holds().await { Ok(()) } else { Err("does not hold") };
    eventually(timeout, what, attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
}
