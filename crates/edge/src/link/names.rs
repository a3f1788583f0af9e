/// By what a program's replicas and the operator find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The program, for its log.
    pub program: &'static str,
    /// Label of a replica's Lease, with the value `true`.
    pub label: &'static str,
    /// Annotation of a replica's Lease: the address and port at which it takes the operator's connection.
    pub address: &'static str,
    /// Annotation of a Lease with a certificate as PEM.
    pub certificate: &'static str,
    /// Name of the operator's Lease, and its name in its certificate.
    pub operator: &'static str,
    /// Bytes that a line may have.
    pub longest: usize,
}
