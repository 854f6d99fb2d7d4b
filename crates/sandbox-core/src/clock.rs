//! Where users' deadlines come from.

use std::{future::Future, pin::Pin, time::Duration};

/// A boxed future, for what is stored or erased.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The clock of a backend. Deadlines that users set go through it; the engine's own limits are real time. A test double
/// brings one whose hours take no time.
pub trait Clock: Send + Sync + 'static {
    /// Resolves after `duration` of this clock's time.
    fn sleep(&self, duration: Duration) -> Boxed<'static, ()>;
}
