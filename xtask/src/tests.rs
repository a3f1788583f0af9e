pub(crate) fn run(_fast: bool, _only: &[String]) -> anyhow::Result<()> { Ok(()) }
