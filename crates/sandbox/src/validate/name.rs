//! Names: paths, variables, labels, ids, users.

use sandbox_core::{Error, Query, Result, SandboxId, SnapshotId, labels};
use std::collections::BTreeMap;

/// An id that a user hands in.
pub(crate) fn id(id: &str) -> Result<SandboxId> {
    let fine =
        !id.is_empty() && id.len() <= 256 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
    if fine && !id.starts_with(['.', '-']) {
        return Ok(SandboxId::new(id));
    }
    Err(Error::invalid(format!("`{}` is not a sandbox id", id.escape_debug()))
        .with_hint("use an id as `Sandbox::id` or `Client::list` gives it"))
}

/// A snapshot's id that a user hands in: that of an image, where providers make images of them.
pub(crate) fn snapshot(id: &str) -> Result<SnapshotId> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"_.:-/".contains(&b);
    let parts = || id.split(['/', ':']);
    if id.len() <= 512 && id.bytes().all(fine) && parts().all(|part| !part.is_empty() && !part.starts_with(['.', '-']))
    {
        return Ok(SnapshotId::new(id));
    }
    Err(Error::invalid(format!("`{}` is not the id of a snapshot", id.escape_debug()))
        .with_hint("use an id as `Sandbox::snapshot` or `Client::snapshots` gives it"))
}

/// A path inside the sandbox, made absolute; `.` and doubled slashes are gone, `..` stays what it is.
pub(crate) fn joined(cwd: &str, path: &str) -> Result<String> {
    if path.is_empty() {
        return Err(Error::invalid("the path is empty").with_hint("write `.` for the working directory"));
    }
    no_nul(path, "the path")?;
    let whole = if path.starts_with('/') { path.to_string() } else { format!("{cwd}/{path}") };
    let mut clean = String::with_capacity(whole.len());
    for part in whole.split('/').filter(|part| !part.is_empty() && *part != ".") {
        clean.push('/');
        clean.push_str(part);
    }
    if clean.is_empty() {
        clean.push('/');
    }
    Ok(clean)
}

/// A working directory of a spec.
pub(crate) fn absolute(path: &str, what: &str) -> Result<()> {
    no_nul(path, what)?;
    if path.starts_with('/') {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} `{path}` is not absolute")).with_hint(format!("write `/{path}`")))
}

/// An image or template, of whatever shape its provider gives them.
pub(super) fn image(image: &str) -> Result<()> {
    if image.is_empty() || image.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Error::invalid(format!("`{}` is not an image", image.escape_debug()))
            .with_hint("name an image or template of the provider, or none for its default"));
    }
    Ok(())
}

pub(super) fn variable(name: &str, value: &str) -> Result<()> {
    let what = if name.is_empty() {
        "the name of a variable is empty".to_string()
    } else if name.contains('=') {
        format!("the name of variable `{}` has a `=`", name.escape_debug())
    } else if name.contains('\0') || value.contains('\0') {
        format!("variable `{}` has a NUL byte", name.escape_debug())
    } else {
        return Ok(());
    };
    Err(Error::invalid(what)
        .with_hint("names of variables are not empty and have no `=`; neither they nor values have NUL bytes"))
}

pub(super) fn user(user: &str) -> Result<()> {
    let fine = !user.is_empty() && !user.starts_with('-') && !user.contains([':', '\0', '\n', '/', ' ']);
    if fine {
        return Ok(());
    }
    Err(Error::invalid(format!("`{}` is not a user", user.escape_debug())).with_hint("give a name or a uid"))
}

/// A label of a user's.
pub(super) fn label(name: &str, value: &str) -> Result<()> {
    if name.starts_with(labels::RESERVED) {
        let message = format!("label `{name}` begins with `{}`, which belongs to this library", labels::RESERVED);
        return Err(Error::invalid(message).with_hint("choose a prefix of your own"));
    }
    queryable(name, value)
}

/// All labels of a user's.
pub(crate) fn labels(all: &BTreeMap<String, String>) -> Result<()> {
    all.iter().try_for_each(|(name, value)| label(name, value))
}

/// The labels of a query may be our own too.
pub(crate) fn label_query(query: &Query) -> Result<()> {
    query.labels.iter().try_for_each(|(name, value)| queryable(name, value))
}

fn queryable(name: &str, value: &str) -> Result<()> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(fine) {
        return Err(Error::invalid(format!("label `{}` is not a name", name.escape_debug()))
            .with_hint("names of labels are 1 to 128 of letters, digits and `.`, `_`, `-`, `/`"));
    }
    if value.len() > 1024 || value.chars().any(char::is_control) {
        return Err(Error::invalid(format!("the value of label `{name}` is not one"))
            .with_hint("values of labels have at most 1024 bytes and no control characters"));
    }
    Ok(())
}

pub(super) fn no_nul(text: &str, what: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid(format!("{what} has a NUL byte")).with_hint("take the NUL byte out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined() {
        for (cwd, path, whole) in [
            ("/work", "a", "/work/a"),
            ("/work", "/a//b/", "/a/b"),
            ("/", ".", "/"),
            ("/work", "./a/./b", "/work/a/b"),
            ("/work", "../a", "/work/../a"),
        ] {
            assert_eq!(joined(cwd, path).unwrap(), whole);
        }
        assert!(joined("/", "").is_err() && joined("/", "a\0").is_err());
    }

    #[test]
    fn ids_of_snapshots_are_those_of_images() {
        for fine in ["sha256:0f", "team/name:tag", "fake-snapshot-1", "a.b_c"] {
            assert!(snapshot(fine).is_ok(), "{fine}");
        }
        for wrong in ["", "/a", "a/", "a//b", "../a", "a/../b", "-a", "a:-b", "a b", "a?b", "a%2f"] {
            assert!(snapshot(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_cannot_leave_their_place_in_a_url() {
        for wrong in ["", "../../info?x=", "a b", "a/b", "a%2f", ".", "-f", "a\n"] {
            assert!(id(wrong).is_err(), "{wrong}");
        }
        assert!(id("sb-0f.3_A").is_ok());
    }
}
