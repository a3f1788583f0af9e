//! Apps that come before another one.

use super::{installations_of, is_newest, state, wanted};
use berth_api::App;
use berth_api::app::AppState;
use berth_api::conditions::Reason;
use berth_plan::Input;
use berth_plan::model::State;
use berth_render::{Kind, ObjectKey};
use kube_core::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};

/// One that comes first, where it is to be, and where it is.
#[derive(Clone, Debug)]
struct First {
    app: ObjectKey,
    is_for: BTreeSet<ObjectKey>,
    deployed: BTreeSet<ObjectKey>,
}

/// Those that come before an `App`.
#[derive(Clone, Debug, Default)]
pub(super) struct Before(Vec<First>);

impl Before {
    /// Of what was observed. Err: there is one that comes after itself, or is not there.
    pub(super) fn of(input: Input<'_, App>) -> Result<Self, State> {
        let apps = apps(input);
        if let Some(circle) = circle(input.name(), &apps) {
            let message =
                format!("spec.after: this App comes after itself: {}. Take one of these out", circle.join(", after "));
            return Err(State::blocked(Reason::InvalidSpec, message));
        }
        let first = |name: &String| {
            let key = ObjectKey::namespaced(Kind::App, input.namespace(), name);
            let missing = || State::waiting(format!("{key}, which spec.after names: create it, or correct the name"));
            let app = apps.get(&**name).ok_or_else(missing)?;
            let (clusters, _) = wanted(app, &input.observed.objects, &input.settings.apps.namespace);
            let is_there = |installation: &berth_api::AppInstallation| {
                is_newest(app, installation) && state(installation) == AppState::Deployed
            };
            let there = installations_of(input.observed, app).filter(is_there);
            let cluster = |installation: berth_api::AppInstallation| {
                let namespace = installation.namespace().unwrap_or_default();
                ObjectKey::namespaced(Kind::Cluster, namespace, installation.spec.cluster.name)
            };
            Ok(First { app: key, is_for: clusters.into_keys().collect(), deployed: there.map(cluster).collect() })
        };
        input.object.spec.after.iter().map(|other| first(&other.name)).collect::<Result<_, _>>().map(Self)
    }

    /// The first that a `Cluster` is to have, and has not.
    pub(super) fn lacks(&self, cluster: &ObjectKey) -> Option<&ObjectKey> {
        let lacks = |first: &&First| first.is_for.contains(cluster) && !first.deployed.contains(cluster);
        self.0.iter().find(lacks).map(|first| &first.app)
    }
}

/// The `App`s of its namespace, by name; itself as it is now.
fn apps(input: Input<'_, App>) -> BTreeMap<String, App> {
    let all = input.observed.of_kind(Kind::App, input.namespace());
    let others = all.filter_map(|(key, live)| Some((key.name.clone(), serde_json::from_value(live.clone()).ok()?)));
    others.chain([(input.name().to_owned(), input.object.clone())]).collect()
}

/// The way from an `App` back to itself.
fn circle(name: &str, apps: &BTreeMap<String, App>) -> Option<Vec<String>> {
    let mut ways = vec![vec![name.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        let Some(app) = way.last().and_then(|last| apps.get(last)) else { continue };
        for other in &app.spec.after {
            let longer: Vec<String> = way.iter().chain([&other.name]).cloned().collect();
            if other.name == name {
                return Some(longer);
            }
            if seen.insert(other.name.clone()) {
                ways.push(longer);
            }
        }
    }
    None
}
