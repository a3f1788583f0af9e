//! What kube-apiserver refuses of `spec.apiServer.authentication.jwt` is refused by Berth, and what it takes is taken.
//!
//! kube-apiserver reads the file before it connects to anything, and tells of all authenticators in it at once: one process judges 64.

mod cases;

use crate::server::{SERVICE_ACCOUNTS, Server, last_words};
use berth_plan_cluster::{issuer_faults, jwt_faults, platform_issuers};
use cases::Case;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The oldest and the newest minor.
const VERSIONS: [&str; 2] = ["v1.34.4", "v1.36.3"];
/// As many as a file may have.
const BATCH: usize = 64;

/// Where the process ends that has taken all authenticators: it reads that file afterwards.
const AFTERWARDS: &str = "loading audit policy file";

/// Which of these kube-apiserver refuses.
fn refused(server: &Server, jwt: &[Value]) -> BTreeSet<usize> {
    let said = said(server, jwt);
    let refused: BTreeSet<usize> =
        said.split("jwt[").skip(1).filter_map(|rest| rest.split_once(']')?.0.parse().ok()).collect();
    assert!(!refused.is_empty() || said.contains(AFTERWARDS), "neither refused nor taken: {said}");
    refused
}

fn said(server: &Server, jwt: &[Value]) -> String {
    said_of(server, jwt, &[SERVICE_ACCOUNTS])
}

fn said_of(server: &Server, jwt: &[Value], issuers: &[&str]) -> String {
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt});
    std::fs::write(server.file("config"), config.to_string()).unwrap();
    let mut command = server.command();
    command.args([
        format!("--authentication-config={}", server.file("config")),
        format!("--audit-policy-file={}", server.file("none")),
    ]);
    command.args(issuers.iter().map(|issuer| format!("--service-account-issuer={issuer}")));
    last_words(&mut command)
}

/// Which of these Berth refuses, by the places that its messages name.
fn ours(jwt: &[Value]) -> BTreeSet<usize> {
    let faults = jwt_faults(jwt, &[SERVICE_ACCOUNTS.to_owned()]);
    let place = |text: &str| text.split_once("jwt[")?.1.split_once(']')?.0.parse().ok();
    faults.iter().map(|fault| place(&fault.to_string()).unwrap()).collect()
}

/// Disagreements: (version, what, Berth's).
fn compare(batches: &[Vec<Case>]) -> Vec<String> {
    let of = |version: &'static str| {
        let server = Server::new(version);
        let mut found = vec![];
        for batch in batches {
            let jwt: Vec<Value> = batch.iter().map(|case| case.jwt.clone()).collect();
            let (theirs, ours) = (refused(&server, &jwt), ours(&jwt));
            for at in theirs.symmetric_difference(&ours) {
                let who = if ours.contains(at) { "only Berth refuses" } else { "only kube-apiserver refuses" };
                found.push(format!("{who}: {}", batch[*at].what));
            }
        }
        found
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = VERSIONS.into_iter().map(|version| scope.spawn(move || (version, of(version)))).collect();
        all.into_iter()
            .map(|thread| thread.join().unwrap())
            .flat_map(|(version, found)| found.into_iter().map(move |text| format!("{version} {text}")))
            .collect()
    })
}

#[test]
fn kube_apiserver_and_berth_refuse_the_same_authenticators() {
    let (mut cases, unknown) = (cases::values(), cases::unknown_fields());
    assert!(cases.len() > 1000, "{}", cases.len());
    // An authenticator of its own issuer each, so that one does not spoil another.
    for (at, case) in cases.iter_mut().enumerate() {
        case.own_issuer(at);
    }
    let batches: Vec<Vec<Case>> = cases.chunks(BATCH).map(<[Case]>::to_vec).chain([unknown]).collect();
    let found = compare(&batches);
    let open: Vec<_> = found.iter().filter(|text| !cases::KNOWN.iter().any(|known| text.contains(known))).collect();
    assert!(open.is_empty(), "{} of {}: {open:#?}", open.len(), batches.iter().map(Vec::len).sum::<usize>());
    let unused: Vec<_> = cases::KNOWN.iter().filter(|known| !found.iter().any(|text| text.contains(**known))).collect();
    assert!(unused.is_empty(), "these agree: {unused:#?}");
}

/// It ends at the first value of another type, and looks at the issuers of service accounts once there is no other fault.
#[test]
fn what_kube_apiserver_judges_one_at_a_time_is_refused_by_both() {
    let server = Server::new(VERSIONS[1]);
    for Case { what, jwt } in [cases::types(), cases::of_service_accounts()].concat() {
        let said = said(&server, std::slice::from_ref(&jwt));
        let refused = !said.contains(AFTERWARDS);
        assert_eq!(!ours(&[jwt]).is_empty(), refused, "{what}: {said}");
    }
}

#[test]
fn kube_apiserver_and_berth_refuse_the_same_issuers_of_service_accounts() {
    let server = Server::new(VERSIONS[1]);
    // One that can be read is refused as nothing else is.
    for issuer in cases::URLS.iter().chain(cases::ISSUERS) {
        let said = said_of(&server, &[], &[SERVICE_ACCOUNTS, issuer]);
        let ours = issuer_faults(&[SERVICE_ACCOUNTS.to_owned(), (*issuer).to_owned()]);
        assert_eq!(!ours.is_empty(), !said.contains(AFTERWARDS), "{issuer}: {said}");
    }
}

/// Those of all tenants have rules of Berth's own.
#[test]
fn kube_apiserver_takes_what_berth_adds_to_the_platforms_issuers() {
    let one = json!({
        "issuer": {"url": "https://login.example.com", "audiences": ["kubernetes"]},
        "claimMappings": {"username": {"claim": "email", "prefix": "corp:"}, "groups": {"claim": "groups", "prefix": "corp:"}},
    });
    for version in VERSIONS {
        let said = said(&Server::new(version), &platform_issuers(std::slice::from_ref(&one)));
        assert!(said.contains(AFTERWARDS), "{version}: {said}");
    }
}
