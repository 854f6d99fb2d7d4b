//! `ls`, `mkdir`, `rm`, `ln`, `chmod`, `mkfifo`, `touch`.

use super::{Set, complain, done, usage};

pub(super) fn add(set: &mut Set) {
    set.add("ls", |p| async move {
        match p.list(p.arg(1).unwrap_or(".")) {
            Ok(all) => {
                for file in all {
                    p.print(file.name + "\n").await;
                }
                0
            }
            Err(error) => complain(&p, &error.to_string()).await,
        }
    });
    set.add("mkdir", |p| async move {
        match p.argv().iter().skip(1).rfind(|arg| !arg.starts_with('-')) {
            Some(path) => done(&p, p.make_dir(path)).await,
            None => usage(&p, "mkdir [-p] DIRECTORY").await,
        }
    });
    set.add("rm", |p| async move {
        let (options, paths): (Vec<_>, Vec<_>) = p.argv().iter().skip(1).partition(|arg| arg.starts_with('-'));
        let recursive = options.iter().any(|option| option.contains(['r', 'R']));
        let mut code = 0;
        for path in paths {
            code |= done(&p, p.remove(path, recursive)).await;
        }
        code
    });
    set.add("ln", |p| async move {
        match p.argv() {
            [_, option, target, path] if option == "-s" => done(&p, p.symlink(target, path)).await,
            _ => usage(&p, "ln -s TARGET PATH").await,
        }
    });
    set.add("chmod", |p| async move {
        match (p.arg(1).and_then(|mode| u32::from_str_radix(mode, 8).ok()), p.arg(2)) {
            (Some(mode), Some(path)) => done(&p, p.set_mode(path, mode)).await,
            _ => usage(&p, "chmod OCTAL PATH").await,
        }
    });
    set.add("mkfifo", |p| async move {
        match p.arg(1) {
            Some(path) => done(&p, p.make_fifo(path)).await,
            None => usage(&p, "mkfifo PATH").await,
        }
    });
    set.add("touch", |p| async move {
        match p.arg(1) {
            Some(path) => done(&p, p.append(path, "")).await,
            None => usage(&p, "touch PATH").await,
        }
    });
}
