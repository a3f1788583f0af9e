//! What kube-apiserver refuses of `spec.apiServer.admission` is refused by Berth, and what it takes is taken.
//!
//! It tells one fault and ends, before it connects to anything: a process for each case, which ends as soon as all plugins are there.

mod cases;

use crate::server::{SERVICE_ACCOUNTS, Server};
use berth_api::cluster::Admission;
use berth_plan_cluster::admission_faults;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// The oldest and the newest minor, and how many cases there are to one that it is asked about.
const VERSIONS: [(&str, usize); 2] = [("v1.34.4", 4), ("v1.36.3", 1)];

/// What it says when it has taken all.
const AFTERWARDS: &str = "validating admission controller(s) successfully";

/// What kube-apiserver says of these plugins.
fn said(server: &Server, plugins: &[Value]) -> String {
    let config =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins});
    std::fs::write(server.file("config"), config.to_string()).unwrap();
    let mut command = server.command();
    command.stderr(Stdio::piped()).args([
        format!("--service-account-issuer={SERVICE_ACCOUNTS}"),
        format!("--admission-control-config-file={}", server.file("config")),
        "--enable-admission-plugins=EventRateLimit".to_owned(),
        // It would ask etcd first.
        "--feature-gates=UnknownVersionInteroperabilityProxy=false".to_owned(),
    ]);
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        said += &(line.unwrap() + "\n");
        if said.contains(AFTERWARDS) {
            break;
        }
    }
    let _ = child.kill();
    child.wait().unwrap();
    assert!(said.contains(AFTERWARDS) || said.contains("failed to apply admission"), "{said}");
    said
}

fn ours(plugins: &[Value]) -> Vec<String> {
    let asked: Admission = serde_json::from_value(json!({"configuration": plugins})).unwrap();
    admission_faults(&asked).iter().map(ToString::to_string).collect()
}

#[test]
fn kube_apiserver_and_berth_refuse_the_same_plugins() {
    let of = |(version, step): (&'static str, usize)| {
        let server = Server::new(version);
        let mut found = vec![];
        for case in cases::all().into_iter().step_by(step) {
            let (said, ours) = (said(&server, &case.plugins), ours(&case.plugins));
            let who = match (!said.contains(AFTERWARDS), !ours.is_empty()) {
                (true, false) => "only kube-apiserver refuses",
                (false, true) => "only Berth refuses",
                _ => continue,
            };
            let end = said.lines().rev().find(|line| line.contains("rror")).unwrap_or_default();
            found.push(format!("{version} {who}: {}: {ours:?} {end}", case.what));
        }
        found
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let all = VERSIONS.map(|version| scope.spawn(move || of(version)));
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let open: Vec<_> = found.iter().filter(|text| !cases::KNOWN.iter().any(|known| text.contains(known))).collect();
    assert!(open.is_empty(), "{open:#?}");
    let unused: Vec<_> = cases::KNOWN.iter().filter(|known| !found.iter().any(|text| text.contains(**known))).collect();
    assert!(unused.is_empty(), "these agree: {unused:#?}");
}
