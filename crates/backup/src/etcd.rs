//! etcd's own programs: what they are asked, and what they answer. They are of the members' version, so no form of a snapshot is known
//! here.

use crate::problem::Problem;
use berth_contract::backup::At;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an etcd may take to load what was restored.
const STARTS_WITHIN: Duration = Duration::from_mins(2);

/// The only member of the cluster that a snapshot becomes.
#[derive(Clone, Copy, Debug)]
pub struct NewMember<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its peer URL.
    pub peer: &'a str,
    /// Clusters with different tokens have different IDs.
    pub token: &'a str,
    /// What is added to the revision, which is then compacted: watches of clients that have seen a higher one are told so.
    pub bump: Option<i64>,
}

impl<'a> NewMember<'a> {
    /// One that nobody knows.
    pub fn proof(peer: &'a str) -> Self {
        Self { name: "proof", peer, token: "proof", bump: None }
    }
}

/// Where etcd's programs are.
#[derive(Clone, Debug, Default)]
pub struct Programs(pub Option<PathBuf>);

impl Programs {
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.0.as_ref().map_or_else(|| PathBuf::from(name), |dir| dir.join(name)));
        // They understand flags as variables, too, and the task's environment is not meant for them.
        command.env_clear().env("ETCDCTL_API", "3").envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(Stdio::null());
        command
    }

    /// The output of a call. The error is its last line.
    fn output(&self, at: At, name: &str, args: &[&OsStr]) -> Result<Vec<u8>, Problem> {
        let output = self.command(name).args(args).output();
        let output = output.map_err(|e| Problem::lasting(At::Other, format!("cannot run {name}: {e}")))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no message");
        Err(Problem::brief(at, format!("{name}: {}", line.trim())))
    }

    /// `etcdutl snapshot status`: revision and, of a snapshot, nothing else that is the same in every version.
    pub fn revision_of(&self, snapshot: &Path) -> Result<i64, Problem> {
        let args = ["snapshot".as_ref(), "status".as_ref(), snapshot.as_os_str(), "-w".as_ref(), "json".as_ref()];
        let status = json(&self.output(At::Etcd, "etcdutl", &args)?)?;
        status["revision"].as_i64().filter(|r| *r > 0).ok_or_else(|| {
            Problem::lasting(At::Proof, "etcdutl snapshot status names no revision: the snapshot holds no data")
        })
    }

    /// Restores a snapshot into a data directory that is not there yet, as a cluster of one member.
    pub fn restore(&self, snapshot: &Path, data: &Path, member: &NewMember<'_>) -> Result<(), Problem> {
        let NewMember { name, peer, token, bump } = member;
        let mut flags = vec![
            format!("--name={name}"),
            format!("--initial-cluster={name}={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster-token={token}"),
            format!("--data-dir={}", data.display()),
        ];
        if let Some(bump) = bump {
            flags.extend([format!("--bump-revision={bump}"), "--mark-compacted".to_owned()]);
        }
        let mut args: Vec<&OsStr> = vec!["snapshot".as_ref(), "restore".as_ref(), snapshot.as_os_str()];
        args.extend(flags.iter().map(OsStr::new));
        match self.output(At::Proof, "etcdutl", &args) {
            // The snapshot is what was proven, by its SHA-256: it is this node's disk, or the member's volume.
            Err(problem) if is_corrupt(&problem.failure.message) => Err(Problem::brief(
                At::Other,
                format!(
                    "what was fetched whole does not stay so on this node or this volume: {}",
                    problem.failure.message
                ),
            )),
            other => other.map(drop),
        }
    }

    /// Starts an etcd on loopback with what was restored.
    pub fn start(&self, data: &Path, log: &Path, (client, peer): (u16, u16)) -> Result<Proof, Problem> {
        let log_file = File::create(log).map_err(|e| Problem::file("the log of the restored etcd", &e))?;
        let (client, peer) = (url(client), url(peer));
        let child = self
            .command("etcd")
            .arg("--name=proof")
            .arg(format!("--data-dir={}", data.display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            // What was full is to be read, and what is in scratch need not last.
            .args(["--quota-backend-bytes=8589934592", "--unsafe-no-fsync", "--log-level=warn"])
            .stdout(Stdio::null())
            .stderr(log_file)
            .spawn();
        let child = child.map_err(|e| Problem::lasting(At::Other, format!("cannot run etcd: {e}")))?;
        let ctl = Ctl { programs: self.clone(), pki: None };
        let mut proof = Proof { child, ctl, url: client, log: log.to_owned() };
        proof.wait()?;
        Ok(proof)
    }
}

/// Words of `etcdutl` and its database for a snapshot that is not as etcd wrote it. It was, when it was fetched.
const CORRUPT: [&str; 5] =
    ["expected sha256", "snapshot missing hash", "integrity check failed", "invalid database", "checksum error"];

fn is_corrupt(said: &str) -> bool {
    CORRUPT.iter().any(|word| said.contains(word))
}

/// An etcd with restored data. It ends with this value.
#[derive(Debug)]
pub struct Proof {
    child: Child,
    ctl: Ctl,
    url: String,
    log: PathBuf,
}

impl Proof {
    /// What it holds at that revision.
    pub fn contents(&self, revision: i64) -> Result<Contents, Problem> {
        self.ctl.contents(&self.url, revision, At::Proof)
    }

    /// The revision that it begins with.
    pub fn revision(&self) -> Result<i64, Problem> {
        let members = self.ctl.members(std::slice::from_ref(&self.url), At::Proof)?;
        Ok(members.first().map(|m| m.revision).unwrap_or_default())
    }

    fn wait(&mut self) -> Result<(), Problem> {
        let began = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let line =
                    log.lines().rev().find(|l| l.contains("\"fatal\"") || l.contains("panic")).unwrap_or_default();
                let line = line.get(..line.floor_char_boundary(600)).unwrap_or_default();
                return Err(Problem::lasting(
                    At::Proof,
                    format!("etcd with the restored data ended with {status}: {line}"),
                ));
            }
            if self
                .ctl
                .members(std::slice::from_ref(&self.url), At::Proof)
                .is_ok_and(|m| m.iter().any(|m| m.has_leader))
            {
                return Ok(());
            }
            if began.elapsed() > STARTS_WITHIN {
                return Err(Problem::brief(At::Proof, "etcd with the restored data does not answer within 2 minutes"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `etcdctl` with a client's certificate.
#[derive(Clone, Debug)]
pub struct Ctl {
    /// etcd's programs.
    pub programs: Programs,
    /// Directory with ca.crt, tls.crt and tls.key. None: without TLS.
    pub pki: Option<PathBuf>,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its URL.
    pub url: String,
    /// Cluster ID in hexadecimal.
    pub cluster_id: String,
    /// etcd's version.
    pub version: String,
    /// Revision.
    pub revision: i64,
    pub(crate) leads: bool,
    pub(crate) has_leader: bool,
    pub(crate) learner: bool,
    pub(crate) applied: u64,
}

/// What an etcd holds at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Hash of keys and values.
    pub hash: u64,
    /// Up to where it was compacted: hashes of two differ if this does.
    pub compacted: i64,
    /// Keys.
    pub keys: u64,
}

impl Ctl {
    fn output(&self, url: &str, at: At, args: &[&OsStr]) -> Result<Vec<u8>, Problem> {
        let mut flags = vec![format!("--endpoints={url}"), "--dial-timeout=5s".into(), "--command-timeout=30s".into()];
        if let Some(pki) = &self.pki {
            for (flag, file) in [("cacert", "ca.crt"), ("cert", "tls.crt"), ("key", "tls.key")] {
                flags.push(format!("--{flag}={}", pki.join(file).display()));
            }
        }
        let all: Vec<&OsStr> = flags.iter().map(OsStr::new).chain(args.iter().copied()).collect();
        self.programs.output(at, "etcdctl", &all)
    }

    /// The members that answer, each asked alone.
    pub fn members(&self, urls: &[String], at: At) -> Result<Vec<MemberStatus>, Problem> {
        let (mut members, mut why) = (vec![], None);
        for url in urls {
            // A member that is not there is asked again and again for so long.
            let status = ["--command-timeout=5s", "endpoint", "status", "-w", "json"].map(OsStr::new);
            match self.output(url, at, &status) {
                Ok(bytes) => members.extend(member(url, &json(&bytes)?)),
                Err(problem) => why = Some(problem),
            }
        }
        match why {
            Some(problem) if members.is_empty() => Err(problem),
            _ => Ok(members),
        }
    }

    /// Writes a snapshot of a member into a file that is not there yet.
    pub fn save(&self, url: &str, to: &Path) -> Result<(), Problem> {
        // A whole database, however long it takes; the Job has a deadline.
        let args = ["--command-timeout=1h".as_ref(), "snapshot".as_ref(), "save".as_ref(), to.as_os_str()];
        self.output(url, At::Etcd, &args).map(drop)
    }

    /// What a member holds at that revision.
    pub fn contents(&self, url: &str, revision: i64, at: At) -> Result<Contents, Problem> {
        let rev = format!("--rev={revision}");
        let hash = ["endpoint", "hashkv", &rev, "-w", "json"].map(OsStr::new);
        let hash = json(&self.output(url, at, &hash)?)?;
        // Of this member, which has the revision: it may have no quorum.
        let keys = ["get", "", "--prefix", "--count-only", "--consistency=s", &rev, "-w", "fields"].map(OsStr::new);
        let keys = self.output(url, at, &keys)?;
        let keys = String::from_utf8_lossy(&keys).lines().find_map(|l| l.strip_prefix("\"Count\" : ")?.parse().ok());
        let hash = &hash[0]["HashKV"];
        Ok(Contents {
            hash: hash["hash"].as_u64().ok_or_else(|| Problem::brief(at, "etcdctl endpoint hashkv: no hash"))?,
            compacted: hash["compact_revision"].as_i64().unwrap_or_default(),
            keys: keys.ok_or_else(|| Problem::brief(at, "etcdctl get --count-only: no count"))?,
        })
    }
}

fn member(url: &str, answer: &Value) -> Option<MemberStatus> {
    let status = &answer[0]["Status"];
    let header = &status["header"];
    let leader = status["leader"].as_u64().unwrap_or_default();
    Some(MemberStatus {
        url: url.to_owned(),
        cluster_id: format!("{:x}", header["cluster_id"].as_u64()?),
        version: status["version"].as_str()?.to_owned(),
        revision: header["revision"].as_i64()?,
        leads: header["member_id"].as_u64()? == leader,
        has_leader: leader != 0,
        learner: status["isLearner"].as_bool().unwrap_or_default(),
        applied: status["raftAppliedIndex"].as_u64().unwrap_or_default(),
    })
}

fn json(bytes: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|e| Problem::brief(At::Etcd, format!("etcd's programs answer what is no JSON: {e}")))
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Two ports that nobody listens on, for clients and for peers, and the URL of the second.
pub fn ports() -> Result<((u16, u16), String), Problem> {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let failed = |e| Problem::file("a port on loopback", &e);
    let (client, peer) = (free().map_err(failed)?, free().map_err(failed)?);
    Ok(((client.0, peer.0), url(peer.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_etcd_wrote_it_is_known_by_its_words() {
        for said in [
            "etcdutl: Error: expected sha256 [1 2], got [3 4]",
            "etcdutl: Error: snapshot missing hash but --skip-hash-check=false",
            "etcdutl: Error: invalid database",
        ] {
            assert!(is_corrupt(said), "{said}");
        }
        for said in [
            "etcdutl: Error: write /scratch/proof/member/snap/db: no space left on device",
            "etcdutl: Error: data-dir \"/scratch/proof\" not empty or could not be read",
            "etcdutl: no message",
            "etcdutl: Error: read /scratch/snapshot.db: input/output error",
        ] {
            assert!(!is_corrupt(said), "{said}");
        }
    }
}
