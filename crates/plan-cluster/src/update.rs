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
    let is_asked = t.cluster.spec.asked_version() == Some(old.version);
    let new = new_pin(old.version, t.settings).filter(|new| is_asked && !new.renders_as(&old))?;
    Some(Update { old, new })
}

/// `UpdateAvailable`. None: there is none.
pub(super) fn verdict(t: &Tenant<'_>) -> Option<Verdict> {
    if t.cluster.metadata.deletion_timestamp.is_some() || t.observed.denied {
        return None;
    }
    let Update { old, new } = newer(t)?;
    let (is, was) = (names::templates(&new.templates), names::templates(&old.templates));
    let templates = (is != was).then(|| format!("the operator's templates of {} ({is})", old.version));
    let helpers = (new.helper_resources != old.helper_resources).then(|| "the chart's helpers.resources".to_owned());
    let proxy = (new.proxy != old.proxy).then(|| "the chart's tenants.proxy".to_owned());
    let issuers = (new.jwt != old.jwt).then(|| "the chart's authentication.jwt".to_owned());
    let of_templates = if is == was { String::new() } else { format!(" ({was})") };
    let what: Vec<_> = [templates, helpers, proxy, issuers].into_iter().flatten().collect();
    let is_one = is == was && what.len() == 1;
    let what = what.join(" and ");
    let (differ, them) = if is_one { ("differs", "it") } else { ("differ", "them") };
    let when = match t.cluster.spec.upgrade.templates {
        Templates::WithVersion => {
            format!("takes {them} with its next version, or at once with spec.upgrade.templates Newest")
        }
        Templates::Newest => {
            format!(
                "takes {them} by itself (spec.upgrade.templates), unless they ran before: then with its next version"
            )
        }
    };
    let message = format!("{what} {differ} from the tenant's{of_templates}. The tenant {when}");
    Some(Verdict::new(ConditionType::UpdateAvailable, Some(true), Reason::OtherTemplates, message))
}
