//! Network namespaces, and what a thread does in one of them.

use std::{
    fs::File,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use nix::{
    sched::{CloneFlags, setns},
    unistd::{Uid, setfsuid},
};

/// Whose sockets those of the API server are.
const API_SERVER: Uid = Uid::from_raw(65532);

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A namespace that is gone when this is.
pub(crate) struct Namespace(String);

impl Namespace {
    pub(crate) fn new(name: &str) -> Self {
        assert!(
            std::env::var_os("BERTH_REAL").is_some_and(|value| value == "1"),
            "this test makes network namespaces: run it as root with BERTH_REAL=1 (`make test` does)"
        );
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let namespace = Self(format!("berth-net-{}-{number}-{name}", std::process::id()));
        ip(&["netns", "add", &namespace.0]);
        namespace.ip("link set lo up");
        namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// `ip` in it, with these arguments.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        let arguments: Vec<_> = ["-n", &self.0].into_iter().chain(arguments.split(' ')).collect();
        ip(&arguments)
    }

    pub(crate) fn sysctl(&self, name: &str, value: &str) {
        let (path, value) = (format!("/proc/sys/net/{name}"), value.to_owned());
        self.enter(move || std::fs::write(path, value).unwrap());
    }

    /// An interface here that is connected with one there.
    pub(crate) fn connect(&self, interface: &str, there: &Self, their_interface: &str) {
        self.ip(&format!("link add {interface} type veth peer name {their_interface} netns {}", there.0));
        self.ip(&format!("link set {interface} up"));
        there.ip(&format!("link set {their_interface} up"));
    }

    /// Runs this in a thread in the namespace.
    pub(crate) fn enter<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(run).join().unwrap()
    }

    /// As [`Self::enter`], without waiting for it.
    pub(crate) fn spawn<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            run()
        })
    }

    /// Runs this in the namespace, with sockets that are the API server's.
    fn serve<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        self.enter(|| {
            // The kernel notes with a socket who made it. This thread alone is another user.
            setfsuid(API_SERVER);
            run()
        })
    }

    /// Answers every connection to the port with `banner`, for as long as the test runs.
    pub(crate) fn listen(&self, port: u16, banner: &'static str) {
        let any = IpAddr::from([0_u16; 8]);
        let listener = self.serve(move || TcpListener::bind((any, port)).unwrap());
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let _ = connection.write_all(banner.as_bytes());
            }
        });
    }

    /// As [`Self::listen`], over UDP.
    pub(crate) fn listen_udp(&self, at: SocketAddr, banner: &'static str) {
        let socket = self.serve(move || UdpSocket::bind(at).unwrap());
        thread::spawn(move || {
            let mut buffer = [0; 16];
            while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(banner.as_bytes(), from);
            }
        });
    }

    /// Who answers there; an error if nobody does.
    pub(crate) fn dial(&self, to: SocketAddr) -> Result<String, String> {
        self.serve(move || tcp(to).map_err(|e| e.to_string()))
    }

    /// As [`Self::dial`], from an address of the namespace's own.
    pub(crate) fn dial_from(&self, from: IpAddr, to: SocketAddr) -> Result<String, String> {
        self.serve(move || {
            let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
            let done = socket.connect_timeout(&to.into(), TIMEOUT);
            done.and_then(|()| read(socket.into())).map_err(|e| e.to_string())
        })
    }

    /// As [`Self::dial`], over UDP.
    pub(crate) fn ask(&self, to: SocketAddr) -> Result<String, String> {
        let answer = move || {
            let any = if to.is_ipv4() { IpAddr::from([0_u8; 4]) } else { IpAddr::from([0_u16; 8]) };
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            socket.connect(to)?;
            socket.send(b"?")?;
            let mut answer = [0; 16];
            let read = socket.recv(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
        };
        self.serve(move || answer().map_err(|e: std::io::Error| e.to_string()))
    }
}

const TIMEOUT: Duration = Duration::from_millis(500);

fn tcp(to: SocketAddr) -> std::io::Result<String> {
    read(TcpStream::connect_timeout(&to, TIMEOUT)?)
}

fn read(mut stream: TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut banner = String::new();
    stream.read_to_string(&mut banner)?;
    Ok(banner)
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {error}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}
