//! Behaviour probes: what only the adapter's author can provoke or look up.

use crate::{Canary, Probes, Reach};
use sandbox_core::{Boxed, Error, Result, SandboxId};
use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

/// Labels of a sandbox.
pub type Labels = BTreeMap<String, String>;

/// Caps as the provider says that it applied them; `None` is a cap that it does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Processors, in thousandths of one.
    pub cpu_millis: Option<u64>,
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// Disk, in bytes.
    pub disk: Option<u64>,
    /// Number of processes.
    pub pids: Option<u32>,
}

impl Applied {
    /// Nothing told.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the processors, in thousandths of one.
    pub fn cpu_millis(mut self, millis: u64) -> Self {
        self.cpu_millis = Some(millis);
        self
    }

    /// Sets the memory, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the disk, in bytes.
    pub fn disk(mut self, bytes: u64) -> Self {
        self.disk = Some(bytes);
        self
    }

    /// Sets the number of processes.
    pub fn pids(mut self, most: u32) -> Self {
        self.pids = Some(most);
        self
    }
}

/// How a credential is kept from the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Withheld {
    /// The variable is not set.
    Missing,
    /// The variable is set and empty.
    Empty,
}

type Hook<A, T> = Arc<dyn Fn(A) -> Boxed<'static, Result<T>> + Send + Sync>;

macro_rules! hooks {
    ($($(#[doc = $doc:literal])+ $name:ident($arg:ty) -> $answer:ty;)*) => {
        #[derive(Clone, Default)]
        pub(crate) struct Hooks {
            $(pub(crate) $name: Option<Hook<$arg, $answer>>,)*
        }

        impl Probes {
            $(
                #[doc = concat!("Sets the behaviour probe `", stringify!($name), "`.\n")]
                $(#[doc = $doc])+
                pub fn $name<F>(mut self, probe: impl Fn($arg) -> F + Send + Sync + 'static) -> Self
                where
                    F: Future<Output = Result<$answer>> + Send + 'static,
                {
                    self.hooks.$name = Some(Arc::new(move |arg| Box::pin(probe(arg))));
                    self
                }
            )*

            /// The names of all behaviour probes.
            pub const BEHAVIOURS: &'static [&'static str] = &[$(stringify!($name),)*];
        }

        impl fmt::Debug for Hooks {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = f.debug_set();
                $(if self.$name.is_some() { set.entry(&stringify!($name)); })*
                set.finish()
            }
        }
    };
}

hooks! {
    /// Counts the sandboxes that the provider holds with all these labels, asked past the adapter: with a client of the probe's own.
    count(Labels) -> usize;
    /// Counts the services of sandboxes with all these labels that the provider holds, asked past the adapter; also where their
    /// sandbox has ended.
    count_services(Labels) -> usize;
    /// Opens something that a sandbox with an open network reaches over TCP.
    canary(()) -> Canary;
    /// The same for a special way out; `None` where this host has none.
    canary_at(Reach) -> Option<Canary>;
    /// Counts the processes that show a marker, seen from outside the sandbox; also when the sandbox has ended.
    survivors((SandboxId, String)) -> usize;
    /// Makes the provider end this sandbox now, as it would by itself, behind the adapter's back.
    expire(SandboxId) -> ();
    /// Arms a failure right after the request with this number, counted from 1, of the next create; `false` where a create has
    /// fewer requests.
    fail_create_at(usize) -> bool;
    /// Arms a failure of the provider for the next create; answers words that have to be in the error or its causes.
    provider_failure(()) -> String;
    /// Makes the provider refuse the next create because the account's quota is used up.
    exhaust_quota(()) -> ();
    /// How many sandboxes one page of the provider's list has at most, in a subject that is set up so that few are enough; `None`
    /// where the provider has no pages.
    page_size(()) -> Option<usize>;
    /// Makes the provider slow: the next create takes longer than any timeout of the suite.
    slow_create(()) -> ();
    /// Makes the provider never answer the next destroy.
    hang_destroy(()) -> ();
    /// Makes the provider refuse the next destroy; answers words that have to be in the error or its causes.
    fail_destroy(()) -> String;
    /// Opens the backend with its first credential withheld, and answers the error that this gives, at once or at its first use.
    missing_credential(Withheld) -> Error;
    /// The labels that the provider itself keeps for a sandbox, asked past the adapter.
    native_labels(SandboxId) -> Labels;
    /// All that the provider shows of a sandbox to whoever may look at it, as text, asked past the adapter.
    inspect(SandboxId) -> String;
    /// Counts how often the provider has built an image for this backend so far; one that was found again does not count.
    builds(()) -> usize;
    /// Removes an image that a row has built, by the name that the adapter gives it, behind the adapter's back. Rows clean up
    /// with it, too.
    remove_image(String) -> ();
    /// The caps that the provider says it applied, asked past the adapter.
    applied_resources(SandboxId) -> Applied;
}
