//! The one error type: opaque, one word wide, cheap to clone.

use crate::{ErrorKind, Fate, PartialOutput, SandboxId};
use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do about it.
///
/// Adapters set kind, message, hint, source, retry advice and whether the request may have applied. The engine adds
/// operation, backend, sandbox, partial output and fate. Clones share everything, so that each waiter of a shared result
/// gets it whole.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
    operation: Option<&'static str>,
    backend: Option<Cow<'static, str>>,
    sandbox: Option<SandboxId>,
    retry: Option<Retry>,
    applied: Option<bool>,
    fate: Option<Fate>,
    output: Option<PartialOutput>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Whether trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// The same request will fail again.
    Never,
    /// It may succeed later.
    Later,
    /// The provider says when.
    After(Duration),
}

impl Error {
    /// An error of this kind. The message is a lowercase fragment without secrets.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            operation: None,
            backend: None,
            sandbox: None,
            retry: None,
            applied: None,
            fate: None,
            output: None,
            source: None,
        }))
    }

    /// Something this backend cannot do.
    pub fn unsupported(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, what)
    }

    /// An argument that can never be right.
    pub fn invalid(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, what)
    }

    /// The same error as another kind, for where a caller knows better what it means.
    pub fn with_kind(self, kind: ErrorKind) -> Self {
        self.change(|e| e.kind = kind)
    }

    /// The exact fix, as an instruction to the reader.
    pub fn with_hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.change(|e| e.hint = Some(hint.into()))
    }

    /// What caused it.
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.change(|e| e.source = Some(source.into().into()))
    }

    /// Overrides what the kind says about trying again.
    pub fn with_retry(self, retry: Retry) -> Self {
        self.change(|e| e.retry = Some(retry))
    }

    /// Overrides what the kind says about [`may_have_applied`](Self::may_have_applied).
    pub fn applied(self, may_have: bool) -> Self {
        self.change(|e| e.applied = Some(may_have))
    }

    /// What is known of the command's processes. The engine sets it.
    pub fn with_fate(self, fate: Fate) -> Self {
        self.change(|e| e.fate = Some(fate))
    }

    /// What the command had written. The engine sets it.
    pub fn with_output(self, output: PartialOutput) -> Self {
        self.change(|e| e.output = Some(output))
    }

    /// The user's operation that failed, unless an inner one is already named. The engine sets it.
    pub fn with_operation(self, operation: &'static str) -> Self {
        self.change(|e| _ = e.operation.get_or_insert(operation))
    }

    /// The backend, unless it is already named. The engine sets it.
    pub fn with_backend(self, backend: impl Into<Cow<'static, str>>) -> Self {
        self.change(|e| _ = e.backend.get_or_insert_with(|| backend.into()))
    }

    /// The sandbox, unless it is already named. The engine sets it.
    pub fn with_sandbox(self, id: &SandboxId) -> Self {
        self.change(|e| _ = e.sandbox.get_or_insert_with(|| id.clone()))
    }

    /// What went wrong, as a stable code.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message alone, without operation and code.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The exact fix, where one is known.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The operation that failed, such as `create` or `files.read`.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The backend it happened on.
    pub fn backend(&self) -> Option<&str> {
        self.0.backend.as_deref()
    }

    /// The sandbox it happened in.
    pub fn sandbox(&self) -> Option<&SandboxId> {
        self.0.sandbox.as_ref()
    }

    /// Whether trying again may help.
    pub fn retry(&self) -> Retry {
        self.0.retry.unwrap_or_else(|| self.0.kind.retry())
    }

    /// Whether the request may have taken effect all the same. Kinds that prove the opposite say no, all others yes.
    pub fn may_have_applied(&self) -> bool {
        self.0.applied.unwrap_or_else(|| self.0.kind.may_have_applied())
    }

    /// For a command that ran and did not end by itself: what is known of its processes.
    pub fn fate(&self) -> Option<Fate> {
        self.0.fate
    }

    /// For a command: what it had written by then, within its output limit.
    pub fn output(&self) -> Option<&PartialOutput> {
        self.0.output.as_ref()
    }

    fn change(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

/// One line: operation, message, code. `{:#}` adds the hint and the chain of sources.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = self.0.operation {
            write!(f, "{operation}: ")?;
        }
        write!(f, "{} [{}]", self.0.message, self.0.kind.code())?;
        if f.alternate() {
            if let Some(hint) = &self.0.hint {
                write!(f, "; hint: {hint}")?;
            }
            let mut source = std::error::Error::source(self);
            while let Some(cause) = source {
                write!(f, "; caused by: {cause}")?;
                source = cause.source();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Error");
        s.field("kind", &self.0.kind).field("message", &self.0.message);
        macro_rules! known {
            ($($field:ident)*) => { $(if let Some(value) = &self.0.$field { s.field(stringify!($field), value); })* };
        }
        known!(hint operation backend sandbox retry applied fate output source);
        s.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| &**e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn errors_take_a_fate_although_they_are_shared() {
        let error = Error::new(ErrorKind::Gone, "scripted").with_source(std::io::Error::other("why"));
        let same = error.clone();
        assert_eq!((error.with_fate(Fate::Dead).fate(), same.fate()), (Some(Fate::Dead), None));
        assert!(std::error::Error::source(&same.applied(true)).is_some());
    }

    #[test]
    fn the_alternate_form_tells_all() {
        let error =
            Error::new(ErrorKind::Gone, "over").with_hint("make another").with_source(std::io::Error::other("why"));
        assert_eq!(
            (error.to_string(), format!("{error:#}")),
            ("over [gone]".into(), "over [gone]; hint: make another; caused by: why".into())
        );
    }

    #[test]
    fn the_inner_operation_stays() {
        let error = Error::new(ErrorKind::Gone, "the sandbox has ended").with_operation("files.read");
        assert_eq!(error.with_operation("run").to_string(), "files.read: the sandbox has ended [gone]");
    }
}
