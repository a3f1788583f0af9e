//! What calls `make`, which waits as long as cargo builds something else: run after all others.

mod apps;
mod demo;
mod given;
mod release;
mod reproducible;
