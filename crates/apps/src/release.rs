//! What Helm has recorded of a release in the tenant: reads it, and puts it right for what comes next.

use crate::api::{Answer, Api, escaped};
use crate::helm::{Helm, is_forbidden, is_unreachable, last};
use crate::place::Place;
use crate::problem::Problem;
use crate::record::{self, Record, secret_name};
use crate::state::{Mark, Revision};
use berth_contract::apps::{At, Release, files, labels};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// How long Helm may take to read.
pub(crate) const READ: Duration = Duration::from_mins(1);
/// Revisions that Helm tells of, and that are read at once: each may have a megabyte.
const TOLD: usize = 256;
const PAGE: usize = 8;
/// What Helm's history says of a revision that is out of the way.
const MARKED: &str = "Marked as failed by Berth: who made it died amid that, or was not Berth";

/// What Helm has recorded of a release.
#[derive(Debug)]
pub(crate) struct Storage<'t> {
    api: Api,
    helm: &'t Helm,
    release: &'t Release,
}

/// A revision, as Helm tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Told {
    revision: i64,
    status: String,
}

impl<'t> Storage<'t> {
    /// By the kubeconfig beside the Job.
    pub(crate) fn new(helm: &'t Helm, place: &Place, release: &'t Release) -> Result<Self, Problem> {
        Ok(Self { api: Api::new(&place.secret.join(files::KUBECONFIG))?, helm, release })
    }

    /// Its revisions, from the oldest. `patience`: until when a tenant that does not answer, or does not let this user in yet, is asked again.
    ///
    /// # Errors
    ///
    /// The tenant does not answer, Helm says something strange, or a Secret is not as Helm writes it.
    pub(crate) fn read(&self, patience: Duration) -> Result<Vec<Revision>, Problem> {
        let told = self.told(patience)?;
        let mut all = vec![];
        let mut from = String::new();
        loop {
            let query = escaped(&format!("owner=helm,name={}", self.release.name));
            let path = format!("{}?labelSelector={query}&limit={PAGE}&continue={}", self.secrets(), escaped(&from));
            let page = match self.api.get(&path)? {
                Answer::Is(page) => page,
                Answer::Missing => return Err(tenant("it has no Secrets")),
                Answer::Refused(why) => return Err(tenant(&why)),
            };
            for secret in page["items"].as_array().into_iter().flatten() {
                all.push(record::revision(secret, &self.release.name).ok_or_else(|| self.strange(secret))?);
            }
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut from);
            if from.is_empty() {
                break;
            }
        }
        all.sort_by_key(|it| it.revision);
        if agree(&told, &all) { Ok(all) } else { Err(self.disagree()) }
    }

    /// As Helm sees them.
    fn told(&self, patience: Duration) -> Result<Vec<Told>, Problem> {
        let until = Instant::now() + patience;
        let (namespace, most) = (format!("--namespace={}", self.release.namespace), format!("--max={TOLD}"));
        loop {
            let said = self.helm.call(&["history", &self.release.name, &namespace, &most, "--output=json"], READ)?;
            if said.ok {
                return serde_json::from_str(&said.out)
                    .map_err(|e| Problem::lasting(At::Other, format!("helm says what is no answer: {e}")));
            }
            if said.err.contains("release: not found") {
                return Ok(vec![]);
            }
            let waits = is_unreachable(&said.err) || is_forbidden(&said.err);
            if !waits || Instant::now() >= until {
                return Err(tenant(&last(&said.err)));
            }
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Objects of the chart in a revision, as YAML.
    pub(crate) fn manifest(&self, revision: &Revision) -> Result<String, Problem> {
        Ok(self.record(revision)?.1.manifest().to_owned())
    }

    /// A revision as it was read, with its Secret.
    fn record(&self, revision: &Revision) -> Result<(Value, Record), Problem> {
        let secret = match self.api.get(&self.secret(revision.revision))? {
            Answer::Is(secret) => secret,
            Answer::Missing => return Err(self.meanwhile()),
            Answer::Refused(why) => return Err(tenant(&why)),
        };
        match Record::of(&secret).filter(|record| record.digest() == revision.digest) {
            Some(record) => Ok((secret, record)),
            None => Err(self.meanwhile()),
        }
    }

    /// Puts revisions into other states.
    pub(crate) fn mark(&self, history: &[Revision], marks: &[Mark]) -> Result<(), Problem> {
        for mark in marks {
            let Some(revision) = history.iter().find(|it| it.revision == mark.revision) else { continue };
            let (secret, record) = self.record(revision)?;
            let mut metadata = Map::from_iter([
                ("resourceVersion".to_owned(), secret["metadata"]["resourceVersion"].clone()),
                ("labels".to_owned(), json!({})),
            ]);
            if mark.strip {
                let all = [labels::INSTALLATION, labels::CHART, labels::VALUES, labels::REVISION];
                metadata["labels"] = all.into_iter().map(|label| (label.to_owned(), Value::Null)).collect();
            }
            let mut change = Map::new();
            if let Some(to) = mark.to {
                metadata["labels"]["status"] = json!(to);
                let record = record.in_state(to, Some(MARKED).filter(|_| to == "failed"));
                let text = record.encode().map_err(|e| Problem::brief(At::Other, e.to_string()))?;
                change.insert("data".to_owned(), json!({"release": text}));
            }
            change.insert("metadata".to_owned(), Value::Object(metadata));
            match self.api.merge(&self.secret(mark.revision), &Value::Object(change))? {
                Answer::Is(_) => {}
                Answer::Missing => return Err(self.meanwhile()),
                Answer::Refused(why) => return Err(self.refused(mark.revision, &why)),
            }
        }
        Ok(())
    }

    /// Deletes what Helm has recorded of revisions.
    pub(crate) fn discard(&self, revisions: &[i64]) -> Result<(), Problem> {
        for revision in revisions {
            if let Answer::Refused(why) = self.api.delete(&self.secret(*revision))? {
                return Err(self.refused(*revision, &why));
            }
        }
        Ok(())
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", escaped(&self.release.namespace))
    }

    fn secret(&self, revision: i64) -> String {
        format!("{}/{}", self.secrets(), escaped(&secret_name(&self.release.name, revision)))
    }

    fn strange(&self, secret: &Value) -> Problem {
        let Release { name, namespace, .. } = self.release;
        let secret = secret["metadata"]["name"].as_str().unwrap_or_default();
        Problem::lasting(
            At::Foreign,
            format!(
                "Secret {secret} in namespace {namespace} of the tenant has Helm's labels of release {name}, and is not as Helm writes it: delete it there, or take the label owner off"
            ),
        )
    }

    fn disagree(&self) -> Problem {
        let Release { name, namespace, .. } = self.release;
        Problem::brief(
            At::Foreign,
            format!(
                "`helm history {name} -n {namespace}` in the tenant does not tell what the Secrets with the labels owner=helm,name={name} there say: somebody works on the release, or wrote one of them by hand. Delete those that Helm does not list"
            ),
        )
    }

    fn meanwhile(&self) -> Problem {
        let Release { name, namespace, .. } = self.release;
        Problem::brief(
            At::Release,
            format!("somebody else works on release {name} in namespace {namespace} of the tenant"),
        )
    }

    fn refused(&self, revision: i64, why: &str) -> Problem {
        let Release { name, namespace, .. } = self.release;
        let secret = secret_name(name, revision);
        tenant(&format!("Secret {secret} in namespace {namespace}, where Helm keeps that revision: {why}"))
    }
}

/// Whether Helm goes by the same revisions: what it cannot read it passes over.
fn agree(told: &[Told], read: &[Revision]) -> bool {
    let told = told.iter().map(|it| (it.revision, &it.status));
    let read = read[read.len().saturating_sub(TOLD)..].iter().map(|it| (it.revision, &it.status));
    told.eq(read)
}

fn tenant(why: &str) -> Problem {
    Problem::brief(At::Tenant, format!("the tenant's API: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helm_and_berth_go_by_the_same_revisions_or_by_none() {
        let told = |all: &[i64]| -> Vec<Told> {
            all.iter().map(|revision| Told { revision: *revision, status: "failed".into() }).collect()
        };
        let read = |all: std::ops::Range<i64>| -> Vec<Revision> {
            all.map(|revision| Revision { revision, status: "failed".into(), ..Revision::default() }).collect()
        };
        assert!(agree(&[], &[]) && agree(&told(&[1, 2]), &read(1..3)));
        assert!(!agree(&told(&[1]), &read(1..3)) && !agree(&[], &read(1..2)) && !agree(&told(&[1]), &[]));
        let many: Vec<i64> = (45..301).collect();
        assert!(agree(&told(&many), &read(1..301)), "Helm tells of the last");
        let mut other = told(&[1]);
        other[0].status = "deployed".into();
        assert!(!agree(&other, &read(1..2)));
    }
}
