//! What a condition tells of the end of a container's log, which kubelet keeps as its message.
//!
//! Whoever may read the `Cluster` reads it there, and a log may hold what is for others. So only the sentence passes with which a component
//! ends, only of kinds that are about its command line, its files or its surroundings, and only if nothing in it looks like a secret: then
//! all of it stays in the log.

use berth_api::text::printable;
use berth_render::Binary;
use serde_json::Value;

/// The longest, in bytes.
const LONGEST: usize = 300;

/// What a component complains of before it has read any file: its command line, which is in the spec.
const OF_FLAGS: [&str; 4] =
    ["Error: unknown flag: ", "Error: invalid argument ", "flag provided but not defined: ", "invalid value "];

/// How the last error begins of which the text is from the spec, or of Kubernetes alone.
const BEGINS: [&str; 15] = [
    "--",
    "[--",
    "enable-admission-plugins plugin ",
    "disable-admission-plugins plugin ",
    "error creating storage factory: context deadline exceeded",
    "failed to create listener: ",
    "failed to load authentication configuration from file ",
    "failed to read tracing config: unable to read ",
    "initializing audit webhook: ",
    "invalid authentication configuration: ",
    "issuer.url: ",
    "leader election lost",
    "loading audit policy file: failed to read ",
    "unable to find suitable network address",
    "unknown api groups ",
];

/// How an error of the operating system ends: what stands before it is a path or an address.
const ENDS: [&str; 10] = [
    "no such file or directory",
    "permission denied",
    "is a directory",
    "connection refused",
    "no route to host",
    "address already in use",
    "cannot assign requested address",
    "no space left on device",
    "i/o timeout",
    "is not in the list of known controllers",
];

/// What etcd says as it ends, where an error follows.
const OF_ETCD: [&str; 4] = ["discovery failed", "listener failed", "failed to verify flags", "bootstrap failed"];

/// The sentence of a container's log that says why it ended, if it is fit to be told: one line of at most 300 bytes.
pub(super) fn last_words(container: &str, log: &str) -> Option<String> {
    let is = |binary: &Binary| binary.name() == container;
    let of_flags = || log.lines().find(|line| OF_FLAGS.iter().any(|of| line.starts_with(of))).map(str::to_owned);
    let said = match Binary::ALL.iter().find(|binary| is(binary)) {
        Some(Binary::Etcd) => of_etcd(log).or_else(of_flags),
        Some(_) => of_kubernetes(log).or_else(of_flags),
        None => of_flags(),
    }?;
    let said = printable(said.trim());
    (!looks_secret(&said)).then(|| cut(&said))
}

/// `E1128 12:36:53.619435 9183 run.go:72] "command failed" err="…"`; of several lines `err=<`, the lines, and `>`.
fn of_kubernetes(log: &str) -> Option<String> {
    const MARK: &str = "] \"command failed\" err=";
    let begins = log.rfind(MARK)?;
    let rest = log.get(begins + MARK.len()..)?;
    let said = match rest.strip_prefix("<\n") {
        Some(lines) => {
            let lines = lines.lines().take_while(|line| line.trim_end() != " >").map(str::trim);
            lines.collect::<Vec<_>>().join(" ")
        }
        None => serde_json::from_str(rest.lines().next()?.trim_end()).ok()?,
    };
    is_fit(&said).then_some(said)
}

/// The last line that is fatal, or of flags: `{"level":"fatal","msg":"…","error":"…"}`.
fn of_etcd(log: &str) -> Option<String> {
    let mut lines = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of = |line: Value| {
        let (said, error) = (line["msg"].as_str()?, line["error"].as_str()?);
        (OF_ETCD.contains(&said) && is_fit(error)).then(|| format!("{said}: {error}"))
    };
    lines.find_map(of)
}

fn is_fit(error: &str) -> bool {
    BEGINS.iter().any(|begins| error.starts_with(begins)) || ENDS.iter().any(|ends| error.trim_end().ends_with(ends))
}

/// Whether anything in it may be a key, a token or a password. It errs on that side.
fn looks_secret(text: &str) -> bool {
    let lower = text.to_lowercase();
    let named = ["password", "passwd", "pwd", "secret", "token", "apikey", "api-key", "api_key", "private"];
    let follows = |rest: &str| {
        // `client_secret":"x"`, `--token=x`, `token: x`, but not `JWT token authenticator`.
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_\"'\\]".contains(c));
        let rest = rest.trim_start();
        rest.starts_with(['=', ':'])
    };
    let has_named =
        named.iter().any(|name| lower.match_indices(name).any(|(at, _)| follows(&lower[at + name.len()..])));
    let schemes = ["bearer ", "basic ", "authorization", "-----begin", "eyj"];
    has_named
        || schemes.iter().any(|scheme| lower.contains(scheme))
        || text
            .split("://")
            .skip(1)
            .any(|rest| rest.split(['/', ' ', '"']).next().is_some_and(|host| host.contains('@')))
        || text.split(|c: char| !(c.is_ascii_alphanumeric() || "+_=".contains(c))).any(is_random)
}

/// As long as a key, and not a word: digits among letters, or capitals among others more than words have.
fn is_random(word: &str) -> bool {
    let count = |is: fn(&char) -> bool| word.chars().filter(is).count();
    let (digits, letters) = (count(char::is_ascii_digit), count(char::is_ascii_alphabetic));
    let (upper, lower) = (count(char::is_ascii_uppercase), count(char::is_ascii_lowercase));
    word.len() >= 16
        && (digits > 0 && letters > 0 || digits >= 16 || word.ends_with('=') || upper > 4 && upper * 2 > lower)
}

fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST - '…'.len_utf8())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: &str) -> String {
        format!(
            "I1128 12:00:00 1 x.go:1] starts\nE1128 12:36:53.619435    9183 run.go:72] \"command failed\" err={error}\n"
        )
    }

    const JWT: &str = "<\n\tinvalid authentication configuration: [jwt[0].issuer.url: Invalid value: \"http://dex.example.com\": URL scheme must be https, jwt[1].claimMappings.username.expression: Invalid value: \"claims.a +\": compilation failed: ERROR: <input>:1:11: Syntax error\n\t | claims.a +\n\t | ..........^]\n >";

    /// As the real binaries say it.
    #[test]
    fn what_ends_a_component_is_told() {
        let missing = r#""initializing audit webhook: stat /etc/x: no such file or directory""#;
        for (container, log, told) in [
            ("kube-apiserver", "Usage: …\n\nError: unknown flag: --nope\n".to_owned(), "Error: unknown flag: --nope"),
            ("kube-apiserver", failed(missing), "initializing audit webhook: stat /etc/x: no such file or directory"),
            (
                "kube-apiserver",
                failed(r#""--goaway-chance can not be less than 0 or greater than 0.02""#),
                "--goaway-chance can not be less than 0 or greater than 0.02",
            ),
            (
                "kube-apiserver",
                failed(r#""enable-admission-plugins plugin \"Foo\" is unknown""#),
                "enable-admission-plugins plugin \"Foo\" is unknown",
            ),
            (
                "kube-apiserver",
                failed(r#""failed to load authentication configuration from file \"/a\": strict decoding error: unknown field \"jwt[0].claimMapping\"""#),
                "failed to load authentication configuration from file \"/a\": strict decoding error: unknown field \"jwt[0].claimMapping\"",
            ),
            (
                "kube-controller-manager",
                failed(r#""\"foo\" is not in the list of known controllers""#),
                "\"foo\" is not in the list of known controllers",
            ),
            ("kube-scheduler", failed(r#""open /x: no such file or directory""#), "open /x: no such file or directory"),
            (
                "etcd",
                "{\"level\":\"info\",\"msg\":\"closed etcd server\"}\n{\"level\":\"fatal\",\"ts\":\"2026-11-28T13:01:30Z\",\"msg\":\"discovery failed\",\"error\":\"cannot access data directory: mkdir /data: no space left on device\"}\n".to_owned(),
                "discovery failed: cannot access data directory: mkdir /data: no space left on device",
            ),
            (
                "etcd",
                "{\"level\":\"warn\",\"msg\":\"failed to verify flags\",\"error\":\"--election-timeout[500ms] should be at least as 5 times as --heartbeat-interval[1000ms]\"}".to_owned(),
                "failed to verify flags: --election-timeout[500ms] should be at least as 5 times as --heartbeat-interval[1000ms]",
            ),
        ] {
            assert_eq!(last_words(container, &log).as_deref(), Some(told));
        }
        let jwt = last_words("kube-apiserver", &failed(JWT)).unwrap();
        assert!(jwt.starts_with("invalid authentication configuration: [jwt[0].issuer.url: Invalid value: "), "{jwt}");
        assert!(jwt.ends_with("| ..........^]") && !jwt.contains(char::is_control), "{jwt}");
        let long = last_words("kube-apiserver", &failed(&JWT.replace("claims.a", &"claims.ä".repeat(50)))).unwrap();
        assert!(long.len() <= 300 && long.len() > 290 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn what_is_not_of_a_kind_that_is_told_stays_in_the_log() {
        for (container, log) in [
            (
                "kube-apiserver",
                failed(r#""error while parsing file: resources[0].providers[0].aescbc.keys[0]: c2VjcmV0""#),
            ),
            ("kube-apiserver", failed(r#""panic: runtime error""#)),
            ("kube-apiserver", failed("not quoted")),
            ("kube-apiserver", "said after Error: unknown flag: in the middle".to_owned()),
            ("kube-apiserver", "[core] open /x: no such file or directory".to_owned()),
            ("somebody-elses", failed(r#""open /x: no such file or directory""#)),
            ("coredns", "plugin/errors: 2 acme.example.com. A: no such file or directory".to_owned()),
            (
                "etcd",
                "{\"level\":\"fatal\",\"msg\":\"panic\",\"error\":\"/registry/secrets/a: no such file or directory\"}"
                    .to_owned(),
            ),
            ("etcd", failed(r#""open /x: no such file or directory""#)),
            ("kube-apiserver", String::new()),
        ] {
            assert_eq!(last_words(container, &log), None, "{container}: {log}");
        }
    }

    #[test]
    fn no_secret_is_told_whatever_the_sentence_is() {
        let secrets = [
            "-----BEGIN EC PRIVATE KEY----- MHcCAQEE",
            "-----BEGIN CERTIFICATE-----",
            "MHcCAQEEIHnTSyGk3PkR1uEJ",
            "c2VjcmV0LXRoYXQtaXMtbG9uZw==",
            "eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
            "Authorization: Bearer abc",
            "bearer hunter2",
            "Basic dXNlcjpwYXNz",
            "token=abc",
            "--token=abc",
            "token: abc",
            "\"client_secret\":\"abc\"",
            "password: hunter2",
            "passwd=hunter2",
            "PASSWORD=hunter2",
            "secret: c2VjcmV0",
            "api-key: abc",
            "https://me:hunter2@dex.example.com/a",
            "postgres://me:hunter2@db/x",
            "abcdef.0123456789abcdef",
            "0123456789abcdef0123456789abcdef",
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMIbPxRfiCYEXAMPLEKEY",
        ];
        for secret in secrets {
            let quoted = |text: String| serde_json::to_string(&text).unwrap();
            for (container, log) in [
                ("kube-apiserver", failed(&quoted(format!("invalid authentication configuration: {secret} is wrong")))),
                ("kube-apiserver", failed(&format!("<\n\t--flag is wrong:\n\t{secret}\n >"))),
                ("kube-scheduler", failed(&quoted(format!("open {secret}: no such file or directory")))),
                (
                    "kube-controller-manager",
                    format!("Error: invalid argument {} for \"--x\" flag", quoted(secret.to_owned())),
                ),
                (
                    "etcd",
                    format!(
                        "{{\"msg\":\"discovery failed\",\"error\":{}}}",
                        quoted(format!("{secret}: permission denied"))
                    ),
                ),
                ("vpc", format!("Error: unknown flag: --{secret}")),
            ] {
                assert_eq!(last_words(container, &log), None, "{log}");
            }
        }
        // Nor are words taken for one.
        for word in [
            "StructuredAuthenticationConfiguration",
            "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
            "the JWT token authenticator",
            "kube-apiserver-0.acme-0a1b2c3d.svc:2379",
        ] {
            assert!(!looks_secret(word), "{word}");
        }
    }
}
