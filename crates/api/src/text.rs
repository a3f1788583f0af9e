//! Text that others wrote, on its way to a condition, a log or a terminal.

use std::fmt;
use std::ops::Deref;

use crate::conditions::shortened;

/// On one line, and without what a terminal would obey or show as something else: control characters, and Unicode's invisible ones for
/// direction, lines and width. Each becomes a space.
pub fn printable(text: &str) -> String {
    let hides = |c: char| matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    text.chars().map(|c| if c.is_control() || hides(c) { ' ' } else { c }).collect()
}

/// What a tenant said: its API server, or whoever answered in its place, and all that its admins and nodes write. Nothing of it is trusted.
///
/// It is [`printable`] and short from the moment on that it is read, so that it may be quoted. It is no part of a command: what goes into one
/// is parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantText(String);

impl TenantText {
    /// The longest by default, in bytes.
    pub const LONGEST: usize = 1000;

    /// At most so many bytes of it; of a longer one the middle is cut out.
    pub fn of(text: &str, longest: usize) -> Self {
        // What is cut out need not be looked at; a space has no more bytes than what it replaces.
        Self(shortened(&printable(&shortened(text, longest)), longest))
    }
}

impl From<&str> for TenantText {
    fn from(text: &str) -> Self {
        Self::of(text, Self::LONGEST)
    }
}

impl From<String> for TenantText {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<TenantText> for String {
    fn from(text: TenantText) -> Self {
        text.0
    }
}

impl Deref for TenantText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_becomes_spaces() {
        assert_eq!(printable("a\u{1b}]0;title\u{7}\nb\u{9b}2J"), "a ]0;title  b 2J");
        assert_eq!(printable("a\u{202e}b\u{200b}c\u{2028}d\u{feff}"), "a b c d ");
        assert_eq!(printable("ä → … 日本 \u{1f600}"), "ä → … 日本 \u{1f600}");
    }

    #[test]
    fn it_is_short_however_it_is_made() {
        for unit in ["x", "\u{1b}", "\n", ";", "é", "\u{202e}"] {
            let long = unit.repeat(1 << 20);
            for text in [TenantText::from(&*long), TenantText::from(long.clone()), TenantText::of(&long, 300)] {
                assert!(text.len() <= TenantText::LONGEST && text.contains("bytes cut"), "{text}");
                assert_eq!(printable(&text), *text);
            }
        }
        assert_eq!(TenantText::from("refused").to_string(), "refused");
    }
}
