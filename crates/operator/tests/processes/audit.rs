//! An audit webhook of a real kube-apiserver with the flags that Berth renders: it receives, it hangs, it is gone. The API serves on.

use crate::common::SOON;
use berth_api::ClusterSpec;
use berth_render::{Binary, FLAGS, extra_args};
use berth_testkit::apiserver::Options;
use berth_testkit::{ApiServer, fixtures::until, ports::port};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A server that takes events.
#[derive(Default)]
struct Sink {
    /// All that was sent.
    received: Mutex<String>,
    /// It answers no more.
    hangs: AtomicBool,
    /// Requests without an answer.
    unanswered: AtomicUsize,
    /// None: it is gone.
    connections: Mutex<Option<Vec<TcpStream>>>,
}

impl Sink {
    fn start() -> (Arc<Self>, SocketAddr) {
        // Nobody else listens there once this one is gone.
        let address = SocketAddr::from(([127, 0, 0, 1], port()));
        let listener = TcpListener::bind(address).expect("listen");
        let sink = Arc::new(Self { connections: Mutex::new(Some(vec![])), ..Self::default() });
        let server = sink.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let other = stream.try_clone().expect("a second handle");
                match server.connections.lock().expect("lock").as_mut() {
                    Some(connections) => connections.push(other),
                    None => return,
                }
                let server = server.clone();
                std::thread::spawn(move || server.serve(&stream));
            }
        });
        (sink, address)
    }

    /// Requests of one connection, one after the other.
    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                    let line = line.trim().to_lowercase();
                    match line.strip_prefix("content-length:") {
                        Some(text) => length = text.trim().parse().expect("a number"),
                        None if line.is_empty() => break,
                        None => {}
                    }
                } else {
                    return;
                }
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            if self.hangs.load(Ordering::SeqCst) {
                self.unanswered.fetch_add(1, Ordering::SeqCst);
                // Until the other side gives up.
                let _rest = reader.read(&mut [0]);
                return;
            }
            self.received.lock().expect("lock").push_str(&String::from_utf8_lossy(&body));
            let mut stream = stream;
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }

    fn has(&self, text: &str) -> bool {
        self.received.lock().expect("lock").contains(text)
    }

    /// Nobody listens any more.
    fn go(&self, address: SocketAddr) {
        let connections = self.connections.lock().expect("lock").take();
        // It waits for one more.
        drop(TcpStream::connect(address));
        for connection in connections.into_iter().flatten() {
            let _closed = connection.shutdown(Shutdown::Both);
        }
    }
}

async fn created(client: &Client, name: &str) {
    let map =
        ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() };
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &map).await.unwrap_or_else(|e| panic!("{name}: {e}"));
}

/// Events that were lost, as the API server counts them.
async fn lost(client: &Client, plugin: &str) -> f64 {
    let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
    let text = client.request_text(request).await.expect("metrics");
    let row = format!("apiserver_audit_error_total{{plugin=\"{plugin}\"}}");
    let line = text.lines().find_map(|line| line.strip_prefix(&row));
    line.map_or(0.0, |number| number.trim().parse().expect("a number"))
}

#[tokio::test]
async fn an_audit_webhook_that_hangs_or_is_gone_holds_up_nothing() {
    let (sink, address) = Sink::start();
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}/events")}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x",
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    let written = berth_pki::webhook_kubeconfig(kubeconfig.to_string().as_bytes()).expect("it is taken");
    std::fs::write(file.path(), written.expose()).expect("written");
    // So small that it is full at once.
    let spec: ClusterSpec = serde_json::from_value(json!({"version": "1.36.3", "apiServer": {"audit": {"webhook": {
        "secretRef": {"name": "sink"}, "initialBackoff": "1s", "batch": {"bufferSize": 5, "maxSize": 1, "maxWait": "1s"}}}}}))
    .expect("a spec");
    let flags = extra_args(FLAGS, Binary::ApiServer, &spec, &[]).expect("flags");
    let flags = flags.into_iter().map(|arg| format!("--{}={}", arg.name, arg.value));
    let config = format!("--audit-webhook-config-file={}", file.path().display());
    let options = Options { apiserver_args: flags.chain([config]).collect(), ..Options::default() };
    let server = ApiServer::start_with(options).await.expect("a server");
    let client = server.client();

    until(SOON, "an event", async || {
        created(&client, &format!("received-{}", next())).await;
        sink.has("received-")
    })
    .await;

    sink.hangs.store(true, Ordering::SeqCst);
    until(SOON, "a request that gets no answer, and a buffer that is full", async || {
        // More at once than are sent in a second: how many that are depends on the machine otherwise.
        let burst = (0..60).map(|_| async { created(&client, &format!("hung-{}", next())).await });
        futures::future::join_all(burst).await;
        sink.unanswered.load(Ordering::SeqCst) > 0 && lost(&client, "buffered").await > 0.0
    })
    .await;

    // A request that hung for long enough is lost, too.
    let before = lost(&client, "webhook").await;
    sink.go(address);
    until(SOON, "a batch that finds nobody", async || {
        created(&client, &format!("gone-{}", next())).await;
        lost(&client, "webhook").await > before
    })
    .await;
    assert!(!sink.has("gone-"));
}

/// Another number each time.
fn next() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
