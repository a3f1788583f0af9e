//! What templates are rendered from: one typed struct per component.
//!
//! Rust decides, templates state structure: every choice that depends on facts is made before a value gets here.
//! A tenant's pinned templates may be older than the operator that renders them: a new operator restarts no tenant. So **fields are
//! only ever added**; a template set from an older operator must keep finding what it reads. Defaults that a template states (resource
//! requests, flags) stay out of here for the same reason: they belong to the tenant's revision.

mod apiserver;
mod clients;
mod etcd;
mod service;
mod tenant;
mod workload;

pub use apiserver::{ApiServerSecrets, ApiServerValues, AuditValues, EtcdAccess, Variable, VpcSlot};
pub use clients::{ApiAccess, ApiClientSecrets, ApiClientValues};
pub use etcd::{EtcdSecrets, EtcdServicesValues, EtcdStorage, EtcdValues};
pub use service::{ApiServerServiceValues, ServiceType};
pub use tenant::{
    AccessValues, ApiProxyValues, AppsValues, ArgoCdValues, AskedOfCoreDns, CoreDnsValues, EndpointValues, JoinValues,
    KubeProxyValues,
};
pub use workload::{AntiAffinity, ExtraArg, HostAlias, Meta, Placement, Workload};
