//! Names that shells, tars and listings stumble over.

use super::{WAYS, Way, place};
use sandbox::ErrorKind;
use std::fs;

fn odd() -> Vec<String> {
    let mut all: Vec<String> = [
        " ",
        "a b",
        " lead",
        "trail ",
        "-rf",
        "--",
        "-",
        "*",
        "?[a]",
        "$HOME",
        "`id`",
        "'",
        "\"",
        "\\",
        "\\n",
        "a\nb",
        "\n",
        "a\tb",
        "a\rb",
        "ünï",
        "日本語",
        "🦀",
        "#",
        "~",
        "a;b",
        "a|b",
        "%s",
        "...",
        ".hidden",
        "a:b",
        "=",
        "a=b",
        "{}",
        "!",
        "\u{7f}",
        "x 8180 5 0 0 1 y",
    ]
    .map(String::from)
    .into();
    all.push("n".repeat(255));
    all.push("ü".repeat(127));
    all
}

#[tokio::test]
async fn odd_names_are_names() {
    for way in [Way::Commands, Way::Trees] {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        fs::create_dir(dir.join("d")).unwrap();
        let names = odd();
        for name in &names {
            let path = format!("d/{name}");
            let failed = |e: sandbox::Error| -> () { panic!("{way:?} {name:?}: {e:?}") };
            files.write(path.as_str(), name.clone()).await.unwrap_or_else(failed);
            assert_eq!(fs::read_to_string(dir.join(&path)).unwrap(), *name, "{way:?}");
            assert_eq!(files.read_text(path.as_str()).await.unwrap(), *name, "{way:?}");
            let stat = files.stat(path.as_str()).await.unwrap();
            assert_eq!((&stat.name, stat.size), (name, name.len() as u64), "{way:?}");
        }
        let mut listed: Vec<_> = files.list("d").await.unwrap().into_iter().map(|one| one.name).collect();
        let mut sorted = names.clone();
        listed.sort();
        sorted.sort();
        assert_eq!(listed, sorted, "{way:?}");
        let host = tempfile::tempdir().unwrap();
        let report = files.download_dir("d", host.path().join("down")).await.unwrap();
        assert_eq!(report.files as usize, names.len(), "{way:?}");
        files.upload_dir(host.path().join("down"), "up").await.unwrap();
        for name in &names {
            assert_eq!(fs::read_to_string(dir.join("up").join(name)).unwrap(), *name, "{way:?}");
            let (from, to) = (format!("d/{name}"), format!("d/{name}"));
            files.rename(from.as_str(), "moved").await.unwrap();
            files.rename("moved", to.as_str()).await.unwrap();
            files.remove(to.as_str()).await.unwrap();
            assert!(!files.exists(to.as_str()).await.unwrap());
            files.make_dir(to.as_str()).await.unwrap();
            files.remove_all(to.as_str()).await.unwrap();
        }
        assert!(files.list("d").await.unwrap().is_empty(), "{way:?}");
    }
}

#[tokio::test]
async fn a_tree_may_have_an_odd_name_itself() {
    for way in [Way::Commands, Way::Trees] {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        for (n, name) in odd().iter().enumerate() {
            files.write(format!("{name}/note"), name.clone()).await.unwrap();
            let down = host.path().join(n.to_string());
            let got = files.download_dir(name.as_str(), &down).await;
            assert_eq!(got.unwrap_or_else(|e| panic!("{way:?} {name:?}: {e:?}")).files, 1, "{way:?} {name:?}");
            assert_eq!(fs::read_to_string(down.join("note")).unwrap(), *name, "{way:?}");
        }
    }
}

#[tokio::test]
async fn a_name_that_is_too_long_is_an_error() {
    for way in WAYS {
        let place = place(way).await;
        let files = place.sandbox.files();
        let long = "n".repeat(256);
        let error = files.write(long.as_str(), "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{way:?} {error:?}");
        assert!(files.stat(long.as_str()).await.is_err());
        assert_eq!(place.temporaries(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn paths_go_through_dots_as_the_sandbox_sees_them() {
    for way in WAYS {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        fs::create_dir_all(dir.join("a/b")).unwrap();
        files.write("a/b/../note", "x").await.unwrap();
        assert_eq!(fs::read(dir.join("a/note")).unwrap(), b"x", "{way:?}");
        assert_eq!(files.read_text("./a/./b//../note").await.unwrap(), "x", "{way:?}");
        let view = place.sandbox.with(sandbox::Overrides::new().cwd("a")).files();
        assert_eq!(view.read_text("note").await.unwrap(), "x", "{way:?}");
        view.write("b/deep", "y").await.unwrap();
        assert_eq!(fs::read(dir.join("a/b/deep")).unwrap(), b"y", "{way:?}");
        let inside = view.list(".").await.unwrap();
        assert_eq!(inside.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["b", "note"], "{way:?}");
    }
}
