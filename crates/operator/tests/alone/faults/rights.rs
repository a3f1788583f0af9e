//! Every rule of the generated roles, missing from the beginning and taken from an operator that runs, and what only a deletion needs:
//! it is told which right is missing, and the return heals without a touch.

use super::full;
use super::lack::{ACCOUNT, GROUPS, Lack, deletions, events, grant, rules};
use super::webhook::{closed, guards, install};
use crate::common::log::Log;
use crate::common::team::TOUCHED;
use crate::common::{Running, SOON, Team, alone_at_a_server, context};
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::{Cluster, EtcdCluster, names};
use berth_operator::{Context as Operator, meta};
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually, fixtures::until};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A minute of back-off at most, and then what is left to do.
const HEALED: Duration = Duration::from_mins(2);

/// The rule that `make test` takes first, and by how many another one follows that is taken later in the same life: two whose lack is
/// told at once.
const FIRST: usize = 1;
const LATER: usize = 17;

/// Past the time in which a right in a new namespace may be unknown to the API server, and its lack is not reported.
const GROWN: SignedDuration = SignedDuration::from_secs(11);

/// What one operator lacks, one after the other.
struct Lacks<'a> {
    /// Before it starts; a tenant is created.
    first: &'a Lack,
    /// While it runs and has a tenant; another one is created.
    later: &'a Lack,
    /// While it runs; the first one is deleted.
    deletion: &'a Lack,
}

/// An operator with the rights that the chart gives, and what it logs.
struct Life<'a> {
    server: &'static ApiServer,
    log: &'a Log,
    plan: FaultPlan,
    /// What looks at the meta cluster.
    context: Operator,
    _running: Running,
    _stop: DropGuard,
}

impl<'a> Life<'a> {
    /// As a process begins: it has asked where the meta cluster is, and asks again.
    async fn begin(server: &'static ApiServer, log: &'a Log) -> Self {
        let (plan, stop) = (FaultPlan::new(), CancellationToken::new());
        let config = server.config_as(ACCOUNT, &GROUPS);
        let asked = context(server, config.clone(), &plan);
        asked.update_meta(|m| m.addresses = Err("they have not been read yet".into()));
        let known = meta::refresh(&asked, &MetaRanges::default()).await;
        let mut context = None;
        let running = Running::start_changed(server, config, &plan, |its| {
            its.update_meta(|m| m.addresses.clone_from(&asked.meta().addresses));
            tokio::spawn(meta::follow(Arc::new(its.clone()), MetaRanges::default(), known, stop.clone()));
            context = Some(its.clone());
        });
        let context = context.expect("it starts");
        Self { server, log, plan, context, _running: running, _stop: stop.drop_guard() }
    }

    /// Where the lack was reported.
    async fn told(&self, lack: &Lack, team: &Team) -> Result<Option<&'static str>> {
        let of = |c: &&Condition| c.reason == "PermissionDenied" && lack.reported_by(&c.message);
        if let Some(condition) = conditions(team).await?.iter().find(of) {
            ensure!(condition.message.contains("restore them with helm upgrade"), "{}", condition.message);
            return Ok(Some("condition"));
        }
        let logged = lack.is_quiet() && self.log.lines().any(|l| l.contains("WARN") && lack.reported_by(&l));
        Ok(logged.then_some("log"))
    }

    /// Waits until the lack was reported.
    async fn tells(&self, lack: &Lack, team: &Team) -> Result<&'static str> {
        let told = async || {
            let (place, all) = (self.told(lack, team).await?, conditions(team).await?);
            place.with_context(|| format!("not told: {all:?}\n{}", self.log.text()))
        };
        eventually(SOON, "told", told).await
    }

    /// Takes it while the operator runs. Watches are let go from time to time: now, so that they miss it, too.
    async fn take(&self, lack: &Lack) -> Result<()> {
        self.log.clear();
        lack.set(self.server, false).await?;
        let resources = lack.resources();
        self.plan.cut_watches(move |c| resources.contains(&c.resource));
        Ok(())
    }

    /// Waits until the lack was reported, or a tenant is up in spite of it: then there is no place.
    async fn tells_or_is_up(&self, lack: &Lack, team: &Team) -> Result<Option<&'static str>> {
        let settled = async || match self.told(lack, team).await? {
            Some(place) => Ok(Some(place)),
            None if is_up(team).await.is_ok() => Ok(None),
            None => anyhow::bail!("neither up nor told: {:?}\n{}", conditions(team).await?, self.log.text()),
        };
        eventually(SOON, "up, or told", settled).await
    }

    /// Waits until the lack was reported at a deletion. Pods and claims may go with their namespace before the operator comes to delete one.
    async fn tells_or_is_gone(&self, lack: &Lack, team: &Team) -> Result<&'static str> {
        let told = async || match self.told(lack, team).await? {
            Some(place) => Ok(place),
            None if goes_along(lack) && team.cluster_opt().await.is_none() => Ok("nobody, since nobody needed it"),
            None => anyhow::bail!("not told: {:?}\n{}", conditions(team).await?, self.log.text()),
        };
        eventually(SOON, "told", told).await
    }

    /// Creates a tenant without the right, which is up when it is given back. One that needs no such right for that needs it for its
    /// end; another one takes its place. Returns where that was reported, too.
    async fn tenant(&self, lack: &Lack) -> Result<(Team, &'static str)> {
        let team = Team::with_cluster(self.server).await;
        let place = self.tells_or_is_up(lack, &team).await?;
        // What the lack does not concern goes on: without the Secret in the team's namespace the tenant serves.
        if lack.name() != names::OPERATOR_NAMESPACE_ROLE && lack.rights().contains(&("create".into(), "secrets".into()))
        {
            let serves = async || {
                let available = team.condition(ConditionType::Available).await?;
                ensure!(available.status == "True", "{}", available.message);
                Ok(())
            };
            eventually(SOON, "it serves", serves).await?;
        }
        let place = match place {
            None if lack.is_of_watches() => Some(self.tells_one_that_is_touched(lack, &team).await?),
            place => place,
        };
        if let Some(place) = place {
            lack.set(self.server, true).await?;
            up(&team).await?;
            return Ok((team, place));
        }
        team.delete().await;
        let place = self.tells_or_is_gone(lack, &team).await?;
        lack.set(self.server, true).await?;
        gone(&team).await?;
        let team = Team::with_cluster(self.server).await;
        up(&team).await?;
        Ok((team, place))
    }

    /// Missing from the beginning.
    async fn first(&self, lack: &Lack) -> Result<Team> {
        let (team, place) = self.tenant(lack).await?;
        println!("{lack}: missing from the beginning, told by: {place}");
        Ok(team)
    }

    /// What is looked at each five minutes, and each five seconds once that was refused. What is refused for ten is reported.
    async fn reports_of_reads(&self, lack: &Lack, team: &Team) -> Result<&'static str> {
        let look = async || {
            meta::refresh(&self.context, &MetaRanges::default()).await;
        };
        self.tells_in_time(lack, team, look).await
    }

    /// Of one that is well nobody looks at the status for minutes.
    async fn tells_one_that_is_touched(&self, lack: &Lack, team: &Team) -> Result<&'static str> {
        self.tells_in_time(lack, team, async || ()).await
    }

    /// By a condition, while somebody makes the operator look again and again.
    async fn tells_in_time(&self, lack: &Lack, team: &Team, look: impl AsyncFn()) -> Result<&'static str> {
        let told = async || {
            look().await;
            team.touch().await;
            // Only between two tries: without a watch the operator hears of no touch, so nothing says that it has looked.
            tokio::time::sleep(Duration::from_millis(400)).await;
            let place = self.told(lack, team).await?;
            place.filter(|place| *place == "condition").with_context(|| format!("not told: {}", self.log.text()))
        };
        eventually(SOON, "told by a condition", told).await
    }

    /// Taken while a tenant is there and another one comes: both are well when it is back.
    async fn later(&self, lack: &Lack, old: &Team) -> Result<Team> {
        self.take(lack).await?;
        old.touch().await;
        let (team, told) = if lack.was_asked() {
            let team = Team::with_cluster(self.server).await;
            up(&team).await?;
            let told =
                if lack.is_of_the_start() { "needed by nobody" } else { self.reports_of_reads(lack, old).await? };
            lack.set(self.server, true).await?;
            meta::refresh(&self.context, &MetaRanges::default()).await;
            (team, format!("told by: {told}"))
        } else {
            let (team, place) = self.tenant(lack).await?;
            (team, format!("told by: {place}"))
        };
        up(old).await?;
        println!("{lack}: taken from one that runs, {told}");
        Ok(team)
    }

    /// Taken before a tenant is deleted: it is gone when it is back.
    async fn deletion(&self, lack: &Lack, team: &Team) -> Result<()> {
        let binding = team.inside::<RoleBinding>().get("berth-operator").await?;
        let made = binding.metadata.creation_timestamp.context("a time")?.0;
        until(SOON, "rights that are no news", async || Timestamp::now().duration_since(made) > GROWN).await;
        self.take(lack).await?;
        team.delete().await;
        let place = self.tells_or_is_gone(lack, team).await?;
        lack.set(self.server, true).await?;
        gone(team).await?;
        println!("{lack}: taken before a deletion, told by: {place}");
        Ok(())
    }
}

/// Whether what may not be deleted is gone with the namespace as well.
fn goes_along(lack: &Lack) -> bool {
    [["pods"], ["persistentvolumeclaims"]].iter().any(|kind| lack.resources() == *kind)
}

/// What the conditions of the tenant and its etcd say.
async fn conditions(team: &Team) -> Result<Vec<Condition>> {
    let cluster: Option<Cluster> = team.clusters().get_opt("acme").await?;
    let etcd = team.inside::<EtcdCluster>().get_opt(names::ETCD).await?;
    let mut all = cluster.and_then(|c| c.status).map(|s| s.conditions).unwrap_or_default();
    all.extend(etcd.and_then(|e| e.status).map(|s| s.conditions).unwrap_or_default());
    Ok(all)
}

/// Nothing of it says that a right is missing, and it is ready.
async fn is_up(team: &Team) -> Result<()> {
    let all = conditions(team).await?;
    let denied = all.iter().any(|c| c.reason == "PermissionDenied");
    let ready = team.condition(ConditionType::Ready).await.is_ok_and(|c| c.status == "True");
    ensure!(ready && !denied, "{all:?}");
    Ok(())
}

/// Waits until it is.
async fn up(team: &Team) -> Result<()> {
    eventually(HEALED, "up", async || is_up(team).await).await
}

async fn gone(team: &Team) -> Result<()> {
    let gone = async || match team.cluster_opt().await {
        None => Ok(()),
        Some(_) => Err(conditions(team).await),
    };
    eventually(HEALED, "gone", gone).await
}

async fn one(server: &'static ApiServer, lacks: &Lacks<'_>, log: &Log) -> Result<()> {
    log.clear();
    lacks.first.set(server, false).await?;
    let life = Life::begin(server, log).await;
    let old = life.first(lacks.first).await.with_context(|| format!("{}, from the beginning", lacks.first))?;
    let new = life.later(lacks.later, &old).await.with_context(|| format!("{}, while it runs", lacks.later))?;
    life.deletion(lacks.deletion, &old).await.with_context(|| format!("{}, at a deletion", lacks.deletion))?;
    new.delete().await;
    gone(&new).await?;
    drop(life);
    old.wipe().await;
    new.wipe().await;
    Ok(())
}

/// `make test` tries one life; `BERTH_SWEEP=full` as many as there are rules, so that each is missing once from the beginning and once
/// later.
#[tokio::test]
async fn a_rule_that_is_missing_is_named_and_its_return_heals() {
    let (_turn, server) = alone_at_a_server().await;
    let log = Log::default();
    let _guard = log.listen();
    grant(server).await;
    let (rules, deletions) = (rules(), deletions());
    let lives = if full() { 0..rules.len() } else { FIRST..FIRST + 1 };
    let mut failures = vec![];
    for n in lives {
        let lacks = Lacks {
            first: &rules[n],
            later: &rules[(n + LATER) % rules.len()],
            deletion: &deletions[n % deletions.len()],
        };
        if let Err(error) = one(server, &lacks, &log).await {
            println!("FAILED: {error:#}");
            failures.push(format!("{error:#}"));
            for lack in [lacks.first, lacks.later, lacks.deletion] {
                lack.set(server, true).await.expect("given back");
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Events of Berth's, wherever they are.
async fn published(team: &Team) -> Vec<Event> {
    let mut all = vec![];
    for namespace in [&team.ns, &team.cp_namespace] {
        all.extend(
            Api::<Event>::namespaced(team.client.clone(), namespace).list(&ListParams::default()).await.expect("list"),
        );
    }
    all.retain(|e| e.reporting_controller.as_deref() == Some("berth.dev/operator"));
    all
}

/// A condition says less, and the log why; nothing waits for an Event. Both rights are taken at once: neither is needed for the other.
#[tokio::test]
async fn without_any_right_to_events_tenants_come_up_and_their_trouble_is_reported() {
    let (_turn, server) = alone_at_a_server().await;
    let log = Log::default();
    let _guard = log.listen();
    grant(server).await;
    let [write, read] = events();
    for lack in [&write, &read] {
        lack.set(server, false).await.expect("taken");
    }
    let life = Life::begin(server, &log).await;
    let team = Team::with_cluster(server).await;
    up(&team).await.expect("up");
    assert_eq!(life.tells(&write, &team).await.expect("told"), "log");

    // Why a pod of etcd is not there would be in Events.
    let member = names::etcd::member(names::ETCD, 0);
    install(&team, &closed().await, ["", "pods"], [&team.cp_namespace, &member]).await;
    let pods = team.inside::<Pod>();
    until(SOON, "the webhook in force", async || {
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        pods.patch(&member, &dry, &Patch::Merge(json!({"metadata": {"annotations": {TOUCHED: ""}}}))).await.is_err()
    })
    .await;
    pods.delete(&member, &DeleteParams::default()).await.expect("delete");
    assert_eq!(life.tells(&read, &team).await.expect("told"), "log");
    let said = team.says_of(ConditionType::Ready, "QuorumLost", "describe statefulset etcd` says why").await;
    assert!(said.contains(&member), "{said}");
    assert_eq!(published(&team).await, []);

    // The first Event after the right's return says that all is well.
    for lack in [&write, &read] {
        lack.set(server, true).await.expect("given back");
    }
    guards(&team).delete(&team.cp_namespace, &DeleteParams::default()).await.expect("delete");
    up(&team).await.expect("up again");
    until(SOON, "an Event", async || published(&team).await.iter().any(|e| e.reason.as_deref() == Some("Ready"))).await;
    team.delete().await;
    gone(&team).await.expect("gone");
    drop(life);
    team.wipe().await;
}
