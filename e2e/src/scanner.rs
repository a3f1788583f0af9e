//! Clients that begin TLS with a server name and say no more, without a pause, as whoever scans names does.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, anyhow, ensure};
use berth_testkit::hello::hello;

/// How long each of them waits for an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// One client for each name, until [`Scanner::end`].
#[derive(Debug)]
pub struct Scanner {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Scanner {
    /// Begins. `address` is `IP:port`.
    pub fn start(address: &str, names: &[String]) -> Result<Self> {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let hellos = names.iter().map(|name| hello(Some(name))).collect::<Result<Vec<_>>>()?;
        let threads = hellos.into_iter().map(|hello| {
            let (stop, answers, address) = (stop.clone(), answers.clone(), address.to_owned());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match scan(&address, &hello) {
                        Ok(()) => drop(answers.fetch_add(1, Ordering::Relaxed)),
                        // Whoever is refused at once comes again at once, but not with all of a core.
                        Err(_) => thread::sleep(Duration::from_millis(20)),
                    }
                }
            })
        });
        Ok(Self { threads: threads.collect(), stop, answers })
    }

    /// Ends it; how often somebody answered.
    pub fn end(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a scanner panicked"))?;
        }
        Ok(self.answers.load(Ordering::Relaxed))
    }
}

/// One connection, until the first byte of an answer.
fn scan(address: &str, hello: &[u8]) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(hello)?;
    ensure!(stream.read(&mut [0])? == 1, "it is closed");
    Ok(())
}
