//! Deletes a snapshot whose successor was proven. The manifest goes first: what has none is no backup.

use crate::problem::Problem;
use crate::store::{Remote, manifest_key};
use crate::take::Place;
use berth_contract::backup::Delete;

/// Deletes both objects. Gone already is as good.
pub fn run(task: &Delete, place: &Place) -> Result<(), Problem> {
    let remote = Remote::open(&task.store, &place.credentials, place.store_timeout)?;
    remote.delete(&manifest_key(&task.key))?;
    remote.delete(&task.key)?;
    println!("{} is deleted", task.key);
    Ok(())
}
