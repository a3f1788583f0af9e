//! Compares what is in a tenant with what Helm left there, by a dry run of what Helm would apply, and sets it back if it is to. Helm itself is not asked for
//! that: its own dry run ends before it would apply.

mod fields;
mod kinds;
mod manifest;
mod report;

use crate::api::{Answer, Api};
use crate::helm::Helm;
use crate::place::Place;
use crate::problem::Problem;
use crate::release::Storage;
use crate::said::tampering;
use crate::secrets::Secrets;
use crate::state::{Revision, base, is_ours, is_pending};
use berth_contract::apps::{At, Check, Checked, Drifted, Object, Release, What, files};
use kinds::{Kinds, Resource};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long it may take to compare, and to set back after that: with another try less than the Job has.
const LIMIT: Duration = Duration::from_mins(10);
const REPAIR_LIMIT: Duration = Duration::from_mins(5);
/// How often a difference is looked at: controllers write between two requests, and what they write is none the second time.
const LOOKS: usize = 2;

/// Does it.
///
/// # Errors
///
/// The tenant does not answer, or what Helm has recorded cannot be read.
pub fn run(task: &Check, helm: &Helm, place: &Place) -> Result<Checked, Problem> {
    let until = Instant::now() + LIMIT;
    let storage = Storage::new(helm, place, &task.release)?;
    let history = storage.read(Duration::from_secs(place.patience))?;
    // None of Berth's is: it may be a person's upgrade that runs, and to take it for dead would do harm.
    if let Some(newest) = history.last().filter(|newest| is_pending(&newest.status)) {
        let why = format!("release {} is {}: somebody upgrades it, or died on that", task.release.name, newest.status);
        return Err(Problem::lasting(At::Release, why));
    }
    let there = match there(&task.release, &history) {
        Ok(there) => there,
        Err(replaced) => return Ok(Checked { replaced, ..Checked::default() }),
    };
    let objects = manifest::read(helm, place, &task.release, &storage.manifest(there)?)?;
    let api = Api::new(&place.secret.join(files::KUBECONFIG))?;
    let mut tenant = Tenant { api, kinds: Kinds::default(), task, until };
    let mut found = vec![];
    for object in objects {
        found.extend(tenant.compare(object)?);
    }
    if task.repair {
        tenant.mend(&mut found);
    }
    let mut all: Vec<Drifted> = found.into_iter().map(|found| found.told).collect();
    all.sort_by_key(|one| !report::is_known(one, &task.known));
    // An API server quotes what it refuses.
    let secrets = Secrets::read(&place.secret);
    for one in &mut all {
        secrets.out_of(&mut one.message);
    }
    Ok(report::checked(all))
}

/// What was deployed, if that is what is there. Err: why it is not.
fn there<'h>(release: &Release, history: &'h [Revision]) -> Result<&'h Revision, String> {
    let Some(newest) = history.last() else { return Err("it is not there any more".to_owned()) };
    let is = format!("revision {} is {}", newest.revision, newest.status);
    let Some(recorded) = &release.recorded else { return Err(format!("{is}, and nobody knows what Berth deployed")) };
    let base = base(history, Some(recorded));
    if !is_ours(history, &release.installation, base.is_some()) {
        return Err(format!("{is}, and not of this App"));
    }
    match base {
        Some(base) if base.revision == newest.revision && newest.status == "deployed" => Ok(base),
        Some(_) => Err(format!("{is}, and Berth deployed revision {}", recorded.revision)),
        None => Err(format!("{is}, and {}", tampering(release, history))),
    }
}

/// An object that is not as Helm left it.
struct Found {
    told: Drifted,
    /// What would be applied.
    wanted: Value,
}

/// Where is compared.
struct Tenant<'t> {
    api: Api,
    kinds: Kinds,
    task: &'t Check,
    until: Instant,
}

impl Tenant<'_> {
    /// Compares an object. None: it is as Helm left it, or nobody cares.
    fn compare(&mut self, mut wanted: Value) -> Result<Option<Found>, Problem> {
        self.in_time("compared", LIMIT)?;
        let resource = self.resource(&wanted, false)?;
        let object = self.place(&mut wanted, resource.as_ref());
        let Some(ignored) = fields::ignored(&object, &self.task.ignore) else { return Ok(None) };
        let found = |what: What, paths: Vec<String>, message: String, wanted: Value| {
            let told = Drifted { object: object.clone(), what, paths, message, mended: false };
            Ok(Some(Found { told, wanted }))
        };
        let Some(resource) = resource else {
            return found(What::Missing, vec![], "the tenant does not know its kind".to_owned(), wanted);
        };
        let path = resource.path(&object.namespace, &object.name);
        let mut differing: Option<Vec<String>> = None;
        let (mut applied, mut uid) = (wanted.clone(), Value::Null);
        for _ in 0..LOOKS {
            let live = match self.api.get(&path)? {
                Answer::Is(live) => live,
                // What a Job was for is done, and many delete themselves after it.
                Answer::Missing if object.kind == "Job" => return Ok(None),
                Answer::Missing => return found(What::Missing, vec![], String::new(), wanted),
                Answer::Refused(why) => return found(What::Refused, vec![], why, wanted),
            };
            if !live["metadata"]["deletionTimestamp"].is_null() {
                return Ok(None);
            }
            if let Some(other) = manifest::other_owner(&live, &self.task.release) {
                return found(What::Taken, vec![], other, wanted);
            }
            applied = fields::kept(wanted.clone(), &live, &ignored);
            uid = live["metadata"]["uid"].clone();
            let now = match self.api.apply(&path, &applied, true)? {
                Answer::Is(dry) => fields::differing(&live, &dry, &ignored),
                Answer::Missing => vec![],
                Answer::Refused(why) => return found(What::Refused, vec![], why, wanted),
            };
            let still: Vec<String> =
                now.into_iter().filter(|path| differing.as_ref().is_none_or(|before| before.contains(path))).collect();
            if still.is_empty() {
                return Ok(None);
            }
            differing = Some(still);
        }
        // Another one of that name, which came after the look, is not written over.
        applied["metadata"]["uid"] = uid;
        found(What::Changed, report::told(differing.unwrap_or_default()), String::new(), applied)
    }

    /// Sets back what is to be, in the order in which Helm applies it.
    fn mend(&mut self, found: &mut [Found]) {
        self.until = Instant::now() + REPAIR_LIMIT;
        let known = &self.task.known;
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|n| !report::is_known(&found[*n].told, known));
        let told: Vec<&Drifted> = order.iter().map(|n| &found[*n].told).collect();
        let mut mend: Vec<usize> =
            order.iter().zip(report::to_mend(&told, known)).filter(|(_, mend)| *mend).map(|(n, _)| *n).collect();
        mend.sort_unstable();
        mend_each(found, &mend, |one| self.mend_one(one));
    }

    fn mend_one(&mut self, Found { told, wanted }: &mut Found) -> Result<(), Problem> {
        self.in_time("set back", REPAIR_LIMIT)?;
        let Some(resource) = self.resource(wanted, true)? else { return Ok(()) };
        let path = resource.path(&told.object.namespace, &told.object.name);
        if told.what == What::Missing && self.api.get(&path)? != Answer::Missing {
            "somebody else created it meanwhile".clone_into(&mut told.message);
            return Ok(());
        }
        match self.api.apply(&path, wanted, false)? {
            Answer::Is(_) => (told.mended, told.message) = (true, String::new()),
            Answer::Missing => "its namespace is not there".clone_into(&mut told.message),
            Answer::Refused(why) => told.message = why,
        }
        Ok(())
    }

    fn resource(&mut self, object: &Value, again: bool) -> Result<Option<Resource>, Problem> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        self.kinds.find(&self.api, text("apiVersion"), text("kind"), again)
    }

    /// Which object it is, in the namespace in which Helm puts it.
    fn place(&self, wanted: &mut Value, resource: Option<&Resource>) -> Object {
        let text = |at: &str| wanted.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name, said) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
        let namespace = match resource {
            Some(resource) if !resource.namespaced => String::new(),
            Some(_) if said.is_empty() => self.task.release.namespace.clone(),
            _ => said,
        };
        if !namespace.is_empty() {
            wanted["metadata"]["namespace"] = json!(namespace);
        }
        Object { kind, namespace, name }
    }

    fn in_time(&self, done: &str, limit: Duration) -> Result<(), Problem> {
        let minutes = limit.as_secs() / 60;
        let late = || {
            Problem::brief(At::Tenant, format!("the tenant's API is slow: it was not {done} within {minutes} minutes"))
        };
        if Instant::now() < self.until { Ok(()) } else { Err(late()) }
    }
}

/// Sets back one after the other, as far as that goes. What was set back is told of in any case: else it would not count, and what somebody keeps
/// changing would be set back for ever.
fn mend_each(found: &mut [Found], which: &[usize], mut one: impl FnMut(&mut Found) -> Result<(), Problem>) {
    for (done, n) in which.iter().enumerate() {
        let Err(problem) = one(&mut found[*n]) else { continue };
        for n in &which[done..] {
            found[*n].told.message.clone_from(&problem.failure.message);
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_contract::apps::Recorded;

    #[test]
    fn what_was_set_back_counts_where_the_rest_was_not() {
        let one = |name: &str| {
            let object = Object { kind: "ConfigMap".into(), name: name.into(), ..Object::default() };
            Found { told: Drifted { object, what: What::Changed, ..Drifted::default() }, wanted: Value::Null }
        };
        let mut found: Vec<Found> = ["a", "b", "left", "c"].into_iter().map(one).collect();
        let mut asked = vec![];
        mend_each(&mut found, &[0, 1, 3], |one| {
            asked.push(one.told.object.name.clone());
            one.told.mended = one.told.object.name == "a";
            if one.told.mended { Ok(()) } else { Err(Problem::brief(At::Tenant, "it is slow")) }
        });
        assert_eq!(asked, ["a", "b"], "an API that does not answer is not asked for each");
        let told = report::checked(found.into_iter().map(|found| found.told).collect());
        let all: Vec<_> = told.objects.iter().map(|one| (one.mended, &*one.message)).collect();
        assert_eq!(
            (told.count, &all[..]),
            (3, &[(true, ""), (false, "it is slow"), (false, ""), (false, "it is slow")][..])
        );
    }

    fn history(of: &[(i64, &str, &str)]) -> Vec<Revision> {
        let one = |(revision, status, digest): &(i64, &str, &str)| Revision {
            revision: *revision,
            status: (*status).into(),
            label: (*status).into(),
            digest: (*digest).into(),
            made: Some(*revision),
            ..Revision::default()
        };
        of.iter().map(one).collect()
    }

    #[test]
    fn what_is_not_what_berth_deployed_is_told_as_such_and_not_compared() {
        let recorded = Recorded { revision: 4, manifest_digest: "d4".into(), ..Recorded::default() };
        let release = Release { name: "web".into(), recorded: Some(recorded), ..Release::default() };
        let of = |all: &[(i64, &str, &str)]| there(&release, &history(all)).map(|there| there.revision);
        assert_eq!(of(&[(3, "superseded", "d3"), (4, "deployed", "d4")]), Ok(4));
        assert_eq!(of(&[(4, "superseded", "d4"), (5, "superseded", "d5"), (6, "deployed", "d4")]), Ok(6));
        let why = |all: &[(i64, &str, &str)]| of(all).unwrap_err();
        assert_eq!(
            why(&[(4, "superseded", "d4"), (5, "deployed", "d5")]),
            "revision 5 is deployed, and Berth deployed revision 4"
        );
        assert_eq!(why(&[(4, "failed", "d4")]), "revision 4 is failed, and Berth deployed revision 4");
        assert!(why(&[(4, "deployed", "forged")]).contains("another content than Berth deployed"));
        assert!(why(&[(5, "deployed", "forged")]).contains("is not there any more"));
        assert_eq!(why(&[]), "it is not there any more");
        let theirs = Release { installation: "x".into(), ..release.clone() };
        let all = history(&[(4, "deployed", "d4")]);
        assert_eq!(there(&theirs, &all).unwrap_err(), "revision 4 is deployed, and not of this App");
        assert!(there(&Release::default(), &all).unwrap_err().contains("nobody knows"));
    }
}
