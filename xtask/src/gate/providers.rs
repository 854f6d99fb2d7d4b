//! The core knows no provider by name, neither in code nor in docs.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::Findings;

const CORE: &str = "crates/sandbox-core/src";

/// Names of providers, and of what they are made of.
const NAMES: [&str; 19] = [
    "aws",
    "azure",
    "bollard",
    "cloudflare",
    "codesandbox",
    "containerd",
    "daytona",
    "docker",
    "e2b",
    "firecracker",
    "fly",
    "gvisor",
    "kata",
    "kubernetes",
    "lambda",
    "modal",
    "podman",
    "runloop",
    "vercel",
];

/// A name that a file of the core may use all the same.
#[derive(Debug)]
struct Exception {
    file: &'static str,
    name: &'static str,
    why: &'static str,
}

const EXCEPTIONS: &[Exception] = &[Exception {
    file: "crates/sandbox-core/src/isolation.rs",
    name: "gvisor",
    why: "it is the field's name of an isolation tier, which many providers offer",
}];

pub(crate) fn check(root: &Path) -> Result<Findings> {
    let mut files = Vec::new();
    rust_files(&root.join(CORE), &mut files)?;
    let mut texts = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string().replace('\\', "/");
        texts.push((name, text));
    }
    Ok(findings(&texts, EXCEPTIONS))
}

fn findings(texts: &[(String, String)], exceptions: &[Exception]) -> Findings {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in texts {
        for (index, line) in text.lines().enumerate() {
            let words = words(line);
            for name in NAMES.iter().filter(|name| words.contains(**name)) {
                if exceptions.iter().any(|exception| exception.file == file && exception.name == *name) {
                    used.insert((file.as_str(), *name));
                    continue;
                }
                let line = index + 1;
                findings.push(format!(
                    "{file}:{line} names `{name}`; the core knows no provider: say it in the provider's crate"
                ));
            }
        }
    }
    for exception in exceptions.iter().filter(|exception| !used.contains(&(exception.file, exception.name))) {
        let Exception { file, name, why } = exception;
        findings.push(format!("{file} does not name `{name}` any more ({why}); remove the exception"));
    }
    findings
}

/// The words of a line in lower case, also those that identifiers are made of: `DockerHost` and `docker_host` have two.
fn words(line: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut word = String::new();
    let mut whole = String::new();
    let mut before = ' ';
    for c in line.chars().chain([' ']) {
        let hump = c.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        if !c.is_alphanumeric() || hump {
            words.insert(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
            whole.extend(c.to_lowercase());
        } else {
            words.insert(std::mem::take(&mut whole));
        }
        before = c;
    }
    words
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, exceptions: &[Exception]) -> Findings {
        findings(&[("src/a.rs".into(), text.into())], exceptions)
    }

    #[test]
    fn a_provider_is_found_in_docs_names_and_strings() {
        for line in [
            "/// As E2B does.",
            "fn docker_host() {}",
            "struct DockerHost;",
            "const DOCKER: &str = \"\";",
            "\"lambda-vm\"",
        ] {
            let found = found(&format!("struct A;\n{line}\n"), &[]);
            assert!(found.len() == 1 && found[0].starts_with("src/a.rs:2 names `"), "{line}: {found:?}");
        }
    }

    #[test]
    fn a_part_of_another_word_is_no_provider() {
        for line in ["/// A modality.", "struct Container;", "fn dockerish() {}", "let butterfly = laws;"] {
            assert_eq!(found(line, &[]), Findings::new(), "{line}");
        }
    }

    #[test]
    fn an_exception_holds_for_its_file_and_name_and_may_not_outlive_its_use() {
        let exception = |file| [Exception { file, name: "gvisor", why: "x" }];
        assert_eq!(found("/// gVisor.", &exception("src/a.rs")), Findings::new());
        assert_eq!(found("/// gVisor.", &exception("src/b.rs")).len(), 2);
        assert!(found("struct A;", &exception("src/a.rs"))[0].contains("remove the exception"));
    }
}
