//! What stands in a log or an Event: who says it, and text that others wrote.

use std::fmt::Write as _;

/// Whose words they are.
pub(crate) const NAME: &str = "berth-approve";

/// No message of ours is longer; what is cut was chosen by who asks.
const LONGEST: usize = 512;

/// One line of visible characters: what a terminal would obey, or take for another line, is escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if out.len() >= LONGEST {
            out.push('…');
            break;
        }
        // Of those, Unicode's marks of direction and of lines, too.
        let hides =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if c.is_control() || hides {
            // Into a String this does not fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_visible_text_is_left() {
        assert_eq!(
            printable("it asks for n1.example.com, which is \"ä\""),
            "it asks for n1.example.com, which is \"ä\""
        );
        assert_eq!(printable("a\nb\r\u{1b}[8m\u{9b}1A\0"), "a\\nb\\r\\u{1b}[8m\\u{9b}1A\\u{0}");
        assert_eq!(printable("a\u{202e}b\u{2028}c"), "a\\u{202e}b\\u{2028}c");
        let long = printable(&"\u{1b}".repeat(1 << 20));
        assert!(long.len() < LONGEST + 16 && long.ends_with('…'), "{long}");
    }
}
