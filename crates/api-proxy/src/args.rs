//! What it is told when it starts.

use anyhow::{Context as _, Result};
use berth_edge::args::duration;
use clap::Parser;
use std::net::SocketAddr;
use std::time::Duration;

use crate::header;

#[derive(Debug, Parser)]
#[command(
    name = "berth-api-proxy",
    version,
    about = "Leads pods of a node, which dial Service kubernetes by its address, to the tenant's API by its name"
)]
pub(crate) struct Args {
    /// Where Service kubernetes leads, as address:port: the address is put on `lo`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Where the API is, as name:port or address:port: the gateway's port for names with --name, otherwise the API itself. The node's DNS resolves it
    /// for each connection
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub(crate) to: String,
    /// The tenant's host name, which a PROXY header of version 2 tells the gateway (type 0x02) [default: no header]
    #[arg(long, value_name = "NAME", value_parser = header::name)]
    pub(crate) name: Option<String>,
    /// Where /healthz and /readyz are
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10290")]
    pub(crate) health: SocketAddr,
    /// Connections that are open at once; those above are reset
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    pub(crate) max_connections: usize,
    /// How long one address of the host may take to accept a connection, before the next one is tried
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    pub(crate) dial_timeout: Duration,
    /// How long open connections stay after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) drain: Duration,
}

/// As a resolver takes it.
fn host_and_port(text: &str) -> Result<String> {
    let (host, port) = text.rsplit_once(':').context("it has no port, such as api.example.com:6444")?;
    port.parse::<u16>().ok().filter(|port| *port > 0).with_context(|| format!("{port} is no port from 1 to 65535"))?;
    let is_bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    anyhow::ensure!(!host.is_empty() && !is_bare, "{host} is no host; write an IPv6 address in brackets");
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_and_what_is_refused() {
        let parse = |args: &[&str]| Args::try_parse_from([&["berth-api-proxy"][..], args].concat());
        let least = ["--listen=240.0.0.1:6443", "--to=acme.api.example.com:6444"];
        let args = parse(&least).unwrap();
        assert_eq!((args.name, &*args.to), (None, "acme.api.example.com:6444"));
        assert_eq!((args.health, args.max_connections), ("127.0.0.1:10290".parse().unwrap(), 2000));
        assert_eq!((args.dial_timeout, args.drain), (Duration::from_secs(3), Duration::from_secs(5)));
        for fine in ["[2001:db8::1]:6443", "192.0.2.1:443"] {
            assert_eq!(parse(&[least[0], &format!("--to={fine}")]).unwrap().to, fine);
        }
        for wrong in ["acme", "acme:0", "acme:70000", "acme:https", ":6444", "2001:db8::1:6443"] {
            assert!(parse(&[least[0], &format!("--to={wrong}")]).is_err(), "{wrong}");
        }
        for wrong in ["--listen=240.0.0.1", "--name=", "--name=a b", "--max-connections=-1", "--drain=soon"] {
            assert!(parse(&[least[1], wrong]).is_err(), "{wrong}");
        }
        assert!(parse(&least[1..]).is_err() && parse(&least[..1]).is_err());
    }
}
