//! Lanes are folders: `ci/lanes/contract/fake/lane.toml` is the lane `contract/fake`.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Component, Path},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// One lane, as its `lane.toml` states it.
#[derive(Debug, Serialize)]
pub(crate) struct Lane {
    pub(crate) name: String,
    #[serde(flatten)]
    spec: Spec,
}

impl Lane {
    pub(crate) fn uses_docker(&self) -> bool {
        self.needs.iter().any(|need| matches!(need, Need::Docker | Need::Image(_)))
    }
}

impl std::ops::Deref for Lane {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        &self.spec
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) when: When,
    /// Whether its failure fails the whole.
    pub(crate) required: bool,
    /// The system that it runs on; on another one it is skipped, visibly.
    #[serde(default)]
    pub(crate) os: Os,
    /// Whether it watches what we do not control: when it fails, the text of an issue is written.
    #[serde(default)]
    pub(crate) canary: bool,
    /// A limit for everything that the lane does, its needs included.
    pub(crate) minutes: u32,
    /// Environment variables without which the lane is skipped, visibly.
    #[serde(default)]
    pub(crate) secrets: Vec<String>,
    #[serde(default)]
    pub(crate) needs: Vec<Need>,
    /// Folders below `target/` that are emptied first.
    #[serde(default)]
    pub(crate) fresh: Vec<String>,
    /// Added to the environment of every command; `{root}` is the workspace.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Command lines, without a shell, one after the other. All of them run, also when one has failed.
    pub(crate) run: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum When {
    Change,
    Nightly,
    /// Only when it is asked for.
    Manual,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Os {
    #[default]
    Linux,
    Macos,
    Windows,
}

impl Os {
    pub(crate) fn is_here(self) -> bool {
        self.name() == std::env::consts::OS
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Macos => "macos",
            Self::Windows => "windows",
        }
    }
}

/// What a lane cannot run without. A service that cannot be had fails the lane. A compiler or a browser that cannot be had
/// skips it, visibly: not every machine can fetch one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Need {
    /// A browser that can be started without a screen.
    Browser,
    /// An engine that answers.
    Docker,
    /// A test image, by its folder in `ci/images`.
    Image(String),
    /// A toolchain of rustup, such as `1.85.0`, or `newest`, which is the newest stable one.
    Rust(String),
    /// The standard library for another platform.
    Target(String),
}

impl Need {
    /// The command that meets the need, given this program.
    pub(crate) fn command(&self, myself: &Path) -> Command {
        let (mut command, arguments) = match self {
            Self::Browser => (Command::new(myself), vec!["browser"]),
            Self::Docker => (Command::new(myself), vec!["engine"]),
            Self::Image(name) => (Command::new(myself), vec!["images", name]),
            Self::Rust(name) => (Command::new(myself), vec!["toolchain", name]),
            Self::Target(name) => (Command::new("rustup"), vec!["target", "add", name]),
        };
        command.args(arguments);
        command
    }

    pub(crate) fn is_optional(&self) -> bool {
        matches!(self, Self::Browser | Self::Rust(_) | Self::Target(_))
    }
}

impl TryFrom<String> for Need {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "browser" => Ok(Self::Browser),
            None if text == "docker" => Ok(Self::Docker),
            Some(("image", name)) if !name.is_empty() => Ok(Self::Image(name.into())),
            Some(("rust", name)) if !name.is_empty() => Ok(Self::Rust(name.into())),
            Some(("target", name)) if !name.is_empty() => Ok(Self::Target(name.into())),
            _ => Err(format!(
                "unknown need `{text}`; there are: browser, docker, image:NAME, rust:VERSION, target:TRIPLE"
            )),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Browser => f.write_str("browser"),
            Self::Docker => f.write_str("docker"),
            Self::Image(name) => write!(f, "image:{name}"),
            Self::Rust(name) => write!(f, "rust:{name}"),
            Self::Target(name) => write!(f, "target:{name}"),
        }
    }
}

impl From<Need> for String {
    fn from(need: Need) -> Self {
        need.to_string()
    }
}

/// Every lane below a folder, by name.
pub(crate) fn load(lanes: &Path) -> Result<Vec<Lane>> {
    let mut found = Vec::new();
    collect(lanes, "", &mut found)?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn collect(folder: &Path, name: &str, found: &mut Vec<Lane>) -> Result<()> {
    let file = folder.join("lane.toml");
    if file.is_file() {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        found.push(parse(name, &text).with_context(|| format!("bad lane {}", file.display()))?);
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let part = entry.file_name().into_string().map_err(|name| anyhow::anyhow!("{name:?} is no lane's name"))?;
            let below = if name.is_empty() { part } else { format!("{name}/{part}") };
            collect(&entry.path(), &below, found)?;
        }
    }
    Ok(())
}

pub(crate) fn parse(name: &str, text: &str) -> Result<Lane> {
    let spec: Spec = toml::from_str(text)?;
    ensure!(!name.is_empty(), "a lane.toml stands in a folder that names the lane");
    ensure!(spec.minutes > 0, "`minutes` is a limit and cannot be 0");
    ensure!(!spec.run.is_empty(), "`run` has no command, so the lane could not fail");
    for argv in &spec.run {
        ensure!(argv.first().is_some_and(|program| !program.is_empty()), "`run` has a command without a program");
    }
    for variable in spec.secrets.iter().chain(spec.env.keys()) {
        ensure!(!variable.is_empty() && !variable.contains(['=', '\0']), "`{variable}` is no name of a variable");
    }
    let at_home = |need: &Need| !matches!(need, Need::Docker | Need::Image(_));
    ensure!(spec.os == Os::Linux || spec.needs.iter().all(at_home), "an engine is only had on Linux");
    for folder in &spec.fresh {
        let mut parts = Path::new(folder).components();
        let below = parts.next() == Some(Component::Normal("target".as_ref()));
        if !below || parts.next().is_none() || Path::new(folder).components().any(|part| part == Component::ParentDir) {
            bail!("`fresh` has `{folder}`, which is not below target/");
        }
    }
    Ok(Lane { name: name.into(), spec })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "when = 'change'\nrequired = true\nminutes = 5\nrun = [['cargo', 'fmt']]\n";

    fn error(text: &str) -> String {
        format!("{:#}", parse("lane", text).unwrap_err())
    }

    #[test]
    fn a_small_lane_has_defaults() {
        let lane = parse("lane", GOOD).unwrap();
        assert_eq!((lane.when, lane.required, lane.minutes), (When::Change, true, 5));
        assert_eq!((lane.os, lane.canary), (Os::Linux, false));
        assert!(lane.secrets.is_empty() && lane.needs.is_empty() && lane.fresh.is_empty() && lane.env.is_empty());
    }

    #[test]
    fn needs_are_read_and_written() {
        let lane =
            parse("lane", &format!("{GOOD}needs = ['browser', 'docker', 'image:busybox', 'rust:1.85.0', 'target:x']"))
                .unwrap();
        let needs = [
            Need::Browser,
            Need::Docker,
            Need::Image("busybox".into()),
            Need::Rust("1.85.0".into()),
            Need::Target("x".into()),
        ];
        assert_eq!(lane.needs, needs);
        let json = serde_json::to_value(&lane).unwrap();
        assert_eq!(json["needs"], serde_json::json!(["browser", "docker", "image:busybox", "rust:1.85.0", "target:x"]));
        assert_eq!((json["name"].as_str(), json["when"].as_str()), (Some("lane"), Some("change")));
    }

    #[test]
    fn an_unknown_field_is_named() {
        assert!(error(&format!("{GOOD}minuts = 3")).contains("minuts"));
    }

    #[test]
    fn a_missing_field_is_named() {
        assert!(error("when = 'change'\nrequired = true\nrun = [['true']]").contains("minutes"));
    }

    #[test]
    fn bad_values_say_what_is_wrong() {
        for (text, word) in [
            (GOOD.replace("5", "0"), "minutes"),
            (GOOD.replace("'change'", "'weekly'"), "weekly"),
            (GOOD.replace("[['cargo', 'fmt']]", "[]"), "no command"),
            (GOOD.replace("[['cargo', 'fmt']]", "[[]]"), "without a program"),
            (format!("{GOOD}needs = ['podman']"), "podman"),
            (format!("{GOOD}needs = ['image:']"), "image:"),
            (format!("{GOOD}secrets = ['A=B']"), "A=B"),
            (format!("{GOOD}os = 'plan9'"), "plan9"),
            (format!("{GOOD}os = 'macos'\nneeds = ['docker']"), "only had on Linux"),
            (format!("{GOOD}fresh = ['docs']"), "below target"),
            (format!("{GOOD}fresh = ['target']"), "below target"),
            (format!("{GOOD}fresh = ['target/../docs']"), "below target"),
        ] {
            let error = error(&text);
            assert!(error.contains(word), "{error} does not name {word}");
        }
    }

    #[test]
    fn folders_are_names_and_a_bad_file_is_named() {
        let root = tempfile::tempdir().unwrap();
        let put = |folder: &str, text: &str| {
            fs::create_dir_all(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("lane.toml"), text).unwrap();
        };
        put("test", GOOD);
        put("contract/fake", GOOD);
        fs::create_dir_all(root.path().join("contract/empty")).unwrap();
        let names: Vec<_> = load(root.path()).unwrap().into_iter().map(|lane| lane.name).collect();
        assert_eq!(names, ["contract/fake", "test"]);
        put("bad", "when = 1");
        let error = format!("{:#}", load(root.path()).unwrap_err());
        assert!(error.contains("bad/lane.toml"), "{error}");
    }

    /// On a machine that had an image by chance, a lane that does not ask for it is green.
    #[test]
    fn lanes_need_the_images_that_their_tests_name() {
        let root = crate::workspace::root();
        let recipes = fs::read_dir(root.join("ci/images")).unwrap().flatten();
        let recipes: Vec<_> = recipes.filter_map(|recipe| recipe.file_name().into_string().ok()).collect();
        let mut seen = 0;
        for lane in load(&root.join("ci/lanes")).unwrap().iter().filter(|lane| lane.needs.contains(&Need::Docker)) {
            let tests = |name: &str| root.join("crates").join(name).join("tests");
            let mut folders = Vec::new();
            for argv in &lane.run {
                if let Some(at) = argv.iter().position(|arg| arg == "--package" && argv[1] == "nextest") {
                    folders.push(tests(&argv[at + 1]));
                } else if argv.iter().any(|arg| arg.contains("binary(docker)")) {
                    let crates = fs::read_dir(root.join("crates")).unwrap().flatten();
                    let all = crates.map(|one| one.path().join("tests"));
                    folders
                        .extend(all.filter(|tests| tests.join("docker").is_dir() || tests.join("docker.rs").is_file()));
                }
            }
            for recipe in &recipes {
                let named = folders.iter().any(|folder| names(folder, &format!("sandbox-test/{recipe}:")));
                let needed = lane.needs.contains(&Need::Image(recipe.clone()));
                assert!(
                    !named || needed,
                    "lane {} has tests that name the image {recipe}: add image:{recipe}",
                    lane.name
                );
                seen += usize::from(named);
            }
        }
        assert!(seen > 3, "only {seen} images were found in tests");
    }

    fn names(folder: &Path, text: &str) -> bool {
        fs::read_dir(folder).is_ok_and(|entries| {
            entries.flatten().map(|entry| entry.path()).any(|path| match path.is_dir() {
                true => names(&path, text),
                false => fs::read_to_string(&path).is_ok_and(|found| found.contains(text)),
            })
        })
    }
}
