//! What follows from a tenant's networks.

use ipnet::IpNet;

/// Address of the Service of the tenant's DNS, as kubeadm numbers it: the tenth of the first network of Services.
pub fn cluster_dns(service_cidrs: &[String]) -> Option<String> {
    let range: IpNet = service_cidrs.first()?.parse().ok()?;
    range.hosts().filter(|address| *address != range.network()).nth(9).map(|address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_is_the_tenth_address() {
        let dns = |cidr: &str| cluster_dns(&[cidr.to_owned()]);
        assert_eq!(dns("10.96.0.0/12").as_deref(), Some("10.96.0.10"));
        assert_eq!(dns("10.112.0.16/28").as_deref(), Some("10.112.0.26"));
        assert_eq!(dns("fd00:1::/108").as_deref(), Some("fd00:1::a"));
        assert_eq!(cluster_dns(&[]), None);
    }
}
