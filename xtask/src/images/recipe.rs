//! What an image is made from: the folder `ci/images/<name>`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use xshell::{Shell, cmd};

/// Raised when this program makes something else of the same recipe.
const BUILDER: &str = "1";

#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// Of everything that decides what the image holds.
    pub(crate) hash: String,
    spec: Spec,
}

impl std::ops::Deref for Recipe {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        &self.spec
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) tag: String,
    pub(crate) base: Base,
    /// Debian packages.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// Command lines for a `debootstrap` base, run inside it.
    #[serde(default)]
    pub(crate) setup: Vec<Vec<String>>,
    /// Folders that a `debootstrap` base is emptied of.
    #[serde(default)]
    pub(crate) empty: Vec<String>,
    #[serde(default)]
    pub(crate) folders: Vec<Folder>,
    #[serde(default)]
    pub(crate) files: Vec<File>,
    /// Dockerfile instructions that `docker import --change` understands.
    #[serde(default)]
    pub(crate) changes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Base {
    /// The static busybox of a Debian package, with a link for each of its commands.
    Busybox,
    /// One static program, from the recipe's `main.rs`.
    Program,
    /// A small Debian.
    Debootstrap,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Folder {
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// The owner's number, also that of the group.
    #[serde(default)]
    pub(crate) owner: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) text: String,
}

pub(crate) fn load(images: &Path) -> Result<Vec<Recipe>> {
    let mut recipes = Vec::new();
    for entry in fs::read_dir(images).with_context(|| format!("cannot list {}", images.display()))? {
        let folder = entry.with_context(|| format!("cannot list {}", images.display()))?.path();
        if folder.is_dir() {
            recipes.push(read(&folder).with_context(|| format!("bad image {}", folder.display()))?);
        }
    }
    ensure!(!recipes.is_empty(), "no image below {}", images.display());
    recipes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(recipes)
}

fn read(folder: &Path) -> Result<Recipe> {
    let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { bail!("the folder's name is no text") };
    let text = fs::read_to_string(folder.join("image.toml")).context("cannot read image.toml")?;
    let spec = parse(&text)?;
    let program = fs::read_to_string(folder.join("main.rs")).unwrap_or_default();
    ensure!((spec.base == Base::Program) != program.is_empty(), "a `program` has a main.rs and nothing else has one");
    let hash = hash(&[BUILDER, std::env::consts::ARCH, &text, &program])?;
    Ok(Recipe { name: name.into(), folder: folder.into(), hash, spec })
}

fn parse(text: &str) -> Result<Spec> {
    let spec: Spec = toml::from_str(text)?;
    ensure!(spec.tag.starts_with("sandbox-test/"), "the tag `{}` is not below sandbox-test/", spec.tag);
    for path in spec
        .folders
        .iter()
        .map(|folder| &folder.path)
        .chain(spec.files.iter().map(|file| &file.path))
        .chain(&spec.empty)
    {
        let plain = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        ensure!(plain && !path.is_empty(), "the path `{path}` is not relative to the image's root");
    }
    Ok(spec)
}

fn hash(parts: &[&str]) -> Result<String> {
    let shell = Shell::new()?;
    let all: String = parts.iter().map(|part| format!("{}\n{part}", part.len())).collect();
    let printed = cmd!(shell, "sha256sum").quiet().stdin(all).read()?;
    Ok(printed.split_whitespace().next().unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "tag = 'sandbox-test/x:1'\nbase = 'busybox'\n";

    #[test]
    fn an_unknown_field_is_named() {
        let error = format!("{:#}", parse(&format!("{GOOD}change = []")).unwrap_err());
        assert!(error.contains("change"), "{error}");
        assert!(parse(GOOD).is_ok());
    }

    #[test]
    fn foreign_tags_and_paths_are_refused() {
        for text in [
            GOOD.replace("sandbox-test/x", "python"),
            format!("{GOOD}empty = ['/usr']"),
            format!("{GOOD}folders = [{{ path = '../etc', mode = 0 }}]"),
            format!("{GOOD}files = [{{ path = '', mode = 0, text = '' }}]"),
        ] {
            assert!(parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_hash_changes_with_every_input_and_with_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let hash = || read(&folder).unwrap().hash;
        write("image.toml", GOOD);
        let busybox = hash();
        assert_eq!((busybox.len(), busybox == hash()), (64, true));
        write("image.toml", &GOOD.replace("busybox", "program"));
        write("main.rs", "fn main() {}");
        let program = hash();
        write("main.rs", "fn main() { }");
        assert!(busybox != program && program != hash());
    }

    #[test]
    fn the_recipes_of_this_repository_can_be_read() {
        let names: Vec<_> =
            load(&crate::workspace::root().join("ci/images")).unwrap().into_iter().map(|recipe| recipe.name).collect();
        assert_eq!(names, ["busybox", "python", "scratch"]);
    }
}
