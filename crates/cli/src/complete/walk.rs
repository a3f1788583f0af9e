//! From the words that were typed to what may come next, by the definition of the command line. Pure.
//!
//! clap's own engine (`clap_complete::engine`, 4.6) offers verbs after an unknown word and after `--`, and options that were given already.

use clap::{Arg, ArgAction, Command, ValueHint};

/// What may come next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// In the order of the help.
    pub(super) candidates: Vec<Candidate>,
    /// What else fits, which the definition does not know.
    pub(super) wants: Wants,
}

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The word.
    pub(super) word: String,
    /// What it is for, on one line; empty if nothing is said of it.
    pub(super) help: String,
}

/// What fits beside the candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Wants {
    /// Nothing.
    #[default]
    Nothing,
    /// A file.
    File,
    /// The name of a `Cluster`.
    Cluster,
}

/// How far the words before the last one lead.
#[derive(Debug)]
pub(super) struct Place<'a> {
    command: &'a Command,
    /// Options that were given, with their values.
    given: Vec<(&'a Arg, Option<&'a str>)>,
    /// How many words of this command were no options.
    positionals: usize,
    /// The option whose value is next.
    pending: Option<&'a Arg>,
    /// `--` was there: what follows is no option.
    raw: bool,
}

impl<'a> Place<'a> {
    /// Follows the words. The command has to be built, or its subcommands lack the global options.
    pub(super) fn after(built: &'a Command, words: &'a [String]) -> Self {
        let mut place = Self { command: built, given: vec![], positionals: 0, pending: None, raw: false };
        for word in words {
            place.step(word);
        }
        place
    }

    /// The value of an option that was given.
    pub(super) fn value(&self, id: &str) -> Option<&'a str> {
        self.given.iter().rev().find(|(arg, _)| arg.get_id() == id).and_then(|(_, value)| *value)
    }

    /// What the last word may become.
    pub(super) fn complete(&self, word: &str) -> Answer {
        if let Some(arg) = self.pending {
            return values(arg, word);
        }
        if self.raw || !word.starts_with('-') {
            return self.bare(word);
        }
        match word.split_once('=') {
            // Shells take away what is before the `=`, so the value alone is the candidate.
            Some((name, value)) => self.option(name).map(|arg| values(arg, value)).unwrap_or_default(),
            None => Answer { candidates: self.flags(word), wants: Wants::Nothing },
        }
    }

    fn step(&mut self, word: &'a str) {
        if let Some(arg) = self.pending.take() {
            self.given.push((arg, Some(word)));
        } else if self.raw || word == "-" || !word.starts_with('-') {
            // After a positional no subcommand follows.
            match self.command.find_subcommand(word).filter(|_| self.positionals == 0 && !self.raw) {
                Some(command) => self.command = command,
                None => self.positionals += 1,
            }
        } else if word == "--" {
            self.raw = true;
        } else if let Some((name, value)) = word.split_once('=').filter(|(name, _)| self.option(name).is_some()) {
            self.given.extend(self.option(name).map(|arg| (arg, Some(value))));
        } else if word.starts_with("--") {
            self.give(self.option(word), "");
        } else {
            self.shorts(word);
        }
    }

    /// `-y`, `-n team-a`, `-nteam-a`, and flags with an option at their end.
    fn shorts(&mut self, word: &'a str) {
        let mut letters = word.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            let arg = self.command.get_arguments().find(|a| a.get_short() == Some(letter));
            if self.give(arg, letters.as_str()) {
                return;
            }
        }
    }

    /// Notes an option; true if it takes a value, which is the rest of the word or else the next word.
    fn give(&mut self, arg: Option<&'a Arg>, rest: &'a str) -> bool {
        let Some(arg) = arg else { return false };
        let takes = arg.get_action().takes_values();
        if !takes {
            self.given.push((arg, None));
        } else if rest.is_empty() {
            self.pending = Some(arg);
        } else {
            self.given.push((arg, Some(rest)));
        }
        takes
    }

    /// The option of that name, with its hyphens.
    fn option(&self, name: &str) -> Option<&'a Arg> {
        let long = name.strip_prefix("--");
        let is = |arg: &&Arg| match long {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| name == format!("-{short}")),
        };
        self.command.get_arguments().find(is)
    }

    /// Subcommands, and values of the next positional.
    fn bare(&self, word: &str) -> Answer {
        let next = self.command.get_positionals().nth(self.positionals);
        let mut answer = next.map(|arg| values(arg, word)).unwrap_or_default();
        if self.positionals == 0 && !self.raw {
            let shown = self.command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name().starts_with(word));
            answer.candidates.extend(shown.map(|c| candidate(c.get_name(), c.get_about())));
        }
        answer
    }

    /// Long options. One that was given does not come twice.
    fn flags(&self, word: &str) -> Vec<Candidate> {
        let again = |arg: &Arg| {
            matches!(arg.get_action(), ArgAction::Append | ArgAction::Count)
                || self.given.iter().all(|(given, _)| given.get_id() != arg.get_id())
        };
        let shown = self.command.get_arguments().filter(|arg| !arg.is_hide_set() && again(arg));
        let named = shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), arg.get_help())));
        named.filter(|(name, _)| name.starts_with(word)).map(|(name, help)| candidate(&name, help)).collect()
    }
}

/// Values of an option or a positional.
fn values(arg: &Arg, word: &str) -> Answer {
    if !arg.get_action().takes_values() {
        return Answer::default();
    }
    let wants = match arg.get_value_hint() {
        // clap knows a path by its type.
        ValueHint::AnyPath | ValueHint::FilePath => Wants::File,
        _ if arg.is_positional() && arg.get_id() == "name" => Wants::Cluster,
        _ => Wants::Nothing,
    };
    let shown = arg.get_possible_values().into_iter().filter(|v| !v.is_hide_set() && v.get_name().starts_with(word));
    Answer { candidates: shown.map(|v| candidate(v.get_name(), v.get_help())).collect(), wants }
}

fn candidate(word: &str, help: Option<&clap::builder::StyledStr>) -> Candidate {
    let help = help.map(ToString::to_string).unwrap_or_default();
    // A tab would end it, and a second line would be a candidate.
    let help = help.lines().next().unwrap_or_default().replace('\t', " ");
    Candidate { word: word.to_owned(), help }
}
