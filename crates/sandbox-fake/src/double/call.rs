//! The record of what was asked of a fake.

use bytes::{Bytes, BytesMut};
use sandbox_core::{
    BuildImage, Error, ErrorKind, ForkSandbox, NetworkPolicy, Query, SandboxId, SnapshotId, Spec, TakeSnapshot, labels,
};
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
    /// A copy of a sandbox.
    Fork(ForkCall),
    /// A command.
    Run(RunCall),
    /// A way into a sandbox that is there.
    Attach(SandboxCall),
    /// A sandbox that outlives its owner.
    Detach(SandboxCall),
    /// The end of a sandbox.
    Destroy(SandboxCall),
    /// A page of the sandboxes that there are.
    List(ListCall),
    /// An image of a sandbox.
    Snapshot(SnapshotCall),
    /// The end of such an image.
    DeleteSnapshot(DeleteSnapshotCall),
    /// A page of the snapshots that there are.
    ListSnapshots(ListCall),
    /// An operation on files.
    File(FileCall),
    /// An image from a definition.
    Build(BuildCall),
}

impl Call {
    /// The kind of the error that it was answered with.
    pub fn error(&self) -> Option<ErrorKind> {
        match self {
            Self::Create(call) => call.error,
            Self::Fork(call) => call.error,
            Self::Run(call) => call.error,
            Self::Attach(call) | Self::Detach(call) | Self::Destroy(call) => call.error,
            Self::List(call) | Self::ListSnapshots(call) => call.error,
            Self::Snapshot(call) => call.error,
            Self::DeleteSnapshot(call) => call.error,
            Self::File(call) => call.error,
            Self::Build(call) => call.error,
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

/// A copy that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkCall {
    /// What was to be copied.
    pub source: SandboxId,
    /// The copy's id, where one was made.
    pub sandbox: Option<SandboxId>,
    /// Its labels, but those of this library.
    pub labels: BTreeMap<String, String>,
    /// How long it may live.
    pub lifetime: Duration,
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

/// An enumeration that was asked for: one page of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListCall {
    /// By which labels, and from where.
    pub query: Query,
    /// The kind of the error that it was answered with.
    pub error: Option<ErrorKind>,
}

/// A snapshot that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotCall {
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// Its id, where one was made.
    pub snapshot: Option<SnapshotId>,
    /// Its labels, but those of this library.
    pub labels: BTreeMap<String, String>,
    /// The kind of the error that it was answered with.
    pub error: Option<ErrorKind>,
}

/// The end of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteSnapshotCall {
    /// Which one.
    pub snapshot: SnapshotId,
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
    /// `set_meta`, `watch`, `put_tree`, `get_tree`.
    pub operation: &'static str,
    /// The absolute path; of a rename, the old one.
    pub path: String,
    /// The kind of the error that it was answered with.
    pub error: Option<ErrorKind>,
}

/// An image that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildCall {
    /// The text of the Dockerfile.
    pub dockerfile: String,
    /// Values for `ARG`.
    pub args: BTreeMap<String, String>,
    /// What names the definition, its context included.
    pub digest: String,
    /// Whether a build was asked for also where the image is there.
    pub rebuild: bool,
    /// Its name, where there is one.
    pub image: Option<String>,
    /// Whether it was built, and not found.
    pub built: bool,
    /// The kind of the error that it was answered with.
    pub error: Option<ErrorKind>,
}

impl BuildCall {
    pub(crate) fn new(request: &BuildImage) -> Self {
        Self {
            dockerfile: request.dockerfile.clone(),
            args: request.args.clone(),
            digest: request.digest.clone(),
            rebuild: request.rebuild,
            image: None,
            built: false,
            error: None,
        }
    }
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
        spec.labels = of_users(&spec.labels);
        Self { sandbox: None, spec, error: None }
    }
}

impl ForkCall {
    pub(crate) fn new(source: &SandboxId, request: &ForkSandbox) -> Self {
        let lifetime = request.lifetime.unwrap_or(Spec::LIFETIME);
        Self { source: source.clone(), sandbox: None, labels: of_users(&request.labels), lifetime, error: None }
    }
}

impl ListCall {
    pub(crate) fn new(query: &Query) -> Self {
        Self { query: query.clone(), error: None }
    }
}

impl SnapshotCall {
    pub(crate) fn new(sandbox: &SandboxId, request: &TakeSnapshot) -> Self {
        Self { sandbox: sandbox.clone(), snapshot: None, labels: of_users(&request.labels), error: None }
    }
}

impl DeleteSnapshotCall {
    pub(crate) fn new(snapshot: &SnapshotId) -> Self {
        Self { snapshot: snapshot.clone(), error: None }
    }
}

/// Without those that this library adds, which are never the same.
fn of_users(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = all.iter().filter(|(name, _)| !name.starts_with(labels::RESERVED));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
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
            Some(Call::Fork(call)) => &mut call.error,
            Some(Call::Run(call)) => &mut call.error,
            Some(Call::Attach(call) | Call::Detach(call) | Call::Destroy(call)) => &mut call.error,
            Some(Call::List(call) | Call::ListSnapshots(call)) => &mut call.error,
            Some(Call::Snapshot(call)) => &mut call.error,
            Some(Call::DeleteSnapshot(call)) => &mut call.error,
            Some(Call::File(call)) => &mut call.error,
            Some(Call::Build(call)) => &mut call.error,
            None => return,
        };
        *slot = Some(error.kind());
    }

    pub(crate) fn made(&mut self, number: Number, id: &SandboxId) {
        match self.at(number) {
            Some(Call::Create(call)) => call.sandbox = Some(id.clone()),
            Some(Call::Fork(call)) => call.sandbox = Some(id.clone()),
            _ => {}
        }
    }

    pub(crate) fn taken(&mut self, number: Number, id: &SnapshotId) {
        if let Some(Call::Snapshot(call)) = self.at(number) {
            call.snapshot = Some(id.clone());
        }
    }

    pub(crate) fn built(&mut self, number: Number, image: &str, anew: bool) {
        if let Some(Call::Build(call)) = self.at(number) {
            (call.image, call.built) = (Some(image.to_string()), anew);
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
