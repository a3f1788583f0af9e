//! The Job of an `AppInstallation`: what it is asked for, what it is made from, and the Secret beside it.

use super::input::InstallationInput;
use super::target::Tenant;
use crate::objects::find;
use crate::values::{self, TenantFacts, config_maps, secrets};
use berth_api::app::{AppConfigMap, AppRelease, AppSecret};
use berth_api::apps::{Chart, Check, Deploy, Plain, Recorded, Release, TASK, Task, Told, Uninstall, files};
use berth_api::conditions::Reason;
use berth_api::{Cluster, labels, names};
use berth_pki::{CertSpec, Usage};
use berth_plan::digest::sha256;
use berth_plan::jobs::{JobShape, Volume, variables};
use berth_plan::model::{SecretEntry, State};
use berth_plan::workload;
use berth_render::{ObjectKey, lay_over};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

/// How long the certificate outlives the Job's deadline.
const MORE: SignedDuration = SignedDuration::from_mins(10);
/// A chart of 20 MiB at most, unpacked and with what Helm keeps of it.
const SCRATCH: &str = "256Mi";

/// What a Job is to do, and by what it is known that it was done.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) task: Task,
    /// Digest of it, and of all that it is made from.
    pub(super) digest: String,
    /// Copies of Secrets with values that it gets. Err: why none begins.
    pub(super) values: Result<Vec<SecretEntry>, State>,
    /// Likewise, of those that its chart is fetched with, each with the digest of what is in it.
    pub(super) chart: Result<Vec<(SecretEntry, String)>, State>,
}

/// The release of the spec, as the program is told. What the `App` leaves out was filled in.
fn release(input: InstallationInput<'_>) -> Release {
    let asked = &input.object.spec.release;
    let name = asked.release_name.clone().unwrap_or_else(|| input.object.spec.app.name.clone());
    let namespace = asked.namespace.clone().unwrap_or_else(|| "default".to_owned());
    Release {
        name,
        namespace,
        installation: input.name().to_owned(),
        timeout: asked.timeout_seconds,
        adopt: asked.adopt,
        recorded: None,
    }
}

/// What was deployed last in a tenant of that epoch. After a restore Helm's record is an older one, so it is looked at as if there were none here.
fn recorded(input: InstallationInput<'_>, epoch: i64) -> Option<Recorded> {
    let there = input.status().release.filter(|there| there.epoch == Some(epoch))?;
    Some(Recorded {
        revision: there.revision,
        manifest_digest: there.manifest_digest?,
        chart_digest: there.chart_digest,
        values_digest: there.values_digest,
    })
}

/// The chart, as it is fetched.
pub fn chart(asked: &AppRelease) -> Chart {
    let chart = asked.chart.clone();
    Chart {
        from: chart.oci.or(chart.repository).unwrap_or_default(),
        name: chart.name.unwrap_or_default(),
        version: chart.version.unwrap_or_default(),
        digest: chart.digest.unwrap_or_default(),
        plain_http: chart.plain_http,
    }
}

/// What is asked of a tenant in that epoch. Err: what is awaited, or refused.
pub(super) fn deploy(input: InstallationInput<'_>, epoch: i64) -> Result<Asked, State> {
    let asked = &input.object.spec.release;
    let own_values = own_values(input)?;
    let plain = plain(input)?;
    let untold = |secret: &AppSecret, key: &str| {
        State::waiting(format!("{} to say what is in key {key} of Secret {}", input.target().app, secret.name))
    };
    let of = |(at, secret, key): (usize, &AppSecret, &str)| {
        let digest = said(input, secret, key).ok_or_else(|| untold(secret, key))?;
        Ok(Told { at, digest: digest.to_owned() })
    };
    let secrets = asked.value_secrets().map(of).collect::<Result<_, State>>()?;
    let mut deploy = Deploy {
        release: release(input),
        chart: chart(asked),
        values: own_values,
        value_files: asked.values_from.len(),
        plain,
        secrets,
        wait: asked.wait,
        roll_back: input.rolls_back(),
        epoch,
    };
    let digest = digest(&json!({"task": deploy}));
    // Not a part of what is asked for: it is another one after each Job.
    deploy.release.recorded = recorded(input, epoch);
    Ok(Asked { task: Task::Deploy(Box::new(deploy)), digest, values: of_values(input), chart: of_chart(input) })
}

/// What is asked of the tenant, as far as it can be said.
pub(super) fn asked(input: InstallationInput<'_>) -> Option<Asked> {
    match input.target().tenant(input.observed, &input.object.spec.cluster.uid) {
        Tenant::There { epoch, .. } => deploy(input, epoch.unwrap_or_default()).ok(),
        Tenant::Gone => None,
    }
}

/// Values that are no secret, of this tenant.
fn own_values(input: InstallationInput<'_>) -> Result<Map<String, Value>, State> {
    let release = &input.object.spec.release;
    let cluster = release.values_template.as_ref().map(|_| {
        let key = input.target().cluster;
        find::<Cluster>(input.observed, &key).ok_or_else(|| State::waiting(format!("{key}, which cannot be read")))
    });
    let tenant = cluster.transpose()?.map(|cluster| TenantFacts::of(&cluster, &input.settings.registry));
    values::of(release, &input.object.spec.config_maps, &tenant.unwrap_or_default()).map_err(State::from)
}

/// Values of ConfigMaps, as the `App` had read them.
fn plain(input: InstallationInput<'_>) -> Result<Vec<Plain>, State> {
    let spec = &input.object.spec;
    let named = spec.release.values_from.iter().enumerate();
    let named = named.filter_map(|(at, from)| Some((at, from.config_map_ref.as_ref()?, &*from.key)));
    let one = |(at, map, key): (usize, &AppConfigMap, &str)| {
        let values = config_maps::find(&spec.config_maps, &map.name, key, map.optional);
        let untold =
            || State::waiting(format!("{} to say what is in key {key} of ConfigMap {}", input.target().app, map.name));
        Ok(Plain { at, values: values.ok_or_else(untold)? })
    };
    named.map(one).collect()
}

/// That the release be gone.
pub(super) fn uninstall(input: InstallationInput<'_>) -> Asked {
    let mut uninstall = Uninstall { release: release(input) };
    let digest = digest(&json!({"task": uninstall}));
    if let Tenant::There { epoch, .. } = input.target().tenant(input.observed, &input.object.spec.cluster.uid) {
        uninstall.release.recorded = recorded(input, epoch.unwrap_or_default());
    }
    Asked { task: Task::Uninstall(uninstall), digest, values: Ok(vec![]), chart: Ok(vec![]) }
}

/// That what is there be compared.
pub(super) fn check(check: Check) -> Asked {
    let task = Task::Check(Box::new(check));
    Asked { digest: digest(&json!({"task": task})), task, values: Ok(vec![]), chart: Ok(vec![]) }
}

/// Short enough for a label.
fn digest(of: &Value) -> String {
    let mut digest = sha256(of.to_string().as_bytes());
    digest.truncate(40);
    digest
}

/// The digest of what is in a key of a Secret that a field of the `App` names. Err: what is wrong with it.
fn live(input: InstallationInput<'_>, field: &str, secret: &ObjectKey, key: &str) -> Result<String, State> {
    let field = format!("spec.{field} of the App");
    secrets::digest_of(input.observed, &field, secret, key).map_err(State::from)
}

/// The login of the registry and who signs its certificate, as they are: no part of what is asked for. Err: what is wrong with them.
fn of_chart(input: InstallationInput<'_>) -> Result<Vec<(SecretEntry, String)>, State> {
    let chart = &input.object.spec.release.chart;
    let named = [
        ("chart.pullSecretRef", &chart.pull_secret_ref, files::LOGIN),
        ("chart.caSecretRef", &chart.ca_secret_ref, files::CA),
    ];
    let named = named.into_iter().filter_map(|(field, secret, key)| Some((field, secret.as_ref()?, key)));
    let one = |(field, secret, key): (&str, &AppSecret, &str)| {
        let source = input.target().source(&secret.name);
        let digest = live(input, field, &source, key)?;
        Ok((SecretEntry::Copy { name: key.to_owned(), source, of: key.to_owned() }, digest))
    };
    named.map(one).collect()
}

/// Values of Secrets. Err: what is wrong with them, or why others than the `App` said are no reason to upgrade it now.
fn of_values(input: InstallationInput<'_>) -> Result<Vec<SecretEntry>, State> {
    let one = |(at, secret, key): (usize, &AppSecret, &str)| {
        let app = input.target().app;
        let source = input.target().source(&secret.name);
        let there = live(input, "valuesFrom", &source, key)?;
        if said(input, secret, key).is_some_and(|said| said != there) {
            return Err(State::waiting(format!(
                "its turn to get what key {key} of {source} holds by now: {app} says whose turn it is, and why nobody's"
            )));
        }
        Ok(SecretEntry::Copy { name: files::values(at), source, of: key.to_owned() })
    };
    input.object.spec.release.value_secrets().map(one).collect()
}

/// Which values the `App` saw in a key of a Secret.
fn said<'a>(input: InstallationInput<'a>, secret: &AppSecret, key: &str) -> Option<&'a str> {
    let all = input.0.object.spec.secrets.iter();
    all.filter(|one| (&*one.name, &*one.key) == (&*secret.name, key)).map(|one| &*one.digest).next()
}

/// What is in the Secret beside the Job. `copies`: of Secrets.
pub(super) fn entries(input: InstallationInput<'_>, copies: Vec<SecretEntry>) -> Vec<SecretEntry> {
    let target = input.target();
    // The port of the Service is the one that the tenant is given.
    let port = find::<Cluster>(input.observed, &target.cluster).unwrap_or_default().spec.endpoint.port;
    let kubeconfig = SecretEntry::Kubeconfig {
        cluster: target.cluster.name.clone(),
        server: format!("https://{}.{}.svc:{port}", names::APISERVER, target.home),
        spec: CertSpec::new(names::APPS_USER, Usage::Client, input.deadline() + MORE),
        issuer: target.ca(),
        why: "a Job is about to begin".to_owned(),
    };
    [kubeconfig].into_iter().chain(copies).collect()
}

impl Asked {
    /// Digest of what its chart is fetched with, as it is now. None: of nothing.
    pub(super) fn fetched_with(&self) -> Option<String> {
        let all = self.chart.as_ref().ok().filter(|all| !all.is_empty())?;
        Some(digest(&all.iter().map(|(_, digest)| &**digest).collect()))
    }

    /// The Job.
    pub(super) fn shape<'a>(&'a self, input: InstallationInput<'a>, key: &ObjectKey) -> Result<JobShape<'a>, State> {
        let task = serde_json::to_string(&self.task).map_err(|e| State::blocked(Reason::Error, e.to_string()))?;
        let settings = input.settings;
        let mut env = vec![json!({"name": TASK, "value": task})];
        let source = input.object.spec.release.source();
        env.extend(variables(settings, input.observed, &source.replacen("oci://", "https://", 1)));
        let mut container = json!({
            "image": settings.apps.image,
            "args": ["run", "--secret=/etc/berth/app", "--scratch=/scratch"],
            "env": env,
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        });
        for layer in &workload::job(&settings.helpers, None) {
            lay_over(&mut container, layer);
        }
        let volumes = vec![
            Volume::new("scratch", "/scratch", json!({"emptyDir": {"sizeLimit": SCRATCH}})),
            Volume::new("app", "/etc/berth/app", json!({"secret": {"secretName": key.name, "defaultMode": 0o440}})),
        ];
        let of = match self.task {
            Task::Check(_) => labels::APP_CHECK_UID,
            Task::Deploy(_) | Task::Uninstall(_) => labels::APP_INSTALLATION_UID,
        };
        let labels = vec![(of, input.uid()), (labels::APP_ASKED, &*self.digest)];
        let (key, pod) = (key.clone(), Map::new());
        Ok(JobShape { key, labels, container, volumes, pod, retries: 2, ttl: None })
    }
}
