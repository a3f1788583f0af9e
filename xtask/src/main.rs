//! What is generated: CustomResourceDefinitions. `cargo xtask gen` writes, `cargo xtask gen --check` compares.

mod crds;

use anyhow::bail;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes what is generated.
    Gen {
        /// Compare only, and fail if something differs.
        #[arg(long)]
        check: bool,
    },
}

/// One generated file: path in the checkout, and content.
type Generated = (PathBuf, String);

fn main() -> anyhow::Result<()> {
    let Command::Gen { check } = Args::parse().command;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let files: Vec<Generated> = crds::files()?;
    let mut stale = vec![];
    for (path, text) in files {
        let path = root.join(path);
        if std::fs::read_to_string(&path).ok().as_deref() == Some(text.as_str()) {
            continue;
        }
        if check {
            stale.push(path.display().to_string());
        } else {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            std::fs::write(&path, text)?;
        }
    }
    if !stale.is_empty() {
        bail!("not what would be generated; run `cargo xtask gen`: {}", stale.join(", "));
    }
    Ok(())
}
