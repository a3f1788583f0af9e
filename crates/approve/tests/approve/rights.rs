//! What the approver's certificate is good for, whoever has it.

use berth_api::names;
use berth_testkit::ApiServer;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cluster::*;

const ITS_OWN: [&str; 2] = ["kubelet", "serving"];

#[tokio::test]
async fn it_approves_for_two_signers_and_reads_no_secret() {
    let server = ApiServer::start().await.unwrap();
    grant(&server).await.unwrap();
    let approver = server.client_as(names::APPROVER_USER, &[]);
    let all: Api<CertificateSigningRequest> = Api::all(approver.clone());
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}});
    let admin = server.client();
    let client = ["digital signature", "client auth"];
    let request = pem("n1", &[], &[]).unwrap();
    for (name, signer, usages, request) in [
        ("client", "kubernetes.io/kube-apiserver-client", client, &request),
        ("kubelet", CLIENT, client, &request),
        ("legacy", "example.com/signer", USAGES, &request),
        ("serving", SERVING, USAGES, &pem("n1", &["n1"], &[]).unwrap()),
    ] {
        ask(&admin, name, signer, &usages, request).await.unwrap();
        let outcome = all.patch_approval(name, &PatchParams::default(), &Patch::Merge(&approved)).await;
        match outcome {
            Ok(_) => assert!(ITS_OWN.contains(&name), "{name}"),
            Err(kube::Error::Api(status)) => {
                assert!(status.code == 403 && !ITS_OWN.contains(&name), "{name}: {status:?}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let reviews: Api<SelfSubjectAccessReview> = Api::all(approver);
    let allowed = async |attributes: serde_json::Value| {
        let review = serde_json::from_value(json!({"spec": {"resourceAttributes": attributes}})).unwrap();
        reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
    };
    // By their name, where they are, and nothing else of their kinds.
    for (group, resource, namespace, name, verb, wanted) in [
        ("discovery.k8s.io", "endpointslices", "default", "kubernetes", "create", true),
        ("discovery.k8s.io", "endpointslices", "default", "kubernetes", "delete", false),
        ("discovery.k8s.io", "endpointslices", "default", "other", "patch", false),
        ("discovery.k8s.io", "endpointslices", "default", "", "create", false),
        ("discovery.k8s.io", "endpointslices", "kube-system", "kubernetes", "patch", false),
        ("", "endpoints", "default", "kubernetes", "patch", true),
        ("", "endpoints", "default", "other", "create", false),
        ("", "configmaps", "kube-system", "berth-endpoint", "get", true),
        ("", "configmaps", "kube-system", "berth-endpoint", "patch", false),
        ("", "configmaps", "kube-system", "extension-apiserver-authentication", "get", false),
    ] {
        let of = json!({"group": group, "resource": resource, "namespace": namespace, "name": name, "verb": verb});
        assert_eq!(allowed(of.clone()).await, wanted, "{of}");
    }
    for (group, resource, subresource, verbs) in [
        ("", "secrets", "", &["get", "list", "watch", "create", "update", "patch", "delete"][..]),
        ("", "configmaps", "", &["get", "list", "create"]),
        ("", "pods", "", &["get", "list", "create"]),
        ("", "nodes", "", &["watch", "create", "update", "patch", "delete"]),
        ("", "nodes", "status", &["update", "patch"]),
        ("", "nodes", "proxy", &["get", "create"]),
        ("", "events", "", &["get", "list", "update", "patch", "delete"]),
        ("", "serviceaccounts", "token", &["create"]),
        ("certificates.k8s.io", "certificatesigningrequests", "", &["update", "patch", "delete", "deletecollection"]),
        ("certificates.k8s.io", "certificatesigningrequests", "status", &["update", "patch"]),
        ("certificates.k8s.io", "signers", "", &["approve", "sign", "attest"]),
        ("rbac.authorization.k8s.io", "clusterroles", "", &["get", "bind", "escalate"]),
    ] {
        for verb in verbs {
            let of = json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb});
            assert!(!allowed(of).await, "{verb} {resource}/{subresource}");
        }
    }
}
