//! Files, each way that the facade has for them: by commands, and by trees of one.

mod bounds;
mod hostile;
mod hosts;
mod names;
mod paths;
mod single;
mod stalls;
mod tars;
mod tools;
mod transfer;
mod trees;
mod watch;

use crate::common::Host;
use bytes::Bytes;
use sandbox::{Body, Chunks, Error, ErrorKind, Result, Sandbox};
use std::path::PathBuf;

/// Backends whose files the facade makes itself.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// Everything by commands.
    Commands,
    /// Native trees, single files made of them.
    Trees,
    /// Native trees, but the user inside is not root, and trees heed no permissions.
    TreesOfAnother,
    /// Native trees that see nothing of the folder.
    Blind,
}

const WAYS: [Way; 4] = [Way::Commands, Way::Trees, Way::TreesOfAnother, Way::Blind];

/// A sandbox, its files' way, and where it is on the host.
struct Place {
    sandbox: Sandbox,
    dir: PathBuf,
    _host: Host,
}

async fn place(way: Way) -> Place {
    let host = Host::of(|folder| match way {
        Way::Commands => folder.files_by_commands(),
        Way::Trees => folder.trees(),
        Way::TreesOfAnother => folder.trees().ids(4321, 4321),
        Way::Blind => folder.trees().blind("/tmp"),
    });
    assert!(host.dir.path().starts_with("/tmp"));
    let sandbox = host.sandbox().await;
    Place { dir: sandbox.cwd().into(), sandbox, _host: host }
}

impl Place {
    /// What is in the sandbox's folder that a transfer may have left.
    fn temporaries(&self) -> Vec<String> {
        temporaries(&self.dir)
    }
}

fn temporaries(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".sb-")).collect()
}

/// A body of so many zeros, in pieces, without holding them; then perhaps an error or no end.
struct Zeros {
    left: u64,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    End,
    Fail,
    Hang,
}

impl Zeros {
    fn body(len: Option<u64>, sent: u64, then: Then) -> Body {
        Body::new(len, Self { left: sent, then })
    }
}

impl Chunks for Zeros {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        const PIECE: u64 = 128 << 10;
        static ZEROS: [u8; PIECE as usize] = [0; PIECE as usize];
        let n = self.left.min(PIECE);
        self.left -= n;
        if n > 0 {
            return Ok(Some(Bytes::from_static(&ZEROS[..n as usize])));
        }
        match self.then {
            Then::End => Ok(None),
            Then::Fail => Err(Error::new(ErrorKind::Unavailable, "the source broke")),
            Then::Hang => std::future::pending().await,
        }
    }
}
