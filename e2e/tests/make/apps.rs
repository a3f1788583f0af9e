//! docs/apps.md and docs/users.md, as they are printed, on the demo and with a registry that has a certificate of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use berth_devcluster::{
    Cluster,
    binaries::{self, Selection},
};
use berth_e2e::{Registry, certs, s3::Process, until};

use crate::demo::{NAME, away_after, in_a_checkout, knows_the_demo, make};

/// Of the registry, and of the one with TLS in front of it.
const PORTS: [u16; 2] = [5085, 5086];

#[test]
#[ignore = "make test-all: a demo whose tenant gets a chart from a registry"]
fn the_pages_about_apps_and_users_do_what_they_say() {
    away_after(|| {
        // With Helm 4 the demo has apps switched on.
        binaries::build(&Selection::Named(["crane", "helm4"].map(str::to_owned).to_vec()))?;
        make("demo")?;
        let place = tempfile::tempdir()?;
        let address = Cluster::open(NAME)?.host_address().to_string();
        let registry = Registry::serve(&format!("{address}:{}", PORTS[0]), place.path())?;
        let (_tls, ca) = with_tls(&registry, &address, place.path())?;
        in_a_checkout("docs/apps.md", |bash| {
            let checkout = bash.get_current_dir().context("a directory")?.to_owned();
            fs::copy(&ca, checkout.join("ca.crt"))?;
            bash.env("REGISTRY", format!("{address}:{}", PORTS[1]));
            knows_the_demo(bash);
            Ok(())
        })?;
        in_a_checkout("docs/users.md", |bash| {
            knows_the_demo(bash);
            Ok(())
        })
    });
}

/// TLS in front of a registry, and the file with who signs its certificate: itself.
fn with_tls(registry: &Registry, address: &str, place: &Path) -> Result<(Process, PathBuf)> {
    let (certificate, key) = certs::self_signed(address)?;
    let files = [("tls.crt", certificate), ("tls.key", key)].map(|(name, text)| (place.join(name), text));
    for (file, text) in &files {
        fs::write(file, text)?;
    }
    let [certificate, key] = files.map(|(file, _)| file);
    let listen = format!(
        "OPENSSL-LISTEN:{},bind={address},cert={},key={},verify=0,fork,reuseaddr",
        PORTS[1],
        certificate.display(),
        key.display()
    );
    // Ends with this test, however that ends.
    let mut socat = Command::new("setpriv");
    socat.args(["--pdeathsig", "KILL", "socat", &listen, &format!("TCP:{}", registry.host)]);
    let process = Process(socat.spawn()?);
    until("TLS in front of the registry", || certs::served(&format!("{address}:{}", PORTS[1]), &["-serial"]))?;
    Ok((process, certificate))
}
