//! Requests and answers of file operations. Paths are absolute; a field added later comes with a capability of its own.

use std::time::SystemTime;

macro_rules! request {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $fdoc:literal])+ $field:ident: $type:ty,)+ } $(, $(#[doc = $odoc:literal])+ $opt:ident: $otype:ty = $default:expr)*) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[doc = $fdoc])+ pub $field: $type,)+
            $($(#[doc = $odoc])+ pub $opt: $otype,)*
        }

        impl $name {
            /// The request with all options at their defaults.
            pub fn new($($field: impl Into<$type>),+) -> Self {
                Self { $($field: $field.into(),)+ $($opt: $default,)* }
            }

            $($(#[doc = $odoc])+ pub fn $opt(mut self, $opt: $otype) -> Self {
                self.$opt = $opt;
                self
            })*
        }
    };
}

request! {
    /// Read a regular file.
    ReadFile {
        /// Where it is.
        path: String,
    },
    /// The first byte to read.
    offset: u64 = 0,
    /// How many bytes to read at most; `None` is to the end.
    length: Option<u64> = None
}

request! {
    /// Write a regular file whole.
    WriteFile {
        /// Where it goes.
        path: String,
    },
    /// Permission bits; `None` keeps those of a file that is there, and is 0644 for a new one.
    mode: Option<u32> = None
}

request! {
    /// Look at a path.
    Stat {
        /// Where.
        path: String,
    }
}

request! {
    /// List a directory.
    ListDir {
        /// Where.
        path: String,
    }
}

request! {
    /// Make a directory and its parents.
    MakeDir {
        /// Where.
        path: String,
    }
}

request! {
    /// Remove a file or directory.
    Remove {
        /// Where.
        path: String,
    },
    /// Whether a directory goes with all that is in it.
    recursive: bool = false
}

request! {
    /// Move a file or directory.
    Rename {
        /// From where.
        from: String,
        /// To where.
        to: String,
    }
}

request! {
    /// Change metadata of a file.
    SetMeta {
        /// Where.
        path: String,
    },
    /// Permission bits.
    mode: Option<u32> = None,
    /// uid and gid.
    owner: Option<(u32, u32)> = None,
    /// Time of the last change.
    mtime: Option<SystemTime> = None
}

request! {
    /// Unpack a tar stream below a directory.
    PutTree {
        /// The directory, which exists.
        path: String,
    }
}

request! {
    /// Pack what is at a path into a tar stream.
    GetTree {
        /// Where.
        path: String,
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FileInfo {
    /// The last part of its path.
    pub name: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its length in bytes.
    pub size: u64,
    /// Its metadata.
    pub meta: Meta,
    /// Where a link points to.
    pub target: Option<String>,
}

impl FileInfo {
    /// A file of this kind and size, with no more known.
    pub fn new(name: impl Into<String>, kind: FileKind, size: u64) -> Self {
        Self { name: name.into(), kind, size, meta: Meta::default(), target: None }
    }

    /// Adds metadata.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Adds a link's target.
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device.
    Other,
}

/// Metadata of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Meta {
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// Time of the last change, in seconds since 1970.
    pub mtime: i64,
}

impl Meta {
    /// Metadata of these parts; `mtime` in seconds since 1970.
    pub fn new(mode: u32, uid: u32, gid: u32, mtime: i64) -> Self {
        Self { mode, uid, gid, mtime }
    }
}
