//! Images from definitions: each is built once, however many ask for it at a time, and remembered.

use crate::{
    Client, again,
    engine::{Spawner, done},
    erase::DynMade,
    files::{Context, Pace},
    validate::{self, need},
};
use sandbox_core::{Attempt, BuildImage, Capability, Definition, Error, ErrorKind, Facts, Result, Spec};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};
use tokio::{sync::Mutex as Turns, time::sleep};

impl Client {
    /// Builds an image ahead of the first sandbox, and answers its name, which [`Spec::image`] takes; where it is there, only
    /// its name. Sandboxes of the same definition begin with it. It may take as long as the `prepare_timeout` of the client's
    /// defaults. `BUILD`.
    ///
    /// ```
    /// # use sandbox::{Client, Command, Definition, Spec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> sandbox::Result<()> {
    /// # let client = Client::new(sandbox_fake::Fake::new())?;
    /// let tools = Definition::new("FROM default\nENV GREETING=hello\n");
    /// client.build(tools.clone()).await?;
    /// let sandbox = client.create(Spec::new().build(tools)).await?;
    /// # let output = sandbox.run(Command::new("env")).await?;
    /// # assert!(output.stdout.text().contains("GREETING=hello\n"));
    /// # client.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for what cannot be a Dockerfile, and for a context with a link that may leave it;
    /// errors of the host's file system, which the message names: nothing was sent. `create-failed` with the step that failed
    /// and the end of its output; `image-not-found`, `registry-unreachable`; `operation-timeout`; the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the build; whoever else waits for the same image begins it again.
    pub async fn build(&self, definition: Definition) -> Result<String> {
        let s = self.spawner("build")?;
        let built = async {
            s.open()?;
            validate::definition(&definition, &s.facts)?;
            let (facts, _) = self.narrowed(s, Spec::new().or(self.defaults())).await?;
            need(&facts, Capability::Build)?;
            let limit = self.defaults().effective_prepare_timeout();
            let stalled = async move {
                sleep(limit).await;
                Error::new(ErrorKind::OperationTimeout, format!("the image was not built within {limit:?}"))
                    .with_hint("raise the `prepare_timeout` of the client's defaults")
                    .applied(false)
            };
            let s2 = Arc::clone(s);
            let work = Box::pin(async move { Built::of(&s2, definition).await.map(|built| built.image) });
            done(s.attended("a build", None, stalled, work).await)
        };
        built.await.map_err(|error| self.stamp("build", error))
    }
}

/// The create of an adapter, with the image in place of the definition.
pub(crate) async fn create(s: &Arc<Spawner>, facts: &Facts, spec: &mut Spec, attempt: &Attempt) -> Result<DynMade> {
    let backend = s.backend.get();
    let Some(definition) = spec.build.take() else {
        return again::create(facts, attempt, || backend.create(spec, attempt)).await;
    };
    let built = Box::pin(attempt.before_dispatch(Built::of(s, *definition))).await?;
    spec.image = Some(built.image.clone());
    match (again::create(facts, attempt, || backend.create(spec, attempt)).await, built.before) {
        // It was there once. Whoever took it away did so behind our back.
        (Err(error), Some(before)) if error.kind() == ErrorKind::ImageNotFound && !error.may_have_applied() => {
            spec.image = Some(Box::pin(attempt.before_dispatch(before.anew(s, &built.image))).await?.image);
            again::create(facts, attempt, || backend.create(spec, attempt)).await
        }
        (made, _) => made,
    }
}

/// An image that there is, or was.
struct Built {
    image: String,
    /// How to build it, where that was not done now.
    before: Option<Build>,
}

/// What can be built.
struct Build {
    request: BuildImage,
    context: Context,
}

impl Built {
    async fn of(s: &Arc<Spawner>, definition: Definition) -> Result<Self> {
        let context = Context::of(&Pace::on(s), &definition).await?;
        let mut request = BuildImage::new(definition.dockerfile, context.digest.clone());
        (request.args, request.rebuild) = (definition.args, definition.rebuild);
        Build { request, context }.built(s).await
    }
}

impl Build {
    /// The same, of an image that is not there any more.
    async fn anew(self, s: &Arc<Spawner>, image: &str) -> Result<Built> {
        s.builds.forget(&self.request.digest, image).await;
        self.built(s).await
    }

    /// The image, built by whoever comes first; the next goes on where he leaves. Those who come while it is being built share
    /// what becomes of that; who wants a rebuild gets one of his own.
    async fn built(self, s: &Arc<Spawner>) -> Result<Built> {
        let request = &self.request;
        let slot = s.builds.slot(&request.digest);
        let number = slot.asked.fetch_add(1, SeqCst);
        let mut known = slot.known.lock().await;
        if !request.rebuild {
            if let Some(image) = known.image.clone() {
                drop(known);
                return Ok(Built { image, before: Some(self) });
            }
            if let Some((_, error)) = known.failed.as_ref().filter(|(until, _)| number < *until) {
                return Err(error.clone());
            }
        }
        let body = self.context.body(&Pace::on(s));
        let built = s.backend.get().build(request, body).await.and_then(named);
        match &built {
            Ok(image) => *known = Known { image: Some(image.clone()), failed: None },
            Err(error) => known.failed = Some((slot.asked.load(SeqCst), error.clone())),
        }
        built.map(|image| Built { image, before: None })
    }
}

/// What a client knows of its builds, by digest.
#[derive(Default)]
pub(crate) struct Builds(Mutex<HashMap<String, Arc<Slot>>>);

#[derive(Default)]
struct Slot {
    /// How often it was asked for.
    asked: AtomicU64,
    /// Whoever holds it builds.
    known: Turns<Known>,
}

#[derive(Default)]
struct Known {
    image: Option<String>,
    /// The last failure, and who shares it: those who asked before it was there.
    failed: Option<(u64, Error)>,
}

impl Builds {
    fn slot(&self, digest: &str) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() == slots.capacity() {
            // What came to nothing, and nobody waits for.
            slots.retain(|_, slot| {
                Arc::strong_count(slot) > 1 || slot.known.try_lock().is_ok_and(|known| known.image.is_some())
            });
        }
        Arc::clone(slots.entry(digest.to_string()).or_default())
    }

    /// The image is not there any more, unless there is another one by now.
    async fn forget(&self, digest: &str, image: &str) {
        let slot = self.slot(digest);
        let mut known = slot.known.lock().await;
        if known.image.as_deref() == Some(image) {
            known.image = None;
        }
    }
}

fn named(image: String) -> Result<String> {
    if image.is_empty() || image.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let message = format!("the adapter calls an image `{}`", image.escape_debug());
        return Err(
            Error::new(ErrorKind::Internal, message).with_hint("`Backend::build` answers a name for `Spec::image`")
        );
    }
    Ok(image)
}
