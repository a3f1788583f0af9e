use super::*;
use serde_json::json;

const SERVICE_ACCOUNTS: &str = "https://kubernetes.default.svc.cluster.local";

fn said(jwt: &Value) -> String {
    refusal(jwt.as_array().unwrap(), &[SERVICE_ACCOUNTS.to_owned()]).unwrap_or_default()
}

/// Those that were met: [the field and what is wrong].
#[test]
fn a_refusal_names_the_field_and_what_to_do() {
    let of = |url: &str| json!([{"issuer": {"url": url, "audiences": ["a"]}, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}}]);
    let user = |username: Value| json!([{"issuer": {"url": "https://dex.example.com", "audiences": ["a"]}, "claimMappings": {"username": username}}]);
    assert_eq!(said(&of("https://dex.example.com")), "");
    for (jwt, message) in [
        (
            of(SERVICE_ACCOUNTS),
            "jwt[0].issuer.url: is an issuer of service-account tokens, which kube-apiserver accepts without an authenticator. Remove this one",
        ),
        (of("http://dex.example.com"), "jwt[0].issuer.url: has to be a URL that begins with https://"),
        (of("https://dex.example.com/#x"), "jwt[0].issuer.url: may have no fragment. Remove what begins with #"),
        (
            of("https://me:secret@dex.example.com"),
            "jwt[0].issuer.url: may have no user and no password. Remove what stands before @",
        ),
        (
            json!([{"issuer": {"url": "https://dex.example.com"}, "claimMapping": {}}]),
            "jwt[0].claimMapping: is no field. Known are issuer, claimValidationRules, claimMappings, userValidationRules",
        ),
        (user(json!({"claim": "sub"})), "jwt[0].claimMappings.username.prefix: is missing. Set it, to \"\" for none"),
        (
            user(json!({"expression": "claims.name +"})),
            "jwt[0].claimMappings.username.expression: does not compile: at 1:14: mismatched input '<EOF>' expecting expression",
        ),
        (
            user(json!({"expression": "claim.name"})),
            "jwt[0].claimMappings.username.expression: does not compile: there is no variable claim; the expression has claims",
        ),
        (
            json!([{"issuer": {"url": "https://dex.example.com"}}]),
            "jwt[0].issuer.audiences: is empty. List what tokens have as aud, such as the ID of the client. spec.apiServer.authentication.jwt has 1 more of such faults",
        ),
    ] {
        assert_eq!(said(&jwt), format!("spec.apiServer.authentication.{message}"));
    }
    let issuers = ["https://a".to_owned(), "https://a".to_owned()];
    let message = "spec.apiServer.serviceAccountIssuers[1]: is listed twice. Remove one of the two";
    assert_eq!(refusal(&[], &issuers).as_deref(), Some(message));
    let twice = [of("https://a.example.com"), of("https://b.example.com"), of("https://a.example.com")];
    let twice: Vec<Value> = twice.iter().flat_map(|one| one.as_array().unwrap().clone()).collect();
    assert_eq!(
        said(&twice.into()),
        "spec.apiServer.authentication.jwt[2].issuer.url: another authenticator has the same one. Remove one of the two"
    );
}

/// A message is quoted in conditions.
#[test]
fn what_a_user_wrote_stays_on_one_short_line() {
    let long = format!("a\n{}", "b".repeat(5000));
    for jwt in [
        json!([{"issuer": {}, (long.clone()): 1}]),
        json!([{"claimMappings": {"username": {"expression": format!("`{long}` + c")}}}]),
        json!([{"claimMappings": {"username": {"expression": "\u{202e}a\u{7}"}}}]),
        json!([{"claimMappings": {"username": {"expression": format!("{}()", "d".repeat(1000))}}}]),
    ] {
        let said = said(&jwt);
        assert!(said.len() < 700 && !said.contains(|c: char| c.is_control()), "{said}");
    }
}
