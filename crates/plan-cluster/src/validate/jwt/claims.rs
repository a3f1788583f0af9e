//! What an authenticator makes of claims.

use super::cel::{Expression, Gives, Variable, compile};
use super::fault::Fault;
use super::shape::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;

const BOTH: &str = "has claim and expression. Remove one of the two";

/// Expressions that have been seen use of the email, and of whether it is verified.
#[derive(Default)]
struct Email {
    is_user: bool,
    is_verified: bool,
}

pub(super) fn check(one: &Value, path: &str, faults: &mut Vec<Fault>) {
    let mut email = Email::default();
    validation(one, path, &mut email, faults);
    mappings(&one["claimMappings"], &format!("{path}.claimMappings"), &mut email, faults);
    users(one, path, faults);
}

/// `claimValidationRules`.
fn validation(one: &Value, path: &str, email: &mut Email, faults: &mut Vec<Fault>) {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    for (at, rule) in list(one, "claimValidationRules").iter().enumerate() {
        let path = format!("{path}.claimValidationRules[{at}]");
        let mut fault = |field: &str, why: &str| faults.push(Fault::new(format!("{path}{field}"), why));
        match (text(rule, "claim"), text(rule, "expression")) {
            ("", "") => fault("", "has neither claim nor expression. Set one of the two"),
            (claim, "") => {
                if !text(rule, "message").is_empty() {
                    fault(".message", "goes with expression, not with claim. Remove it");
                }
                if !claims.insert(claim) {
                    fault(".claim", "has a rule already. Remove one of the two");
                }
            }
            ("", expression) => {
                if !text(rule, "requiredValue").is_empty() {
                    fault(".requiredValue", "goes with claim, not with expression. Remove it");
                }
                if expressions.insert(expression) {
                    let at = format!("{path}.expression");
                    let found = compiled(expression, Variable::Claims, Gives::Bool, at, faults);
                    email.is_verified |= found.is_some_and(|found| found.selects("email_verified"));
                } else {
                    fault(".expression", "is listed twice");
                }
            }
            _ => fault("", BOTH),
        }
    }
}

/// `claimMappings`.
fn mappings(all: &Value, path: &str, email: &mut Email, faults: &mut Vec<Fault>) {
    let user = mapping(&all["username"], &format!("{path}.username"), true, faults);
    if let Some(user) = user {
        email.is_user = user.selects("email");
        email.is_verified |= user.selects("email_verified");
    }
    mapping(&all["groups"], &format!("{path}.groups"), false, faults);
    let (uid, at) = (&all["uid"], format!("{path}.uid"));
    match (text(uid, "claim"), text(uid, "expression")) {
        (_, "") => {}
        ("", expression) => {
            compiled(expression, Variable::Claims, Gives::Any, format!("{at}.expression"), faults);
        }
        _ => faults.push(Fault::new(at, BOTH)),
    }
    let mut keys = BTreeSet::new();
    for (at, extra) in list(all, "extra").iter().enumerate() {
        let (path, key) = (format!("{path}.extra[{at}]"), text(extra, "key"));
        if let Some(why) = wrong_key(key) {
            faults.push(Fault::new(format!("{path}.key"), why));
        }
        if !keys.insert(key) {
            faults.push(Fault::new(format!("{path}.key"), "is listed twice"));
            continue;
        }
        let (expression, at) = (text(extra, "valueExpression"), format!("{path}.valueExpression"));
        if expression.is_empty() {
            faults.push(Fault::new(at, "is missing"));
            continue;
        }
        let found = compiled(expression, Variable::Claims, Gives::Any, at, faults);
        email.is_verified |= found.is_some_and(|found| found.selects("email_verified"));
    }
    if email.is_user && !email.is_verified {
        faults.push(Fault::new(
            format!("{path}.username.expression"),
            "uses claims.email, which anybody may claim. Use claims.email_verified, too: there, in an expression of extra, or in claimValidationRules",
        ));
    }
}

/// The name of a user, or groups. None: it is of no expression, or of none that compiles.
fn mapping(of: &Value, path: &str, is_needed: bool, faults: &mut Vec<Fault>) -> Option<Expression> {
    let has_prefix = of["prefix"].is_string();
    match (text(of, "claim"), text(of, "expression")) {
        ("", "") => {
            faults.extend(is_needed.then(|| Fault::new(path, "has neither claim nor expression. Set one of the two")));
            None
        }
        ("", expression) => {
            if has_prefix {
                faults.push(Fault::new(format!("{path}.prefix"), "goes with claim, not with expression. Remove it"));
            }
            compiled(expression, Variable::Claims, Gives::Any, format!("{path}.expression"), faults)
        }
        (_, "") => {
            let why = "is missing. Set it, to \"\" for none";
            faults.extend((!has_prefix).then(|| Fault::new(format!("{path}.prefix"), why)));
            None
        }
        _ => {
            faults.push(Fault::new(path, BOTH));
            None
        }
    }
}

/// `userValidationRules`.
fn users(one: &Value, path: &str, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for (at, rule) in list(one, "userValidationRules").iter().enumerate() {
        let (expression, at) = (text(rule, "expression"), format!("{path}.userValidationRules[{at}].expression"));
        if expression.is_empty() {
            faults.push(Fault::new(at, "is missing"));
        } else if !seen.insert(expression) {
            faults.push(Fault::new(at, "is listed twice"));
        } else {
            compiled(expression, Variable::User, Gives::Bool, at, faults);
        }
    }
}

fn compiled(
    expression: &str,
    variable: Variable,
    gives: Gives,
    at: String,
    faults: &mut Vec<Fault>,
) -> Option<Expression> {
    match compile(expression, variable, gives) {
        Ok(expression) => Some(expression),
        Err(why) => {
            faults.push(Fault::new(at, format!("does not compile: {why}")));
            None
        }
    }
}

/// What is wrong with the key of an extra attribute, which is a domain and a path.
fn wrong_key(key: &str) -> Option<&'static str> {
    let Some((domain, path)) = key.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return Some("has to be a domain and a path, such as example.com/team");
    };
    let label = |label: &str| {
        let ends = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = label.as_bytes();
        ends(bytes.first())
            && ends(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if domain.len() > 253 || !domain.split('.').all(label) || !path.bytes().all(in_path) {
        return Some("has to be a domain and a path, such as example.com/team");
    }
    if key != key.to_lowercase() {
        return Some("has to be in lower case");
    }
    let reserved = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|before| before.ends_with('.'));
    (reserved("kubernetes.io") || reserved("k8s.io")).then_some("is in a domain that Kubernetes keeps for itself")
}
