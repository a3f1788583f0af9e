//! `kubectl berth <TAB>`: kubectl runs `kubectl_complete-berth` with the words after `kubectl berth`, the last of which is being typed, and
//! reads candidates.

mod walk;

#[cfg(test)]
mod tests;

use crate::access::Access;
use crate::args::{Args, Meta};
use crate::outcome::{Outcome, block_on};
use crate::{output, paint};
use berth_render::Kind;
use clap::CommandFactory;
use std::sync::mpsc;
use std::time::Duration;
use walk::{Answer, Candidate, Place, Wants};

/// What the script calls. It is no verb of clap's: options among the words would be taken for its own.
pub(crate) const VERB: &str = "__complete";

/// The file `kubectl_complete-berth`.
pub(crate) const SCRIPT: &str = "\
#!/bin/sh
# kubectl (1.26 and later) runs this for `kubectl berth <TAB>`, as kubectl_complete-berth in PATH.
exec kubectl-berth __complete \"$@\"
";

/// Somebody waits at a prompt.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Prints what the last word may become.
pub(crate) fn run(mut words: Vec<String>) -> anyhow::Result<Outcome> {
    let mut command = Args::command();
    command.build();
    let last = words.pop().unwrap_or_default();
    let place = Place::after(&command, &words);
    let mut answer = place.complete(&last);
    if answer.wants == Wants::Cluster {
        let names = names(meta(&place)).into_iter().filter(|name| name.starts_with(&last));
        answer.candidates.extend(names.map(|word| Candidate { word, help: String::new() }));
    }
    output::print(&text(&answer))?;
    Ok(Outcome::Done)
}

/// Which meta cluster the words before name.
fn meta(place: &Place<'_>) -> Meta {
    let value = |id| place.value(id).map(str::to_owned);
    Meta { kubeconfig: value("kubeconfig").map(Into::into), context: value("context"), namespace: value("namespace") }
}

/// Names of `Cluster`s; none if they cannot be had soon. An error has no place at a prompt.
fn names(meta: Meta) -> Vec<String> {
    let (sender, receiver) = mpsc::channel();
    // A thread that is left behind: to look up a host or to ask for credentials may block, and a runtime waits for that at its end.
    std::thread::spawn(move || {
        let names = block_on(async {
            let access = Access::to_read(&meta).await?;
            Ok(access.io.list(Kind::Cluster, &*access.namespace, None).await?)
        });
        sender.send(names)
    });
    let items = receiver.recv_timeout(TIMEOUT).ok().and_then(Result::ok).unwrap_or_default();
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).map(paint::safe).collect()
}

/// A candidate on each line, and last what cobra is to do: 4 is to offer no files, 0 to do as it always does.
fn text(answer: &Answer) -> String {
    let line = |Candidate { word, help }: &Candidate| match &**help {
        "" => format!("{word}\n"),
        help => format!("{word}\t{help}\n"),
    };
    let lines: String = answer.candidates.iter().map(line).collect();
    lines + if answer.wants == Wants::File { ":0\n" } else { ":4\n" }
}
