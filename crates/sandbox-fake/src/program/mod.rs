//! Programs: what runs inside, written in Rust.

pub(crate) mod builtin;
mod child;
mod find;
mod net;
mod proc;
mod wait;

#[cfg(feature = "shell")]
pub(crate) use builtin::seconds;
pub use child::{Child, Fork};
pub(crate) use find::{Found, find, join};
pub use net::{Listener, Stream};
pub use proc::Proc;
pub use wait::Caught;

use sandbox_core::Boxed;
use std::{future::Future, sync::Arc};

/// A program, ready to be started any number of times.
pub(crate) type Program = Arc<dyn Fn(Proc) -> Boxed<'static, i32> + Send + Sync>;

pub(crate) fn program<F>(run: impl Fn(Proc) -> F + Send + Sync + 'static) -> Program
where
    F: Future<Output = i32> + Send + 'static,
{
    Arc::new(move |proc| Box::pin(run(proc)))
}
