//! Authenticators, good and bad.

use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) what: String,
    pub(super) jwt: Value,
}

/// Where both differ, by a part of what a test says of it. In each, kube-apiserver has the last word.
pub(super) const KNOWN: &[&str] = &[
    // The older minor's library takes such a host.
    "v1.34.4 only Berth refuses: issuer.url \"https://a:b:80/\"",
    "v1.34.4 only Berth refuses: issuer.discoveryURL \"https://a:b:80/\"",
    // Constants that it evaluates as it compiles.
    ".matches('[')",
    ".matches('(')",
    "duration('an ho",
    "timestamp('2026-01-01T00:00:0Z')",
    "timestamp('2026-01-01T00:00:(0Z')",
    "bool('rue')",
    "double('1[5')",
];

fn base() -> Value {
    json!({
        "issuer": {"url": "https://login.example.com", "audiences": ["acme"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    })
}

/// The base, with another value at that place.
fn with(pointer: &str, value: Value) -> Case {
    let what = format!("{pointer} {value}");
    let mut jwt = base();
    set(&mut jwt, pointer, value);
    Case { what, jwt }
}

fn set(jwt: &mut Value, pointer: &str, value: Value) {
    let mut at = jwt;
    for name in pointer.split('.') {
        at = &mut at[name];
    }
    *at = value;
}

impl Case {
    /// Its issuer's URL becomes one that no other has, unless the URL is what it is about.
    pub(super) fn own_issuer(&mut self, at: usize) {
        let url = &mut self.jwt["issuer"]["url"];
        if *url == base()["issuer"]["url"] {
            *url = format!("https://login-{at}.example.com").into();
        }
    }
}

pub(super) const URLS: &[&str] = &[
    "",
    " ",
    "dex.example.com",
    "//dex.example.com/a",
    "/dex",
    "http://dex.example.com",
    "ftp://dex.example.com/a",
    "https://",
    "https:///path",
    "https:opaque",
    "https:/one",
    "HTTPS://upper.example.com",
    "https://UPPER.example.com",
    "https://dex.example.com:5556/dex",
    "https://dex.example.com:/dex",
    "https://dex.example.com:https/dex",
    "https://dex.example.com:99999999/dex",
    "https://a:b:80/",
    "https://me@dex.example.com",
    "https://@dex.example.com",
    "https://me:secret@dex.example.com/a",
    "https://a@b@dex.example.com/a",
    "https://dex.example.com/x?",
    "https://dex.example.com/x??",
    "https://dex.example.com/?a",
    "https://dex.example.com?a=b",
    "https://dex.example.com/y#",
    "https://dex.example.com/#x",
    "https://dex.example.com/z?#",
    "https://dex.example.com/a#?b",
    "https://dex example.com/a",
    "https://dex.example.com/a b",
    "https://dex.example.com/%20b",
    "https://dex.example.com/%zz",
    "https://dex.example.com/%a",
    "https://dex.example.com/%",
    "https://dex%20.example.com/",
    "https://dex%2e.example.com/",
    "https://dex.example.com/\u{7f}",
    "https://dex.example.com/\n",
    "https://dex.example.com/\t",
    "https://[fd00::1]/a",
    "https://[fd00::1]:8443/b",
    "https://[fd00::1",
    "https://fd00::1]",
    "https://[fd00::1]x/",
    "https://192.0.2.1:8443/a",
    "https://bücher.example.com/",
    "https://dex.example.com/ü",
    "https://a^b.example.com/",
    "https://a{b}.example.com/",
    "https://a_b.example.com/",
    "https://a\\b.example.com/",
    "https://a|b.example.com/",
    "https://a`b.example.com/",
    "https://a!b.example.com/",
    "https://*.example.com/",
    "://dex.example.com",
    "1https://dex.example.com",
    "ht tps://dex.example.com",
    "https://kubernetes.default.svc.cluster.local/",
];

/// Issuers that are no URL, or listed already.
pub(super) const ISSUERS: &[&str] = &[
    super::SERVICE_ACCOUNTS,
    "acme",
    "a/b:c",
    "a b:c",
    "urn:acme",
    "spiffe://acme/%zz",
    "spiffe://a b/c",
    "a:%zz",
    ":",
];

/// Those that have an issuer of service accounts, and one that has not.
pub(super) fn of_service_accounts() -> Vec<Case> {
    vec![with("issuer.url", json!(super::SERVICE_ACCOUNTS)), with("claimMappings.groups", json!(null))]
}

fn issuers() -> Vec<Case> {
    let mut all: Vec<Case> = URLS.iter().map(|url| with("issuer.url", json!(url))).collect();
    all.extend(URLS.iter().enumerate().map(|(at, url)| {
        let mut case = with("issuer.discoveryURL", json!(url));
        // The same at a second place would be another fault.
        if at % 2 == 1 {
            case.jwt["issuer"]["url"] = "https://login.example.com".into();
        }
        case
    }));
    for audiences in [
        json!(null),
        json!([]),
        json!([""]),
        json!([null]),
        json!(["a"]),
        json!(["a", "b"]),
        json!(["a", "a"]),
        json!(["a", ""]),
    ] {
        for policy in [json!(null), json!(""), json!("MatchAny"), json!("MatchAll"), json!("matchAny")] {
            let mut case = with("issuer.audiences", audiences.clone());
            case.jwt["issuer"]["audienceMatchPolicy"] = policy.clone();
            case.what = format!("{} and {policy}", case.what);
            all.push(case);
        }
    }
    for kind in ["", "cluster", "controlplane", "Cluster", "etcd"] {
        all.push(with("issuer.egressSelectorType", json!(kind)));
    }
    let good = ca();
    let cut = good.replacen("\nMI", "\nAA", 1);
    let two = format!("{good}{good}");
    let text = format!("a text before\n{good}and after\n");
    let half = good.split_at(good.len() / 2).0;
    let key = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    let with_key = format!("{key}{good}");
    let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
    let crlf = good.replace('\n', "\r\n");
    for (what, bundle) in [
        ("good", &*good),
        ("cut", &*cut),
        ("two", &*two),
        ("text", &*text),
        ("half", half),
        ("key", key),
        ("key and certificate", &*with_key),
        ("empty block", empty),
        ("empty", ""),
        ("no PEM", "x"),
        ("CRLF", &*crlf),
    ] {
        let case = with("issuer.certificateAuthority", json!(bundle));
        all.push(Case { what: format!("certificateAuthority: {what}"), ..case });
    }
    all
}

fn ca() -> String {
    use berth_pki::{CertSpec, Usage, issue_ca};
    let life = jiff::SignedDuration::from_hours(24);
    let now = jiff::Timestamp::now();
    issue_ca(&CertSpec::new("login", Usage::Ca, life), now).unwrap().cert_pem
}

fn mappings() -> Vec<Case> {
    let mut all = vec![];
    for place in ["username", "groups", "uid"] {
        for claim in [None, Some(""), Some("sub")] {
            for expression in [None, Some(""), Some("claims.sub"), Some("claims.")] {
                for prefix in [None, Some(""), Some("oidc:")] {
                    let mut of = json!({});
                    let prefix = prefix.filter(|_| place != "uid");
                    for (name, value) in [("claim", claim), ("expression", expression), ("prefix", prefix)] {
                        if let Some(value) = value {
                            of[name] = value.into();
                        }
                    }
                    all.push(with(&format!("claimMappings.{place}"), of));
                }
            }
        }
    }
    all.push(with("claimMappings", json!(null)));
    all.push(with("claimMappings.username", json!({"claim": "sub", "prefix": null})));
    for key in [
        "",
        "team",
        "example.com/",
        "/team",
        "example.com/team",
        "example.com/Team",
        "Example.com/team",
        "example.com/a/b",
        "example.com/a b",
        "example.com/a%b",
        "example.com/a?b",
        "example.com/ü",
        "-example.com/a",
        "example..com/a",
        "example/a",
        "k8s.io/a",
        "x.k8s.io/a",
        "xk8s.io/a",
        "kubernetes.io/a",
        "a.b.kubernetes.io/a",
        "kubernetes.io.example.com/a",
    ] {
        all.push(with("claimMappings.extra", json!([{"key": key, "valueExpression": "claims.a"}])));
    }
    for extra in [
        json!([{"key": "example.com/a"}]),
        json!([{"key": "example.com/a", "valueExpression": "claims.a"}, {"key": "example.com/a", "valueExpression": "claims.b"}]),
        json!([{"key": "example.com/a", "valueExpression": "claims.a"}, {"key": "example.com/b", "valueExpression": "claims.a"}]),
        json!([]),
        json!([null]),
    ] {
        all.push(with("claimMappings.extra", extra));
    }
    all
}

fn rules() -> Vec<Case> {
    let mut all = vec![];
    for rules in [
        json!([]),
        json!([{}]),
        json!([null]),
        json!([{"claim": "hd", "requiredValue": "example.com"}]),
        json!([{"claim": "hd"}]),
        json!([{"claim": "hd", "message": "no"}]),
        json!([{"claim": "hd"}, {"claim": "hd"}]),
        json!([{"claim": "hd", "expression": "claims.a == 'b'"}]),
        json!([{"expression": "claims.a == 'b'", "requiredValue": "b"}]),
        json!([{"expression": "claims.a == 'b'", "message": "no"}]),
        json!([{"expression": "claims.a == 'b'"}, {"expression": "claims.a == 'b'"}]),
        json!([{"message": "no"}]),
    ] {
        all.push(with("claimValidationRules", rules));
    }
    for rules in [
        json!([]),
        json!([{}]),
        json!([{"message": "no"}]),
        json!([{"expression": "user.username != ''"}]),
        json!([{"expression": "user.username != ''"}, {"expression": "user.username != ''"}]),
        json!([{"expression": "claims.a == 'b'"}]),
    ] {
        all.push(with("userValidationRules", rules));
    }
    // Who uses the email has to look whether it is verified.
    for username in [
        "claims.email",
        "claims.?email.orValue('x')",
        "'a' + claims.email",
        "claims['email']",
        "claims.mail",
        "has(claims.email) ? 'a' : 'b'",
        "[claims.email][0]",
        "{'a': claims.email}.a",
        "claims.x.email",
        "claims.email.verified",
    ] {
        for (place, expression) in [
            ("none", ""),
            ("extra", "claims.email_verified"),
            ("extra", "claims.?email_verified"),
            ("rule", "claims.email_verified == true"),
            ("rule", "claims.?email_verified.orValue(true) == true"),
            ("rule", "claims['email_verified'] == true"),
            ("rule", "claims.email_verified"),
            ("user", "user.username != 'email_verified'"),
        ] {
            let mut case = with("claimMappings.username", json!({"expression": username}));
            case.what = format!("{username}, and {place} {expression}");
            match place {
                "extra" => {
                    let extra = json!([{"key": "example.com/v", "valueExpression": expression}]);
                    set(&mut case.jwt, "claimMappings.extra", extra);
                }
                "rule" => set(&mut case.jwt, "claimValidationRules", json!([{"expression": expression}])),
                "user" => set(&mut case.jwt, "userValidationRules", json!([{"expression": expression}])),
                _ => {}
            }
            all.push(case);
        }
    }
    all
}

/// Expressions of claims; those of users are made from them.
const EXPRESSIONS: &[&str] = &[
    "claims.sub",
    "claims['sub']",
    "claims.a.b.c",
    "claims.`a-b`",
    "claims.a[0]",
    "claims[0]",
    "claims.a['b']",
    "claims",
    "claim",
    "user",
    "true",
    "1",
    "1u",
    "1.5",
    "'a'",
    "\"a\"",
    "r'\\d'",
    "b'a'",
    "null",
    "[]",
    "{}",
    "[1, 'a']",
    "[claims.a, 'b']",
    "{'a': claims.b}",
    "{1: 2}",
    "claims.a == 'b'",
    "claims.a != null",
    "'a' == 1",
    "1 == 1.0",
    "1 == 1u",
    "'a' == null",
    "1 < 1.5",
    "'a' < 'b'",
    "'a' < 1",
    "true < false",
    "[1] < [2]",
    "claims.a < claims.b",
    "claims.exp - claims.nbf <= 86400",
    "claims.a + 1",
    "'a' + 1",
    "'a' + 'b'",
    "[1] + [2]",
    "[1] + ['a']",
    "{} + {}",
    "true + true",
    "-1",
    "-'a'",
    "-claims.a",
    "!true",
    "!'a'",
    "!claims.a",
    "1 % 2",
    "1.5 % 2.5",
    "1 + 1.5",
    "claims.a && claims.b",
    "claims.a || true",
    "'a' && true",
    "true ? 1 : 2",
    "true ? 'a' : 1",
    "claims.a ? claims.b : 'c'",
    "claims.a ? true : false",
    "claims.a ? claims.b : true",
    "'a' ? true : false",
    "claims.a in ['a', 'b']",
    "'a' in claims",
    "'a' in claims.b",
    "'a' in [1]",
    "'a' in 'b'",
    "1 in {1: 2}",
    "has(claims.a)",
    "has(claims.a.b)",
    "has(claims)",
    "has(claims['a'])",
    "claims.?a",
    "claims.?a.orValue('b')",
    "claims.?a.orValue(true)",
    "claims.?a.orValue(true) == true",
    "claims.?a.hasValue()",
    "claims[?'a']",
    "claims[?'a'].orValue('b') == 'c'",
    "claims.?a.?b.orValue('c') == 'c'",
    "[?claims.?a]",
    "optional.of(1).value() == 1",
    "optional.none()",
    "optional.off(1)",
    "claims.?a.optMap(v, v + 'b').orValue('c') == 'c'",
    "claims.a.startsWith('b')",
    "claims.a.startsWith(1)",
    "claims.a.startsWith()",
    "claims.a.startswith('b')",
    "'a'.startsWith('b')",
    "'a'.startsWith(claims.b)",
    "1.startsWith('b')",
    "(1).startsWith('b')",
    "true.endsWith('b')",
    "'a'.endsWith('b')",
    "'a'.contains('b')",
    "'a'.matches('^a+$')",
    "matches('a', 'b')",
    "'a'.matches('[')",
    "claims.a.matches('(')",
    "'a'.size()",
    "size('a')",
    "size(1)",
    "size(claims.a) > 1",
    "'a'.charAt(0)",
    "'a'.indexOf('b')",
    "'a'.indexOf('b', 1)",
    "'a'.lowerAscii() == 'b'",
    "'a'.upperAscii()",
    "'a'.trim()",
    "'a'.trim(1)",
    "'a'.replace('b', 'c')",
    "'a'.replace('b', 'c', 1)",
    "'a'.split(',')",
    "'a,b'.split(',')[0] == 'a'",
    "claims.a.split(',').exists(x, x == 'b')",
    "'a'.substring(1)",
    "'a'.substring(1, 2) == 'x'",
    "'a'.substring('b')",
    "'%s'.format(['a'])",
    "'%s'.format('a')",
    "['a', 'b'].join(',')",
    "['a'].join()",
    "[1, 2].sum() == 3",
    "[1, 2].max()",
    "[1, 2].isSorted()",
    "['a'].indexOf('a') == 0",
    "'a'.find('b')",
    "'a'.findAll('b', 1)",
    "'a'.reverse()",
    "strings.quote('a')",
    "sets.contains(['a'], ['b'])",
    "sets.contains(claims.a, ['b'])",
    "sets.intersects(['a'])",
    "sets.union([1], [2])",
    "isURL('https://a')",
    "url('https://a').getHost() == 'a'",
    "url('https://a').getHosts()",
    "isIP('1.2.3.4')",
    "ip('1.2.3.4').family() == 4",
    "ip.isCanonical('1.2.3.4')",
    "cidr('10.0.0.0/8').containsIP('10.0.0.1')",
    "isCIDR('a')",
    "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "quantity('1Gi').asInteger()",
    "isQuantity('a')",
    "semver('1.2.3').major() == 1",
    "isSemver('1.2.3')",
    "format.dns1123Label().validate('a')",
    "format.named('dns1123Label').hasValue()",
    "format.nothing()",
    "timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    "timestamp(claims.iat) < timestamp('2026-01-01T00:00:00Z')",
    "duration('1h') > duration('1m')",
    "timestamp('2026-01-01T00:00:00Z') - duration('1h') > timestamp('2025-01-01T00:00:00Z')",
    "duration('an hour')",
    "int('1') == 1",
    "int(claims.a) > 1",
    "int(true)",
    "uint(1)",
    "double('1.5')",
    "string(1)",
    "string([1])",
    "string(claims.a) == 'b'",
    "bytes('a')",
    "bool('true')",
    "bool(1)",
    "dyn('a')",
    "dyn(1) == 'a'",
    "type(claims.a) == string",
    "type('a') == type('b')",
    "type(claims.a) == google.protobuf.Timestamp",
    "claims.a.exists(x, x == 'b')",
    "claims.a.all(x, x.startsWith('b'))",
    "claims.a.all(x, y == 1)",
    "claims.a.all(x, 'a')",
    "claims.a.all(x.y, true)",
    "claims.a.exists_one(x, x == 'b')",
    "claims.a.existsOne(x, x == 'b')",
    "claims.a.map(x, x + 'b')",
    "claims.a.map(x, x == 'b', x + 'b')",
    "claims.a.filter(x, x != 'b')",
    "claims.a.filter(x, 'b')",
    "claims.exists(k, k == 'a')",
    "'a'.exists(x, true)",
    "1.all(x, true)",
    "['a'].all(x, x.startsWith('b'))",
    "['a'].all(x, x > 1)",
    "[1].all(x, x > 1)",
    "[1].map(x, x * 2)[0] == 2",
    "{'a': 1}.all(k, k == 'a')",
    "claims.a.all(k, v, v == 'b')",
    "claims.a.exists(k, v, k == 'b')",
    "claims.a.transformList(k, v, v)",
    "claims.a.transformMap(k, v, v)",
    "cel.bind(x, claims.a, x == 'b')",
    "math.greatest(1, 2)",
    "lists.range(3)",
    "base64.encode(b'a')",
    "authorizer.group('a')",
    "request.user",
    "now()",
    "claims.a()",
    "claims.size() > 1",
    "claims.a.size() > 1",
    "foo('a')",
    "Foo{a: 1}",
    "google.protobuf.Int64Value{value: 1}",
    ".claims.a",
    "claims.for",
    "for",
    "claims.in",
    "claims.null",
    "claims.true == 'a'",
    "package",
    "a.b.c",
    "string",
    "int",
    "list",
    "1 // comment",
    "claims.a\n&& claims.b",
    "",
    " ",
    "(",
    "claims.a +",
    "claims.a == ",
    "claims..a",
    "claims.a b",
    "claims.a; claims.b",
    "claims.a = 'b'",
    "claims.a and claims.b",
    "not claims.a",
    "claims.a === 'b'",
    "'unterminated",
    "'''a'''",
    "'\\q'",
    "'\\u00e9' == claims.a",
    "'\\u00e'",
    "'ü' == claims.a",
    "claims.ü",
    "$a",
    "@a",
    "a#b",
    "99999999999999999999",
    "9223372036854775808",
    "-9223372036854775808 < 0",
    "0x1f == 31",
    "1e3 > 1.0",
    ".5 > 1.0",
    "1. > 1.0",
    "((((((((((claims.a))))))))))",
    "[[[[[[[[[[1]]]]]]]]]]",
    "claims.a ? claims.b ? 1 : 2 : 3",
    "true || false && !true",
    "!!true",
    "--1",
    "user.username",
    "user.username == 'a'",
    "user.usernames == 'a'",
    "user.uid != ''",
    "user.groups.all(g, !g.startsWith('system:'))",
    "user.groups.exists(g, g > 1)",
    "'a' in user.groups",
    "1 in user.groups",
    "user.groups[0] == 'a'",
    "user.groups['a'] == 'a'",
    "user.groups.size() < 10",
    "user.extra['a'][0] == 'b'",
    "user.extra['a'] == 'b'",
    "'a' in user.extra",
    "user.extra.all(k, k.startsWith('example.com/'))",
    "user.?uid.orValue('') == ''",
    "user.?name",
    "has(user.uid)",
    "has(user.name)",
    "user['username']",
    "user == null",
    "user.username + 1",
    "user.username.startsWith('system:') == false",
    "user.username.size() > user.uid.size()",
    "user.groups + ['a']",
    "user.groups == ['a']",
    "user.groups == 'a'",
    "user",
    "!user.username",
];

fn expressions() -> Vec<Case> {
    let mut all = vec![];
    let mut texts: Vec<String> = EXPRESSIONS.iter().map(|text| (*text).to_owned()).collect();
    texts.extend(mutated());
    for text in texts {
        let of_user = text.contains("user");
        let any = json!({"expression": text});
        if !of_user {
            all.push(with("claimMappings.uid", any.clone()));
        }
        let rules = if of_user { "userValidationRules" } else { "claimValidationRules" };
        all.push(with(rules, json!([any])));
    }
    all
}

/// Expressions with a letter less, another one or one more, by chance that is always the same.
fn mutated() -> Vec<String> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    let letters: Vec<char> = "()[]{}.,?:!&|<>=+-*/%'\"`ax01 \\".chars().collect();
    let mut all = vec![];
    for _ in 0..350 {
        let mut text: Vec<char> = EXPRESSIONS[random(EXPRESSIONS.len())].chars().collect();
        let at = random(text.len() + 1);
        match random(3) {
            0 if at < text.len() => drop(text.remove(at)),
            1 if at < text.len() => text[at] = letters[random(letters.len())],
            _ => text.insert(at, letters[random(letters.len())]),
        }
        all.push(text.into_iter().collect());
    }
    all.sort();
    all.dedup();
    all
}

/// Values that kube-apiserver reads, good or bad.
pub(super) fn values() -> Vec<Case> {
    [issuers(), mappings(), rules(), expressions()].concat()
}

/// Fields that are none.
pub(super) fn unknown_fields() -> Vec<Case> {
    let mut all = vec![];
    for (pointer, name) in [
        ("", "issuers"),
        ("", "claimMapping"),
        ("", "Issuer"),
        ("issuer", "uri"),
        ("issuer", "URL"),
        ("issuer", "discoveryUrl"),
        ("issuer", "clientID"),
        ("claimMappings", "user"),
        ("claimMappings", "email"),
        ("claimMappings.username", "prefixes"),
        ("claimMappings.groups", "claims"),
        ("claimMappings.uid", "prefix"),
    ] {
        let pointer = if pointer.is_empty() { name.to_owned() } else { format!("{pointer}.{name}") };
        all.push(with(&pointer, json!("x")));
        all.push(with(&pointer, json!(null)));
    }
    all.push(with("claimMappings.extra", json!([{"key": "example.com/a", "value": "x"}])));
    all.push(with("claimValidationRules", json!([{"claim": "a", "value": "x"}])));
    all.push(with("userValidationRules", json!([{"expression": "user.uid != ''", "reason": "x"}])));
    all.extend((0..4).map(|_| Case { what: "good".to_owned(), jwt: base() }));
    all
}

/// Values of another type.
pub(super) fn types() -> Vec<Case> {
    [
        ("issuer", json!("x")),
        ("issuer", json!(null)),
        ("issuer.url", json!(1)),
        ("issuer.url", json!(["a"])),
        ("issuer.url", json!(null)),
        ("issuer.audiences", json!("a")),
        ("issuer.audiences", json!([1])),
        ("issuer.audiences", json!({})),
        ("issuer.certificateAuthority", json!({})),
        ("issuer.discoveryURL", json!(true)),
        ("claimMappings", json!([])),
        ("claimMappings.username", json!("sub")),
        ("claimMappings.username.prefix", json!(1)),
        ("claimMappings.groups", json!(null)),
        ("claimMappings.extra", json!({"a": "b"})),
        ("claimMappings.extra", json!(["a"])),
        ("claimValidationRules", json!({})),
        ("claimValidationRules", json!(null)),
        ("claimValidationRules", json!([{"claim": 1}])),
        ("userValidationRules", json!("a")),
        ("userValidationRules", json!([{"expression": ["a"]}])),
    ]
    .into_iter()
    .map(|(pointer, value)| with(pointer, value))
    .collect()
}
