//! Versions of Kubernetes and etcd.
//!
//! A spec holds what a person wrote, and a status what a server answered with: text. What Berth decides to run is a [`Version`],
//! parsed where the spec, or what was recorded, is read.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr};

/// A release, such as `1.36.3`. What parses is written the same again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    minor: Minor,
    patch: u32,
}

/// A release without its patch, such as `1.36`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor {
    major: u32,
    minor: u32,
}

impl Version {
    /// The minor that it is a patch version of.
    pub fn minor(self) -> Minor {
        self.minor
    }
}

/// Whether both texts are the same version. What is none is the same as nothing.
pub fn same(a: &str, b: &str) -> bool {
    matches!((a.parse::<Version>(), b.parse::<Version>()), (Ok(a), Ok(b)) if a == b)
}

impl Minor {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self { minor: self.minor.saturating_add(1), ..self }
    }

    /// By how many minors it is newer than that one; less than zero: older. None: of another major.
    pub fn since(self, other: Self) -> Option<i64> {
        (self.major == other.major).then(|| i64::from(self.minor) - i64::from(other.minor))
    }

    /// Comma-separated, for messages.
    pub fn list(all: &[Self]) -> String {
        all.iter().map(Self::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.minor, self.patch)
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The text is no [`Version`], or no [`Minor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoVersion;

impl fmt::Display for NoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a version such as 1.36.3, or a minor such as 1.36")
    }
}

impl std::error::Error for NoVersion {}

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let (minor, patch) = text.rsplit_once('.').ok_or(NoVersion)?;
        Ok(Self { minor: minor.parse()?, patch: number(patch)? })
    }
}

impl FromStr for Minor {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let (major, minor) = text.split_once('.').ok_or(NoVersion)?;
        Ok(Self { major: number(major)?, minor: number(minor)? })
    }
}

/// Digits without a zero before them, so that no two texts are one version.
fn number(text: &str) -> Result<u32, NoVersion> {
    let digits = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| digits).ok_or(NoVersion)
}

macro_rules! text {
    ($($name:ident),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )+};
}
text!(Version, Minor);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_written_as_it_was_read() {
        for text in ["1.36.3", "1.34.0", "0.0.0", "3.6.16", "4294967295.0.10"] {
            let version: Version = text.parse().unwrap();
            assert_eq!((version.to_string().as_str(), serde_json::to_value(version).unwrap()), (text, text.into()));
            assert_eq!(serde_json::from_value::<Version>(text.into()).unwrap(), version);
        }
        for text in [
            "",
            "1",
            "1.36",
            "v1.36.3",
            "1.36.3.1",
            "1.36.x",
            "1.36.",
            ".36.1",
            "1.36.03",
            "01.36.3",
            "1.+36.3",
            " 1.36.3",
            "1.36.3-rc.1",
            "1.36.3+k3s1",
            "1.36.4294967296",
        ] {
            assert_eq!(text.parse::<Version>(), Err(NoVersion), "{text}");
        }
        for text in ["", "1", "v1.36", "1.36.3", "1.x", "1.036"] {
            assert_eq!(text.parse::<Minor>(), Err(NoVersion), "{text}");
        }
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let of = |text: &str| text.parse::<Version>().unwrap();
        assert!(of("1.9.12") < of("1.10.0") && of("1.36.9") < of("1.36.10") && of("1.36.10") < of("2.0.0"));
        assert_eq!(of("1.36.3").minor(), "1.36".parse().unwrap());
        assert_eq!(of("1.36.3").minor().next(), "1.37".parse().unwrap());
        let since = |a: &str, b: &str| of(a).minor().since(of(b).minor());
        assert_eq!((since("1.36.3", "1.34.9"), since("1.34.9", "1.36.3")), (Some(2), Some(-2)));
        assert_eq!(since("2.0.0", "1.36.3"), None);
        assert_eq!(Minor::list(&[of("1.9.0").minor(), of("1.10.2").minor()]), "1.9, 1.10");
    }
}
