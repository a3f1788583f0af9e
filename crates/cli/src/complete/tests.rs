use super::*;

/// The answer to a line; a space at its end begins a new word.
fn answer(line: &str) -> Answer {
    let mut command = Args::command();
    command.build();
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let last = words.pop().unwrap_or_default();
    Place::after(&command, &words).complete(&last)
}

/// Its words.
fn offered(line: &str) -> Vec<String> {
    answer(line).candidates.into_iter().map(|c| c.word).collect()
}

fn wanted(line: &str) -> Wants {
    answer(line).wants
}

#[test]
fn subcommands_come_first_and_say_what_they_do() {
    let all = [
        "status",
        "kubeconfig",
        "login",
        "connect",
        "join-command",
        "plan",
        "upgrade",
        "rollouts",
        "history",
        "diff",
        "rollback",
        "render",
        "images",
        "adopt",
        "sleep",
        "wake",
        "etcd",
        "access",
        "apps",
        "completion",
        "help",
    ];
    assert_eq!(offered(""), all);
    assert_eq!(offered("--context c -n team-a "), all);
    assert_eq!(offered("help "), all);
    assert_eq!(text(&answer("sta")), "status\tShow the state of Clusters, what is wrong, and what to do next\n:4\n");
    assert_eq!(offered("no"), Vec::<String>::new());
}

#[test]
fn options_are_those_of_the_verb_and_the_meta_cluster_that_are_not_there_yet() {
    assert_eq!(offered("status --o"), ["--operator-namespace", "--output"]);
    assert_eq!(offered("status -o json --o"), ["--operator-namespace"]);
    assert_eq!(offered("status --operator-namespace=b --o"), ["--output"]);
    assert_eq!(offered("kubeconfig acme --kube"), ["--kubeconfig-file", "--kubeconfig"]);
    assert_eq!(offered("adopt acme -y -"), ["--kubeconfig", "--context", "--namespace", "--help"]);
    assert_eq!(offered("--v"), ["--version"]);
    assert_eq!(offered("status --v"), Vec::<String>::new());
    let merge = "--merge\tMerge it into your kubeconfig: the first file of $KUBECONFIG, or ~/.kube/config\n:4\n";
    assert_eq!(text(&answer("kubeconfig --me")), merge);
}

#[test]
fn values_follow_their_option() {
    for line in ["status --output ", "status -o ", "status acme -A -o ", "status -n team-a --output=", "plan -o="] {
        assert_eq!(offered(line), ["table", "json", "yaml"], "{line}");
    }
    assert_eq!(text(&answer("status --output=js")), "json\tFor programs\n:4\n");
    assert_eq!(offered("status -Ao js"), ["json"]);
    assert_eq!(offered("render --agent-delivery "), ["InitContainer", "ImageVolume"]);
    assert_eq!(offered("completion "), ["bash", "elvish", "fish", "powershell", "zsh", "kubectl"]);
    assert_eq!(offered("completion bash "), Vec::<String>::new());
    // What looks like an option is a value here.
    assert_eq!(offered("status -n --output "), Vec::<String>::new());
}

#[test]
fn files_are_the_shells_to_complete() {
    for line in ["--kubeconfig ", "plan -f ", "plan --file=a", "render --operator-config x", "kubeconfig a --out "] {
        assert_eq!(text(&answer(line)), ":0\n", "{line}");
    }
}

#[test]
fn clusters_are_wanted_where_a_verb_takes_a_name() {
    for verb in ["status", "kubeconfig", "plan", "adopt"] {
        assert_eq!(wanted(&format!("-n team-a {verb} a")), Wants::Cluster);
        assert_eq!(wanted(&format!("{verb} --context c -- ")), Wants::Cluster);
        assert_eq!(wanted(&format!("{verb} acme ")), Wants::Nothing);
    }
    for line in ["render ", "completion ", "kubeconfig acme --context-name ", "status -n "] {
        assert_eq!(wanted(line), Wants::Nothing, "{line}");
    }
}

#[test]
fn what_is_unknown_completes_to_nothing() {
    for line in ["nosuch ", "nosuch --o", "status --nosuch=", "status --all-namespaces=", "-- ", "help status --o"] {
        assert_eq!(answer(line), Answer::default(), "{line}");
    }
    assert_eq!(offered("status --nosuch -o y"), ["yaml"]);
}

#[test]
fn the_meta_cluster_is_the_one_that_the_words_name() {
    let mut command = Args::command();
    command.build();
    for line in
        ["-n team-a --kubeconfig f status", "status -nteam-a --kubeconfig=f", "status -n x -n team-a --kubeconfig f"]
    {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let meta = meta(&Place::after(&command, &words));
        assert_eq!((meta.namespace.as_deref(), meta.context), (Some("team-a"), None));
        assert_eq!(meta.kubeconfig, Some("f".into()));
    }
}
