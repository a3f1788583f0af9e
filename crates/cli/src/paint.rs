//! Colours, and texts that a terminal may show. Texts carry them always; what prints takes them away unless it is a terminal that wants them.

use anstyle::{AnsiColor, Style};

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

fn paint(style: Style, text: &str) -> String {
    format!("{style}{}{style:#}", safe(text))
}

/// As it should be.
pub(crate) fn good(text: &str) -> String {
    paint(colour(AnsiColor::Green), text)
}

/// On its way, or worth a look.
pub(crate) fn warn(text: &str) -> String {
    paint(colour(AnsiColor::Yellow), text)
}

/// Wrong.
pub(crate) fn bad(text: &str) -> String {
    paint(colour(AnsiColor::Red).bold(), text)
}

/// What the line is about.
pub(crate) fn strong(text: &str) -> String {
    paint(Style::new().bold(), text)
}

/// Beside the point.
pub(crate) fn faint(text: &str) -> String {
    paint(Style::new().dimmed(), text)
}

/// Without what a terminal would obey, and on one line. Messages hold what writers of a `Cluster` wrote, who are not trusted.
pub(crate) fn safe(text: &str) -> String {
    berth_api::text::printable(text)
}

/// The same for a text of many lines, such as an error.
pub(crate) fn safe_lines(text: &str) -> String {
    text.lines().map(safe).collect::<Vec<_>>().join("\n")
}

/// Without colours, for widths and tests.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_does_not_command_the_terminal() {
        assert_eq!(safe("a\u{1b}]0;title\u{7}\nb\u{9b}2J"), "a ]0;title  b 2J");
        assert_eq!(safe("ä → …"), "ä → …");
        assert_eq!(plain(&bad("a\u{9b}2J\nb")), "a 2J b");
        assert_eq!(safe_lines("a\u{7}\nb\u{9b}2J"), "a \nb 2J");
    }
}
