//! Stand-ins for API servers, which cost next to nothing: what is measured is what is before them.

use anyhow::Result;
use berth_testkit::ports::port;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What one does once a client has said something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    /// Answers with a byte, and ends when the client does.
    Greet(u8),
    /// Gives back what comes after that.
    Echo,
    /// Writes so many bytes.
    Pour(usize),
    /// Nothing, until the client ends.
    Hang,
}

pub(crate) struct StandIn {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StandIn {
    pub(crate) fn start(ip: Ipv4Addr, does: Does) -> Result<Self> {
        let listener = berth_edge::socket::listen((ip, port()).into())?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept(listener, does)) })
    }
}

async fn accept(listener: TcpListener, does: Does) {
    // They end with it.
    let mut clients = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        clients.spawn(serve(stream, does));
        while clients.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, does: Does) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 4096];
    let mut read = stream.read(&mut buffer).await?;
    match does {
        Does::Greet(byte) => {
            stream.write_all(&[byte]).await?;
            read_to_end(&mut stream, &mut buffer).await
        }
        Does::Echo => {
            // The first byte says that it is there.
            buffer[0] = 0;
            read = read.min(1);
            while read > 0 {
                stream.write_all(&buffer[..read]).await?;
                read = stream.read(&mut buffer).await?;
            }
            Ok(())
        }
        Does::Pour(mut bytes) => {
            let block = vec![7; 256 * 1024];
            while bytes > 0 {
                let some = bytes.min(block.len());
                stream.write_all(&block[..some]).await?;
                bytes -= some;
            }
            Ok(())
        }
        Does::Hang => read_to_end(&mut stream, &mut buffer).await,
    }
}

async fn read_to_end(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    while stream.read(buffer).await? > 0 {}
    Ok(())
}
