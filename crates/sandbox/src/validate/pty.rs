//! Terminals.

use sandbox_core::{Error, PtySize, Result};

/// A size that a terminal can have.
pub(crate) fn size(size: PtySize) -> Result<()> {
    if size.cols == 0 || size.rows == 0 {
        return Err(
            Error::invalid(format!("a terminal of {size}")).with_hint("neither side may be zero; 80 by 24 is usual")
        );
    }
    Ok(())
}
