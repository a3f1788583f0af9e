//! How the tenants of a fleet change their version: the chart's value `rollouts`.

use jiff::SignedDuration;
use serde::Deserialize;

/// How many tenants change their version at once, and when that stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollouts {
    /// Tenants that change it at once. 0: none begins. Default 10.
    pub max_concurrent: usize,
    /// Tenants that may come back from a version, by changes of nothing else; with one more nobody else starts towards it. Default 2.
    pub max_failed: usize,
    /// How long a wave waits after the ones before it are through. Default 0.
    pub wave_soak: SignedDuration,
}

impl Default for Rollouts {
    fn default() -> Self {
        Self { max_concurrent: 10, max_failed: 2, wave_soak: SignedDuration::ZERO }
    }
}

/// The longest that a wave may wait.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The file's part.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AllowedRollouts {
    max_concurrent: Option<usize>,
    max_failed: Option<usize>,
    wave_soak: Option<String>,
}

impl AllowedRollouts {
    pub(super) fn read(self) -> Result<Rollouts, String> {
        let default = Rollouts::default();
        let soak = |text: String| {
            let soak: Option<SignedDuration> = text.parse().ok();
            soak.filter(|soak| !soak.is_negative() && *soak <= LONGEST)
                .ok_or(format!("rollouts.waveSoak: {text} is no duration from 0s to 168h, such as 30m"))
        };
        Ok(Rollouts {
            max_concurrent: self.max_concurrent.unwrap_or(default.max_concurrent),
            max_failed: self.max_failed.unwrap_or(default.max_failed),
            wave_soak: self.wave_soak.map(soak).transpose()?.unwrap_or(default.wave_soak),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;

    #[test]
    fn what_is_not_set_has_a_default_and_a_wrong_one_is_named() {
        let read = |text: &str| Config::parse(text).map(|config| config.rollouts);
        assert_eq!(read("{}"), Ok(Rollouts::default()));
        let all = read("rollouts: {maxConcurrent: 0, maxFailed: 7, waveSoak: 1h30m}").unwrap();
        let wanted = Rollouts { max_concurrent: 0, max_failed: 7, wave_soak: SignedDuration::from_mins(90) };
        assert_eq!(all, wanted);
        for bad in ["soon", "-1m", "169h"] {
            let why = read(&format!("rollouts: {{waveSoak: '{bad}'}}")).unwrap_err();
            assert!(why.contains(&format!("rollouts.waveSoak: {bad} is no duration")), "{why}");
        }
        assert!(read("rollouts: {maxFailed: -1}").is_err());
    }
}
