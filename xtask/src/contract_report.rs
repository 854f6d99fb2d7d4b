//! placeholder
use anyhow::Result;
pub(crate) fn run(_flags: &crate::flags::ContractReport) -> Result<()> {
    anyhow::bail!("later")
}
