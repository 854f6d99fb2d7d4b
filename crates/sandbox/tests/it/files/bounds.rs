//! What a sandbox may take of the host at most.

use super::hostile::Tar;
use crate::common::{
    scripted::{Script, hook, script_of},
    spec,
};
use bytes::Bytes;
use sandbox::{Capability, ErrorKind, Result, TreeOptions, TreeReport};
use std::{fs, path::Path};

async fn download(tar: Bytes, target: &Path, options: TreeOptions) -> Result<TreeReport> {
    let get_tree = hook(move |_| {
        let tar = tar.clone();
        async { Ok(tar.into()) }
    });
    let (client, _log) = Script { get_tree, ..script_of() }.having([Capability::Files, Capability::Tree]).client();
    client.create(spec()).await.unwrap().files().download_dir_with("/t", target, &options).await
}

#[tokio::test]
async fn bytes_and_entries_of_a_download_are_bounded() {
    let tar = || Tar::root().dir("t/d/").file("t/d/a", &[1; 600]).file("t/b", &[2; 400]).hard("t/h", "t/b").end();
    for (options, fits) in [
        (TreeOptions::new(), true),
        (TreeOptions::new().max_bytes(1400).max_entries(4), true),
        (TreeOptions::new().max_bytes(1399), false),
        (TreeOptions::new().max_bytes(999), false),
        (TreeOptions::new().max_bytes(599), false),
        (TreeOptions::new().max_entries(3), false),
        (TreeOptions::new().max_entries(3).exclude("d/a"), true),
    ] {
        let host = tempfile::tempdir().unwrap();
        match download(tar(), host.path(), options.clone()).await {
            Ok(report) => assert!(fits && report.files <= 3, "{options:?}"),
            Err(error) => {
                assert!(!fits && error.kind() == ErrorKind::ResourceExhausted, "{options:?}: {error:?}");
                assert!(error.hint().unwrap().contains("max_"), "{error:?}");
                let left = fs::read_dir(host.path()).unwrap().map(|e| e.unwrap().file_name());
                assert!(left.into_iter().all(|name| name == "d" || name == "b"), "{options:?}");
            }
        }
    }
    // Told by its header, a file that is too large is not begun.
    let mut header = tar::Header::new_gnu();
    header.set_size(1 << 50);
    header.as_old_mut().name[..3].copy_from_slice(b"t/f");
    header.set_cksum();
    let mut tar = Tar::root();
    tar.0.extend_from_slice(header.as_bytes());
    let host = tempfile::tempdir().unwrap();
    let error = download(tar.end(), host.path(), TreeOptions::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error:?}");
}
