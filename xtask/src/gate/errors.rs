//! The catalogue of errors, its pages and its lock say the same.

use std::path::Path;

use anyhow::Result;

use super::Findings;
use crate::errors;

pub(crate) fn check(root: &Path) -> Result<Findings> {
    errors::check(root)
}
