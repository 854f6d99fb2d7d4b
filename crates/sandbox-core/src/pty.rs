//! Terminals of commands.

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PtySize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

impl PtySize {
    /// So many characters in so many lines.
    pub const fn new(cols: u16, rows: u16) -> Self {
        Self { cols, rows }
    }
}

/// 80 characters in 24 lines, as terminals have had for long.
impl Default for PtySize {
    fn default() -> Self {
        Self::new(80, 24)
    }
}

impl std::fmt::Display for PtySize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} by {}", self.cols, self.rows)
    }
}

/// Change the size of a command's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resize {
    /// The new size; neither side is zero.
    pub size: PtySize,
}

impl Resize {
    /// To this size.
    pub const fn new(size: PtySize) -> Self {
        Self { size }
    }
}
