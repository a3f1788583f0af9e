//! A repository of Helm charts on loopback, with one chart.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Serves the chart `web`, version 1.0.0, as long as the process lives; its URL. `more`: lines of its `Chart.yaml`.
///
/// # Panics
///
/// If it cannot be written to `dir`, packed, or served.
pub fn serve(dir: &Path, more: &str, values: &str, template: &str) -> String {
    let chart = dir.join("web");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: web\nversion: 1.0.0\n{more}")).unwrap();
    fs::write(chart.join("values.yaml"), values).unwrap();
    fs::write(chart.join("templates/all.yaml"), template).unwrap();
    let archive = dir.join("web-1.0.0.tgz");
    let tar = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(dir).arg("web").status().unwrap();
    assert!(tar.success());
    let archive = fs::read(archive).unwrap();
    let index =
        "apiVersion: v1\nentries:\n  web:\n    - {apiVersion: v2, name: web, version: 1.0.0, urls: [web-1.0.0.tgz]}\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or_default();
            let asked = String::from_utf8_lossy(&request[..read]);
            let body = if asked.contains(".tgz") { &archive } else { index.as_bytes() };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    url
}
