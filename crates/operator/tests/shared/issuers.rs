//! Another issuer of service-account tokens: what signed before is accepted by a real kube-apiserver with the flags that Berth renders.

use crate::common::{SOON, Team, shared_operator};
use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::names;
use berth_testkit::ApiServer;
use berth_testkit::apiserver::Options;
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::AuthInfo;
use serde_json::{Value, json};

const A: &str = "https://a.example.com";
const B: &str = "https://b.example.com";

/// What Berth renders for the API servers.
async fn flags(team: &Team) -> Vec<String> {
    let live = team.inside::<Deployment>().get(names::APISERVER).await.unwrap();
    let template = json!(live.spec.unwrap().template);
    let args = template["spec"]["containers"][0]["args"].as_array().unwrap();
    let args = args.iter().filter_map(Value::as_str);
    args.filter(|arg| arg.starts_with("--service-account-") && arg.contains("-issuer=")).map(str::to_owned).collect()
}

async fn token(server: &ApiServer) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), "default");
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}})).unwrap();
    let signed = accounts.create_token_request("pod", &PostParams::default(), &request).await.unwrap();
    signed.status.unwrap().token
}

fn issuer(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    serde_json::from_slice::<Value>(&claims).unwrap()["iss"].clone()
}

/// Whether the server takes the token.
async fn takes(server: &ApiServer, token: &str) -> bool {
    let mut config = server.config();
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    let client = Client::try_from(config).unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(said) => {
            assert_eq!(said["status"]["userInfo"]["username"], "system:serviceaccount:default:pod");
            true
        }
        Err(kube::Error::Api(status)) if status.code == 401 => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_that_was_signed_before_another_issuer_is_accepted_after_it() {
    let team = Team::new(shared_operator().await).await;
    let api_server = json!({"serviceAccountIssuers": [A]});
    team.create(json!({"apiServer": api_server, "upgrade": {"soak": "0s"}})).await.unwrap();
    team.ready().await.unwrap();
    let of = |issuers: &[&str]| -> Vec<String> {
        issuers.iter().map(|issuer| format!("--service-account-issuer={issuer}")).collect()
    };
    assert_eq!(flags(&team).await, of(&[A]));
    let options = Options { apiserver_args: flags(&team).await, ..Options::default() };
    let mut server = ApiServer::start_with(options).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "pod"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let before = token(&server).await;
    assert_eq!(issuer(&before), A);

    team.spec(json!({"apiServer": {"serviceAccountIssuers": [B]}})).await.unwrap();
    let after = async || -> Result<()> {
        let flags = flags(&team).await;
        ensure!(flags == of(&[B, A]), "{flags:?}");
        Ok(())
    };
    eventually(SOON, "another issuer, with the former one", after).await.unwrap_or_else(|e| panic!("{e:#}"));
    let former = team.cluster().await.status.unwrap().former_service_account_issuers;
    assert_eq!(former.iter().map(|former| &*former.issuer).collect::<Vec<_>>(), [A]);
    let version = Options::default().kubernetes;
    let replaced = flags(&team).await;
    let args: Vec<&str> = replaced.iter().map(String::as_str).collect();
    server.replace_apiserver(&version, &args).await.unwrap();
    let now = token(&server).await;
    assert_eq!(issuer(&now), B);
    assert!(takes(&server, &before).await && takes(&server, &now).await);

    // By hand it is dropped, and what it signed with it.
    let drop = json!({"apiServer": {"formerServiceAccountIssuers": "Drop"}});
    team.spec(drop).await.unwrap();
    let dropped = async || -> Result<()> {
        let flags = flags(&team).await;
        ensure!(flags == of(&[B]), "{flags:?}");
        Ok(())
    };
    eventually(SOON, "the new issuer alone", dropped).await.unwrap_or_else(|e| panic!("{e:#}"));
    server.replace_apiserver(&version, &[&*of(&[B])[0]]).await.unwrap();
    assert!(!takes(&server, &before).await && takes(&server, &now).await);
    team.wipe().await;
}
