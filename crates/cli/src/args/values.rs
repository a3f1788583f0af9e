//! Values of flags.

use clap::ValueEnum;
use clap_complete::Shell;
use jiff::SignedDuration;
use std::collections::BTreeMap;

/// Berth's version: a release says its own.
pub(crate) const BERTH: &str = match option_env!("BERTH_RELEASE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
}

/// A time to live: positive, such as `2h` or `30m`.
pub(crate) fn ttl(text: &str) -> Result<SignedDuration, String> {
    let ttl: SignedDuration = text.parse().map_err(|_| format!("{text}: write it such as 2h or 30m"))?;
    if ttl < SignedDuration::from_mins(1) || ttl > SignedDuration::from_hours(24 * 365) {
        return Err(format!("{text}: it must be between 1m and 8760h"));
    }
    Ok(ttl)
}

/// How long to wait.
pub(crate) fn timeout(text: &str) -> Result<SignedDuration, String> {
    let timeout: Option<SignedDuration> = text.parse().ok();
    timeout.filter(SignedDuration::is_positive).ok_or_else(|| format!("{text}: write it such as 30m or 1h"))
}

/// Labels, as `kubectl` takes those that are equal.
pub(crate) fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let one = |pair: &str| {
        let (key, value) = pair.split_once('=').filter(|(key, _)| !key.is_empty() && !key.ends_with('!'))?;
        Some((key.to_owned(), value.trim_start_matches('=').to_owned()))
    };
    text.split(',')
        .map(one)
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{text}: write it such as tier=gold,env=prod"))
}

/// Who completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Completer {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
    /// The file kubectl_complete-berth.
    Kubectl,
}

impl Completer {
    /// What writes the script of a shell.
    pub(crate) fn generator(self) -> Option<Shell> {
        Shell::from_str(self.to_possible_value()?.get_name(), false).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_durations() {
        assert_eq!(timeout("30m").unwrap(), SignedDuration::from_mins(30));
        assert!(timeout("0s").is_err() && timeout("soon").is_err());
    }

    #[test]
    fn a_token_lives_for_a_while() {
        assert_eq!(ttl("24h").unwrap(), SignedDuration::from_hours(24));
        assert_eq!(ttl("90m").unwrap(), SignedDuration::from_mins(90));
        for wrong in ["0s", "-1h", "", "24", "8761h"] {
            assert!(ttl(wrong).is_err(), "{wrong}");
        }
    }
}
