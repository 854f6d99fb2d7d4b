//! Makes the one layer of an image, as a tar archive.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use tar::{Builder, EntryType, Header};
use xshell::{Shell, cmd};

use super::recipe::{Base, Recipe};
use crate::engine::installed;

/// Writes the archive into the folder, where all temporary things go.
pub(crate) fn archive(shell: &Shell, recipe: &Recipe, folder: &Path) -> Result<PathBuf> {
    let _back = shell.push_dir(folder);
    let path = folder.join("layer.tar");
    let file = fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut layer = Builder::new(std::io::BufWriter::new(file));
    layer.follow_symlinks(false);
    match recipe.base {
        Base::Busybox => busybox(shell, recipe, folder, &mut layer)?,
        Base::Program => program(shell, recipe, folder, &mut layer)?,
        Base::Debootstrap => debootstrap(shell, recipe, folder, &mut layer)?,
    }
    for folder in &recipe.folders {
        let header = header(EntryType::Directory, folder.mode, folder.owner, 0);
        append(&mut layer, header, &format!("{}/", folder.path), std::io::empty())?;
    }
    for file in &recipe.files {
        let header = header(EntryType::Regular, file.mode, 0, file.text.len() as u64);
        append(&mut layer, header, &file.path, file.text.as_bytes())?;
    }
    layer.into_inner().and_then(|mut file| file.flush()).context("cannot finish the archive")?;
    Ok(path)
}

fn busybox(shell: &Shell, recipe: &Recipe, folder: &Path, layer: &mut Builder<impl Write>) -> Result<()> {
    ensure!(!recipe.packages.is_empty(), "a `busybox` base names the package that has it");
    ensure!(installed("apt-get") && installed("dpkg-deb"), "needs the tools of a Debian: apt-get and dpkg-deb");
    let packages = &recipe.packages;
    // An unprivileged downloader of apt's own could not write here.
    let download = || cmd!(shell, "apt-get -q -o APT::Sandbox::User=root download {packages...}").quiet().run();
    download().or_else(|_| {
        cmd!(shell, "apt-get -q update").run()?;
        download()
    })?;
    for package in files_ending(folder, ".deb")? {
        cmd!(shell, "dpkg-deb --extract {package} unpacked").quiet().run()?;
    }
    let binary = ["bin/busybox", "usr/bin/busybox"].map(|path| folder.join("unpacked").join(path));
    let Some(binary) = binary.iter().find(|path| path.is_file()) else { bail!("{packages:?} have no busybox") };
    let commands = cmd!(shell, "{binary} --list-full").quiet().read()?;
    let bytes = fs::read(binary).context("cannot read busybox")?;
    for path in ["bin/", "sbin/", "usr/", "usr/bin/", "usr/sbin/"] {
        append(layer, header(EntryType::Directory, 0o755, 0, 0), path, std::io::empty())?;
    }
    append(layer, header(EntryType::Regular, 0o755, 0, bytes.len() as u64), "bin/busybox", bytes.as_slice())?;
    for path in commands.lines().filter(|path| *path != "bin/busybox") {
        layer
            .append_link(&mut header(EntryType::Symlink, 0o777, 0, 0), path, "/bin/busybox")
            .with_context(|| format!("cannot add {path}"))?;
    }
    Ok(())
}

fn program(shell: &Shell, recipe: &Recipe, folder: &Path, layer: &mut Builder<impl Write>) -> Result<()> {
    let source = recipe.folder.join("main.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let options = ["opt-level=s", "target-feature=+crt-static", "panic=abort", "strip=symbols"];
    let options = options.iter().flat_map(|option| ["-C", option]);
    cmd!(shell, "{rustc} --edition 2024 {options...} -o program {source}").quiet().run()?;
    let bytes = fs::read(folder.join("program")).context("cannot read the program")?;
    append(layer, header(EntryType::Regular, 0o755, 0, bytes.len() as u64), "program", bytes.as_slice())
}

fn debootstrap(shell: &Shell, recipe: &Recipe, folder: &Path, layer: &mut Builder<impl Write>) -> Result<()> {
    ensure!(installed("debootstrap"), "needs debootstrap: `apt-get install debootstrap`");
    ensure!(cmd!(shell, "id -u").quiet().read()? == "0", "debootstrap needs root");
    let (mirror, suite) = mirror(shell)?;
    let include = format!("--include={}", recipe.packages.join(","));
    // What debootstrap mounts goes with its namespace, whatever ends it.
    let apart = ["--mount", "--propagation", "private", "--"];
    println!("debootstrap takes a minute or two");
    let log = folder.join("debootstrap.log");
    let done = cmd!(shell, "unshare {apart...} debootstrap --variant=minbase {include} {suite} root {mirror}")
        .quiet()
        .ignore_status()
        .output()?;
    if !done.status.success() {
        fs::write(&log, &done.stdout).context("cannot keep the log")?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let tail: Vec<_> = text.lines().rev().take(15).collect();
        bail!("debootstrap ended with {}:\n{}", done.status, tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    let root = folder.join("root");
    for argv in &recipe.setup {
        cmd!(shell, "unshare {apart...} chroot {root} {argv...}").quiet().run()?;
    }
    // Docker brings its own devices.
    for path in recipe.empty.iter().map(String::as_str).chain(["dev"]) {
        let path = root.join(path);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
            fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        }
    }
    layer.append_dir_all("", &root).context("cannot pack the tree")
}

/// The mirror that this machine's apt uses for the suite that the machine runs.
fn mirror(shell: &Shell) -> Result<(String, String)> {
    let release = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let value = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_string()).unwrap_or_default()
    };
    let (id, suite) = (value("ID"), value("VERSION_CODENAME"));
    ensure!(id == "debian" && !suite.is_empty(), "only a Debian can make this image, this is `{id}`");
    let format = "$(RELEASE) $(COMPONENT) $(REPO_URI)";
    let targets = cmd!(shell, "apt-get indextargets --format {format} 'Identifier: Packages'").quiet().read()?;
    let wanted = format!("{suite} main ");
    match targets.lines().find_map(|line| line.strip_prefix(&wanted)) {
        Some(uri) => Ok((uri.trim_end_matches('/').into(), suite)),
        None => bail!("apt has no source for `{suite} main`; add one to its configuration"),
    }
}

fn files_ending(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.to_string_lossy().ends_with(end));
    found.sort();
    Ok(found)
}

/// No time and no user of this machine gets into an image.
fn header(kind: EntryType, mode: u32, owner: u64, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_size(size);
    header.set_mtime(0);
    header
}

fn append(layer: &mut Builder<impl Write>, mut header: Header, path: &str, data: impl std::io::Read) -> Result<()> {
    layer.append_data(&mut header, path, data).with_context(|| format!("cannot add {path}"))
}
