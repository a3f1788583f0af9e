//! Has a release be as it is described.

use crate::chart::{Fetched, fetch};
use crate::helm::{Helm, done};
use crate::place::Place;
use crate::problem::Problem;
use crate::record::Record;
use crate::release::Storage;
use crate::said::{look, tampering};
use crate::state::{self, Mark, Marks, Revision, Step, decide};
use crate::uninstall;
use berth_contract::apps::{At, Deploy, Deployed, Recorded, Release, files, labels};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;

/// Steps until it is as it is to be: mend, install, look.
const STEPS: usize = 4;
/// Revisions in a message.
const NAMED: usize = 3;
/// Revisions that Helm keeps.
const HISTORY: &str = "--history-max=10";

/// Values as Helm takes them.
struct Values {
    files: Vec<PathBuf>,
    digest: String,
}

/// Does it.
///
/// # Errors
///
/// What is at fault.
pub fn run(task: &Deploy, helm: &Helm, place: &Place) -> Result<Deployed, Problem> {
    let release = &task.release;
    let storage = Storage::new(helm, place, release)?;
    // Before the registry is asked: who cannot get into the tenant needs no chart.
    let mut history = storage.read(Duration::from_secs(place.patience))?;
    let chart = fetch(&task.chart, helm, place)?;
    let values = values(task, place)?;
    let wanted = Marks {
        installation: release.installation.clone(),
        chart: short(&chart.digest),
        values: short(&values.digest),
    };
    let (mut mended, mut unchanged) = (vec![], true);
    let mut recorded = release.recorded.clone();
    for _ in 0..STEPS {
        let newest = history.last().cloned().unwrap_or_default();
        match decide(&history, recorded.as_ref(), &wanted, release.adopt) {
            Step::Nothing => return Ok(deployed(task, &newest, &chart, &values, unchanged, &mended)),
            Step::Refuse => return Err(foreign(release)),
            Step::Tampered => return Err(tampered(release, &history)),
            step @ (Step::Install | Step::Upgrade(_)) => {
                if let Step::Upgrade(base) = step {
                    let marks = state::marks(&history, base);
                    mended.extend(told(&history, &marks, base));
                    storage.mark(&history, &marks)?;
                }
                let (revision, manifest_digest) = upgrade(task, helm, &chart, &values, &wanted, newest.revision + 1)?;
                let (chart_digest, values_digest) = (chart.digest.clone(), values.digest.clone());
                recorded = Some(Recorded { revision, manifest_digest, chart_digest, values_digest });
            }
            Step::Purge => {
                mended.push(format!(
                    "revision {} was {}, and nobody at work on it: uninstalled, and installed anew",
                    newest.revision, newest.status
                ));
                uninstall::purge(release, helm)?;
            }
        }
        unchanged = false;
        history = storage.read(Duration::ZERO)?;
    }
    let status = history.last().map_or("gone", |newest| &newest.status);
    Err(Problem::brief(
        At::Release,
        format!("release {} is {status} after {STEPS} steps: somebody else works on it", release.name),
    ))
}

/// What is put right, for people.
fn told(history: &[Revision], marks: &[Mark], base: Option<i64>) -> Vec<String> {
    let marked = |to: &str, which: fn(&Revision) -> bool| -> Vec<String> {
        let is_marked = |it: &&Revision| marks.iter().any(|mark| mark.revision == it.revision && mark.to == Some(to));
        let all = history.iter().filter(is_marked).filter(|it| which(it));
        all.map(|it| format!("revision {} was {}", it.revision, it.status)).collect()
    };
    let from = base.map(|base| format!(", and upgraded from revision {base}")).unwrap_or_default();
    let dead = marked("failed", |_| true);
    let dead = (!dead.is_empty()).then(|| {
        let more = dead.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(", {more} more were not deployed either") };
        let all = format!("{}{more}", dead[..dead.len().min(NAMED)].join(", "));
        format!("{all}, and nobody at work on it, or it was not Berth's: marked as failed{from}")
    });
    let own = marked("deployed", |it| !it.was_whole());
    dead.into_iter().chain(own.into_iter().map(|own| format!("{own}, and deployed before: marked as that"))).collect()
}

/// For a label.
pub(crate) fn short(digest: &str) -> String {
    digest.chars().take(40).collect()
}

fn values(task: &Deploy, place: &Place) -> Result<Values, Problem> {
    let to = place.empty("values")?;
    let written = |name: String, values: &Map<String, Value>| {
        let path = to.join(name);
        let text = serde_json::to_vec(values).unwrap_or_default();
        std::fs::write(&path, text).map_err(|e| Problem::file(&path, &e))?;
        Ok(path)
    };
    let from = |n: usize| match task.plain.iter().find(|plain| plain.at == n) {
        Some(plain) => written(format!("values-{n}.json"), &plain.values),
        None => Ok(place.secret.join(files::values(n))),
    };
    let mut all = (0..task.value_files).map(from).collect::<Result<Vec<PathBuf>, Problem>>()?;
    all.push(written("values.json".to_owned(), &task.values)?);
    let mut digest = Sha256::new();
    for (n, path) in all.iter().enumerate() {
        let bytes = match task.secrets.iter().find(|told| told.at == n) {
            Some(told) => told.digest.clone().into_bytes(),
            None => std::fs::read(path).map_err(|e| Problem::file(path, &e))?,
        };
        digest.update(bytes.len().to_be_bytes());
        digest.update(bytes);
    }
    Ok(Values { files: all, digest: format!("{:x}", digest.finalize()) })
}

/// `next`: the revision that it becomes. What it became, and the digest of that: by what Helm says, since what it keeps others may write.
fn upgrade(
    task: &Deploy,
    helm: &Helm,
    chart: &Fetched,
    values: &Values,
    wanted: &Marks,
    next: i64,
) -> Result<(i64, String), Problem> {
    let release = &task.release;
    let mut args =
        vec!["upgrade".to_owned(), "--install".to_owned(), release.name.clone(), chart.path.display().to_string()];
    args.extend([format!("--namespace={}", release.namespace), "--create-namespace".into(), HISTORY.into()]);
    // Else values of the release before would count where there are none now.
    args.extend(["--reset-values".to_owned(), format!("--timeout={}s", release.timeout)]);
    args.extend(values.files.iter().map(|path| format!("--values={}", path.display())));
    let marks = [
        (labels::INSTALLATION, &wanted.installation),
        (labels::CHART, &wanted.chart),
        (labels::VALUES, &wanted.values),
        (labels::REVISION, &next.to_string()),
    ];
    args.extend(marks.iter().map(|(name, value)| format!("--labels={name}={value}")));
    args.push(if task.wait { "--wait".to_owned() } else { "--wait=hookOnly".to_owned() });
    if task.roll_back {
        args.push("--rollback-on-failure".to_owned());
    }
    if release.adopt {
        args.push("--take-ownership".to_owned());
    }
    args.push("--output=json".to_owned());
    let said = done(helm, release, &args, task.roll_back)?;
    let record = Record::from_json(said.as_bytes())
        .ok_or_else(|| Problem::lasting(At::Other, "helm does not say what it has deployed"))?;
    Ok((record.revision(), record.digest()))
}

fn foreign(release: &Release) -> Problem {
    let Release { name, namespace, .. } = release;
    Problem::lasting(
        At::Foreign,
        format!(
            "release {name} in namespace {namespace} of the tenant is not of this App: set spec.adopt to true to take it over (it goes with this App then, once that was deployed), set spec.releaseName in another App, or uninstall it there"
        ),
    )
}

fn tampered(release: &Release, history: &[Revision]) -> Problem {
    Problem::lasting(
        At::Foreign,
        format!(
            "{}, so Berth does not go by it. Look at it with {}; then spec.adopt: true of the App goes on from what is there",
            tampering(release, history),
            look(release)
        ),
    )
}

fn deployed(
    task: &Deploy,
    newest: &Revision,
    chart: &Fetched,
    values: &Values,
    unchanged: bool,
    mended: &[String],
) -> Deployed {
    let state::Chart { name, version, app_version } = newest.chart.clone();
    Deployed {
        revision: newest.revision,
        chart: name,
        version,
        app_version,
        chart_digest: chart.digest.clone(),
        values_digest: values.digest.clone(),
        manifest_digest: newest.digest.clone(),
        epoch: task.epoch,
        unchanged,
        mended: mended.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_contract::apps::{Plain, Told};

    fn revision(revision: i64, status: &str) -> Revision {
        Revision { revision, status: status.into(), label: status.into(), ..Revision::default() }
    }

    #[test]
    fn what_is_put_out_of_the_way_is_told() {
        let history = [revision(1, "superseded"), revision(2, "pending-upgrade")];
        let marks = state::marks(&history, Some(1));
        assert_eq!(
            told(&history, &marks, Some(1)),
            [
                "revision 2 was pending-upgrade, and nobody at work on it, or it was not Berth's: marked as failed, and upgraded from revision 1"
            ]
        );
        let own = [revision(1, "pending-upgrade")];
        assert_eq!(
            told(&own, &state::marks(&own, Some(1)), Some(1)),
            ["revision 1 was pending-upgrade, and deployed before: marked as that"]
        );
        assert!(told(&history[..1], &state::marks(&history[..1], Some(1)), Some(1)).is_empty());
    }

    /// Whoever sees the digest cannot try what a Secret holds.
    #[test]
    fn the_digest_of_values_has_those_of_a_secret_as_they_were_told() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, scratch) = (dir.path().join("secret"), dir.path().join("scratch"));
        std::fs::create_dir(&secret).unwrap();
        let place = Place { secret, scratch, helm: "helm".into(), patience: 1 };
        let of = |told: &str, holds: &str, own: bool| {
            std::fs::write(place.secret.join(files::values(1)), holds).unwrap();
            let secrets = vec![Told { at: 1, digest: told.into() }];
            let values = Map::from_iter([("a".to_owned(), own.into())]);
            let plain = vec![Plain { at: 0, values: Map::new() }];
            let task = Deploy { values, value_files: 2, plain, secrets, ..Deploy::default() };
            let values = super::values(&task, &place).unwrap();
            assert_eq!(values.files.len(), 3);
            values.digest
        };
        let one = of("one", "a: 1", true);
        assert_eq!(of("one", "a: 2", true), one, "it goes by what was told");
        assert_ne!(of("two", "a: 1", true), one);
        assert_ne!(of("one", "a: 1", false), one);
    }

    #[test]
    fn a_release_that_was_tampered_with_is_told_with_the_way_out() {
        let recorded = Some(Recorded { revision: 2, ..Recorded::default() });
        let release = Release { name: "web".into(), namespace: "shop".into(), recorded, ..Release::default() };
        let of = |history: &[Revision]| tampered(&release, history).failure.message;
        let there = of(&[revision(2, "deployed")]);
        assert!(there.starts_with("revision 2 of release web in namespace shop of the tenant has another content"));
        assert!(there.contains("`helm get manifest web -n shop`") && there.contains("spec.adopt: true"), "{there}");
        assert!(of(&[revision(3, "deployed")]).contains("is not there any more"));
    }
}
