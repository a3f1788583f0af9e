//! `kubeconfig`: when there is one, where it goes, and whose it is.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_pki::Kubeconfig;
use std::path::Path;

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_says_why_and_one_that_is_can_be_merged() {
    let team = Team::new(ADMIN).await;
    let untouched = team.file("untouched", "");
    for args in [&[][..], &["--out", &untouched, "--force"], &["--merge", "--kubeconfig-file", &untouched]] {
        let missing = team.here(&[&["kubeconfig", "acme"], args].concat());
        exits(&missing, 3);
        let text = err(&missing);
        assert!(text.contains("acme-kubeconfig does not exist yet") && text.contains("kubectl -n"), "{text}");
        assert_eq!((out(&missing), std::fs::read_to_string(&untouched).unwrap().as_str()), ("", ""));
    }
    exits(&team.here(&["kubeconfig", "globex"]), 1);

    let tenant = as_berth_writes_it(&team.server.kubeconfig_as("admin", ADMIN));
    team.publish("acme", &tenant).await;
    for args in [&[][..], &["--out", &untouched, "--force"], &["--merge", "--kubeconfig-file", &untouched]] {
        let unanswered = team.here(&[&["kubeconfig", "acme"], args].concat());
        exits(&unanswered, 3);
        let text = err(&unanswered);
        assert!(text.contains("the API has not answered yet") && text.contains("--for=condition=Available"), "{text}");
        assert_eq!((out(&unanswered), std::fs::read_to_string(&untouched).unwrap().as_str()), ("", ""));
    }
    team.answered().await;
    let printed = team.here(&["kubeconfig", "acme"]);
    exits(&printed, 0);
    assert_eq!(out(&printed), tenant);
    let nowhere = team.dir.path().join("nodir/x");
    let no_folder = team.here(&["kubeconfig", "acme", "--out", nowhere.to_str().unwrap()]);
    exits(&no_folder, 1);
    assert!(err(&no_folder).contains("nodir does not exist. Create it first: mkdir -p "), "{}", err(&no_folder));
    assert!(!nowhere.parent().unwrap().exists());
    let file = team.dir.path().join("acme.kubeconfig");
    exits(&team.here(&["kubeconfig", "acme", "--out", file.to_str().unwrap()]), 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), tenant);
    assert_eq!(mode(&file), 0o600);

    // Standard output is a pipe here, and stays one.
    let piped = team.here(&["kubeconfig", "acme", "--out", "/proc/self/fd/1"]);
    exits(&piped, 0);
    assert_eq!(out(&piped), tenant);

    // Into ~/.kube/config, twice; what it then says works.
    for _ in 0..2 {
        exits(&team.here(&["kubeconfig", "acme", "--merge", "--use"]), 0);
    }
    let merged = team.dir.path().join(".kube/config");
    assert_eq!(mode(&merged), 0o600);
    let context = format!("{}/acme", team.ns);
    let list = Command::new(env!("CARGO_BIN_EXE_kubectl-berth"))
        .args(["status", "-A", "--context", &context])
        .env("HOME", team.dir.path())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    exits(&list, 3);
    assert!(out(&list).contains(&team.ns));
    let refused = team.here(&["kubeconfig", "acme", "--out", merged.to_str().unwrap()]);
    exits(&refused, 1);
    assert!(
        err(&refused).contains(&context) && err(&refused).contains("--merge --kubeconfig-file"),
        "{}",
        err(&refused)
    );
}

/// With certificate and key instead of their files.
fn as_berth_writes_it(kubeconfig: &str) -> String {
    let file: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let (cluster, user) = (&file["clusters"][0]["cluster"], &file["users"][0]["user"]);
    let ca = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap()).unwrap();
    let read = |field: &str| std::fs::read_to_string(user[field].as_str().unwrap()).unwrap();
    Kubeconfig {
        cluster_name: "acme".into(),
        server: cluster["server"].as_str().unwrap().into(),
        ca_pem: String::from_utf8(ca).unwrap(),
        user: "admin".into(),
        cert_pem: read("client-certificate"),
        key_pem: read("client-key").into(),
    }
    .to_yaml()
}

#[tokio::test]
async fn a_kubeconfig_that_somebody_else_wrote_is_not_handed_on() {
    let team = Team::new(ADMIN).await;
    let tenant = as_berth_writes_it(&team.server.kubeconfig_as("admin", ADMIN));
    let mut file: Value = serde_saphyr::from_str(&tenant).unwrap();
    file["users"][0]["user"]["exec"] = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"});
    team.publish("acme", &file.to_string()).await;
    let own = team.file("own", "");
    for args in [&[][..], &["--out", &own], &["--merge", "--kubeconfig-file", &own, "--force"]] {
        let refused = team.here(&[&["kubeconfig", "acme"], args].concat());
        exits(&refused, 1);
        let text = err(&refused);
        for part in ["/acme-kubeconfig", "users[0].user.exec", "kubectl berth status acme"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert_eq!((out(&refused), std::fs::read_to_string(&own).unwrap().as_str()), ("", ""));
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
