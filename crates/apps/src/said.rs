//! Words about a release whose record was changed.

use crate::state::Revision;
use berth_contract::apps::Release;

/// What is not as it was.
pub(crate) fn tampering(release: &Release, history: &[Revision]) -> String {
    let Release { name, namespace, .. } = release;
    let revision = release.recorded.as_ref().map_or(0, |recorded| recorded.revision);
    let is_there = history.iter().any(|it| it.revision == revision);
    let is = if is_there { "has another content than Berth deployed" } else { "is not there any more, and others are" };
    format!("revision {revision} of release {name} in namespace {namespace} of the tenant {is}")
}

/// The command that shows it.
pub(crate) fn look(release: &Release) -> String {
    let Release { name, namespace, .. } = release;
    format!("`helm get manifest {name} -n {namespace}` and `helm get hooks {name} -n {namespace}`")
}
