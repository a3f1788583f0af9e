//! Asks before something is written.

use anyhow::{Context as _, bail};
use std::io::{BufRead, IsTerminal, Write};

/// Asks on the terminal for the name, which nobody types by accident. `to`: what it is typed for.
pub(crate) fn confirmed(name: &str, to: &str) -> anyhow::Result<bool> {
    confirmed_by("Cluster's name", name, to)
}

/// Likewise, for another word. `what`: what kind of word it is.
pub(crate) fn confirmed_by(what: &str, word: &str, to: &str) -> anyhow::Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        bail!("stdin is no terminal, so pass --yes to confirm. Nothing was changed");
    }
    anstream::eprint!("Type the {what} to {to}: ");
    anstream::stderr().flush().context("standard error")?;
    let mut line = String::new();
    stdin.lock().read_line(&mut line).context("standard input")?;
    Ok(line.trim() == word)
}
