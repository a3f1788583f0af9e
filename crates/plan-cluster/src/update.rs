//! Newer templates than a tenant is rendered with: `UpdateAvailable`.

use super::record::{Pin, new_pin, pin};
use super::release;
use super::subject::Tenant;
use berth_api::cluster::Templates;
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_api::names;

/// What a tenant at rest is rendered with, and what this build would render the same version with.
pub(super) struct Update {
    pub(super) old: Pin,
    pub(super) new: Pin,
}

/// Other templates than a tenant at rest is rendered with. None: the same, or another version is asked for, which brings them.
pub(super) fn newer(t: &Tenant<'_>) -> Option<Update> {
    let old = pin(t.live_namespace().filter(|live| release::is_at_rest(live))?)?;
    let is_asked = t.cluster.spec.version.parse().is_ok_and(|asked: berth_api::version::Version| asked == old.version);
    let new = new_pin(old.version, t.settings).filter(|new| is_asked && new.templates != old.templates)?;
    Some(Update { old, new })
}

/// `UpdateAvailable`. None: there is none.
pub(super) fn verdict(t: &Tenant<'_>) -> Option<Verdict> {
    if t.cluster.metadata.deletion_timestamp.is_some() || t.observed.denied {
        return None;
    }
    let Update { old, new } = newer(t)?;
    let when = match t.cluster.spec.upgrade.templates {
        Templates::WithVersion => {
            "It takes them with its next version; at once, if spec.upgrade.templates is set to Newest"
        }
        Templates::Newest => {
            "It takes them up by itself (spec.upgrade.templates), unless they ran before: then with its next version"
        }
    };
    let message = format!(
        "the operator has other templates of {} ({}) than it is rendered with ({}). {when}",
        old.version,
        names::templates(&new.templates),
        names::templates(&old.templates),
    );
    Some(Verdict::new(ConditionType::UpdateAvailable, Some(true), Reason::OtherTemplates, message))
}
