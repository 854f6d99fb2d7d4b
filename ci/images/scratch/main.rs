//! `/program CODE ARGUMENT…` prints its arguments, one a line, and exits with the code.
//! `/program hold` stays until it is killed, so that a container can be kept for other commands.

use std::{env, io::Write as _, os::unix::ffi::OsStrExt as _, process::ExitCode, thread, time::Duration};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or("0");
    if first == "hold" {
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }
    let mut stdout = std::io::stdout().lock();
    for argument in &arguments {
        let line = [argument.as_bytes(), b"\n"].concat();
        if stdout.write_all(&line).is_err() {
            return ExitCode::from(74);
        }
    }
    first.parse::<u8>().map_or(ExitCode::from(64), ExitCode::from)
}
