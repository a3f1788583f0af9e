//! Copies between a pod and the API.

use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, copy};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Until both sides have ended. There is no limit to how long nothing happens, until the API has ended: a pod has nothing to say then, and one that
/// stays would count as a connection for ever. `stays`: how long it may.
pub(crate) async fn carry(pod: &mut TcpStream, api: &mut TcpStream, stays: Duration) -> io::Result<()> {
    let ((mut from_pod, mut to_pod), (mut from_api, mut to_api)) = (pod.split(), api.split());
    let up = async {
        copy(&mut from_pod, &mut to_api).await?;
        to_api.shutdown().await
    };
    let down = async {
        copy(&mut from_api, &mut to_pod).await?;
        to_pod.shutdown().await
    };
    let (mut up, mut down) = (pin!(up), pin!(down));
    tokio::select! {
        ended = &mut up => {
            ended?;
            down.await
        }
        ended = &mut down => {
            ended?;
            timeout(stays, up).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    /// Both ends of a connection.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (stream, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn a_pod_that_stays_when_the_api_has_ended_is_not_waited_for_for_ever() {
        let ((mut client, mut pod), (mut api, mut server)) = (connected().await, connected().await);
        server.write_all(b"goodbye").await.unwrap();
        drop(server);
        let ended = carry(&mut pod, &mut api, Duration::from_millis(50)).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut all = vec![];
        client.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"goodbye");
    }

    #[tokio::test]
    async fn a_pod_that_has_ended_waits_for_its_answer() {
        let ((mut client, mut pod), (mut api, mut server)) = (connected().await, connected().await);
        let carried = tokio::spawn(async move { carry(&mut pod, &mut api, Duration::ZERO).await });
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let mut all = vec![];
        server.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"hello");
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.write_all(b"an answer").await.unwrap();
        drop(server);
        all.clear();
        client.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"an answer");
        carried.await.unwrap().unwrap();
    }
}
