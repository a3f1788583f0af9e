//! Commands in messages, as they are typed: which there are, and whether a shell and kubectl take each as it stands.

use serde_json::Value;

/// What a person has to choose: nobody else knows it.
const CHOSEN: [&str; 3] = ["NAME", "SECRET", "STORE"];

/// The commands in a text, in order. One ends with its sentence, or with the bracket that it is in.
pub(super) fn commands(text: &str) -> Vec<&str> {
    let mut all = vec![];
    let mut rest = text;
    while let Some(start) = [rest.find("kubectl "), rest.find("echo '{")].into_iter().flatten().min() {
        rest = &rest[start..];
        let end = end(rest);
        all.push(rest[..end].trim_end());
        rest = &rest[end..];
    }
    all
}

fn end(text: &str) -> usize {
    let (mut quoted, mut depth) = (false, 0_i32);
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ')' | '`' | ';' => return at,
            '.' | ',' if after.is_empty() || after.starts_with(' ') => return at,
            _ => {}
        }
    }
    text.len()
}

/// Its words, without quotes; what is within `$()` is one.
pub(super) fn words(command: &str) -> Vec<String> {
    let (mut all, mut word, mut quoted, mut depth) = (vec![], String::new(), false, 0);
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted && depth == 0 => all.push(std::mem::take(&mut word)),
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            c => word.push(c),
        }
    }
    assert!(!quoted && depth == 0, "a shell waits for more: {command}");
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// Single commands of a line, by its words.
pub(super) fn parts(command: &str) -> Vec<Vec<String>> {
    words(command).split(|word| word == "&&" || word == "|").map(<[String]>::to_vec).collect()
}

/// Why it cannot be typed as it stands.
pub(super) fn wrong(command: &str) -> Option<String> {
    let told = parts(command).iter().find_map(|part| {
        let open = part.iter().find(|word| is_open(word));
        if let Some(open) = open {
            return Some(format!("{open} is to be filled in"));
        }
        match part.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["kubectl", rest @ ..] | ["xargs", "kubectl", rest @ ..] => kubectl(rest),
            ["echo", object] => serde_json::from_str::<Value>(object).err().map(|e| format!("{object}: {e}")),
            other => Some(format!("{other:?} is no command")),
        }
    });
    told.map(|why| format!("{command}: {why}"))
}

fn is_open(word: &str) -> bool {
    let has_letter = word.chars().any(|c| c.is_ascii_uppercase());
    let is_name = word.len() > 1 && has_letter && word.chars().all(|c| c.is_ascii_uppercase() || c == '-' || c == '_');
    (is_name && !CHOSEN.contains(&word)) || (word.starts_with('<') && word.len() > 1) || word.contains('…')
}

fn kubectl(words: &[&str]) -> Option<String> {
    let mut words: Vec<&str> = words.to_vec();
    let namespace = words.iter().position(|w| *w == "-n").map(|at| words.drain(at..at + 2).collect::<Vec<_>>());
    let is_cluster_wide =
        |kind: &str| ["pv", "persistentvolume", "namespace", "node", "gatewayclasses"].contains(&kind);
    let verb = *words.first()?;
    match (verb, words.get(1).copied()) {
        // `kubectl berth` has a test of its own for these.
        ("berth", Some(_)) | ("create", Some("-f")) => None,
        // What a person knows alone has to be filled in: the registry, and who may pull there.
        ("create", Some("secret")) => {
            let has = |flag: &str| words.iter().any(|w| w.starts_with(flag));
            let of_registry = &["docker-registry", "--docker-server=", "--docker-username=", "--docker-password="][..];
            let all = if has("generic") { &["--type=", "--from-file="] } else { of_registry };
            let lacks = all.iter().find(|flag| !has(flag)).map(|flag| format!("it lacks {flag}"));
            lacks.or_else(|| namespace.is_none().then(|| "a Secret needs a namespace".into()))
        }
        ("exec", Some(_)) => {
            let has = |flag: &str| words.iter().any(|w| w.starts_with(flag));
            let all = ["-c", "--", "etcdctl", "--endpoints=", "--cacert=", "--cert=", "--key="];
            all.iter().find(|flag| !has(flag)).map(|flag| format!("it lacks {flag}"))
        }
        ("get" | "describe" | "logs" | "delete" | "label" | "annotate" | "patch", Some(kind)) => {
            let kind = if kind == "--overwrite" { *words.get(2)? } else { kind };
            let patch = words.iter().position(|w| *w == "-p").and_then(|at| words.get(at + 1));
            if !is_cluster_wide(kind) && namespace.is_none() {
                Some(format!("{kind} needs a namespace"))
            } else if verb == "patch" && patch.is_none_or(|patch| serde_json::from_str::<Value>(patch).is_err()) {
                Some("it has no patch".into())
            } else if verb == "patch" && kind.contains("etcd") && !words.contains(&"--type=merge") {
                Some("of a custom resource only --type=merge is known".into())
            } else if words.len() < 3 && !kind.contains('/') && verb != "get" && verb != "logs" {
                Some(format!("it says not which {kind}"))
            } else {
                None
            }
        }
        _ => Some(format!("{verb} is not known here")),
    }
}

#[test]
fn commands_are_found_and_judged() {
    let text = "a. To see: kubectl berth rollouts. Or (kubectl -n n get pods) b: echo '{\"a\": \"x. Y\"}' | kubectl -n n create -f -. Or kubectl patch pv $(kubectl -n n get pvc a -o jsonpath='{.x}') -p '{}' && kubectl delete pod x; c";
    let all = commands(text);
    assert_eq!(all[0], "kubectl berth rollouts");
    assert_eq!(all[1], "kubectl -n n get pods");
    assert_eq!(all[2], "echo '{\"a\": \"x. Y\"}' | kubectl -n n create -f -");
    assert_eq!(all[3], "kubectl patch pv $(kubectl -n n get pvc a -o jsonpath='{.x}') -p '{}' && kubectl delete pod x");
    assert_eq!(all.len(), 4);
    assert!(all[..3].iter().all(|c| wrong(c).is_none()));
    for (command, why) in [
        ("kubectl delete pod x", "needs a namespace"),
        ("kubectl -n n delete pod", "says not which"),
        ("kubectl -n n delete pod POD", "filled in"),
        ("kubectl -n n patch etcdrestore x -p '{}'", "--type=merge"),
        ("kubectl -n n patch etcdrestore x --type=merge -p '{'", "no patch"),
        ("kubectl -n n exec a -c etcd -- etcdctl alarm disarm", "lacks --endpoints"),
        ("kubectl frob x", "not known"),
        ("rm -rf x", "no command"),
    ] {
        let said = wrong(command).unwrap_or_default();
        assert!(said.contains(why), "{command}: {said}");
    }
}
