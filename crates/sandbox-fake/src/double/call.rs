//! The record of what was asked of a fake.

use bytes::{Bytes, BytesMut};
use sandbox_core::{Error, ErrorKind, NetworkPolicy, SandboxId, Spec, labels};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// How many calls are kept; older ones are forgotten.
const MOST: usize = 10_000;

/// How much of a command's input is kept.
const INPUT: usize = 1 << 20;

/// Something that a fake was asked for. The last ten thousand are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// A sandbox.
    Create(CreateCall),
    /// A command.
    Run(RunCall),
    /// A way into a sandbox that is there.
    Attach(SandboxCall),
    /// A sandbox that outlives its owner.
    Detach(SandboxCall),
    /// The end of a sandbox.
    Destroy(SandboxCall),
    /// An operation on files.
    File(FileCall),
}

impl Call {
    /// The kind of the error that it was answered with.
    pub fn error(&self) -> Option<ErrorKind> {
        match self {
            Self::Create(call) => call.error,
            Self::Run(call) => call.error,
            Self::Attach(call) | Self::Detach(call) | Self::Destroy(call) => call.error,
            Self::File(call) => call.error,
        }
    }
}

/// A sandbox that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateCall {
    /// Its id, where one was made.
    pub sandbox: Option<SandboxId>,
    /// The spec in effect: network, lifetime and resources are set, and the labels of this library, which are never the same,
    /// are left out.
    pub spec: Spec,
    /// The kind of the error that it was answered with.
    pub error: Option<ErrorKind>,
}

/// A command that was asked for, as it would run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunCall {
    /// Where.
    pub sandbox: SandboxId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its whole environment: image, spec, views and call merged.
    pub env: Arc<BTreeMap<String, String>>,
    /// Its working directory, absolute.
    pub cwd: String,
    /// The name of its user.
    pub user: String,
    /// Its input, as far as it was given by now.
    pub stdin: Input,
    /// What its sandbox may reach.
    pub network: NetworkPolicy,
    /// How long it may run.
    pub timeout: Duration,
    /// The kind of the error that it was answered with in place of a start.
    pub error: Option<ErrorKind>,
}

/// The input of a command; of each at most the first mebibyte is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// None.
    None,
    /// Known at the start.
    Whole(Bytes),
    /// Written while it runs: what was written so far.
    Pipe(Bytes),
}

/// A call about a sandbox as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxCall {
    /// Which one.
    pub sandbox: SandboxId,
    /// The kind of the error that it was answered with.
    pub error: Option<ErrorKind>,
}

/// A call about a file or a tree of files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileCall {
    /// Where.
    pub sandbox: SandboxId,
    /// What the adapter was asked for: `read_file`, `write_file`, `stat`, `list_dir`, `make_dir`, `remove`, `rename`,
    /// `set_meta`, `put_tree`, `get_tree`.
    pub operation: &'static str,
    /// The absolute path; of a rename, the old one.
    pub path: String,
    /// The kind of the error that it was answered with.
    pub error: Option<ErrorKind>,
}

impl SandboxCall {
    pub(crate) fn new(sandbox: &SandboxId) -> Self {
        Self { sandbox: sandbox.clone(), error: None }
    }
}

impl CreateCall {
    pub(crate) fn new(spec: &Spec) -> Self {
        let mut spec = spec.clone();
        spec.network = Some(spec.effective_network().clone());
        spec.lifetime = Some(spec.effective_lifetime());
        spec.resources = crate::facts::in_force(&spec.resources);
        spec.labels.retain(|name, _| !name.starts_with(labels::RESERVED));
        Self { sandbox: None, spec, error: None }
    }
}

impl Input {
    pub(crate) fn of(stdin: &sandbox_core::Stdin) -> Self {
        match stdin {
            sandbox_core::Stdin::Whole(all) => Self::Whole(Bytes::copy_from_slice(&all[..all.len().min(INPUT)])),
            sandbox_core::Stdin::Pipe => Self::Pipe(Bytes::new()),
            _ => Self::None,
        }
    }
}

/// Names a call of the record.
pub(crate) type Number = u64;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    all: VecDeque<Call>,
    forgotten: u64,
}

impl Calls {
    pub(crate) fn add(&mut self, call: Call) -> Number {
        if self.all.len() == MOST {
            self.all.pop_front();
            self.forgotten += 1;
        }
        self.all.push_back(call);
        self.forgotten + self.all.len() as u64 - 1
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.all.iter().cloned().collect()
    }

    pub(crate) fn forget(&mut self) {
        self.forgotten += self.all.len() as u64;
        self.all.clear();
    }

    /// It was answered with this.
    pub(crate) fn answered(&mut self, number: Number, error: &Error) {
        let slot = match self.at(number) {
            Some(Call::Create(call)) => &mut call.error,
            Some(Call::Run(call)) => &mut call.error,
            Some(Call::Attach(call) | Call::Detach(call) | Call::Destroy(call)) => &mut call.error,
            Some(Call::File(call)) => &mut call.error,
            None => return,
        };
        *slot = Some(error.kind());
    }

    pub(crate) fn made(&mut self, number: Number, id: &SandboxId) {
        if let Some(Call::Create(call)) = self.at(number) {
            call.sandbox = Some(id.clone());
        }
    }

    pub(crate) fn written(&mut self, number: Number, data: &[u8]) {
        if let Some(Call::Run(RunCall { stdin: Input::Pipe(all), .. })) = self.at(number) {
            let room = INPUT - all.len().min(INPUT);
            let mut longer = BytesMut::from(std::mem::take(all));
            longer.extend_from_slice(&data[..data.len().min(room)]);
            *all = longer.freeze();
        }
    }

    fn at(&mut self, number: Number) -> Option<&mut Call> {
        let at = number.checked_sub(self.forgotten)?;
        self.all.get_mut(usize::try_from(at).ok()?)
    }
}
