//! `access`: who may do what in which Clusters, by `ClusterAccess`es.

mod given;

use crate::access::{Access, parse};
use crate::args::access::{Grant, List, Revoke, Verb, Who};
use crate::args::{Format, Meta};
use crate::outcome::Outcome;
use crate::output;
use crate::paint::safe;
use crate::wait::until;
use anyhow::anyhow;
use berth_api::ClusterAccess;
use berth_api::cluster_access::SubjectKind;
use berth_api::conditions::{ConditionType, find};
use berth_kubeio::ErrorKind;
use berth_plan::fleet::TenantId;
use berth_plan_cluster::users::selects;
use berth_render::{Kind, ObjectKey};
use given::{Given, counts, counts_in, given, table, time};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::{Value, json};

const MANAGER: &str = "kubectl-berth";

pub(crate) async fn run(meta: &Meta, verb: &Verb) -> anyhow::Result<Outcome> {
    match verb {
        Verb::List(args) => list(&Access::to_read(meta).await?, meta, args).await,
        Verb::Who(args) => who(&Access::to_read(meta).await?, args).await,
        Verb::Grant(args) => grant(&Access::to_write(meta).await?, args).await,
        Verb::Revoke(args) => revoke(&Access::to_write(meta).await?, args).await,
    }
}

async fn all(access: &Access, namespace: Option<&str>) -> anyhow::Result<Vec<ClusterAccess>> {
    access.io.list(Kind::ClusterAccess, namespace, None).await.map(read).map_err(|e| access.explain(e))
}

/// Those that this version can read; the others are complained of.
fn read(items: Vec<Value>) -> Vec<ClusterAccess> {
    let read = |item: Value| {
        let of = ObjectKey::of(Kind::ClusterAccess, &item).to_string();
        parse(item, &of).inspect_err(output::complain).ok()
    };
    items.into_iter().filter_map(read).collect()
}

/// Those of all namespaces, or of the own one for whoever may read no more.
async fn everywhere(access: &Access) -> anyhow::Result<Vec<ClusterAccess>> {
    match access.io.list(Kind::ClusterAccess, None::<&str>, None).await {
        Ok(items) => Ok(read(items)),
        Err(error) if error.kind == ErrorKind::Forbidden => {
            let own = &access.namespace;
            output::note(&format!("only those of namespace {own} are listed: {error}"));
            all(access, Some(own)).await
        }
        Err(error) => Err(access.explain(error)),
    }
}

async fn list(access: &Access, meta: &Meta, args: &List) -> anyhow::Result<Outcome> {
    let asked = args.user.as_ref().map(|name| (SubjectKind::User, name));
    let asked = asked.or_else(|| args.group.as_ref().map(|name| (SubjectKind::Group, name)));
    let is_everywhere = asked.is_some() && meta.namespace.is_none() && !args.all_namespaces;
    let mut found = if is_everywhere {
        everywhere(access).await?
    } else {
        all(access, (!args.all_namespaces).then_some(&*access.namespace)).await?
    };
    let now = Timestamp::now();
    // What somebody has; without a name also what ended.
    found.retain(|one| asked.is_none() || counts(one, now));
    let mut given: Vec<Given> = found.iter().flat_map(|one| given(one, None)).collect();
    given.retain(|one| asked.is_none_or(|(kind, name)| one.kind == kind && one.name == *name));
    show(args.output, &given)?;
    Ok(Outcome::done_if(given.iter().all(|one| one.ready)))
}

async fn who(access: &Access, args: &Who) -> anyhow::Result<Outcome> {
    let (namespace, name) = args.cluster.split_once('/').unwrap_or((&access.namespace, &args.cluster));
    let access = &Access { namespace: namespace.to_owned(), ..access.clone() };
    let (_, _, cluster) = access.read_cluster(name).await?;
    let of = TenantId { namespace: namespace.to_owned(), name: name.to_owned() };
    let platform = &*args.operator_namespace;
    let mut found = all(access, Some(namespace)).await?;
    if namespace != platform {
        match all(access, Some(platform)).await {
            Ok(more) => found.extend(more),
            Err(error) => output::note(&format!("those of namespace {platform} are not among them: {error:#}")),
        }
    }
    let now = Timestamp::now();
    found.retain(|one| counts_in(one, &of, selects(one, &of, cluster.labels(), Some(platform)), now));
    let given: Vec<Given> = found.iter().flat_map(|one| given(one, Some(&of))).collect();
    show(args.output, &given)?;
    Ok(Outcome::Done)
}

fn show(format: Format, given: &[Given]) -> anyhow::Result<()> {
    if format == Format::Table && given.is_empty() {
        output::note("no ClusterAccess gives anything there");
        return Ok(());
    }
    output::show(format, &given, || table(given, Timestamp::now()))
}

async fn grant(access: &Access, args: &Grant) -> anyhow::Result<Outcome> {
    let me = access.io.who_am_i().await.map_err(|e| access.explain(e))?;
    let key = ObjectKey::namespaced(Kind::ClusterAccess, &*access.namespace, &*args.access);
    let object = object(args, &access.namespace, &me.name, me.asked.unwrap_or_else(Timestamp::now));
    access.io.create(&key, &object, MANAGER).await.map_err(|e| access.explain(e))?;
    let until = object["spec"]["expiresAt"].as_str().map(|at| format!(" until {at}")).unwrap_or_default();
    output::print(&format!("{key} is created: {}{until}, by {}\n", args.role, safe(&me.name)))?;
    wait(access, &key, args.wait.wait.then_some(args.wait.timeout), false).await
}

fn object(args: &Grant, namespace: &str, me: &str, now: Timestamp) -> Value {
    let subjects = |kind: &str, names: &[String]| -> Vec<Value> {
        names.iter().map(|name| json!({"kind": kind, "name": name})).collect()
    };
    let subjects = [subjects("User", &args.user), subjects("Group", &args.group)].concat();
    let mut spec = json!({"subjects": subjects, "role": args.role, "grantedBy": me});
    if let Some(labels) = &args.selector {
        spec["clusterSelector"] = json!({"matchLabels": labels});
    } else {
        let named = args.cluster.iter().map(|cluster| match cluster.split_once('/') {
            Some((namespace, name)) => json!({"namespace": namespace, "name": name}),
            None => json!({"name": cluster}),
        });
        spec["clusterRefs"] = named.collect();
    }
    if !args.within.is_empty() {
        spec["namespaces"] = json!(args.within);
    }
    if let Some(lasts) = args.lasts {
        spec["expiresAt"] = time(now.checked_add(lasts).unwrap_or(now)).into();
    }
    if let Some(reason) = &args.reason {
        spec["reason"] = reason.as_str().into();
    }
    if args.tenant_names {
        spec["issuer"] = "Tenant".into();
    }
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess",
        "metadata": {"name": args.access, "namespace": namespace}, "spec": spec,
    })
}

async fn revoke(access: &Access, args: &Revoke) -> anyhow::Result<Outcome> {
    let key = ObjectKey::namespaced(Kind::ClusterAccess, &*access.namespace, &*args.access);
    let Some(live) = access.get(&key).await? else {
        access.installed().await?;
        return Err(anyhow!("{key} does not exist. List all with: kubectl berth access list -A"));
    };
    let uid = live["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    // It ends by that server's clock: by one that is ahead of it, it would go on.
    let me = access.io.who_am_i().await.map_err(|e| access.explain(e))?;
    let now = me.asked.unwrap_or_else(Timestamp::now);
    if let Some(at) = end(&live, now) {
        let patch = json!({"metadata": {"uid": uid}, "spec": {"expiresAt": at}});
        let query = format!("fieldManager={MANAGER}");
        access.io.merge(&key, "", &query, &patch).await.map_err(|e| access.explain(e))?;
    }
    output::print(&format!("{key} ends: its rights are taken back\n"))?;
    if args.delete {
        access.io.delete(&key, &uid, None).await.map_err(|e| access.explain(e))?;
    }
    wait(access, &key, args.wait.wait.then_some(args.wait.timeout), true).await
}

/// The end that is written to end it now. None: it ended. Where it has one that is written otherwise than the policy compares, such as from an
/// older Berth, that is when it was made: the policy lets that pass, whoever gave it.
fn end(live: &Value, now: Timestamp) -> Option<String> {
    let Some(text) = live["spec"]["expiresAt"].as_str() else { return Some(time(now)) };
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b"-:.TZ".contains(&b));
    match text.parse::<Timestamp>() {
        Ok(at) if at <= now => None,
        Ok(_) if text.ends_with('Z') && is_plain(text) => Some(time(now)),
        _ => Some(live["metadata"]["creationTimestamp"].as_str().map_or_else(|| time(now), str::to_owned)),
    }
}

/// Waits until Berth says of this spec that all is as asked for. `ends`: that nothing of it is given any more, or until it is gone.
async fn wait(
    access: &Access,
    key: &ObjectKey,
    timeout: Option<jiff::SignedDuration>,
    ends: bool,
) -> anyhow::Result<Outcome> {
    let Some(timeout) = timeout else { return Ok(Outcome::Done) };
    let look = async || {
        let Some(live) = access.get(key).await? else { return Ok((Some(ends), "it is gone".to_owned())) };
        Ok(progress(&parse(live, &key.to_string())?, ends))
    };
    Ok(Outcome::done_if(until(timeout, look).await? == Some(true)))
}

fn progress(access: &ClusterAccess, ends: bool) -> (Option<bool>, String) {
    let status = access.status.clone().unwrap_or_default();
    let seen = status.observed_generation == access.metadata.generation;
    match find(&status.conditions, ConditionType::Ready).filter(|_| seen) {
        None => (None, "wait: the operator has not seen it yet".into()),
        Some(ready) => {
            let done = ready.status == "True" && (!ends || status.granted.unwrap_or_default() == 0);
            (done.then_some(true), ready.message.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser;

    fn asked(line: &str) -> Grant {
        let words = ["kubectl-berth", "access", "grant"].into_iter().chain(line.split_whitespace());
        match Args::try_parse_from(words).unwrap().verb {
            crate::args::Verb::Access(args) => match args.verb {
                Verb::Grant(grant) => *grant,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn made(line: &str) -> ClusterAccess {
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        serde_json::from_value(object(&asked(line), "team-a", "jane", now)).unwrap()
    }

    #[test]
    fn a_grant_is_what_the_command_says_with_the_name_of_who_gives_it() {
        let made = made(
            "devs --role Editor --group developers --user eve --cluster acme --cluster team-b/x --in web --for 8h",
        );
        let spec = serde_json::to_value(&made.spec).unwrap();
        assert_eq!(
            spec,
            json!({
                "clusterRefs": [{"name": "acme"}, {"namespace": "team-b", "name": "x"}], "role": "Editor", "grantedBy": "jane",
                "subjects": [{"kind": "User", "name": "eve"}, {"kind": "Group", "name": "developers"}],
                "namespaces": ["web"], "expiresAt": "2026-11-30T20:00:00Z",
            })
        );
        let made = self::made("devs --role Viewer --user eve -l tier=gold,env=prod --tenant-names");
        let spec = serde_json::to_value(&made.spec).unwrap();
        assert_eq!(spec["clusterSelector"]["matchLabels"], json!({"env": "prod", "tier": "gold"}));
        assert_eq!((spec["issuer"].as_str(), spec["expiresAt"].is_null()), (Some("Tenant"), true));
    }

    #[test]
    fn whatever_its_end_is_it_can_be_ended() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let of = |until: Value| {
            let meta = json!({"creationTimestamp": "2026-11-01T00:00:00Z"});
            end(&json!({"metadata": meta, "spec": {"expiresAt": until}}), now)
        };
        let (at_once, since_it_was_made) = (Some("2026-11-30T12:00:00Z"), Some("2026-11-01T00:00:00Z"));
        for (until, ends) in [
            (json!(null), at_once),
            (json!("2026-12-01T00:00:00Z"), at_once),
            (json!("2026-11-30T12:00:00Z"), None),
            (json!("2026-11-30T12:30:00+01:00"), None),
            (json!("2026-12-01T00:00:00+01:00"), since_it_was_made),
            (json!("2026-12-01T00:00:00z"), since_it_was_made),
            (json!("9999-12-31T23:59:59Z"), since_it_was_made),
            (json!("2026-12-01T18:00:00+99:99"), since_it_was_made),
        ] {
            assert_eq!(of(until.clone()).as_deref(), ends, "{until}");
        }
    }

    #[test]
    fn an_end_that_is_no_time_is_shown_as_it_is() {
        let mut access = made("devs --role Viewer --user eve --cluster acme");
        access.spec.expires_at = Some(serde_json::from_value(json!("9999-12-31T23:59:59Z")).unwrap());
        let text = table(&given(&access, None), "2026-11-30T12:00:00Z".parse().unwrap());
        assert!(text.contains("no time"), "{text}");
        assert!(!given::counts(&access, "2026-11-30T12:00:00Z".parse().unwrap()), "nothing is given by it");
    }

    #[test]
    fn a_grant_says_to_whom_and_where() {
        for line in [
            "a --role Viewer --user x",
            "a --role Viewer --cluster acme",
            "a --user x --cluster acme",
            "--role Viewer --user x --cluster a",
        ] {
            let words = ["kubectl-berth", "access", "grant"].into_iter().chain(line.split_whitespace());
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn each_subject_has_a_line() {
        let mut access = made("devs --role Viewer --user eve --group devs --cluster acme --for 2h");
        let ready = json!({"type": "Ready", "status": "False", "reason": "Waiting", "message": "it sleeps", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        access.status =
            Some(serde_json::from_value(json!({"selected": 2, "granted": 1, "conditions": [ready]})).unwrap());
        let text = crate::paint::plain(&table(&given(&access, None), "2026-11-30T12:00:00Z".parse().unwrap()));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(
            lines[1],
            ["User", "eve", "Viewer", "all", "acme", "1/2", "in", "2h", "jane", "team-a/devs", "it", "sleeps"]
        );
        assert_eq!(lines[2][..2], ["Group", "devs"]);
        let later = table(&given(&access, None), "2026-12-30T12:00:00Z".parse().unwrap());
        assert!(later.contains("ended"), "{later}");
    }
}
