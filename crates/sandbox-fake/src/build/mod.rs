//! Images from definitions: a Dockerfile as far as the fake's own programs and files go.

mod copy;
mod recipe;
mod words;
mod workshop;

use crate::{
    Fake,
    backend::unknown_user,
    double::{Number, Operation},
    files,
    fs::{Fs, Tree, Who, unpack},
    image::User,
    program::join,
    world::{Env, Kernel, Origin, lock},
};
use recipe::{Recipe, Step, What};
use sandbox_core::{Body, BuildImage, Error, ErrorKind, Result, Status};
use std::{collections::BTreeMap, sync::Arc};
use workshop::Workshop;

impl Fake {
    /// The name of the image of this definition: found, or built.
    pub(crate) async fn image_of(&self, request: &BuildImage, context: Body, call: Number) -> Result<String> {
        self.ask(Operation::Build).await?;
        let (kernel, name) = (self.kernel(), format!("fake-build:{}", request.digest));
        let found = !request.rebuild && lock(&kernel.catalogue).has_built(&name);
        if !found {
            let recipe = Recipe::read(request)?;
            let base = lock(&kernel.catalogue).origin(&recipe.from)?;
            let now = kernel.seconds();
            let context = files::receive(kernel, context, u64::MAX, "the context").await?;
            let mut there = Fs::new(Arc::new(Tree::new(now)), u64::MAX);
            unpack(&mut there, "/", &context, Who::ROOT, now).map_err(files::unpacked)?;
            let built = Bench::new(kernel, request, &recipe, base, there).work(recipe.steps).await?;
            lock(&kernel.catalogue).keep(name.clone(), built);
            kernel.with(|state, _| state.builds += 1);
        }
        lock(&kernel.double).calls.built(call, &name, !found);
        kernel.trouble(Operation::Build, 2).await?;
        Ok(name)
    }
}

/// An image in the making.
struct Bench<'a> {
    kernel: &'a Arc<Kernel>,
    workshop: Workshop,
    context: Fs,
    given: &'a BTreeMap<String, String>,
    global: BTreeMap<String, String>,
    /// The `ARG`s so far.
    args: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    cwd: String,
    user: String,
}

impl<'a> Bench<'a> {
    fn new(kernel: &'a Arc<Kernel>, request: &'a BuildImage, recipe: &Recipe, base: Origin, context: Fs) -> Self {
        Self {
            kernel,
            workshop: Workshop::open(kernel, &base),
            context,
            given: &request.args,
            global: recipe.global.clone(),
            args: BTreeMap::new(),
            env: base.env,
            cwd: base.cwd,
            user: base.user,
        }
    }

    async fn work(mut self, steps: Vec<Step>) -> Result<Origin> {
        for step in steps {
            let failed = |why: &str| BuildImage::step_failed(&step.text, why, "");
            match &step.what {
                What::Arg(text) => self.arg(text).map_err(|why| failed(&why))?,
                What::Env(text) => {
                    let pairs = words::pairs(text, &|name| self.var(name)).map_err(|why| failed(&why))?;
                    self.env.extend(pairs);
                }
                What::Label(text) => drop(words::pairs(text, &|name| self.var(name)).map_err(|why| failed(&why))?),
                What::User(text) => self.user = self.meant(text).map_err(|why| failed(&why))?,
                What::Workdir(text) => self.workdir(text).map_err(|why| failed(&why))?,
                What::Copy { from, to } => self.copy(from, to).map_err(|why| failed(&why))?,
                What::Exec(argv) => self.run(&step.text, argv.clone()).await?,
                What::Shell(text) => self.shell(&step.text, text).await?,
            }
        }
        Ok(self.workshop.origin(self.env, self.cwd, self.user))
    }

    /// What a variable is: the image's own come before arguments.
    fn var(&self, name: &str) -> Option<String> {
        self.env.get(name).or_else(|| self.args.get(name)).cloned()
    }

    fn meant(&self, word: &str) -> std::result::Result<String, String> {
        words::meant(word, &|name| self.var(name))
    }

    fn arg(&mut self, text: &str) -> std::result::Result<(), String> {
        let (name, default) = recipe::arg(text);
        let default = default.map(|word| self.meant(word)).transpose()?;
        let value = self.given.get(name).cloned().or(default).or_else(|| self.global.get(name).cloned());
        self.args.extend(value.map(|value| (name.to_string(), value)));
        Ok(())
    }

    fn workdir(&mut self, text: &str) -> std::result::Result<(), String> {
        self.cwd = join(&self.cwd, &self.meant(text)?);
        let made = lock(&self.workshop.files).make_dirs(&self.cwd, Who::ROOT, self.kernel.seconds());
        made.map_err(|error| format!("`{}`: {}", self.cwd, error.what.words()))
    }

    fn copy(&self, from: &[String], to: &str) -> std::result::Result<(), String> {
        let from = from.iter().map(|one| self.meant(one)).collect::<std::result::Result<Vec<_>, _>>()?;
        let (to, now) = (self.meant(to)?, self.kernel.seconds());
        copy::copy(&self.context, &from, &mut lock(&self.workshop.files), &self.cwd, &to, now)
    }

    async fn shell(&self, step: &str, text: &str) -> Result<()> {
        let ran = self.run(step, ["/bin/sh", "-c", text].map(str::to_string).into()).await;
        match ran {
            // No script of a test's was for it either.
            Err(error) if cfg!(not(feature = "shell")) && error.kind() == ErrorKind::CreateFailed => {
                let there = lock(&self.workshop.files).stat("/bin/sh", true, Who::ROOT).is_ok();
                if there { Err(error) } else { Err(no_shell(step)) }
            }
            ran => ran,
        }
    }

    async fn run(&self, step: &str, argv: Vec<String>) -> Result<()> {
        let user = User::find(&self.workshop.users, &self.user).ok_or_else(|| unknown_user(&self.user))?;
        let mut env = self.args.clone();
        env.extend(self.env.clone());
        env.entry("HOME".into()).or_insert_with(|| user.home.to_string());
        let failed = |error: Error| match error.kind() {
            ErrorKind::ProgramNotFound | ErrorKind::StartFailed | ErrorKind::ArgumentTooLarge => {
                BuildImage::step_failed(step, error.message(), "").with_source(error)
            }
            _ => error,
        };
        let ran = self.workshop.run(argv, Env::new(env), &self.cwd, &user).await;
        let (status, wrote) = ran.map_err(failed)?;
        match status {
            Status::Code(0) => Ok(()),
            Status::Code(code) => Err(BuildImage::step_failed(step, &format!("it ended with code {code}"), &wrote)),
            Status::Signal(number) => {
                Err(BuildImage::step_failed(step, &format!("it died of signal {number}"), &wrote))
            }
            other => Err(BuildImage::step_failed(step, &format!("it ended with {other:?}"), &wrote)),
        }
    }
}

fn no_shell(step: &str) -> Error {
    Error::unsupported(format!("`{step}` needs a shell, which the fake has by its feature `shell`")).with_hint(
        "enable the feature `shell` of crate `sandbox-fake`, write RUN as an array, or script it with `on_run`",
    )
}
