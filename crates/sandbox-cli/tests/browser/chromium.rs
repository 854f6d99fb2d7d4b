//! A headless Chromium, one process for each question.

use super::support::Running;
use serde_json::Value;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) const MISSING: &str = "there is no Chromium: install the package chromium-headless-shell or chromium";

const NAMES: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// What a page asks the browser's user for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

#[derive(Debug, Clone)]
pub(crate) struct Browser(PathBuf);

impl Browser {
    /// The one on the path.
    pub(crate) fn find() -> Option<Self> {
        let path = env::var_os("PATH")?;
        let places: Vec<PathBuf> = env::split_paths(&path).collect();
        NAMES.iter().flat_map(|name| places.iter().map(move |dir| dir.join(name))).find(|path| path.is_file()).map(Self)
    }

    /// The value of an expression, by a script that is added to the page's end.
    pub(crate) fn ask(&self, page: &Path, size: (u32, u32), scheme: Scheme, expression: &str) -> Value {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("page.html");
        let questions = include_str!("questions.js");
        let script = format!("<script>{questions}\nanswer(() => {expression});</script>");
        let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        fs::write(&copy, text.replace("</body>", &format!("{script}</body>"))).unwrap();
        let dom = self.run(&copy, size, scheme, &["--dump-dom".into()]);
        let (_, answer) = dom.split_once("<pre id=\"answer\">").unwrap_or_else(|| panic!("no answer: {dom:.3000}"));
        let (answer, _) = answer.split_once("</pre>").unwrap();
        let answer = answer.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// What is seen of the page, as PNG.
    pub(crate) fn picture(&self, page: &Path, size: (u32, u32), scheme: Scheme) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("picture.png");
        self.run(page, size, scheme, &[format!("--screenshot={}", file.display())]);
        fs::read(&file).unwrap()
    }

    fn run(&self, page: &Path, (width, height): (u32, u32), scheme: Scheme, more: &[String]) -> String {
        let profile = tempfile::tempdir().unwrap();
        let scheme = match scheme {
            Scheme::Dark => 0,
            Scheme::Light => 1,
        };
        let page = fs::canonicalize(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let mut command = Command::new(&self.0);
        // Its own sandbox wants rights that root in a container has not; the page is ours.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
        command.arg("--disable-dev-shm-usage").arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--window-size={width},{height}")).args(more).arg(format!("file://{}", page.display()));
        let done = Running::start(command.stdin(std::process::Stdio::null())).finish();
        assert_eq!(done.code, Some(0), "{}", done.err());
        done.out()
    }
}
