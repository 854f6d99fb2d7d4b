//! What is under test, in the forms that `contract_suite!` takes.

use crate::{
    Probes,
    meddle::{Meddle, Meddling},
};
use sandbox::{Client, ClientBuilder, Limits};
use sandbox_core::{Backend, Error, ErrorKind, Facts, Result, Service, Spec};
use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// A backend, the spec of its sandboxes, and its probes.
///
/// `contract_suite!` evaluates its expression afresh in every row: no client is shared between rows. Probes that look into
/// the same backend are made beside it, in the same expression.
pub struct Subject {
    backend: Box<dyn Erased>,
    pub(crate) spec: Spec,
    pub(crate) service: Option<Service>,
    pub(crate) probes: Probes,
    pub(crate) edition: u32,
}

impl Subject {
    /// A backend whose sandboxes need nothing in their spec and understand a POSIX shell.
    pub fn new(backend: impl Backend) -> Self {
        let (backend, spec, probes) = (Box::new(backend), Spec::new(), Probes::new());
        Self { backend, spec, service: None, probes, edition: crate::EDITION }
    }

    /// Sets what every sandbox of the suite is made from: image or template, and the network where the backend cannot deny.
    pub fn spec(mut self, spec: Spec) -> Self {
        self.spec = spec;
        self
    }

    /// Sets what every service of the suite is made from. Rows set its main program, and run the command probes in it. Unset, it
    /// is the image of the [`spec`](Self::spec).
    pub fn service(mut self, service: Service) -> Self {
        self.service = Some(service);
        self
    }

    /// Sets the probes.
    pub fn probes(mut self, probes: Probes) -> Self {
        self.probes = probes;
        self
    }

    /// States the edition of the suite that the adapter was written for. A newer row warns for one edition before it fails.
    pub fn edition(mut self, edition: u32) -> Self {
        self.edition = edition;
        self
    }

    pub(crate) fn info(&self) -> Result<Facts> {
        catch_unwind(AssertUnwindSafe(|| self.backend.info())).map_err(|panic| {
            // A payload may panic in its own drop.
            std::mem::forget(panic);
            Error::new(ErrorKind::Internal, "the adapter panicked in `info`")
        })
    }

    pub(crate) fn client(self, meddling: &Arc<Meddling>, limits: Option<Limits>) -> Result<Client> {
        self.backend.client(Arc::clone(meddling), limits)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("spec", &self.spec).field("probes", &self.probes).finish_non_exhaustive()
    }
}

/// Hides the type of the backend; the rows are compiled once.
trait Erased {
    fn info(&self) -> Facts;
    fn client(self: Box<Self>, meddling: Arc<Meddling>, limits: Option<Limits>) -> Result<Client>;
}

impl<B: Backend> Erased for B {
    fn info(&self) -> Facts {
        Backend::info(self)
    }

    fn client(self: Box<Self>, meddling: Arc<Meddling>, limits: Option<Limits>) -> Result<Client> {
        let builder: ClientBuilder = Client::builder(Meddle::new(*self, meddling));
        match limits {
            Some(limits) => builder.limits(limits).build(),
            None => builder.build(),
        }
    }
}

/// What `contract_suite!` takes: a backend, a [`Subject`], or a `Result` of either. `By` only keeps the cases apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that the contract suite can test",
    label = "this is no backend",
    note = "give a type that implements `Backend` and `Default`, a backend, a `Subject`, or a `Result` of one"
)]
pub trait IntoSubject<By> {
    /// The subject.
    ///
    /// # Errors
    ///
    /// Why there is none here; `backend-missing` and `auth` make every row *unavailable*.
    fn into_subject(self) -> Result<Subject>;
}

/// Marks a backend. See [`IntoSubject`].
#[derive(Debug)]
pub struct ByBackend;

/// Marks a subject. See [`IntoSubject`].
#[derive(Debug)]
pub struct BySubject;

/// Marks a result of something. See [`IntoSubject`].
#[derive(Debug)]
pub struct ByResult<By>(By);

impl<B: Backend> IntoSubject<ByBackend> for B {
    fn into_subject(self) -> Result<Subject> {
        Ok(Subject::new(self))
    }
}

impl IntoSubject<BySubject> for Subject {
    fn into_subject(self) -> Result<Subject> {
        Ok(self)
    }
}

impl<By, T: IntoSubject<By>, E: Into<Error>> IntoSubject<ByResult<By>> for Result<T, E> {
    fn into_subject(self) -> Result<Subject> {
        self.map_err(Into::into)?.into_subject()
    }
}

/// Makes a subject, as often as rows want one.
pub(crate) type Make = Arc<dyn Fn() -> Result<Subject> + Send + Sync>;

/// Turns the expression of `contract_suite!` into a maker; a panic in it is an error.
pub(crate) fn maker<By, T: IntoSubject<By>>(make: impl Fn() -> T + Send + Sync + 'static) -> Make {
    Arc::new(move || {
        catch_unwind(AssertUnwindSafe(|| make().into_subject())).unwrap_or_else(|panic| {
            let words = words(&*panic);
            std::mem::forget(panic);
            Err(Error::new(ErrorKind::Internal, format!("making the backend panicked: {words}")))
        })
    })
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_string(),
        (_, Some(text)) => text.clone(),
        _ => "something that is no text".into(),
    }
}
