//! Images: what a sandbox begins with.

use crate::{
    fs::{Content, Device, Fs, Kind, Tree, Who},
    program::{Program, builtin},
    world::{EPOCH, Origin},
};
use bytes::Bytes;
use sandbox_core::{Error, ErrorKind};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// What the files of programs name as their interpreter.
#[cfg(feature = "shell")]
pub(crate) const INTERPRETER: &str = "fake";
/// The first line of such a file, before the program's name.
const MARK: &str = "#!fake ";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a sandbox begins with: environment, working directory, user, files. Every image has every program of its
/// [`Fake`](crate::Fake), in `/bin`.
#[derive(Debug, Clone)]
pub struct Image {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: String,
    pub(crate) user: String,
    /// What a service of it runs.
    pub(crate) command: Option<Vec<String>>,
    files: Vec<(String, Bytes, u32)>,
}

impl Image {
    /// An image with the usual directories, whose commands run as root in `/`.
    pub fn new() -> Self {
        Self {
            env: [("PATH".to_string(), PATH.to_string())].into(),
            cwd: "/".into(),
            user: "root".into(),
            command: None,
            files: Vec::new(),
        }
    }

    /// Adds a variable to its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets its working directory, an absolute path; it is made where it is not there.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Sets its user: `root`, `nobody`, `app`, or a uid.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// Sets the main program of a [service](sandbox_core::Service) that names none of its own. Without one, such a service is
    /// there and runs nothing.
    pub fn command(mut self, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.command = Some(argv.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a file that belongs to root, with permission bits; its directories are made.
    pub fn file(mut self, path: impl Into<String>, content: impl Into<Bytes>, mode: u32) -> Self {
        self.files.push((path.into(), content.into(), mode));
        self
    }

    fn build(&self, programs: &BTreeMap<String, Program>) -> Result<Arc<Tree>, Error> {
        // Fits: the year 2026.
        let now = EPOCH as i64;
        let mut fs = Fs::new(Arc::new(Tree::new(now)), u64::MAX);
        for (directory, mode) in [
            ("/bin", 0o755),
            ("/dev", 0o755),
            ("/dev/shm", 0o1777),
            ("/etc", 0o755),
            ("/home/app", 0o755),
            ("/root", 0o700),
            ("/sys", 0o555),
            ("/tmp", 0o1777),
            ("/usr/bin", 0o755),
            ("/usr/local/bin", 0o755),
            ("/var/tmp", 0o1777),
        ] {
            fs.make_dirs(directory, Who::ROOT, now)?;
            fs.set_meta(directory, Some(mode), None, None, Who::ROOT)?;
        }
        fs.set_meta("/home/app", None, Some((1000, 1000)), None, Who::ROOT)?;
        fs.make("/dev/null", Kind::Device(Device::Null), 0o666, Who::ROOT, now)?;
        fs.make("/dev/zero", Kind::Device(Device::Zero), 0o666, Who::ROOT, now)?;
        for name in programs.keys() {
            let content = Content::from(Bytes::from(format!("{MARK}{name}\n")));
            fs.write(&format!("/bin/{name}"), content, Some(0o755), Who::ROOT, now)?;
        }
        let passwd: String = User::usual()
            .iter()
            .map(|user| format!("{}:x:{}:{}::{}:/bin/sh\n", user.name, user.uid, user.gid, user.home))
            .collect();
        fs.write("/etc/passwd", Bytes::from(passwd).into(), None, Who::ROOT, now)?;
        fs.set_read_only("/sys")?;
        for (path, content, mode) in &self.files {
            fs.write(path, content.clone().into(), Some(*mode), Who::ROOT, now)?;
        }
        Ok(fs.into_tree())
    }
}

impl Default for Image {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of the program that a file stands for.
pub(crate) fn program_of(content: &Content) -> Option<String> {
    let head = content.range(0, Some(256)).whole();
    let head = std::str::from_utf8(&head).ok()?;
    head.strip_prefix(MARK)?.lines().next().map(str::to_string)
}

/// A user of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: Arc<str>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: Arc<str>,
}

impl User {
    fn new(name: &str, uid: u32, home: &str) -> Self {
        Self { name: name.into(), uid, gid: uid, home: home.into() }
    }

    pub(crate) fn usual() -> [Self; 3] {
        [Self::new("root", 0, "/root"), Self::new("nobody", 65534, "/"), Self::new("app", 1000, "/home/app")]
    }

    /// By name or uid; a uid needs no name.
    pub(crate) fn find(users: &[Self], name: &str) -> Option<Self> {
        if let Some(user) = users.iter().find(|user| &*user.name == name) {
            return Some(user.clone());
        }
        let uid: u32 = name.parse().ok()?;
        Some(users.iter().find(|user| user.uid == uid).cloned().unwrap_or_else(|| Self::new(name, uid, "/")))
    }

    pub(crate) fn who(&self) -> Who {
        Who { uid: self.uid, gid: self.gid }
    }
}

/// Images and programs of a world.
pub(crate) struct Catalogue {
    images: BTreeMap<String, Image>,
    programs: BTreeMap<String, Program>,
    /// Programs that are not built in.
    own: BTreeSet<String>,
    /// Made when first used.
    trees: BTreeMap<String, Arc<Tree>>,
    /// Images that were made from definitions, by name.
    built: BTreeMap<String, Origin>,
    pub(crate) users: Arc<[User]>,
}

impl Catalogue {
    /// The image of specs that name none.
    pub(crate) const DEFAULT: &'static str = "default";

    pub(crate) fn new() -> Self {
        Self {
            images: [(Self::DEFAULT.to_string(), Image::new())].into(),
            programs: builtin::all(),
            own: BTreeSet::new(),
            trees: BTreeMap::new(),
            built: BTreeMap::new(),
            users: User::usual().into(),
        }
    }

    pub(crate) fn add_image(&mut self, name: String, image: Image) {
        self.trees.remove(&name);
        self.images.insert(name, image);
    }

    pub(crate) fn add_program(&mut self, name: String, program: Program) {
        self.trees.clear();
        self.own.insert(name.clone());
        self.programs.insert(name, program);
    }

    pub(crate) fn program(&self, name: &str) -> Option<Program> {
        self.programs.get(name).cloned()
    }

    #[cfg(feature = "shell")]
    pub(crate) fn own_programs(&self) -> Vec<String> {
        self.own.iter().cloned().collect()
    }

    pub(crate) fn has_built(&self, name: &str) -> bool {
        self.built.contains_key(name)
    }

    /// Keeps what was made from a definition.
    pub(crate) fn keep(&mut self, name: String, origin: Origin) {
        self.built.insert(name, origin);
    }

    pub(crate) fn forget(&mut self, name: &str) -> bool {
        self.built.remove(name).is_some()
    }

    /// What sandboxes of an image begin with.
    pub(crate) fn origin(&mut self, name: &str) -> Result<Origin, Error> {
        if let Some(origin) = self.built.get(name) {
            return Ok(origin.clone());
        }
        let (image, tree) = self.image(name)?;
        Ok(Origin { tree, env: image.env, cwd: image.cwd, user: image.user, main: image.command })
    }

    fn image(&mut self, name: &str) -> Result<(Image, Arc<Tree>), Error> {
        let image = self.images.get(name).cloned().ok_or_else(|| {
            let known = self.images.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Error::new(ErrorKind::ImageNotFound, format!("no image `{name}`; there are {known}"))
                .with_hint(format!("use one of {known}, or add it with `Fake::image`"))
                .applied(false)
        })?;
        if let Some(tree) = self.trees.get(name) {
            return Ok((image, Arc::clone(tree)));
        }
        let tree = image.build(&self.programs)?;
        self.trees.insert(name.to_string(), Arc::clone(&tree));
        Ok((image, tree))
    }
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogue")
            .field("images", &self.images.keys())
            .field("programs", &self.programs.keys())
            .finish_non_exhaustive()
    }
}
