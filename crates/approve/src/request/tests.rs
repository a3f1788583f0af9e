use super::*;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType,
    SignatureAlgorithm,
};

fn keys() -> KeyPair {
    KeyPair::generate().unwrap()
}

/// As a kubelet makes it, with something changed.
fn pem_by(key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, NODES);
    params.distinguished_name.push(DnType::CommonName, "system:node:n1");
    params.subject_alt_names = vec![dns("n1"), ip("172.20.0.5")];
    change(&mut params);
    params.serialize_request(key).unwrap().pem().unwrap()
}

fn pem(change: impl FnOnce(&mut CertificateParams)) -> String {
    pem_by(&keys(), change)
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn ip(ip: &str) -> SanType {
    SanType::IpAddress(ip.parse().unwrap())
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&text| text.to_owned()).collect()
}

fn ask(signer: Signer, username: &str, groups: &[&str], usages: &[&str], pem: &str) -> Result<Request, String> {
    let (groups, usages) = (texts(groups), texts(usages));
    read(Asked { signer: signer.name(), username, groups: &groups, usages: &usages, pem: pem.as_bytes() })
}

fn read_as(username: &str, groups: &[&str], usages: &[&str], pem: &str) -> Result<Serving, String> {
    ask(Signer::Serving, username, groups, usages, pem).map(|request| match request {
        Request::Serving(serving) => serving,
        Request::Client(other) => panic!("{other:?}"),
    })
}

const REQUIRED_USAGES: [&str; 2] = ["digital signature", "server auth"];
const CLIENT_USAGES: [&str; 2] = ["digital signature", "client auth"];

const GROUPS: [&str; 2] = [NODES, "system:authenticated"];

fn read_pem(pem: &str) -> Result<Serving, String> {
    read_as("system:node:n1", &GROUPS, &REQUIRED_USAGES, pem)
}

fn refusal(change: impl FnOnce(&mut CertificateParams)) -> String {
    read_pem(&pem(change)).unwrap_err()
}

#[test]
fn a_kubelets_request_is_read() {
    let expected =
        Serving { node: "n1".to_owned(), names: texts(&["n1"]), addresses: vec!["172.20.0.5".parse().unwrap()] };
    let request = pem(|_| {});
    assert_eq!(read_pem(&request), Ok(expected.clone()));
    let with_encipherment = [REQUIRED_USAGES[0], OPTIONAL_USAGE, REQUIRED_USAGES[1]];
    assert_eq!(read_as("system:node:n1", &GROUPS, &with_encipherment, &request), Ok(expected.clone()));
    assert_eq!(read_pem(&format!("\n{}\n", request.replace('\n', "\r\n"))), Ok(expected));
    let many = read_pem(&pem(|p| {
        p.subject_alt_names.extend((0..100).map(|n| dns(&format!("n{n}.example.com"))));
        p.subject_alt_names.push(dns("N1.Example.COM"));
        p.subject_alt_names.push(ip("::ffff:172.20.0.6"));
    }));
    let many = many.unwrap();
    assert_eq!((many.names.len(), many.addresses.len()), (102, 2));
    assert!(many.names.contains(&"n1.example.com".to_owned()));
    assert!(many.addresses.contains(&"172.20.0.6".parse().unwrap()));
    for algorithm in [&rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] as [&SignatureAlgorithm; 2] {
        read_pem(&pem_by(&KeyPair::generate_for(algorithm).unwrap(), |_| {})).unwrap();
    }
}

#[test]
fn only_nodes_ask_and_for_themselves() {
    let good = pem(|_| {});
    let by = |username: &str, groups: &[&str]| read_as(username, groups, &REQUIRED_USAGES, &good).unwrap_err();
    assert_eq!(by("alice", &GROUPS), "alice is no node");
    assert_eq!(by("system:bootstrap:abcdef", &["system:bootstrappers"]), "system:bootstrap:abcdef is no node");
    assert_eq!(by("system:node:n1", &["system:authenticated"]), "system:node:n1 is no node");
    assert_eq!(by("system:node:", &GROUPS), "system:node: is no node");
    assert_eq!(by("system:node:N1", &GROUPS), "system:node:N1 is no node");
    let other = "its subject is \"O=system:nodes, CN=system:node:n1\" and not \"O=system:nodes, CN=system:node:n2\"";
    assert_eq!(by("system:node:n2", &GROUPS), other);
}

#[test]
fn usages_are_a_servers() {
    let good = pem(|_| {});
    for usages in [
        &[][..],
        &["server auth"],
        &["digital signature"],
        &["digital signature", "client auth"],
        &["digital signature", "server auth", "client auth"],
        &["digital signature", "server auth", "cert sign"],
    ] {
        let why = read_as("system:node:n1", &GROUPS, usages, &good).unwrap_err();
        assert_eq!(why, format!("its usages are {}", usages.join(", ")));
    }
}

#[test]
fn the_subject_is_the_nodes_and_nothing_more() {
    for change in [
        |dn: &mut DistinguishedName| dn.push(DnType::OrganizationalUnitName, "x"),
        |dn: &mut DistinguishedName| dn.push(DnType::OrganizationName, "system:masters"),
        |dn: &mut DistinguishedName| dn.push(DnType::CommonName, "system:node:n2"),
        |dn: &mut DistinguishedName| *dn = DistinguishedName::new(),
    ] {
        let why = refusal(|p| change(&mut p.distinguished_name));
        assert!(why.starts_with("its subject is ") && why.ends_with("CN=system:node:n1\""), "{why}");
    }
}

#[test]
fn names_are_names_of_machines() {
    assert_eq!(
        refusal(|p| p.subject_alt_names.clear()),
        "it asks for other extensions than the alternative names of a server"
    );
    for name in ["*.example.com", "n1.", "10.96.0.1", "a_b", "n1..b", "-a", "2001:db8::1"] {
        let why = refusal(|p| p.subject_alt_names = vec![dns(name)]);
        assert_eq!(why, format!("it asks for {name:?}, which is no DNS name of a machine"));
    }
    let uri = SanType::URI("spiffe://a/b".try_into().unwrap());
    let mail = SanType::Rfc822Name("root@example.com".try_into().unwrap());
    for other in [uri, mail] {
        let why = refusal(|p| p.subject_alt_names.push(other));
        assert!(why.ends_with("which is neither DNS name nor address"), "{why}");
    }
}

#[test]
fn other_extensions_and_attributes_are_refused() {
    let why = "it asks for other extensions than the alternative names of a server";
    assert_eq!(refusal(|p| p.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth)), why);
    assert_eq!(refusal(|p| p.key_usages.push(rcgen::KeyUsagePurpose::KeyCertSign)), why);
    let unknown = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
    assert_eq!(refusal(|p| p.custom_extensions.push(unknown)), why);
}

#[test]
fn what_others_could_read_differently_is_refused() {
    let good = pem(|_| {});
    let odd = Err("its request is not one PEM block with a certificate request".to_owned());
    let body = good.replace(BEGIN, "").replace(END, "");
    for text in [
        String::new(),
        "x".to_owned(),
        format!("{good}{good}"),
        format!("x\n{good}"),
        good.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
        format!("{BEGIN}\nProc-Type: 4\n\n{body}{END}"),
    ] {
        assert_eq!(read_pem(&text), odd, "{text}");
    }
    let long = format!("{}{}", good.trim(), " ".repeat(LONGEST));
    assert_eq!(read_pem(&long).unwrap_err(), "its request is longer than 16384 bytes");
    let wrapped = |der: &[u8]| format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der));
    let der = der(good.as_bytes()).unwrap();
    assert_eq!(
        read_pem(&wrapped(&[&der[..], &[5, 0]].concat())).unwrap_err(),
        "something follows its certificate request"
    );
    let mut forged = der.clone();
    let name = forged.windows(4).position(|at| at == [0x82, 2, b'n', b'1']).unwrap();
    forged[name + 3] = b'2';
    assert_eq!(read_pem(&wrapped(&forged)).unwrap_err(), "its signature is not by its key");
    assert_eq!(read_pem(&wrapped(&der[..der.len() - 1])).unwrap_err(), "it holds no certificate request");
}

#[test]
fn der_is_written_with_the_shortest_length() {
    for (length, head) in [
        (0, &[4, 0][..]),
        (127, &[4, 127]),
        (128, &[4, 0x81, 128]),
        (256, &[4, 0x82, 1, 0]),
        (1000, &[4, 0x82, 3, 232]),
    ] {
        assert_eq!(encode(4, &vec![7; length])[..head.len()], *head);
    }
}

/// As a kubelet makes one for a client certificate, with something changed.
fn client_pem(change: impl FnOnce(&mut CertificateParams)) -> String {
    pem(|params| {
        params.subject_alt_names.clear();
        change(params);
    })
}

const TOKEN: &str = "system:bootstrap:abcdef";
const TOKENS: [&str; 3] = ["system:bootstrappers", BOOTSTRAPPERS, "system:authenticated"];

#[test]
fn a_client_certificate_is_asked_for_by_the_node_or_by_a_token() {
    let good = client_pem(|_| {});
    let of = |by| Ok(Request::Client(Client { node: "n1".to_owned(), by }));
    for usages in [&CLIENT_USAGES[..], &[CLIENT_USAGES[0], OPTIONAL_USAGE, CLIENT_USAGES[1]]] {
        assert_eq!(ask(Signer::Client, TOKEN, &TOKENS, usages, &good), of(By::Token));
        assert_eq!(ask(Signer::Client, "system:node:n1", &GROUPS, usages, &good), of(By::Itself));
    }
}

#[test]
fn nobody_else_asks_for_a_client_certificate() {
    let good = client_pem(|_| {});
    let by =
        |username: &str, groups: &[&str]| ask(Signer::Client, username, groups, &CLIENT_USAGES, &good).unwrap_err();
    let neither = |who: &str| format!("{who} is no node, and has no bootstrap token for nodes");
    assert_eq!(by("alice", &["system:masters"]), neither("alice"));
    // Tokens with other groups are for what a tenant's admin bound those to; a user who only has the group has no token.
    assert_eq!(by(TOKEN, &["system:bootstrappers", "system:bootstrappers:other"]), neither(TOKEN));
    assert_eq!(by("alice", &TOKENS), neither("alice"));
    assert_eq!(by("system:node:n1", &["system:authenticated"]), neither("system:node:n1"));
    let why = by("system:node:n2", &GROUPS);
    assert!(why.ends_with("and not \"O=system:nodes, CN=system:node:n2\""), "no node is another one: {why}");
    // A token is none for the other signer.
    let serving = ask(Signer::Serving, TOKEN, &TOKENS, &REQUIRED_USAGES, &pem(|_| {}));
    assert_eq!(serving.unwrap_err(), format!("{TOKEN} is no node"));
}

#[test]
fn a_client_certificate_is_a_nodes_and_nothing_more() {
    let read = |usages: &[&str], pem: &str| ask(Signer::Client, TOKEN, &TOKENS, usages, pem).unwrap_err();
    let good = client_pem(|_| {});
    for usages in [
        &[][..],
        &["client auth"],
        &REQUIRED_USAGES,
        &["digital signature", "client auth", "server auth"],
        &["digital signature", "client auth", "cert sign"],
    ] {
        assert_eq!(read(usages, &good), format!("its usages are {}", usages.join(", ")));
    }
    for change in [
        |dn: &mut DistinguishedName| dn.push(DnType::OrganizationName, "system:masters"),
        |dn: &mut DistinguishedName| dn.push(DnType::OrganizationalUnitName, "x"),
        |dn: &mut DistinguishedName| dn.push(DnType::CommonName, "system:node:"),
        |dn: &mut DistinguishedName| dn.push(DnType::CommonName, "system:node:N1"),
        |dn: &mut DistinguishedName| dn.push(DnType::CommonName, "admin"),
        |dn: &mut DistinguishedName| *dn = DistinguishedName::new(),
    ] {
        let why = read(&CLIENT_USAGES, &client_pem(|p| change(&mut p.distinguished_name)));
        assert!(why.starts_with("its subject is ") && why.ends_with("CN=system:node:<name>\""), "{why}");
    }
    let extended = read(&CLIENT_USAGES, &pem(|_| {}));
    assert_eq!(extended, "it asks for extensions, which a client certificate of a node has none of");
    let other = ask(Signer::Client, TOKEN, &TOKENS, &CLIENT_USAGES, "x").unwrap_err();
    assert_eq!(other, "its request is not one PEM block with a certificate request");
}

#[test]
fn other_signers_are_not_ours() {
    let (groups, usages, pem) = (texts(&TOKENS), texts(&CLIENT_USAGES), client_pem(|_| {}));
    for signer in ["kubernetes.io/kube-apiserver-client", "kubernetes.io/legacy-unknown", "example.com/a", ""] {
        let asked = Asked { signer, username: TOKEN, groups: &groups, usages: &usages, pem: pem.as_bytes() };
        assert_eq!(read(asked).unwrap_err(), format!("its signer is {signer}"));
    }
}

#[test]
fn what_is_said_of_a_request_is_one_line_whatever_is_in_it() {
    let good = client_pem(|_| {});
    let long = "a".repeat(1 << 20);
    for text in [";id>/tmp/owned;", "\n2026-01-01 approved", "\u{1b}[8m\u{1b}[1A", "\u{9b}1A", "\u{202e}x", &long] {
        let (name, node) = (format!("alice{text}"), format!("system:node:n1{text}"));
        for said in [
            read_as(&name, &GROUPS, &REQUIRED_USAGES, &good),
            read_as(&node, &GROUPS, &REQUIRED_USAGES, &good),
            read_as("system:node:n1", &GROUPS, &["digital signature", text], &good),
            read_pem(&pem(|p| p.distinguished_name.push(DnType::CommonName, text))),
            read_pem(text),
        ] {
            let said = said.unwrap_err();
            assert!(said.len() < 600 && !said.chars().any(char::is_control) && !said.contains('\u{202e}'), "{said:?}");
        }
    }
}
