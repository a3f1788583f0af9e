//! A tenant's VPC: what pods ask of the network plugin, what it says it gave them, and where nodes find the API.

pub(crate) mod addresses;
mod ask;
mod definition;
mod image;
mod pods;
mod verdict;

pub(crate) use addresses::{FILLED, PORT, RESOURCE_NAME, endpoint, leads_to, of_workload, parse, replicas};
pub(crate) use ask::{ask, values};
pub use definition::copy_of;
pub(crate) use definition::{copy, namespace as definition_namespace, source};
pub(crate) use image::{note as images_note, unread as image_unread};
pub use pods::pods_without_network;
pub(crate) use pods::{holder, pods_are_held, serving};
pub(crate) use verdict::verdict;
