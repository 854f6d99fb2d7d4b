#![doc = include_str!("../README.md")]

mod beside;
mod canary;
mod ctx;
mod expect;
mod harness;
mod hooks;
mod measure;
mod meddle;
mod owner;
mod probes;
mod report;
mod row;
mod rows;
mod settings;
mod subject;
mod suite;
#[cfg(test)]
mod tests;

pub use canary::{Canary, Reach};
#[doc(hidden)]
pub use harness::run;
pub use hooks::{Applied, Labels, Withheld};
pub use probes::Probes;
pub use report::Record;
pub use row::{Row, Verdict};
/// What command probes are made of.
pub use sandbox::Command;
pub use subject::{ByBackend, ByResult, BySubject, IntoSubject, Subject};
pub use suite::Suite;

use ctx::Ctx;
use settings::Settings;

/// The edition of this suite. A row that is new in it warns adapters that state an older one, and fails them from the next on.
pub const EDITION: u32 = 1;

/// Every row of the suite, in the order of the contract.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    harness::all()
}

/// The whole contract suite as the `main` of a test file.
///
/// Takes the name of a type that implements `Backend` and `Default`, or an expression that gives a backend, a [`Subject`], or
/// a `Result` of one. The expression is evaluated afresh for every row. The test needs `harness = false`:
///
/// ```toml
/// [[test]]
/// name = "contract"
/// harness = false
/// ```
///
/// A backend:
///
/// ```no_run
/// # use sandbox_core as core;
/// # #[derive(Default)] struct Mine;
/// # struct No;
/// # impl core::Control for No {}
/// # impl core::Events for No { async fn next(&mut self) -> core::Result<Option<core::Event>> { Ok(None) } }
/// # impl core::Instance for No {
/// #     type Control = No; type Events = No;
/// #     async fn spawn(&self, _: &core::Exec) -> core::Result<(No, No)> { Ok((No, No)) }
/// # }
/// # impl core::Backend for Mine {
/// #     type Instance = No;
/// #     fn info(&self) -> core::Facts { core::Facts::new("mine") }
/// #     async fn create(&self, _: &core::Spec, _: &core::Attempt) -> core::Result<core::Made<No>> { Ok(core::Made::new(core::SandboxId::new("one"), No)) }
/// #     async fn destroy(&self, _: &core::SandboxId) -> core::Result<()> { Ok(()) }
/// # }
/// sandbox_contract::contract_suite!(Mine);
/// ```
///
/// What is nothing of that does not compile:
///
/// ```compile_fail,E0277
/// sandbox_contract::contract_suite!(6 * 7);
/// ```
///
/// ```compile_fail
/// sandbox_contract::contract_suite!();
/// ```
#[macro_export]
macro_rules! contract_suite {
    // A path alone is a type; a call, a literal or a block is an expression.
    ($(::)? $($path:ident)::+ $(,)?) => {
        $crate::contract_suite!(@main <$($path)::+ as ::core::default::Default>::default());
    };
    (@main $make:expr) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run(|| $make)
        }
        $crate::contract_suite!(@guard);
    };
    (@guard $(#[$attribute:meta])*) => {
        // Exists only where the usual test harness took the place of `main`, and with it of every row.
        #[cfg(test)]
        #[test]
        $(#[$attribute])*
        fn contract_suite_needs_harness_false() {
            ::std::panic!(
                "the contract suite did not run: its test needs\n\n[[test]]\nname = \"{}\"\nharness = false\n\nin Cargo.toml",
                ::core::module_path!().split("::").next().unwrap_or("contract"),
            );
        }
    };
    ($make:expr $(,)?) => {
        $crate::contract_suite!(@main $make);
    };
}
