//! Issuers of all tenants: the chart's `authentication.jwt`, beside those that a `Cluster` has of its own (ADR 81).
//!
//! What a tenant took is recorded in its pin with the rules of [`guarded`], so neither another value nor another build changes what runs.

use super::shape::{list, text};
use super::{Fault, faults};
use berth_api::cluster_access::RESERVED;
use berth_api::revision::RevisionPin as Pin;
use serde_json::{Value, json};

/// Where they are in the chart's values.
const VALUE: &str = "authentication.jwt";

/// Most of them.
const MOST: usize = 16;
/// How long they are together at most, as JSON: a pin is in annotations, and in each of a tenant's revisions.
const LONGEST: usize = 32 * 1024;
/// Most that kube-apiserver takes, with the tenant's own.
const MOST_IN_ALL: usize = 64;

/// Why the operator does not take the chart's value, with the place. A part of it would not do: tenants would lose issuers.
pub fn refusal(jwt: &[Value]) -> Option<String> {
    if jwt.len() > MOST {
        return Some(format!("{VALUE}: it has {} issuers, and {MOST} may be. List fewer", jwt.len()));
    }
    let (all, taken) = (json!(jwt).to_string(), guarded(jwt));
    if all.contains("PRIVATE KEY") {
        return Some(format!("{VALUE}: it has a private key, which everybody could read. Leave certificates alone"));
    }
    if json!(taken).to_string().len() > LONGEST {
        let most = LONGEST / 1024;
        return Some(format!(
            "{VALUE}: it is longer than {most} KiB, and each tenant records it. List fewer issuers, or shorter certificates"
        ));
    }
    let found = faults(&taken, &[]);
    let found = if found.is_empty() { reserved_prefixes(jwt) } else { found };
    let (first, more) = found.split_first()?;
    let more =
        if more.is_empty() { String::new() } else { format!(". {VALUE} has {} more of such faults", more.len()) };
    Some(format!("{}{more}", first.elsewhere()))
}

/// Prefixes with which no token would be taken.
fn reserved_prefixes(jwt: &[Value]) -> Vec<Fault> {
    let of = |(at, field): (usize, &str)| {
        let prefix = text(&jwt[at]["claimMappings"][field], "prefix");
        let reserved = RESERVED.iter().find(|reserved| prefix.starts_with(**reserved))?;
        let why = format!(
            "begins with {reserved}, and such names are Kubernetes' and Berth's own: no token would be taken. Set another prefix"
        );
        Some(Fault::new(format!("{VALUE}[{at}].claimMappings.{field}.prefix"), why))
    };
    (0..jwt.len()).flat_map(|at| [(at, "username"), (at, "groups")]).filter_map(of).collect()
}

/// With rules by which kube-apiserver refuses a token that would give somebody a name, or a group, of Kubernetes' or Berth's own: whatever an issuer
/// has in its claims, in no tenant anybody is `system:masters` by it, or somebody of the platform's login.
pub fn guarded(jwt: &[Value]) -> Vec<Value> {
    let words: Vec<_> = RESERVED.iter().map(|prefix| prefix.trim_end_matches(':')).collect();
    let reserved = format!("matches('^({}):')", words.join("|"));
    let rules = [
        json!({"expression": format!("!user.username.{reserved}"), "message": "the name is of Kubernetes' or Berth's own"}),
        json!({"expression": format!("user.groups.all(group, !group.{reserved})"), "message": "a group is of Kubernetes' or Berth's own"}),
    ];
    let guard = |one: &Value| {
        let own = list(one, "userValidationRules");
        // kube-apiserver refuses the same expression twice.
        let missing = rules.iter().filter(|rule| own.iter().all(|of| of["expression"] != rule["expression"]));
        let all: Vec<Value> = own.iter().chain(missing).cloned().collect();
        let mut one = one.clone();
        one["userValidationRules"] = all.into();
        one
    };
    jwt.iter().map(guard).collect()
}

/// What the API server takes: the tenant's own, then those of the platform that do not meet with these. kube-apiserver takes no issuer twice, and
/// none of service-account tokens; and what a tenant has of its own is what its people know.
pub(crate) fn of_tenant(own: &[Value], service_accounts: &[String], pin: &Pin) -> Vec<Value> {
    let meets = |one: &Value| {
        let same = |field: &str| {
            let url = text(&one["issuer"], field);
            !url.is_empty() && own.iter().any(|own| text(&own["issuer"], field) == url)
        };
        same("url") || same("discoveryURL") || service_accounts.iter().any(|url| url == text(&one["issuer"], "url"))
    };
    own.iter().chain(pin.jwt.iter().filter(|one| !meets(one))).cloned().collect()
}

/// Why kube-apiserver would not start with all of them.
pub(crate) fn fit(own: &[Value], service_accounts: &[String], pin: &Pin) -> Result<(), String> {
    let (own, all) = (own.len(), of_tenant(own, service_accounts, pin).len());
    if all <= MOST_IN_ALL {
        return Ok(());
    }
    Err(format!(
        "{}: with {} of the platform's (the chart's {VALUE}) there are {all} issuers, and {MOST_IN_ALL} may be. List fewer",
        super::FIELD,
        all - own
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(url: &str) -> Value {
        json!({
            "issuer": {"url": url, "audiences": ["kubernetes"]},
            "claimMappings": {
                "username": {"claim": "email", "prefix": "corp:"}, "groups": {"claim": "groups", "prefix": "corp:"},
            },
        })
    }

    fn pin(jwt: &[Value]) -> Pin {
        Pin { jwt: guarded(jwt), ..Pin::default() }
    }

    fn urls(all: &[Value]) -> Vec<&str> {
        all.iter().map(|one| text(&one["issuer"], "url")).collect()
    }

    #[test]
    fn what_kube_apiserver_would_refuse_is_refused_with_its_place_in_the_values() {
        let with = |change: fn(&mut Value)| {
            let mut one = issuer("https://login.example.com");
            change(&mut one);
            vec![issuer("https://other.example.com"), one]
        };
        assert_eq!(refusal(&with(|_| ())), None);
        assert_eq!(refusal(&[]), None);
        let long = |one: &mut Value| {
            one["userValidationRules"] = json!([{"expression": format!("user.uid != '{}'", "a".repeat(33_000))}]);
        };
        for (change, says) in [
            (
                (|one| one["issuer"]["url"] = json!("http://a")) as fn(&mut Value),
                "authentication.jwt[1].issuer.url: has to be a URL that begins with https://",
            ),
            (
                |one| one["issuer"]["url"] = json!("https://other.example.com"),
                "authentication.jwt[1].issuer.url: another authenticator has the same one",
            ),
            (|one| one["issuers"] = json!(1), "authentication.jwt[1].issuers: is no field."),
            (
                |one| one["claimMappings"]["username"] = json!({"expression": "claims.sub +"}),
                "authentication.jwt[1].claimMappings.username.expression: does not compile",
            ),
            (
                |one| one["claimMappings"]["groups"]["prefix"] = json!("system:"),
                "authentication.jwt[1].claimMappings.groups.prefix: begins with system:, and such names are",
            ),
            (
                |one| one["claimMappings"]["username"]["prefix"] = json!("access:corp:"),
                "authentication.jwt[1].claimMappings.username.prefix: begins with access:,",
            ),
            (
                |one| one["issuer"]["certificateAuthority"] = json!("-----BEGIN PRIVATE KEY-----"),
                "authentication.jwt: it has a private key",
            ),
            (long, "authentication.jwt: it is longer than 32 KiB"),
        ] {
            let said = refusal(&with(change)).unwrap_or_default();
            assert!(said.starts_with(says), "{said}");
        }
        let many: Vec<Value> = (0..17).map(|n| issuer(&format!("https://{n}.example.com"))).collect();
        assert_eq!(refusal(&many).as_deref(), Some("authentication.jwt: it has 17 issuers, and 16 may be. List fewer"));
    }

    /// The rules compile, as all of an authenticator does, and none is there twice.
    #[test]
    fn no_issuer_gives_a_name_of_kubernetes_or_of_berths_own() {
        let once = guarded(&[issuer("https://login.example.com")]);
        let rules = json!([
            {"expression": "!user.username.matches('^(system|berth|kubeadm|access):')", "message": "the name is of Kubernetes' or Berth's own"},
            {
                "expression": "user.groups.all(group, !group.matches('^(system|berth|kubeadm|access):'))",
                "message": "a group is of Kubernetes' or Berth's own",
            },
        ]);
        assert_eq!(once[0]["userValidationRules"], rules);
        assert_eq!(faults(&once, &[]), []);
        assert_eq!(guarded(&once), once);
        let mut own = issuer("https://login.example.com");
        own["userValidationRules"] = json!([{"expression": "user.username != ''"}]);
        let with = guarded(&[own]);
        assert_eq!(with[0]["userValidationRules"].as_array().map(Vec::len), Some(3));
        assert_eq!(with[0]["userValidationRules"][0], json!({"expression": "user.username != ''"}));
    }

    #[test]
    fn what_a_tenant_has_of_its_own_goes_first_and_is_left_as_it_is() {
        let mut discovered = issuer("https://discovered.example.com");
        discovered["issuer"]["discoveryURL"] = json!("https://keys.example.com");
        let platform = ["https://own.example.com", "https://login.example.com", "https://sa.example.com"].map(issuer);
        let pin = pin(&[&platform[..], &[discovered.clone()]].concat());
        let service_accounts = ["https://a.example.com", "https://sa.example.com"].map(str::to_owned);
        let none = of_tenant(&[], &service_accounts, &pin);
        assert_eq!(
            urls(&none),
            ["https://own.example.com", "https://login.example.com", "https://discovered.example.com"]
        );
        let mut own = issuer("https://own.example.com");
        own["claimMappings"]["username"]["prefix"] = json!("team:");
        let mut other = issuer("https://other.example.com");
        other["issuer"]["discoveryURL"] = json!("https://keys.example.com");
        let all = of_tenant(&[own.clone(), other.clone()], &service_accounts, &pin);
        assert_eq!(urls(&all), ["https://own.example.com", "https://other.example.com", "https://login.example.com"]);
        assert_eq!(all[..2], [own, other]);
        assert_eq!(faults(&all, &service_accounts), [], "kube-apiserver starts with it");
    }

    #[test]
    fn with_the_tenants_own_there_are_no_more_than_kube_apiserver_takes() {
        let own = |count: usize| (0..count).map(|n| issuer(&format!("https://{n}.example.com"))).collect::<Vec<_>>();
        let pin = pin(&["https://0.example.com", "https://login.example.com", "https://b.example.com"].map(issuer));
        assert_eq!(fit(&own(62), &[], &pin), Ok(()), "one is the tenant's own");
        let said = "spec.apiServer.authentication.jwt: with 2 of the platform's (the chart's authentication.jwt) there are 65 issuers, and 64 may be. List fewer";
        assert_eq!(fit(&own(63), &[], &pin), Err(said.to_owned()));
    }
}
