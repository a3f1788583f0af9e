//! Issuers of service-account tokens of a release: those of the spec, and those that signed tokens which still live.
//!
//! A token is refused by each API server that does not have its issuer. So what signed goes on being accepted; and a new first issuer signs only
//! once every API server that may run accepts it: the release before that one lists it behind the issuer that signs. What is accepted beside the
//! spec is part of the release, and so of its `ClusterRevision`: it is there before anything runs with it, and an operator that does not know of it
//! makes a release of its own. Nothing is added or dropped but by a new release.

use super::record::Revision;
use crate::components::service_account_issuers;
use berth_api::Cluster;
use berth_api::cluster::{FormerIssuer, KeptIssuer};
use berth_api::conditions::Reason;
use berth_api::revision::{ClusterRevisionSpec, Release};
use berth_plan::model::State;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// As many as a release takes (`maxItems` of `serviceAccountIssuers`).
const MOST: usize = 16;

/// How long a token lives at most by the templates (`--service-account-max-token-expiration`).
const LONGEST: SignedDuration = SignedDuration::from_hours(2160);

/// The flag with which those of pods live longer.
const EXTENDS: &str = "service-account-extend-token-expiration";

/// How much longer that is: upstream's constant.
const EXTENDED: SignedDuration = SignedDuration::from_hours(365 * 24);

/// What is accepted beside the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Issuers {
    /// Those that the spec does not list, in the order of the release.
    pub(super) kept: Vec<KeptIssuer>,
    /// Those that it lists, and that signed before: they are kept once it does not.
    pub(super) listed: Vec<KeptIssuer>,
}

/// The release with the issuers that it is to run with. `asked`: that of the `Cluster`; `all`: what is recorded, the oldest first.
pub(super) fn of_release(
    cluster: &Cluster,
    asked: Release,
    all: &[Revision<'_>],
    now: Timestamp,
) -> (Release, Issuers) {
    let readable: Vec<_> = all.iter().filter(|revision| revision.spec.is_some()).collect();
    let keeps = asked.api_server.former_service_account_issuers.are_kept();
    let Some(newest) = readable.last().filter(|_| keeps) else { return (asked, Issuers::default()) };
    let own = service_account_issuers(&cluster.spec);
    let past = Past::of(&readable, cluster, &asked);
    let lives = |kept: &&KeptIssuer| kept.signed_until.as_ref().is_none_or(|Time(until)| now < end(*until, kept));
    let all = past.kept(0);
    let listed = |order: &[String]| {
        let of = |kept: &&KeptIssuer| own.contains(&kept.issuer) && order.first() != Some(&kept.issuer);
        all.iter().filter(lives).filter(of).take(MOST).cloned().collect::<Vec<_>>()
    };
    // What an earlier build recorded is not made anew by this one.
    if newest.release() == Some(&asked) {
        let listed = listed(&own);
        return (asked, Issuers { kept: vec![], listed });
    }
    let known = past.kept(past.runs);
    let as_it_is = [&known, &all].into_iter().find(|kept| newest.release() == Some(&past.with(&asked, &own, kept)));
    let kept = as_it_is.cloned().unwrap_or_else(|| all.iter().filter(lives).cloned().collect());
    let order = past.order(&own, &kept);
    let issuers = Issuers { kept: beside(&own, &order, &kept), listed: listed(&order) };
    (past.with(&asked, &own, &kept), issuers)
}

/// Those of the newest release, which goes on. When they stopped signing may be known only since it was recorded.
pub(super) fn of_newest(cluster: &Cluster, all: &[Revision<'_>]) -> Issuers {
    let readable: Vec<_> = all.iter().filter(|revision| revision.spec.is_some()).collect();
    let Some(newest) = readable.last().and_then(|newest| newest.spec.as_ref()) else { return Issuers::default() };
    let known = Past::of(&readable, cluster, &newest.release).kept(0);
    let now =
        |recorded: &KeptIssuer| known.iter().find(|kept| kept.issuer == recorded.issuer).unwrap_or(recorded).clone();
    let of = |recorded: &[KeptIssuer]| recorded.iter().map(now).collect();
    Issuers { kept: of(&newest.kept_issuers), listed: of(&newest.listed_issuers) }
}

impl Issuers {
    /// Why the release cannot be with what it keeps.
    pub(super) fn refusal(&self, asked: &Release) -> Option<State> {
        let api = &asked.api_server;
        let issuers = "spec.apiServer.serviceAccountIssuers";
        let drop = "set spec.apiServer.formerServiceAccountIssuers to Drop, if nobody needs such a token any more";
        if api.service_account_issuers.len() > MOST {
            let all = api.service_account_issuers.len();
            let why = format!(
                "{issuers}: with {} that signed tokens before, there are {all} issuers, and {MOST} may be. List fewer; or {drop}",
                self.kept.len()
            );
            return Some(State::blocked(Reason::InvalidSpec, why));
        }
        let jwt = api.authentication.jwt.iter().enumerate();
        let mut urls = jwt.filter_map(|(at, one)| Some((at, one.pointer("/issuer/url")?.as_str()?)));
        let (at, url) = urls.find(|(_, url)| self.kept.iter().any(|kept| kept.issuer == *url))?;
        let why = format!(
            "spec.apiServer.authentication.jwt[{at}].issuer.url: is an issuer of service-account tokens that {issuers} had before ({url}), and what it signed is accepted as long as it lives. Use another issuer; or {drop}"
        );
        Some(State::blocked(Reason::InvalidSpec, why))
    }

    /// What people see of them.
    pub(super) fn status(&self) -> Vec<FormerIssuer> {
        let accepted_until = |kept: &KeptIssuer| kept.signed_until.as_ref().map(|Time(until)| Time(end(*until, kept)));
        self.kept
            .iter()
            .map(|kept| FormerIssuer { issuer: kept.issuer.clone(), accepted_until: accepted_until(kept) })
            .collect()
    }
}

/// Issuers of the releases that are recorded, the oldest first; of those before a release that dropped all others, of none.
struct Past<'a> {
    releases: Vec<Ran<'a>>,
    /// From where API servers of them may run: from the last that succeeded.
    runs: usize,
    /// One of all that are recorded has tokens of pods live for longer.
    extended: bool,
}

struct Ran<'a> {
    issuers: Vec<String>,
    /// Since when no API server of an earlier one runs.
    alone_since: Option<Timestamp>,
    spec: &'a ClusterRevisionSpec,
}

impl<'a> Past<'a> {
    fn of(readable: &[&'a Revision<'_>], cluster: &Cluster, asked: &Release) -> Self {
        let ran = |revision: &&'a Revision<'_>| {
            let spec = revision.spec.as_ref()?;
            let since = revision.status.since.as_ref().filter(|_| revision.succeeded());
            let issuers = service_account_issuers(&spec.release.put_into(cluster).spec);
            Some(Ran { issuers, alone_since: since.map(|Time(since)| *since), spec })
        };
        let all: Vec<_> = readable.iter().filter_map(ran).collect();
        // One that did not come through dropped nothing: what signed before it may sign still.
        let drops = |ran: &Ran<'_>| {
            ran.alone_since.is_some() && !ran.spec.release.api_server.former_service_account_issuers.are_kept()
        };
        let from = all.iter().rposition(drops).unwrap_or_default();
        let releases: Vec<_> = all.into_iter().skip(from).collect();
        let runs = releases.iter().rposition(|ran| ran.alone_since.is_some()).unwrap_or_default();
        Self { releases, runs, extended: extends(asked, readable) }
    }

    /// When the last API server that signed with it was replaced, if none signs any more.
    fn signed_until(&self, issuer: &str) -> Option<Timestamp> {
        let signs = |ran: &Ran<'_>| ran.issuers.first().is_some_and(|first| first == issuer);
        let after = self.releases.iter().rposition(signs).map_or(0, |at| at + 1);
        self.releases.iter().skip(after).find_map(|ran| ran.alone_since)
    }

    /// What is kept by the newest release, and what may have signed in those from the given one on.
    fn kept(&self, from: usize) -> Vec<KeptIssuer> {
        let of = |ran: &Ran<'_>| [ran.spec.kept_issuers.clone(), ran.spec.listed_issuers.clone()].concat();
        let mut all: Vec<_> = self.releases.last().map(of).unwrap_or_default();
        for kept in &mut all {
            kept.signed_until = kept.signed_until.take().or_else(|| self.signed_until(&kept.issuer).map(Time));
            kept.extended |= self.extended;
        }
        for signs in self.releases.iter().skip(from).filter_map(|ran| ran.issuers.first()) {
            if all.iter().all(|kept| kept.issuer != *signs) {
                let signed_until = self.signed_until(signs).map(Time);
                all.push(KeptIssuer { issuer: signs.clone(), signed_until, extended: self.extended });
            }
        }
        // In the order that runs, so that one that leaves the spec's list is no change.
        let newest = self.releases.last().map(|ran| &*ran.issuers).unwrap_or_default();
        all.sort_by_key(|kept| newest.iter().position(|issuer| *issuer == kept.issuer).unwrap_or(usize::MAX));
        all
    }

    /// All of them, the one that signs first.
    fn order(&self, own: &[String], kept: &[KeptIssuer]) -> Vec<String> {
        let mut runs = self.releases.iter().skip(self.runs).map(|ran| &ran.issuers);
        let signs = runs.clone().next().and_then(|issuers| issuers.first());
        let accepted = own.first().is_some_and(|first| runs.all(|issuers| issuers.contains(first)));
        let signs = signs.filter(|_| !accepted);
        let kept = kept.iter().map(|kept| &kept.issuer);
        let mut order: Vec<String> = vec![];
        for issuer in signs.into_iter().chain(own).chain(kept) {
            // Twice in the spec is for whoever refuses it.
            if !order.contains(issuer) {
                order.push(issuer.clone());
            }
        }
        order
    }

    /// The release with them. As it is asked for, where that says the same.
    fn with(&self, asked: &Release, own: &[String], kept: &[KeptIssuer]) -> Release {
        let order = self.order(own, kept);
        let mut release = asked.clone();
        if order != own {
            release.api_server.service_account_issuers = order;
        }
        release
    }
}

/// Those of a release that the spec does not list.
fn beside(own: &[String], order: &[String], kept: &[KeptIssuer]) -> Vec<KeptIssuer> {
    let of = |issuer: &String| {
        let kept = kept.iter().find(|kept| kept.issuer == *issuer).cloned();
        kept.unwrap_or_else(|| KeptIssuer { issuer: issuer.clone(), ..KeptIssuer::default() })
    };
    order.iter().filter(|issuer| !own.contains(issuer)).map(of).collect()
}

/// Whether an API server of one of these releases gives pods tokens that live longer.
fn extends(asked: &Release, all: &[&Revision<'_>]) -> bool {
    let releases = all.iter().filter_map(|revision| revision.release()).chain([asked]);
    let mut args = releases.flat_map(|release| &release.api_server.extra_args);
    args.any(|arg| arg.name == EXTENDS && arg.value != "false")
}

/// When the last token that it signed has ended.
fn end(signed_until: Timestamp, kept: &KeptIssuer) -> Timestamp {
    let life = if kept.extended { EXTENDED } else { LONGEST };
    signed_until.saturating_add(life).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
