//! To whom a bucket speaks, and what it says.

use super::*;
use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers each request with this, and counts them.
fn server(answer: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (endpoint, asked) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let counts = asked.clone();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            counts.fetch_add(1, Ordering::SeqCst);
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    (endpoint, asked)
}

/// An endpoint is allowed by its whole URL: what it answers opens no other.
#[test]
fn a_redirect_is_told_and_not_followed() {
    let closed = "Content-Length: 0\r\nConnection: close\r\n\r\n";
    let (elsewhere, reached) = server(format!("HTTP/1.1 200 OK\r\n{closed}"));
    let dir = tempfile::tempdir().unwrap();
    for key in [keys::ACCESS_KEY_ID, keys::SECRET_ACCESS_KEY] {
        fs::write(dir.path().join(key), "AKIA1").unwrap();
    }
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let (endpoint, asked) = server(format!("HTTP/1.1 {status}\r\nLocation: {elsewhere}/bucket/a.db\r\n{closed}"));
        let store = Store { endpoint, bucket: "b".into(), region: "r".into(), path_style: true, ..Store::default() };
        let bucket = Bucket::open(&store, dir.path(), Duration::from_secs(5), &Proxies::default()).unwrap();
        let file = dir.path().join("a.db");
        let problems = [
            bucket.exists("a.db").unwrap_err(),
            bucket.create("a.db", vec![1]).unwrap_err(),
            bucket.read_back("a.db", 9, &file).unwrap_err(),
            bucket.delete("a.db").unwrap_err(),
        ];
        for Problem { failure, .. } in problems {
            let wanted = format!("it redirects to another address ({}), and Berth follows none", &status[..3]);
            assert!(failure.message.contains(&wanted), "{}", failure.message);
            assert!(!failure.message.contains(&elsewhere) && !failure.message.contains("AKIA1"));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 4, "none is tried again");
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

#[test]
fn a_bucket_may_be_in_the_hosts_name() {
    let store = Store { endpoint: "https://s3:9000".into(), bucket: "b".into(), ..Store::default() };
    assert_eq!(hosted(&store), "https://b.s3:9000");
}
