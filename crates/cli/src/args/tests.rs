//! Lines that are taken, and that are not.

use super::*;
use clap::CommandFactory;
use clap::error::ErrorKind;

fn parse(line: &str) -> Result<Args, ErrorKind> {
    Args::try_parse_from(std::iter::once("kubectl-berth").chain(line.split_whitespace())).map_err(|e| e.kind())
}

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

/// As they stand: what a person has to choose is a word in capitals.
#[test]
fn what_conditions_tell_to_type_is_taken() {
    let objects = concat!(
        include_str!("../../../plan-cluster/src/tests/situations.jsonl"),
        include_str!("../../../plan-etcd/src/tests/situations.jsonl"),
        include_str!("../../../plan-backup/src/tests/situations.jsonl"),
    );
    let mut seen = 0;
    for line in objects.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        for message in conditions.iter().filter_map(|c| c["message"].as_str()) {
            for text in message.split("kubectl berth ").skip(1) {
                let ends = [". ", ")", "`", "; ", " && "].iter().filter_map(|end| text.find(end)).min();
                let command = text[..ends.unwrap_or(text.len())].trim_end_matches('.');
                parse(command).unwrap_or_else(|e| panic!("{e}: kubectl berth {command}: {message}"));
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn flags_of_the_meta_cluster_go_before_and_after_the_verb() {
    for line in ["-n team-a --context c status acme", "status acme -n team-a --context c"] {
        let args = parse(line).unwrap();
        assert_eq!(args.meta.namespace.as_deref(), Some("team-a"));
        assert_eq!(args.meta.context.as_deref(), Some("c"));
    }
}

#[test]
fn what_makes_no_sense_together_is_wrong_usage() {
    assert_eq!(parse("status acme -A").unwrap_err(), ErrorKind::ArgumentConflict);
    assert_eq!(parse("status -A -n team-a").unwrap_err(), ErrorKind::ArgumentConflict);
    assert_eq!(parse("kubeconfig acme --out a --merge").unwrap_err(), ErrorKind::ArgumentConflict);
    assert_eq!(parse("kubeconfig acme --use").unwrap_err(), ErrorKind::MissingRequiredArgument);
    assert_eq!(parse("kubeconfig acme --force").unwrap_err(), ErrorKind::MissingRequiredArgument);
    assert!(parse("kubeconfig acme --force --out a").is_ok() && parse("kubeconfig acme --force --merge").is_ok());
    assert_eq!(parse("plan").unwrap_err(), ErrorKind::MissingRequiredArgument);
    assert_eq!(parse("render").unwrap_err(), ErrorKind::MissingRequiredArgument);
    assert_eq!(parse("completion tcsh").unwrap_err(), ErrorKind::InvalidValue);
    assert_eq!(parse("kubeconfig acme --oidc-client a").unwrap_err(), ErrorKind::MissingRequiredArgument);
    assert!(parse("kubeconfig acme --oidc").is_ok() && parse("kubeconfig acme --oidc=https://idp.example.com").is_ok());
    assert_eq!(parse("kubeconfig acme --oidc --merge").unwrap_err(), ErrorKind::ArgumentConflict);
    assert_eq!(parse("connect acme get pods").unwrap_err(), ErrorKind::UnknownArgument);
    assert!(parse("connect acme").is_ok() && parse("connect acme -n team-a -- kubectl get pods -A").is_ok());
    assert!(parse("plan -f new.yaml").is_ok() && parse("plan acme").is_ok());
    assert!(parse("render -f a.yaml --agent-delivery imagevolume -o json").is_ok());
}
