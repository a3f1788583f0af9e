//! A network namespace that is a node, and the program in it.

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use berth_testkit::patience::patience;

/// Where Service `kubernetes` leads by default.
pub(crate) const OWN: &str = "240.0.0.1:6443";
const HEALTH: &str = "127.0.0.1:10290";

/// What has no bound of its own.
const LONG: Duration = Duration::from_secs(20);

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Asks until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < patience(LONG), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes a connection that says at its end what `last` is: all of it, and the connection.
pub(crate) fn take(listener: &TcpListener, last: &[u8]) -> (Vec<u8>, TcpStream) {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut all, mut byte) = (vec![], [0]);
    while !all.ends_with(last) {
        stream.read_exact(&mut byte).unwrap();
        all.extend(byte);
    }
    (all, stream)
}

/// Answers as an API server does who looks whether it is there: what came before the question.
pub(crate) fn answer(listener: &TcpListener) -> Vec<u8> {
    let ask = b"GET / HTTP/1.0\r\n\r\n";
    let (mut all, mut stream) = take(listener, ask);
    stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").unwrap();
    all.truncate(all.len() - ask.len());
    all
}

/// All that comes until the other side has ended.
pub(crate) fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = vec![];
    stream.read_to_end(&mut all).unwrap();
    all
}

/// A namespace that is gone when this is.
pub(crate) struct Node(String);

impl Node {
    pub(crate) fn new() -> Self {
        assert!(
            std::env::var_os("BERTH_REAL").is_some_and(|value| value == "1"),
            "this test makes network namespaces: run it as root with BERTH_REAL=1 (`make test` does)"
        );
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let node = Self(format!("berth-api-proxy-{}-{number}", std::process::id()));
        run(&["netns", "add", &node.0]);
        node.ip("link set lo up");
        node
    }

    /// `ip` in it, with these arguments.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        run(&["-n", &self.0].into_iter().chain(arguments.split(' ')).collect::<Vec<_>>())
    }

    /// Runs this in a thread in the namespace. Sockets stay there.
    fn enter<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let entered = thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            run()
        });
        entered.join().unwrap()
    }

    pub(crate) fn listen(&self, at: &'static str) -> TcpListener {
        self.enter(move || TcpListener::bind(at).unwrap())
    }

    pub(crate) fn dial(&self, to: &'static str) -> io::Result<TcpStream> {
        let stream = self.enter(move || TcpStream::connect(to))?;
        stream.set_read_timeout(Some(LONG))?;
        Ok(stream)
    }

    /// The status of an answer to a probe. None: nobody listens yet.
    pub(crate) fn get(&self, path: &str) -> Option<u16> {
        let mut stream = self.dial(HEALTH).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Proxy {
        self.start_at(OWN, arguments)
    }

    /// Until it listens.
    pub(crate) fn start_at(&self, own: &'static str, arguments: &[&str]) -> Proxy {
        let log = tempfile::NamedTempFile::new().unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &self.0, env!("CARGO_BIN_EXE_berth-api-proxy")])
            .arg(format!("--listen={own}"))
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let proxy = Proxy { child, log };
        let at: SocketAddr = own.parse().unwrap();
        let address = at.ip().to_string();
        until("its address", || self.ip("addr show dev lo").contains(&address));
        until("its health", || self.get("/healthz") == Some(200));
        proxy
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {error}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// The program, which ends with this.
pub(crate) struct Proxy {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Proxy {
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // `ip netns exec` becomes the program.
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for its end: whether it says that all is well.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
