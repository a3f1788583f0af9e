//! The cluster's certificates and kubeconfigs. ECDSA P-256 throughout: a cluster's PKI takes milliseconds.

use std::{fs, net::IpAddr};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use time::{Duration, OffsetDateTime};

use crate::{files, layout::Layout, slot::Slot};

/// The kubeconfig for people.
pub(crate) const ADMIN: &str = "admin";
/// The kubeconfig of the CNI plugin that asks what a pod is to be attached to.
pub(crate) const CNI: &str = "cni";
const YEARS: i64 = 10;

struct Leaf {
    file: String,
    name: String,
    group: &'static str,
    sans: Vec<String>,
    kubeconfig: bool,
}

/// Makes the CAs, all certificates, the service-account key and the kubeconfigs. An existing PKI is kept: tokens and
/// kubeconfigs that people hold stay good over stop and start.
pub(crate) fn ensure(layout: &Layout, slot: Slot, nodes: u8) -> Result<()> {
    files::create_dir(&layout.dir.join("pki"))?;
    if !layout.pki("complete").exists() {
        let (ca, issuer) = authority(layout, "ca")?;
        for leaf in leaves(layout, slot, nodes) {
            let (certificate, key) = issue(&leaf, &issuer)?;
            if leaf.kubeconfig {
                let content = kubeconfig(layout, slot, &ca, &certificate, &key);
                files::write_secret(&layout.kubeconfig(&leaf.file), content)?;
            } else {
                write_pair(layout, &leaf.file, &certificate, &key)?;
            }
        }
        let service_accounts = KeyPair::generate().context("cannot generate the service-account key")?;
        files::write_secret(&layout.pki("sa.key"), service_accounts.serialize_pem())?;
        files::write(&layout.pki("sa.pub"), service_accounts.public_key_pem())?;
        files::write(&layout.pki("complete"), "")?;
    }
    if !layout.pki("front-proxy-client.key").exists() {
        // A CA of its own: whoever has one of its certificates may say to be anybody.
        let (_, issuer) = authority(layout, "front-proxy-ca")?;
        let name = "front-proxy-client";
        let leaf = Leaf { file: name.to_owned(), name: name.to_owned(), group: "", sans: vec![], kubeconfig: false };
        let (certificate, key) = issue(&leaf, &issuer)?;
        write_pair(layout, name, &certificate, &key)?;
    }
    Ok(())
}

/// Makes the kubeconfig of the CNI plugin, for a cluster that has VPCs.
pub(crate) fn ensure_cni(layout: &Layout, slot: Slot) -> Result<()> {
    if layout.kubeconfig(CNI).exists() {
        return Ok(());
    }
    let read = |file| fs::read_to_string(layout.pki(file)).with_context(|| format!("cannot read {file}"));
    let ca = read("ca.crt")?;
    let key = KeyPair::from_pem(&read("ca.key")?).context("ca.key")?;
    let issuer = Issuer::from_ca_cert_pem(&ca, key).context("ca.crt")?;
    let (certificate, key) = issue(&client(CNI, crate::vpc::USER, ""), &issuer)?;
    files::write_secret(&layout.kubeconfig(CNI), kubeconfig(layout, slot, &ca, &certificate, &key))
}

/// Makes a CA and writes it; gives its certificate and what signs.
fn authority(layout: &Layout, file: &str) -> Result<(String, Issuer<'static, KeyPair>)> {
    let key = KeyPair::generate().context("cannot generate a CA's key")?;
    let mut ca = params(&format!("{}-{file}", layout.scope()), "", &[])?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let certificate = ca.self_signed(&key).context("cannot sign a CA's certificate")?.pem();
    write_pair(layout, file, &certificate, &key.serialize_pem())?;
    Ok((certificate, Issuer::new(ca, key)))
}

/// Gives a certificate and its key.
fn issue(leaf: &Leaf, issuer: &Issuer<'_, KeyPair>) -> Result<(String, String)> {
    let key = KeyPair::generate().context("cannot generate a key")?;
    let mut certificate = params(&leaf.name, leaf.group, &leaf.sans)?;
    certificate.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let signed = certificate.signed_by(&key, issuer);
    let signed = signed.with_context(|| format!("cannot sign the certificate of {}", leaf.name))?;
    Ok((signed.pem(), key.serialize_pem()))
}

/// The key goes last: where it is, the certificate is too.
fn write_pair(layout: &Layout, file: &str, certificate: &str, key: &str) -> Result<()> {
    files::write(&layout.pki(&format!("{file}.crt")), certificate)?;
    files::write_secret(&layout.pki(&format!("{file}.key")), key)
}

fn client(file: &str, name: &str, group: &'static str) -> Leaf {
    Leaf { file: file.to_owned(), name: name.to_owned(), group, sans: vec![], kubeconfig: true }
}

fn leaves(layout: &Layout, slot: Slot, nodes: u8) -> Vec<Leaf> {
    let mut all = control_plane(slot);
    for node in layout.nodes(nodes) {
        let user = format!("system:node:{}", node.name());
        let server = client(&node.component("kubelet-server"), &user, "system:nodes");
        let sans = vec![node.name(), slot.address_of_node(node.number).to_string()];
        all.push(Leaf { sans, kubeconfig: false, ..server });
        all.push(client(&node.component("kubelet"), &user, "system:nodes"));
    }
    all
}

fn control_plane(slot: Slot) -> Vec<Leaf> {
    let server_names = [
        "localhost".to_owned(),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        "kubernetes.default.svc.cluster.local".to_owned(),
        "127.0.0.1".to_owned(),
        slot.node_address().to_string(),
        slot.kubernetes_service().to_string(),
    ];
    vec![
        Leaf {
            file: "apiserver".to_owned(),
            name: "kube-apiserver".to_owned(),
            group: "",
            sans: server_names.to_vec(),
            kubeconfig: false,
        },
        Leaf {
            kubeconfig: false,
            ..client("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        },
        client(ADMIN, "admin", "system:masters"),
        // The supervisor has a name of its own, so that audit logs tell its writes from a person's.
        client("supervisor", "devcluster-supervisor", "system:masters"),
        client("controller-manager", "system:kube-controller-manager", ""),
        client("scheduler", "system:kube-scheduler", ""),
        client("kube-proxy", "system:kube-proxy", ""),
    ]
}

fn params(name: &str, group: &str, sans: &[String]) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    if !group.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.subject_alt_names = sans
        .iter()
        .map(|san| match san.parse::<IpAddr>() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) => Ok(SanType::DnsName(san.as_str().try_into()?)),
        })
        .collect::<Result<_>>()?;
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(365 * YEARS);
    Ok(params)
}

fn kubeconfig(layout: &Layout, slot: Slot, ca: &str, certificate: &str, key: &str) -> String {
    let encode = |pem: &str| BASE64_STANDARD.encode(pem);
    format!(
        "apiVersion: v1\nkind: Config\n\
         clusters:\n- name: {name}\n  cluster:\n    server: https://{address}:6443\n    \
         certificate-authority-data: {ca}\n\
         users:\n- name: {name}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n\
         contexts:\n- name: {name}\n  context: {{cluster: {name}, user: {name}}}\n\
         current-context: {name}\n",
        name = layout.scope(),
        address = slot.node_address(),
        ca = encode(ca),
        certificate = encode(certificate),
        key = encode(key),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_pki_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout { name: "demo".to_owned(), dir: dir.path().to_owned() };
        let slot: Slot = serde_json::from_str("2").unwrap();
        ensure(&layout, slot, 2).unwrap();
        let read = || std::fs::read_to_string(layout.kubeconfig(ADMIN)).unwrap();
        let first = read();
        assert!(first.contains("server: https://10.210.0.1:6443"), "{first}");
        ensure(&layout, slot, 2).unwrap();
        assert_eq!(read(), first);
        ensure_cni(&layout, slot).unwrap();
        for file in ["kubelet", "kubelet-2", CNI] {
            assert!(layout.kubeconfig(file).exists(), "each node has a user of its own: {file}");
        }
    }
}
