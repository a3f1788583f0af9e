//! What API servers reach without their proxy that is nobody's own: a tenant keeps what its release had.

/// What the first operator with a proxy had, before and behind what is the tenant's own. It never changes: pods would roll.
pub(crate) const FIRST: [&[&str]; 2] = [
    &["localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local"],
    &[
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "fc00::/7",
        "169.254.0.0/16",
        "fe80::/10",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "fd00:ec2::254/128",
        "fd00:ec2::23/128",
        "fd20:ce::254/128",
        "fd00:c1::a9fe:a9fe/128",
        "fd00:100::100:200/128",
        "fd00:a9fe:a9fe::1/128",
        "fd00:42::42/128",
    ],
];

/// What a new release records of what this operator has. None: the first one had it.
pub(super) fn recorded(direct: &[String]) -> Option<Vec<String>> {
    let is_first = FIRST.into_iter().flatten().eq(direct.iter());
    (!is_first).then(|| direct.to_vec())
}
