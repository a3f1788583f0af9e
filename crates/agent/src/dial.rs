//! Whether connections get through. Tenants do not use it: `make demo` finds out by it whether the network plugin of a cluster
//! enforces NetworkPolicies, with the one image that it knows to be there.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::ValueEnum;

/// One attempt takes no longer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// So many attempts in a row have to fail: one alone may be lost for another reason.
const CLOSED: u32 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct ListenArgs {
    /// Where connections are taken.
    #[arg(long, default_value = "0.0.0.0:8080")]
    address: SocketAddr,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DialArgs {
    /// Who is dialled.
    #[arg(long)]
    address: SocketAddr,
    /// What is waited for.
    #[arg(long)]
    expect: Expect,
    /// How long it is tried, in seconds.
    #[arg(long, default_value_t = 30)]
    within_seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Expect {
    /// A connection gets through.
    Open,
    /// None does.
    Closed,
}

/// Takes connections, and lets go of each, for ever.
pub(crate) fn listen(args: &ListenArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.address).with_context(|| format!("cannot listen on {}", args.address))?;
    println!("listening on {}", listener.local_addr()?);
    for connection in listener.incoming() {
        drop(connection);
    }
    Ok(())
}

/// Dials until what is expected is seen; an error if it is not seen in time.
pub(crate) fn dial(args: &DialArgs) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(args.within_seconds);
    let mut failed = 0;
    loop {
        match TcpStream::connect_timeout(&args.address, TIMEOUT) {
            Ok(_) => failed = 0,
            Err(error) => {
                failed += 1;
                println!("{}: {error}", args.address);
            }
        }
        let seen = match args.expect {
            Expect::Open => failed == 0,
            Expect::Closed => failed >= CLOSED,
        };
        if seen {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("{} is not {:?} after {} s", args.address, args.expect, args.within_seconds);
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_and_closed_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let args = |expect| DialArgs { address, expect, within_seconds: 0 };
        dial(&args(Expect::Open)).unwrap();
        assert!(dial(&args(Expect::Closed)).is_err());
        drop(listener);
        assert!(dial(&args(Expect::Open)).is_err());
        assert!(dial(&args(Expect::Closed)).is_err(), "one attempt is not enough");
        dial(&DialArgs { within_seconds: 60, ..args(Expect::Closed) }).unwrap();
    }
}
