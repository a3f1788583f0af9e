//! Colours. Texts carry them always; what prints takes them away unless it is a terminal that wants them.

use anstyle::{AnsiColor, Style};

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
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

/// Without colours, for widths and tests.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
