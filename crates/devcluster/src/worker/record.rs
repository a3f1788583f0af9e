//! What is remembered of a cluster's machines.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::MAX_WORKERS;
use crate::{files, layout::Layout};

/// The longest name of a machine, which is a host's and a node's.
const NAME_MAX: usize = 40;

/// A machine's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// From 1 on. Its address, and the names of its link, namespace and processes follow from it.
    pub(crate) number: u8,
    /// The VPC that it is in; none: it is on the cluster's node network.
    pub(crate) vpc: Option<String>,
    /// The addresses of its pods, once they are known.
    #[serde(default)]
    pub(crate) pods: Option<String>,
}

impl Record {
    pub(crate) fn read(layout: &Layout, name: &str) -> Result<Option<Self>> {
        let path = path(layout, name)?;
        let Some(text) = files::read_optional(&path)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).with_context(|| format!("cannot read {}", path.display()))
    }

    pub(crate) fn write(&self, layout: &Layout, name: &str) -> Result<()> {
        files::create_dir(&directory(layout))?;
        files::write(&path(layout, name)?, serde_json::to_vec(self)?)
    }

    pub(crate) fn forget(layout: &Layout, name: &str) -> Result<()> {
        files::remove(&path(layout, name)?)
    }

    /// The record of a machine, made with the lowest free number if there is none. It stays where it is.
    pub(crate) fn of(layout: &Layout, name: &str, vpc: Option<&str>) -> Result<Self> {
        if let Some(record) = Self::read(layout, name)? {
            let place = |vpc: Option<&str>| vpc.map_or("outside of any VPC".to_owned(), |vpc| format!("in VPC {vpc}"));
            if record.vpc.as_deref() != vpc {
                let (is, wanted) = (place(record.vpc.as_deref()), place(vpc));
                bail!("the machine {name} is {is} and not {wanted}: `devcluster worker remove {name}` removes it");
            }
            return Ok(record);
        }
        let taken = all(layout)?;
        let free = |number: &u8| !taken.iter().any(|(_, record)| record.number == *number);
        let Some(number) = (1..=MAX_WORKERS).find(free) else {
            bail!("there are {MAX_WORKERS} machines: `devcluster worker remove` removes one");
        };
        let record = Self { number, vpc: vpc.map(str::to_owned), pods: None };
        record.write(layout, name)?;
        Ok(record)
    }
}

/// All machines, by name.
fn all(layout: &Layout) -> Result<Vec<(String, Record)>> {
    let Ok(entries) = fs::read_dir(directory(layout)) else { return Ok(Vec::new()) };
    let names = entries.flatten().filter_map(|entry| {
        Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()).filter(|name| !name.starts_with('.'))
    });
    names.filter_map(|name| Record::read(layout, &name).transpose().map(|record| Ok((name, record?)))).collect()
}

fn directory(layout: &Layout) -> PathBuf {
    layout.dir.join("workers")
}

fn path(layout: &Layout, name: &str) -> Result<PathBuf> {
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    ensure!(
        !name.is_empty()
            && name.len() <= NAME_MAX
            && name.chars().all(valid)
            && !name.starts_with('-')
            && !name.ends_with('-'),
        "`{name}` is no machine's name: at most {NAME_MAX} lower-case letters, digits and dashes, not beginning or ending with a dash"
    );
    Ok(directory(layout).join(format!("{name}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_a_number_and_keeps_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout { name: "demo".to_owned(), dir: dir.path().to_owned() };
        let number = |name: &str, vpc| Record::of(&layout, name, vpc).map(|record| record.number);
        assert_eq!(number("one", Some("a")).unwrap(), 1);
        assert_eq!(number("two", None).unwrap(), 2);
        assert_eq!(number("three", Some("a")).unwrap(), 3);
        assert_eq!(number("one", Some("a")).unwrap(), 1);
        assert!(number("one", Some("b")).unwrap_err().to_string().contains("is in VPC a and not in VPC b"));
        Record::forget(&layout, "one").unwrap();
        assert_eq!(number("four", None).unwrap(), 1);
        assert!(number("../x", None).is_err());
    }
}
