//! A proxy between the program and the store, with one fault. Only answers with data are touched: those that are long.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What it does to answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A byte of each long answer is another one.
    FlipAByte,
    /// The first long answer ends early.
    CutOnce,
}

/// Bytes of an answer after which the fault comes.
const LATE: usize = 6_000;

/// Listens as long as the process lives; where.
pub(crate) fn start(to: SocketAddr, fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(to) else { continue };
            let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut into);
                let _ = into.shutdown(std::net::Shutdown::Both);
            });
            let done = done.clone();
            thread::spawn(move || answers(server, client, fault, &done));
        }
    });
    address
}

fn answers(mut server: TcpStream, mut client: TcpStream, fault: Fault, done: &AtomicBool) {
    let (mut bytes, mut sent) = ([0; 16 << 10], 0);
    while let Ok(n @ 1..) = server.read(&mut bytes) {
        let late = sent <= LATE && sent + n > LATE;
        if late && fault == Fault::FlipAByte {
            bytes[LATE - sent] ^= 1;
        }
        if late && fault == Fault::CutOnce && !done.swap(true, Ordering::SeqCst) {
            break;
        }
        sent += n;
        if client.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
}
