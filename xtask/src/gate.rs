//! placeholder
use anyhow::Result;
pub(crate) fn run(_flags: &crate::flags::Gate) -> Result<()> {
    anyhow::bail!("later")
}
