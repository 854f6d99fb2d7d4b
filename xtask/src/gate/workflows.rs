//! The workflows are what the lanes say.

use std::path::Path;

use anyhow::Result;

use super::Findings;
use crate::workflows;

pub(crate) fn check(root: &Path) -> Result<Findings> {
    workflows::check(root)
}
