//! The planners of backups: of one ([`backup`]), of those that come by a schedule ([`schedule`]), and of what puts one back ([`restore`]).

pub mod backup;
pub mod restore;
pub mod schedule;

#[cfg(test)]
mod tests;
