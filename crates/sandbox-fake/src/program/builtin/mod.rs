//! The programs of every image.

mod files;
mod network;
mod processes;
mod system;
mod text;

use super::{Proc, Program, program};
use std::{collections::BTreeMap, future::Future, io, time::Duration};

/// The programs, by name.
#[derive(Default)]
struct Set(BTreeMap<String, Program>);

impl Set {
    fn add<F>(&mut self, name: &str, run: impl Fn(Proc) -> F + Send + Sync + 'static)
    where
        F: Future<Output = i32> + Send + 'static,
    {
        self.0.insert(name.into(), program(run));
    }
}

pub(crate) fn all() -> BTreeMap<String, Program> {
    let mut set = Set::default();
    text::add(&mut set);
    files::add(&mut set);
    processes::add(&mut set);
    system::add(&mut set);
    network::add(&mut set);
    #[cfg(feature = "shell")]
    for name in ["sh", "bash"] {
        set.add(name, crate::shell::run);
    }
    set.0
}

/// Says what went wrong, and ends with 1.
async fn complain(p: &Proc, what: &str) -> i32 {
    let name = p.argv().first().map_or("", |name| name.rsplit('/').next().unwrap_or(name));
    p.eprint(format!("{name}: {what}\n")).await;
    1
}

async fn done(p: &Proc, result: io::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => complain(p, &error.to_string()).await,
    }
}

/// Ends with 2 where an argument is missing or is not what it should be.
async fn usage(p: &Proc, how: &str) -> i32 {
    complain(p, &format!("usage: {how}")).await;
    2
}

/// Seconds, as `sleep` takes them.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, text.chars().last()?),
        None => (text, 's'),
    };
    let unit = match unit {
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86_400.0,
        _ => 1.0,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}
