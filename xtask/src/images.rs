//! `cargo xtask images`: small local images for the tests, made without any registry.

mod build;
mod recipe;

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};
use xshell::{Shell, cmd};

use crate::{engine, flags, table, workspace};
use recipe::Recipe;

/// The label that says what an image was made from.
const LABEL: &str = "sandbox-test.recipe";

pub(crate) fn run(flags: &flags::Images) -> Result<()> {
    let root = workspace::root();
    let recipes = chosen(recipe::load(&root.join("ci/images"))?, &flags.names)?;
    engine::ensure_answers(&root)?;
    let shell = Shell::new()?;
    if flags.check {
        return check(&shell, &recipes);
    }
    let work = root.join("target/images");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    // Two builds of one image would share a folder, so the second one waits and then finds the work done.
    let lock = fs::File::create(work.join("lock")).context("cannot make the lock file")?;
    lock.lock().context("cannot lock the folder of the images")?;
    for recipe in &recipes {
        let present = present(&shell, recipe);
        if present == Present::Current {
            println!("{} is up to date", recipe.tag);
        } else {
            println!("building {} ({})", recipe.tag, present.word());
            build(&shell, recipe, &work).with_context(|| format!("cannot build {}", recipe.tag))?;
        }
    }
    Ok(())
}

fn chosen(recipes: Vec<Recipe>, names: &[String]) -> Result<Vec<Recipe>> {
    if let Some(unknown) = names.iter().find(|name| recipes.iter().all(|recipe| recipe.name != **name)) {
        let known: Vec<_> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
        bail!("no image `{unknown}`; there are: {}", known.join(", "));
    }
    Ok(recipes.into_iter().filter(|recipe| names.is_empty() || names.contains(&recipe.name)).collect())
}

fn check(shell: &Shell, recipes: &[Recipe]) -> Result<()> {
    let found: Vec<_> = recipes.iter().map(|recipe| (recipe, present(shell, recipe))).collect();
    let rows: Vec<_> = found.iter().map(|(recipe, present)| [recipe.tag.clone(), present.word().into()]).collect();
    print!("{}", table::render(["image", "state"], &rows));
    let missing: Vec<_> = found
        .iter()
        .filter(|(_, present)| *present != Present::Current)
        .map(|(recipe, _)| recipe.name.as_str())
        .collect();
    if missing.is_empty() { Ok(()) } else { bail!("run `cargo xtask images {}`", missing.join(" ")) }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Present {
    Current,
    Outdated,
    Missing,
}

impl Present {
    fn word(self) -> &'static str {
        match self {
            Self::Current => "up to date",
            Self::Outdated => "out of date",
            Self::Missing => "missing",
        }
    }
}

fn present(shell: &Shell, recipe: &Recipe) -> Present {
    let (format, tag) = (format!("{{{{index .Config.Labels \"{LABEL}\"}}}}"), &recipe.tag);
    match cmd!(shell, "docker image inspect --format {format} {tag}").quiet().ignore_stderr().read() {
        Ok(hash) if hash == recipe.hash => Present::Current,
        Ok(_) => Present::Outdated,
        Err(_) => Present::Missing,
    }
}

fn build(shell: &Shell, recipe: &Recipe, work: &Path) -> Result<()> {
    let folder = Workplace::new(work.join(&recipe.name))?;
    let archive = build::archive(shell, recipe, &folder.0)?;
    let tag = &recipe.tag;
    let id = "{{.Id}}";
    let identify = || cmd!(shell, "docker image inspect --format {id} {tag}").quiet().ignore_stderr().read().ok();
    let old = identify();
    let label = format!("LABEL {LABEL}={}", recipe.hash);
    let changes = recipe.changes.iter().chain([&label]).flat_map(|change| ["--change", change]);
    cmd!(shell, "docker import {changes...} {archive} {tag}").quiet().run()?;
    if let Some(old) = old.filter(|old| Some(old) != identify().as_ref()) {
        // A container may still use it; then it stays until that container is gone.
        let _ = cmd!(shell, "docker image rm {old}").quiet().ignore_stdout().ignore_stderr().run();
    }
    Ok(())
}

/// A folder that is empty at first and gone at last.
struct Workplace(std::path::PathBuf);

impl Workplace {
    fn new(path: std::path::PathBuf) -> Result<Self> {
        // A build that was killed leaves its folder.
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
