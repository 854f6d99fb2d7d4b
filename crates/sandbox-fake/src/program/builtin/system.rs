//! `env`, `pwd`, `id`, `whoami`, `caps`, `date`, `eat`, `fork-bomb`, `tty`, `stty`.

use super::{Set, complain, usage};
use crate::{program::Fork, world::EPOCH};
use sandbox_core::Resource;
use std::time::Duration;

pub(super) fn add(set: &mut Set) {
    set.add("env", |p| async move {
        match p.arg(1) {
            Some(name) => match p.var(name) {
                Some(value) => {
                    p.print(format!("{value}\n")).await;
                    0
                }
                None => 1,
            },
            None => {
                let all: String = p.vars().map(|(name, value)| format!("{name}={value}\n")).collect();
                p.print(all).await;
                0
            }
        }
    });
    set.add("pwd", |p| async move {
        p.print(format!("{}\n", p.cwd())).await;
        0
    });
    set.add("whoami", |p| async move {
        p.print(format!("{}\n", p.user().0)).await;
        0
    });
    set.add("id", |p| async move {
        let (name, uid, gid) = p.user();
        let text = match p.arg(1) {
            None => format!("uid={uid}({name}) gid={gid}({name}) groups={gid}({name})\n"),
            Some("-u") => format!("{uid}\n"),
            Some("-g" | "-G") => format!("{gid}\n"),
            Some("-un" | "-gn" | "-nu" | "-ng") => format!("{name}\n"),
            Some(_) => return usage(&p, "id [-u | -g | -un | -gn]").await,
        };
        p.print(text).await;
        0
    });
    set.add("caps", |p| async move {
        let caps = p.resources();
        let mut all: Vec<(String, u64)> = Resource::ALL
            .iter()
            .filter_map(|resource| Some((resource.to_string(), caps.get(*resource)?.value)))
            .collect();
        all.extend(caps.pids.map(|pids| ("pids".to_string(), u64::from(pids))));
        match p.arg(1) {
            None => {
                p.print(all.iter().map(|(name, value)| format!("{name} {value}\n")).collect::<String>()).await;
                0
            }
            Some(name) => match all.iter().find(|(known, _)| known == name) {
                Some((_, value)) => {
                    p.print(format!("{value}\n")).await;
                    0
                }
                None => usage(&p, "caps [cpu | memory | disk | pids]").await,
            },
        }
    });
    set.add("date", |p| async move {
        p.print(format!("{}\n", EPOCH + p.now().as_secs())).await;
        0
    });
    set.add("eat", |p| async move {
        match p.arg(1).and_then(|bytes| bytes.parse().ok()) {
            Some(bytes) => {
                p.allocate(bytes).await;
                0
            }
            None => usage(&p, "eat BYTES").await,
        }
    });
    set.add("fork-bomb", |p| async move {
        // Never ends by itself, like the real thing: it takes every place that becomes free.
        let mut told = false;
        loop {
            while p
                .start(Fork::closure(p.argv(), |child| async move {
                    child.hang().await;
                    0
                }))
                .is_ok()
            {
                p.give_way().await;
            }
            if !std::mem::replace(&mut told, true) {
                complain(&p, "fork: resource temporarily unavailable").await;
            }
            p.sleep(Duration::from_millis(100)).await;
        }
    });
    set.add("tty", |p| async move {
        let terminal = p.is_terminal(0);
        p.print(if terminal { "/dev/pts/0\n" } else { "not a tty\n" }).await;
        i32::from(!terminal)
    });
    set.add("stty", |p| async move {
        match (p.arg(1), p.terminal_size().filter(|_| p.is_terminal(0))) {
            (Some("size"), Some(size)) => {
                p.print(format!("{} {}\n", size.rows, size.cols)).await;
                0
            }
            (_, None) => complain(&p, "inappropriate ioctl for device").await,
            _ => usage(&p, "stty size").await,
        }
    });
}
