//! What Kubernetes' own tests ask for, under the names by which they ask: agnhost with the programs that upstream's has, pause, and
//! Debian's busybox. What they ask for beside these is not made.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_oci::ImageSpec;

use super::{cached_as, machine};
use crate::{
    binaries, deps, files, paths,
    versions::{AGNHOST, AGNHOST_OLDER, BUSYBOX, PAUSE, PAUSE_OF_TESTS},
};

const REGISTRY: &str = "registry.k8s.io/e2e-test-images";
/// As agnhost's image has them, for a test of groups that an image defines.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n";

/// These images, as cached archives. Installs Debian's `busybox-static`, `curl` and `netcat-openbsd`.
///
/// # Errors
///
/// If `agnhost` or `agnhost-older` is not built.
pub fn conformance() -> Result<Vec<PathBuf>> {
    deps::install_for_conformance()?;
    let busybox = deps::find("busybox").context("`busybox` is not in PATH")?;
    let etc = etc()?;
    let mut shell = vec![(busybox.clone(), "/bin/busybox".to_owned())];
    shell.extend(etc);
    let links = applets(&busybox)?;
    let image = ImageSpec {
        reference: format!("{REGISTRY}/busybox:{BUSYBOX}"),
        files: shell.clone(),
        links: links.clone(),
        arguments: vec!["sh".to_owned()],
        ..ImageSpec::default()
    };
    let pause = ImageSpec {
        reference: format!("registry.k8s.io/pause:{PAUSE_OF_TESTS}"),
        entrypoint: vec!["/pause".to_owned()],
        files: vec![(binaries::path("pause", PAUSE, "pause")?, "/pause".to_owned())],
        user: "65535:65535".to_owned(),
        ..ImageSpec::default()
    };
    let mut all = vec![cached(&image)?, cached(&pause)?];
    for (built, called) in [(AGNHOST, AGNHOST), (AGNHOST_OLDER, "2.55")] {
        let mut files = shell.clone();
        files.extend(machine::with_libraries(&["bash", "curl", "nc.openbsd"])?);
        files.push((binaries::path("agnhost", built, "agnhost")?, "/agnhost".to_owned()));
        let mut links = links.clone();
        files.extend(certificate()?);
        // Tests give `nc` options that the applet does not have, and busybox's shell takes the applet whatever is in PATH.
        links.retain(|(path, _)| path != "/bin/nc" && path != "/bin/sh");
        links.extend([("/bin/nc".to_owned(), path_of("nc.openbsd")?), ("/bin/sh".to_owned(), path_of("bash")?)]);
        links.push(("/agnhost-2".to_owned(), "agnhost".to_owned()));
        all.push(cached(&ImageSpec {
            reference: format!("{REGISTRY}/agnhost:{called}"),
            entrypoint: vec!["/agnhost".to_owned()],
            arguments: vec!["pause".to_owned()],
            files,
            links,
            ..ImageSpec::default()
        })?);
    }
    Ok(all)
}

/// A link in `/bin` for each program that busybox has.
fn applets(busybox: &std::path::Path) -> Result<Vec<(String, String)>> {
    let output = Command::new(busybox).arg("--list").output().context("cannot run `busybox --list`")?;
    ensure!(output.status.success(), "`busybox --list`: {}", output.status);
    let names = String::from_utf8(output.stdout)?;
    let names = names.lines().filter(|name| *name != "busybox");
    Ok(names.map(|name| (format!("/bin/{name}"), "busybox".to_owned())).collect())
}

/// Users and groups, and the folders that a shell expects.
fn etc() -> Result<Vec<(PathBuf, String)>> {
    let directory = paths::cache().join("images/etc");
    files::create_dir(&directory)?;
    let write = |name: &str, text: &str| -> Result<(PathBuf, String)> {
        let path = directory.join(name);
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok((path, format!("/etc/{name}")))
    };
    let (keep, _) = write("keep", "")?;
    Ok(vec![write("passwd", PASSWD)?, write("group", GROUP)?, (keep, "/tmp/.keep".to_owned())])
}

/// What agnhost serves, and serves by: a certificate of nobody's.
fn certificate() -> Result<[(PathBuf, String); 2]> {
    let directory = paths::cache().join("images/etc");
    let [crt, key] = ["localhost.crt", "localhost.key"].map(|name| directory.join(name));
    if !crt.exists() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        fs::write(&crt, made.cert.pem())?;
    }
    Ok([(crt, "/localhost.crt".to_owned()), (key, "/localhost.key".to_owned())])
}

fn path_of(program: &str) -> Result<String> {
    let path = deps::find(program).with_context(|| format!("`{program}` is not in PATH"))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Beside what has the same name and less in it. Another number whenever links change.
fn cached(image: &ImageSpec) -> Result<PathBuf> {
    cached_as(&format!("conformance-3_{}", image.reference.replace(['/', ':'], "_")), image)
}
