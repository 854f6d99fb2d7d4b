//! Sandboxes of a provider of yours: copy this crate, give it a name, and make the suite's rows green one by one.
//!
//! It declares nothing at first, and passes the whole contract that way: what is not declared is refused by the library.
//! `wire.rs` stands for the provider; replace it by requests to the real one.
//!
//! ```no_run
//! let provider = sandbox_yours::YoursProvider;
//! ```

mod backend;
mod provider;
mod sandbox;
mod wire;

pub use backend::Yours;
pub use provider::YoursProvider;
pub use sandbox::YoursSandbox;
