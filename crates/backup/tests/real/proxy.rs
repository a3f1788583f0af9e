//! A proxy between the program and the store, with one fault. What changes or cuts answers touches only those with data, which are long.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What it does to answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A byte of each long answer is another one.
    FlipAByte,
    /// The first long answer ends early.
    CutOnce,
    /// Each piece of an answer comes later.
    Delay(Duration),
    /// The first request with this method is done, and its answer never comes.
    StallOnce(&'static str),
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
            let (from, into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (done, stalls) = (done.clone(), Arc::new(AtomicBool::new(false)));
            let (first, stalled) = (done.clone(), stalls.clone());
            thread::spawn(move || requests(from, into, fault, &first, &stalled));
            thread::spawn(move || answers(server, client, fault, &done, &stalls));
        }
    });
    address
}

/// Until the client hangs up. It sends a request only after the answer to the one before.
fn requests(mut client: TcpStream, mut server: TcpStream, fault: Fault, done: &AtomicBool, stalls: &AtomicBool) {
    let mut bytes = [0; 16 << 10];
    while let Ok(n @ 1..) = client.read(&mut bytes) {
        if let Fault::StallOnce(method) = fault
            && bytes[..n].starts_with(method.as_bytes())
            && !done.swap(true, Ordering::SeqCst)
        {
            stalls.store(true, Ordering::SeqCst);
        }
        if server.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
}

fn answers(mut server: TcpStream, mut client: TcpStream, fault: Fault, done: &AtomicBool, stalls: &AtomicBool) {
    let (mut bytes, mut sent) = ([0; 16 << 10], 0);
    while let Ok(n @ 1..) = server.read(&mut bytes) {
        if let Fault::Delay(time) = fault {
            thread::sleep(time);
        }
        if stalls.load(Ordering::SeqCst) {
            continue;
        }
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
