//! `access`, against an API server on which nobody works.

use super::*;

fn text(output: &Output) -> String {
    format!("{}{}", out(output), err(output))
}

#[tokio::test]
async fn rights_are_given_in_ones_own_name_listed_and_taken_back() {
    let team = Team::new(ADMIN).await;
    let all = format!("/apis/berth.dev/v1alpha1/namespaces/{}/clusteraccesses", team.ns);
    let given = team.here(&[
        "access",
        "grant",
        "devs",
        "--role",
        "Viewer",
        "--group",
        "developers",
        "--user",
        "jane",
        "--cluster",
        "acme",
        "--for",
        "8h",
        "--reason",
        "a look",
    ]);
    let me = format!("cli-of-{}", team.ns);
    assert_eq!(given.status.code(), Some(0), "{}", text(&given));
    assert!(text(&given).contains("Viewer until 20") && text(&given).contains(&format!("by {me}")), "{}", text(&given));
    let live = team.get(&format!("{all}/devs")).await;
    assert_eq!((live["spec"]["grantedBy"].as_str(), live["spec"]["reason"].as_str()), (Some(&*me), Some("a look")));
    let again = team.here(&["access", "grant", "devs", "--role", "Viewer", "--user", "jane", "--cluster", "acme"]);
    assert!(again.status.code() == Some(1) && text(&again).contains("already exists"), "{}", text(&again));

    // Nobody works on it: it is not given yet.
    let list = team.here(&["access", "list", "--user", "jane", "-o", "json"]);
    assert_eq!(list.status.code(), Some(3), "{}", text(&list));
    let listed: Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!((listed.as_array().map(Vec::len), &listed[0]["role"]), (Some(1), &json!("Viewer")));
    let nobody = team.here(&["access", "list", "--user", "eve"]);
    assert!(nobody.status.code() == Some(0) && text(&nobody).contains("no ClusterAccess"), "{}", text(&nobody));
    let who = team.here(&["access", "who", "--cluster", "acme"]);
    assert!(who.status.code() == Some(0) && text(&who).contains("Group developers"), "{}", text(&who));

    let elsewhere = team.run(&["access", "who", "--cluster", &format!("{}/acme", team.ns)]);
    assert!(elsewhere.status.code() == Some(0) && text(&elsewhere).contains("User jane"), "{}", text(&elsewhere));
    // Without a namespace: everywhere.
    let everywhere = team.run(&["access", "list", "--user", "jane"]);
    assert!(text(&everywhere).contains(&format!("{}/devs", team.ns)), "{}", text(&everywhere));

    let taken = team.here(&["access", "revoke", "devs"]);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken));
    let live = team.get(&format!("{all}/devs")).await;
    let until: jiff::Timestamp = live["spec"]["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!(until <= jiff::Timestamp::now(), "{live:#}");
    let who = team.here(&["access", "who", "--cluster", "acme"]);
    assert!(!text(&who).contains("developers"), "{}", text(&who));
    let gone = team.here(&["access", "revoke", "devs", "--delete", "--wait", "--timeout", "30s"]);
    assert_eq!(gone.status.code(), Some(0), "{}", text(&gone));
    let none = team.here(&["access", "revoke", "devs"]);
    assert!(none.status.code() == Some(1) && text(&none).contains("does not exist"), "{}", text(&none));
}
