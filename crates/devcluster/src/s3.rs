//! An S3 server of a cluster, on a directory: somewhere to put backups.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{binaries, files, layout::Layout, node::FIRST, process::Spec, slot::Slot};

/// The component's name, for its log and record.
pub(crate) const NAME: &str = "s3";
const PORT: u16 = 9750;

/// Where a cluster's S3 server is, and how one gets in. It is a fixture: everybody knows its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3 {
    address: Ipv4Addr,
    dir: PathBuf,
}

impl S3 {
    /// The bucket that is there from the beginning.
    pub const BUCKET: &str = "berth";
    /// The ID of the access key.
    pub const ACCESS_KEY_ID: &str = "devcluster";
    /// The access key.
    pub const SECRET_ACCESS_KEY: &str = "devcluster-secret";

    pub(crate) fn new(layout: &Layout, slot: Slot) -> Self {
        Self { address: slot.node_address(), dir: layout.s3() }
    }

    /// Its URL, for pods and for this machine.
    pub fn endpoint(&self) -> String {
        format!("http://{}:{PORT}", self.address)
    }

    /// The directory with the bucket's objects, on this machine.
    pub fn bucket_dir(&self) -> PathBuf {
        self.dir.join(Self::BUCKET)
    }

    /// Variables for a shell, in the names that S3 clients read.
    pub fn variables(&self) -> String {
        [
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", Self::ACCESS_KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", Self::SECRET_ACCESS_KEY.to_owned()),
            ("BUCKET", Self::BUCKET.to_owned()),
            ("BUCKET_DIR", self.bucket_dir().display().to_string()),
        ]
        .map(|(name, value)| format!("export {name}={value}\n"))
        .concat()
    }
}

/// Its process, with a bucket to serve.
pub(crate) fn spec(layout: &Layout, slot: Slot) -> Result<Spec> {
    let server = S3::new(layout, slot);
    files::create_dir(&server.bucket_dir())?;
    Ok(Spec { name: NAME.to_owned(), node: FIRST, argv: argv(&binaries::s3_server()?, &server) })
}

fn argv(program: &Path, server: &S3) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (address, port) = (server.address.to_string(), PORT.to_string());
    let flags = [
        ("--host", address.as_str()),
        ("--port", &port),
        ("--access-key", S3::ACCESS_KEY_ID),
        ("--secret-key", S3::SECRET_ACCESS_KEY),
    ];
    let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]);
    [text(program)].into_iter().chain(flags).chain([text(&server.dir)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_is_told_is_where_it_listens() {
        let server = S3 { address: Ipv4Addr::new(10, 208, 0, 1), dir: "/state/demo/s3".into() };
        assert!(server.variables().starts_with("export AWS_ENDPOINT_URL=http://10.208.0.1:9750\n"));
        assert!(server.variables().ends_with("export BUCKET=berth\nexport BUCKET_DIR=/state/demo/s3/berth\n"));
        let argv = argv(Path::new("/bin/s3s-fs"), &server).join(" ");
        assert_eq!(
            argv,
            "/bin/s3s-fs --host 10.208.0.1 --port 9750 --access-key devcluster --secret-key devcluster-secret \
             /state/demo/s3"
        );
    }
}
