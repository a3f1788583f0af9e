//! Each request of each kind meets each misbehaviour. Whatever comes of it: nothing is lost, nothing of others is touched, nothing is left that
//! nobody finds, and each failure names the store and what it answered.

use crate::world::s3_program;
use berth_backup::keep::keep;
use berth_backup::place::Place;
use berth_backup::proxies::Proxies;
use berth_backup::store::{PART, Remote, digest, manifest_key};
use berth_backup::{Problem, delete, read, take};
use berth_contract::backup::{At, Delete, Earlier, Kept, Manifest, Outcome, Read, Store, Subject, keys};
use berth_testkit::s3::{Misbehaviour as M, Request, S3Proxy, S3Server};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Seconds that the client waits for an answer: on a machine that is busy, each one takes long.
const TIMEOUT: u64 = 60;
/// Where none comes, for a small and for a large snapshot.
const SILENT: [u64; 2] = [6, 15];
/// Rows at work at once: most of them wait.
const AT_ONCE: usize = 12;

/// A client of a store behind a proxy of its own.
struct Client {
    dir: TempDir,
    proxy: S3Proxy,
    store: Store,
    /// Its folder in the bucket.
    folder: String,
    /// Seconds that it waits for an answer.
    timeout: u64,
}

impl Client {
    fn new(server: &S3Server, folder: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in
            [(keys::ACCESS_KEY_ID, S3Server::ACCESS_KEY_ID), (keys::SECRET_ACCESS_KEY, S3Server::SECRET_ACCESS_KEY)]
        {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let proxy = S3Proxy::start(server.address());
        let store = Store {
            endpoint: proxy.endpoint(),
            bucket: S3Server::BUCKET.into(),
            region: "us-east-1".into(),
            path_style: true,
            ..Store::default()
        };
        Self { dir, proxy, store, folder: folder.to_owned(), timeout: TIMEOUT }
    }

    fn place(&self) -> Place {
        let at = |name: &str| self.dir.path().join(name);
        Place {
            etcd_pki: at("none"),
            credentials: self.dir.path().into(),
            store_timeout: self.timeout,
            scratch: at("scratch"),
            programs: None,
            volume: None,
            proxies: Proxies::default(),
        }
    }

    fn remote(&self) -> Box<dyn Remote> {
        self.place().open(&self.store).unwrap()
    }

    /// Each is two days later than the one before.
    fn key(&self, n: u8) -> String {
        format!("{}/2026010{}T030405Z-7-0000000{n}.db", self.folder, 2 * n)
    }

    /// As a backup is kept: read back, but not restored, for which etcd's programs are needed.
    fn keep(&self, n: u8, snapshot: &Path) -> Result<Manifest, Problem> {
        let (remote, key) = (self.remote(), self.key(n));
        let (sha256, size) = digest(snapshot).unwrap();
        keep(&*remote, &key, snapshot, || {
            take::read_again(&*remote, &key, (&sha256, size), &self.dir.path().join("back.db"))?;
            Ok(manifest(&key, &sha256, size))
        })
    }

    fn read(&self, of: &Manifest) -> Result<(), Problem> {
        let of = Earlier { name: "one".into(), key: of.key.clone(), sha256: of.sha256.clone() };
        read::run(&Read { store: self.store.clone(), of }, &self.place())
    }

    fn delete(&self, key: &str) -> Result<Outcome, Problem> {
        delete::run(&Delete { store: self.store.clone(), key: key.to_owned() }, &self.place())
    }
}

fn manifest(key: &str, sha256: &str, size: u64) -> Manifest {
    Manifest {
        key: key.into(),
        sha256: sha256.into(),
        size,
        revision: 7,
        keys: 1,
        hash: 1,
        cluster_id: String::new(),
        etcd_version: "3.6.16".into(),
        taken_at: String::new(),
        verified_at: String::new(),
        of: Subject::default(),
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    request: Request,
    does: M,
    /// Always, and not once.
    lasts: bool,
    /// The snapshot is sent in parts.
    large: bool,
}

const DENIED: M = M::Refuses(403, "AccessDenied", "Odd stores deny");
const ONCE: [M; 8] = [
    M::Late(412),
    M::Late(409),
    M::Late(502),
    M::Silent,
    M::Cut,
    M::Slow(Duration::from_millis(500)),
    M::Refuses(500, "InternalError", "Odd stores fail"),
    M::Refuses(503, "SlowDown", "Odd stores are slow"),
];
const LASTING: [M; 3] = [DENIED, M::Refuses(400, "InvalidRequest", "Odd stores refuse"), M::Late(502)];

fn table() -> Vec<Row> {
    let mut rows = vec![];
    for request in Request::ALL {
        let large = [Request::Begin, Request::Part, Request::Complete, Request::Abort].contains(&request);
        let of = |does, lasts| Row { request, does, lasts, large };
        rows.extend(ONCE.map(|does| of(does, false)));
        rows.extend(LASTING.map(|does| of(does, true)));
    }
    rows
}

impl Row {
    fn plant(&self, client: &Client) {
        client.proxy.heal();
        client.proxy.plant(self.request, self.does, if self.lasts { usize::MAX } else { 1 });
        if self.request == Request::Abort {
            // Else none comes.
            client.proxy.plant(Request::Part, DENIED, usize::MAX);
        }
    }

    /// Whether a snapshot is kept all the same: an answer that was lost once, or an error that passes, fails nothing.
    fn has_to_work(&self) -> bool {
        let is_odd = matches!(self.does, M::Late(409 | 412));
        let writes = [Request::Put, Request::Complete, Request::Delete].contains(&self.request);
        let answers = [Request::Begin, Request::Part].contains(&self.request) && self.does == M::Cut;
        self.request != Request::Abort && !self.lasts && (writes || !is_odd) && !answers
    }

    /// Whether a failure says what this row is about.
    fn is_told(&self, message: &str) -> bool {
        let code = match self.does {
            _ if self.request == Request::Abort => "AccessDenied (403): Odd stores deny",
            M::Refuses(_, code, _) => code,
            M::Late(412) => "412",
            M::Late(409) => "409",
            M::Late(_) => "502",
            M::Silent => "no answer in time",
            _ => "",
        };
        // A HEAD has no body, and another request may not be refused.
        message.contains(code) || self.request == Request::Head
    }
}

/// What holds after each step.
fn check(row: Row, server: &S3Server, client: &Client, foreign: &str) {
    let all = server.keys(&client.folder);
    for (key, stem) in all.iter().filter_map(|key| Some((key, key.strip_suffix(".db")?))) {
        let is_found = all.contains(&manifest_key(key)) || all.contains(&format!("{stem}.unproven"));
        assert!(is_found || key == foreign, "{row:?}: {key} has neither manifest nor mark: {all:?}");
    }
    assert_eq!(fs::read(server.file(foreign)).unwrap(), b"another's", "{row:?}");
}

fn failed(row: Row, client: &Client, problem: &Problem) {
    let message = &problem.failure.message;
    assert!(message.contains(&client.store.endpoint) && message.contains("bucket"), "{row:?}: {message}");
    assert!(row.is_told(message), "{row:?}: {message}");
    assert!(!message.contains(S3Server::ACCESS_KEY_ID), "{row:?}: {message}");
}

fn run(n: usize, row: Row, server: &S3Server, snapshots: &[PathBuf; 2]) {
    let mut client = Client::new(server, &format!("row-{n}"));
    if row.does == M::Silent {
        client.timeout = SILENT[usize::from(row.large)];
    }
    let foreign = format!("{}/20250102T030405Z-7.db", client.folder);
    fs::create_dir_all(server.file(&client.folder)).unwrap();
    fs::write(server.file(&foreign), "another's").unwrap();
    let snapshot = &snapshots[usize::from(row.large)];

    row.plant(&client);
    let kept = client.keep(1, snapshot);
    check(row, server, &client, &foreign);
    let bytes = fs::read(snapshot).unwrap();
    match &kept {
        Ok(manifest) => {
            assert_eq!(fs::read(server.file(&manifest.key)).unwrap(), bytes, "{row:?}");
            let beside = fs::read(server.file(&manifest_key(&manifest.key))).unwrap();
            assert_eq!(&serde_json::from_slice::<Manifest>(&beside).unwrap(), manifest, "{row:?}");
        }
        Err(problem) => failed(row, &client, problem),
    }
    assert!(kept.is_ok() || !row.has_to_work(), "{row:?}: {kept:?}");

    // A day later another backup finds what is left, and deletes nothing that was proven.
    client.proxy.heal();
    let yesterday = SystemTime::now() - Duration::from_hours(25);
    for key in server.keys(&client.folder) {
        File::open(server.file(&key)).unwrap().set_modified(yesterday).unwrap();
    }
    let good = client.keep(2, &snapshots[0]).unwrap();
    let is_its = |key: &String| key.contains("-00000001") && key.strip_suffix(".json").is_none();
    let left: Vec<String> = server.keys(&client.folder).into_iter().filter(is_its).collect();
    let has_manifest = server.file(&manifest_key(&client.key(1))).exists();
    assert_eq!(left, if has_manifest { vec![client.key(1)] } else { vec![] }, "{row:?}");
    assert!(has_manifest || kept.is_err(), "{row:?}");

    row.plant(&client);
    if let Err(problem) = client.read(&good) {
        failed(row, &client, &problem);
        assert_ne!(problem.failure.at, At::Damaged, "{row:?}");
    }
    check(row, server, &client, &foreign);
    row.plant(&client);
    if let Err(problem) = client.delete(&good.key) {
        failed(row, &client, &problem);
    }
    check(row, server, &client, &foreign);
    client.proxy.heal();
    for key in [client.key(1), client.key(2)] {
        assert_eq!(client.delete(&key).unwrap(), Outcome::Deleted, "{row:?}");
    }
    assert_eq!(server.keys(&client.folder), [foreign], "{row:?}");
}

fn snapshots(dir: &Path) -> [PathBuf; 2] {
    [("small.db", 3000), ("large.db", PART + 1000)].map(|(name, size)| {
        let bytes: Vec<u8> = (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect();
        fs::write(dir.join(name), bytes).unwrap();
        dir.join(name)
    })
}

#[test]
fn a_store_that_misbehaves_loses_nothing_and_keeps_nothing_that_nobody_finds() {
    let server = S3Server::start(&s3_program());
    let dir = tempfile::tempdir().unwrap();
    let (rows, snapshots, next) = (table(), snapshots(dir.path()), AtomicUsize::new(0));
    assert!(rows.iter().filter(|row| row.has_to_work()).count() > 45);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((n, row)) =
                    Some(next.fetch_add(1, Ordering::SeqCst)).and_then(|n| Some((n, rows.get(n)?)))
                {
                    run(n, *row, &server, &snapshots);
                }
            });
        }
    });
}

#[test]
fn a_bucket_with_a_default_retention_takes_uploads_and_keeps_them() {
    let server = S3Server::start(&s3_program());
    let dir = tempfile::tempdir().unwrap();
    let snapshots = snapshots(dir.path());
    let client = Client::new(&server, "locked");
    for request in [Request::Put, Request::Part, Request::Begin] {
        client.proxy.plant(request, M::WantsChecksums, usize::MAX);
    }
    for (n, snapshot) in (1..).zip(&snapshots) {
        client.keep(n, snapshot).unwrap();
    }
    for request in [Request::Put, Request::Part] {
        assert!(client.proxy.came(request).iter().all(|head| head.contains("x-amz-checksum-sha256")));
    }
    let (all, key) = (server.keys("locked"), client.key(1));
    // The one says it by its words, the other by the object alone.
    for (refuses, header, until) in [
        (M::Refuses(403, "AccessDenied", "Access Denied because object protected by object lock."), None, None),
        (DENIED, Some("2999-01-01T00:00:00Z"), Some("2999-01-01T00:00:00Z")),
    ] {
        client.proxy.heal();
        client.proxy.plant(Request::Delete, refuses, usize::MAX);
        if let Some(header) = header {
            client.proxy.plant(Request::Head, M::Adds("x-amz-object-lock-retain-until-date", header), usize::MAX);
        }
        // There is no mark any more, and S3 says of what is not there that it is gone.
        client.remote().create(&key.replace(".db", ".unproven"), vec![1]).unwrap();
        let Ok(Outcome::Kept(Kept { until: said, message })) = client.delete(&key) else { panic!("no outcome") };
        assert_eq!(said.as_deref(), until);
        assert!(message.contains("AccessDenied (403)") && message.contains(&client.store.endpoint), "{message}");
        client.proxy.heal();
        client.remote().delete(&key.replace(".db", ".unproven")).unwrap();
        assert_eq!(server.keys("locked"), all, "nothing of it is deleted");
    }
    client.proxy.plant(Request::Delete, DENIED, usize::MAX);
    let refused = client.delete(&key).unwrap_err();
    assert!(refused.lasting && refused.failure.message.contains("Odd stores deny"), "a right is missing: {refused:?}");
}

/// Some refuse the header, and had been good for backups before it was sent.
#[test]
fn a_store_that_knows_no_checksums_gets_none() {
    let server = S3Server::start(&s3_program());
    let dir = tempfile::tempdir().unwrap();
    let client = Client::new(&server, "plain");
    for request in [Request::Put, Request::Part, Request::Begin] {
        client.proxy.plant(request, M::KnowsNoChecksums, usize::MAX);
    }
    for (n, snapshot) in (1..).zip(&snapshots(dir.path())) {
        client.keep(n, snapshot).unwrap();
    }
    let remote = client.remote();
    for n in [1, 2] {
        remote.create(&format!("plain/{n}.json"), vec![n]).unwrap();
    }
    let puts = client.proxy.came(Request::Put);
    let with = puts.iter().filter(|head| head.contains("x-amz-checksum-sha256")).count();
    assert_eq!((with, server.keys("plain").len()), (3, 6), "each client asks once");
}

/// A `HEAD` has no body, so another request is asked for the reason. And a token and an encryption are sent where they are set.
#[test]
fn a_store_says_why_it_refuses_and_is_asked_as_its_secret_says() {
    let server = S3Server::start(&s3_program());
    let mut client = Client::new(&server, "why");
    let denied = M::Refuses(403, "ExpiredToken", "The provided token has expired. AKIATEST");
    for request in [Request::Head, Request::Get] {
        client.proxy.plant(request, denied, usize::MAX);
    }
    let refused = client.remote().exists("why/any.json").unwrap_err();
    let words = "it answers ExpiredToken (403): The provided token has expired. …";
    assert!(refused.lasting && refused.failure.message.contains(words), "{refused:?}");
    client.proxy.heal();

    fs::write(client.dir.path().join(keys::SESSION_TOKEN), "token-of-a-session\n").unwrap();
    client.store.server_side_encryption = "aws:kms".into();
    client.store.kms_key_id = "key-1".into();
    client.proxy.plant(Request::Put, DENIED, 1);
    let _ = client.remote().create("why/a.json", vec![1]);
    let head = client.proxy.came(Request::Put).pop().unwrap();
    for header in [
        "x-amz-security-token: token-of-a-session",
        "x-amz-server-side-encryption: aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id: key-1",
    ] {
        assert!(head.contains(header), "{head}");
    }
}
