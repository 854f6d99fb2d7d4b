//! `sh`: a shell language, by bashkit, over the files of the sandbox.
//!
//! It is a language and not a process model. One shell is one process of the sandbox and one thread of the host, which runs
//! its pipes, subshells and usual small programs itself; programs that only the fake knows are children. What `&` starts ends
//! before the shell does. All of stdin is read before the shell starts. A shell that is killed is over for the sandbox at
//! once; its thread is told to stop, and does so at its next command.

use crate::{
    fs::{Fs, FsError, Kind, Opened, What, Who},
    image::Catalogue,
    program::{Fork, Proc, find, join},
    world::{Kernel, lock},
};
use bashkit::{
    Bash, Builtin, BuiltinContext, CommandResolver, DirEntry, ExecOptions, ExecResult, ExecutionLimits, FileSystem,
    FileSystemExt, FileType, Metadata, SessionLimits, async_trait,
};
use bytes::Bytes;
use std::{
    future::{Future, poll_fn},
    io,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
