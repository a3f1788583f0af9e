//! Deletes a snapshot whose successor was proven.

use crate::keep::discard;
use crate::place::Place;
use crate::problem::Problem;
use berth_contract::backup::{Delete, Outcome};

/// Deletes the snapshot and what is beside it. Gone already is as good; so is what the store keeps, whoever deletes it.
pub fn run(task: &Delete, place: &Place) -> Result<Outcome, Problem> {
    let remote = place.open(&task.store)?;
    if let Some(kept) = discard(&*remote, &task.key)? {
        println!("{} stays: {}", task.key, kept.message);
        return Ok(Outcome::Kept(kept));
    }
    println!("{} is deleted", task.key);
    Ok(Outcome::Deleted)
}
