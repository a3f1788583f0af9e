//! A forward proxy, as sites have one before the Internet: by `CONNECT`, and for `http` by whole URLs.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What it does with whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// It leads to the target, whatever name that has: only the proxy knows it.
    To(SocketAddr),
    /// It answers this status.
    Refuses(&'static str),
    /// It takes the connection, and never answers.
    Hangs,
}

/// Listens as long as the process lives.
#[derive(Clone, Debug)]
pub struct ForwardProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ForwardProxy {
    /// One that does this.
    pub fn start(does: Forward) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let own = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || own.serve(client, does));
            }
        });
        proxy
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The first lines of all that was asked so far, without the version.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn serve(&self, mut client: TcpStream, does: Forward) -> io::Result<()> {
        let head = head(&mut client)?;
        let Some((line, headers)) = head.split_once("\r\n") else { return Ok(()) };
        let asked = line.rsplit_once(' ').map_or(line, |(asked, _)| asked);
        self.asked.lock().unwrap().push(asked.to_owned());
        let to = match does {
            Forward::To(to) => to,
            Forward::Refuses(status) => {
                return write!(client, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
            // Until the client goes.
            Forward::Hangs => return io::copy(&mut client, &mut io::sink()).map(drop),
        };
        let mut server = TcpStream::connect(to)?;
        let (method, url) = asked.split_once(' ').unwrap_or((asked, "/"));
        if method == "CONNECT" {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        } else {
            let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
            // One request a connection: each has its target in its first line.
            write!(server, "{method} /{path} HTTP/1.1\r\nConnection: close\r\n{headers}")?;
        }
        let (mut from, mut into) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut into);
            let _ = into.shutdown(Shutdown::Write);
        });
        let copied = io::copy(&mut server, &mut client);
        let _ = client.shutdown(Shutdown::Both);
        copied.map(drop)
    }
}

/// Up to the empty line, and not a byte further.
fn head(client: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut byte) = (vec![], [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
