//! `rollback`: writes a release that ran before into the spec, after showing the plan and asking.

use super::{Revision, all, differences, numbered, there};
use crate::access::Access;
use crate::args::{Meta, Rollback};
use crate::outcome::Outcome;
use crate::unchanged::merge_patch;
use crate::upgrade::propose;
use crate::{output, paint};
use anyhow::{bail, ensure};
use berth_api::revision::Release;
use berth_api::version::{Minor, Version};
use berth_api::{Cluster, labels};
use berth_kubeio::ErrorKind;
use berth_plan::object_meta::annotation;
use berth_render::{Kind, ObjectKey};
use serde_json::{Value, json};

/// Shows what changes, asks, and writes.
pub(crate) async fn run(meta: &Meta, args: &Rollback) -> anyhow::Result<Outcome> {
    let access = Access::to_write(meta).await?;
    let (of, value, cluster) = access.read_cluster(&args.name).await?;
    let all = all(&access, &cluster, &args.name).await?;
    let now = Release::of(&cluster.spec);
    let dns_domain = &*cluster.spec.network.dns_domain;
    let revision = chosen(&all, args.to, (&now, dns_domain), &of)?;
    let Some(release) = revision.read.as_ref().map(|read| read.spec.asked(dns_domain)) else {
        bail!("{of}: unreadable")
    };
    if release == now {
        output::print(&format!("{of}: the spec asks for revision {} already\n", revision.number))?;
        return Ok(Outcome::Done);
    }
    let served = served(&access, &cluster, &args.name).await?;
    if let Some(why) = unsafe_minor(&release.version, &now.version, served) {
        bail!("{of}: revision {} has {}: {why}. Those that ran: {}", revision.number, release.version, ran(&all));
    }
    let (live, wanted) = (json!(now), json!(release));
    let lines: Vec<String> =
        differences(&live, &wanted).iter().map(|line| format!("  {}", paint::safe(line))).collect();
    output::print(&format!("{}\n  back to revision {}:\n{}\n", paint::strong(&of), revision.number, lines.join("\n")))?;
    let patch = over(&value["spec"], &wanted);
    let what = format!("set the release of revision {}", revision.number);
    let asks = (&*what, args.yes, &*args.operator_namespace);
    propose(meta, &access, &value, &release.put_into(&cluster), (patch, None), asks).await?;
    output::print(&format!("{of}: the spec asks for revision {} again\n", revision.number))?;
    Ok(Outcome::Done)
}

/// The revision that is asked for; or the last that ran and is another than what the spec asks for.
fn chosen<'a>(
    all: &'a [Revision],
    to: Option<i64>,
    (now, dns_domain): (&Release, &str),
    of: &str,
) -> anyhow::Result<&'a Revision> {
    if let Some(number) = to {
        let found = numbered(all, number, of)?;
        ensure!(
            found.succeeded(),
            "{of}: revision {number} never came up, so it is not set again. Those that ran: {}",
            ran(all)
        );
        return Ok(found);
    }
    let other = |revision: &&Revision| revision.read.as_ref().is_some_and(|read| read.spec.asked(dns_domain) != *now);
    let found = all.iter().filter(|revision| revision.succeeded()).find(other);
    found.ok_or_else(|| anyhow::anyhow!("{of}: no other release that ran is recorded; {}", there(all)))
}

fn ran(all: &[Revision]) -> String {
    let ran: Vec<_> = all.iter().filter(|revision| revision.succeeded()).map(|r| r.number.to_string()).collect();
    if ran.is_empty() { "none".into() } else { ran.join(", ") }
}

/// The highest minor that the tenant served. None: it is not recorded, or not to be read: then the operator judges.
async fn served(access: &Access, cluster: &Cluster, name: &str) -> anyhow::Result<Option<Minor>> {
    let home = ObjectKey::cluster(Kind::Namespace, access.control_plane_namespace(cluster, name));
    match access.io.get(&home).await {
        Ok(live) => Ok(live.and_then(|live| annotation(&live, labels::SERVED_MINOR)?.parse().ok())),
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(None),
        Err(error) => Err(access.explain(error)),
    }
}

/// Why that version cannot be set back.
fn unsafe_minor(version: &str, now: &str, served: Option<Minor>) -> Option<String> {
    let parse = |text: &str| text.parse::<Version>().ok().map(Version::minor);
    let (minor, now) = (parse(version)?, parse(now)?);
    match served {
        Some(served) if minor < served => Some(format!(
            "this tenant has served {served}, and etcd may hold what {minor} cannot read, so there is no way back"
        )),
        _ if minor.since(now).is_none_or(|n| n.abs() > 1) => {
            Some("that is more than one minor version away, and they change one at a time".into())
        }
        _ => None,
    }
}

/// A merge patch after which a spec asks for that release. What a release has not is left as it is.
fn over(live: &Value, release: &Value) -> Value {
    let (mut live, mut wanted) = (live.clone(), release.clone());
    if let (Some(fields), Some(wanted)) = (live.as_object_mut(), wanted.as_object_mut()) {
        // The one field of a release that is elsewhere in a spec.
        let resources = wanted.remove("helperResources");
        if let Some(helpers) = fields.get_mut("helpers").and_then(Value::as_object_mut) {
            helpers.retain(|key, _| key == "resources");
        }
        if resources.is_some() || fields.contains_key("helpers") {
            let helpers = resources.into_iter().map(|resources| ("resources".to_owned(), resources)).collect();
            wanted.insert("helpers".into(), Value::Object(helpers));
        }
        fields.retain(|key, _| ["images", "proxy"].contains(&&**key) || wanted.contains_key(key));
        // What follows usage is of no release.
        for component in ["apiServer", "controllerManager", "scheduler"] {
            if let Some(own) = fields.get_mut(component).and_then(Value::as_object_mut) {
                own.remove("autoscaling");
            }
        }
    }
    merge_patch(&live, &wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_removes_what_the_release_does_not_have_and_leaves_the_rest() {
        let live = json!({
            "version": "1.36.3", "replicas": 2, "paused": true, "images": {"registry": "a"}, "proxy": {"http": "http://a"},
            "apiServer": {"replicas": 3, "extraArgs": [{"name": "nope"}], "authentication": {}, "autoscaling": {"mode": "InPlace"}},
            "helpers": {"resources": {"limits": {"cpu": "1"}}, "jobs": {"resources": {}}},
        });
        let wanted = json!({"version": "1.36.2", "replicas": 2, "apiServer": {"replicas": 2, "authentication": {}}});
        let patch = json!({
            "version": "1.36.2", "replicas": 2, "images": null, "proxy": null,
            "apiServer": {"replicas": 2, "extraArgs": null, "authentication": {}}, "helpers": {"resources": null},
        });
        assert_eq!(over(&live, &wanted), patch);
        let resources = json!({"requests": {"cpu": "10m"}});
        let of_helpers = over(&json!({"version": "1"}), &json!({"version": "2", "helperResources": resources}));
        assert_eq!(of_helpers, json!({"version": "2", "helpers": {"resources": resources}}));
    }

    #[test]
    fn a_minor_that_cannot_be_is_refused_with_why() {
        let minor = |text: &str| Some(text.parse::<Minor>().unwrap());
        assert_eq!(unsafe_minor("1.36.2", "1.36.3", minor("1.36")), None);
        assert_eq!(unsafe_minor("1.35.4", "1.36.3", minor("1.35")), None);
        assert!(unsafe_minor("1.35.4", "1.36.3", minor("1.36")).unwrap().contains("has served 1.36"));
        assert!(unsafe_minor("1.34.4", "1.36.3", None).unwrap().contains("one at a time"));
    }
}
