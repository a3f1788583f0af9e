//! Which members to ask, and how.

use crate::credential::Credential;
use crate::error::TargetError;
use berth_api::etcd_cluster::EtcdEndpoint;
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};

/// Port for clients.
const PORT: u16 = 2379;

/// An etcd cluster to talk to.
#[derive(Clone, Debug)]
pub struct EtcdTarget {
    /// Its members.
    pub members: Vec<Member>,
    /// What is shown to them.
    pub credential: Credential,
}

/// One member.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the member.
    pub name: String,
    /// Name that its certificate must hold.
    pub host: ServerName<'static>,
    /// Where it is reached.
    pub address: SocketAddr,
}

impl EtcdTarget {
    /// From what the plan published.
    pub fn new(endpoints: &[EtcdEndpoint], credential: Credential) -> Result<Self, TargetError> {
        let members = endpoints
            .iter()
            .map(|e| {
                let ip: IpAddr = e
                    .address
                    .parse()
                    .map_err(|_| TargetError::Address { member: e.name.clone(), address: e.address.clone() })?;
                Member::new(&e.name, &e.host, SocketAddr::new(ip, PORT))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { members, credential })
    }
}

impl Member {
    /// A member at any address and port.
    pub fn new(name: &str, host: &str, address: SocketAddr) -> Result<Self, TargetError> {
        let bad = |_| TargetError::Host { member: name.to_owned(), host: host.to_owned() };
        Ok(Self { name: name.to_owned(), host: ServerName::try_from(host.to_owned()).map_err(bad)?, address })
    }
}
