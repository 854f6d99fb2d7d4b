//! Command probes: what the rows run inside a sandbox. POSIX `sh` by default; each can be overridden.

use crate::hooks::Hooks;
use sandbox::Command;
use std::{fmt, sync::Arc, time::Duration};

macro_rules! probes {
    ($($(#[doc = $doc:literal])+ $name:ident($($arg:ident: $type:ty),*) $(where $check:ident)? = $default:expr;)*) => {
        /// The commands that rows run, and what only the adapter can provoke.
        ///
        /// Every command probe has a default for a POSIX `sh` with the usual small programs (`cat`, `sleep`, `id`, `head`, `tr`,
        /// `setsid`, `nc`; those of busybox do). A backend whose sandboxes speak another language overrides them: the
        /// method with the name of the probe sets it, `…_command` makes one.
        ///
        /// The behaviour probes are the setters after them; rows that need one which is missing are *unproven*.
        #[derive(Clone)]
        pub struct Probes {
            $($name: Arc<dyn Fn($($type),*) -> Command + Send + Sync>,)*
            ready: [Vec<String>; 2],
            pub(crate) hooks: Hooks,
        }

        impl Probes {
            /// The defaults for a POSIX shell, and no behaviour probe.
            pub fn new() -> Self {
                Self { $($name: Arc::new($default),)* ready: [words(READY_LATER), words(READY_NEVER)], hooks: Hooks::default() }
            }

            /// Overrides the two ready commands: one that fails at its first and second run in a sandbox and succeeds from the
            /// third on, and one that writes `not yet` and never succeeds.
            pub fn ready(mut self, later: &[&str], never: &[&str]) -> Self {
                self.ready = [words(later), words(never)];
                self
            }

            $(
                #[doc = concat!("Overrides the probe `", stringify!($name), "`.\n")]
                $(#[doc = $doc])+
                pub fn $name(mut self, probe: impl Fn($($type),*) -> Command + Send + Sync + 'static) -> Self {
                    self.$name = Arc::new(probe);
                    self
                }
            )*

            /// The names of all command probes.
            pub const COMMANDS: &'static [&'static str] = &[$(stringify!($name),)*];
        }

        /// The probes as rows call them: `cx.probes().echo("x")` is a command.
        #[derive(Clone, Debug)]
        pub(crate) struct Commands(Probes);

        #[allow(dead_code, reason = "a probe may come before the first row that uses it")]
        impl Commands {
            $(
                $(#[doc = $doc])+
                pub(crate) fn $name(&self, $($arg: impl Into<$type>),*) -> Command {
                    (self.0.$name)($($arg.into()),*)
                }
            )*
        }
    };
}

probes! {
    /// Writes the text and a newline to stdout, ends with 0.
    echo(text: String) = |text| sh(r#"printf '%s\n' "$1""#, [text]);
    /// Writes the text and a newline to stderr, ends with 0.
    stderr(text: String) = |text| sh(r#"printf '%s\n' "$1" >&2"#, [text]);
    /// Writes one text to stdout and the other to stderr, each with a newline, ends with 0.
    both(out: String, err: String) = |out, err| sh(r#"printf '%s\n' "$1"; printf '%s\n' "$2" >&2"#, [out, err]);
    /// Ends with this code, silently.
    exit(code: i32) = |code| sh(r#"exit "$1""#, [code.to_string()]);
    /// Writes `out` to stdout and `err` to stderr, each with a newline, and ends with this code.
    fail(code: i32) = |code| sh(r#"echo out; echo err >&2; exit "$1""#, [code.to_string()]);
    /// Dies of this signal by its own hand.
    signal(number: i32) = |number| sh(r#"kill -"$1" $$; sleep 5"#, [number.to_string()]);
    /// Writes the variable's value and a newline; `unset` and a newline where it is not set.
    env(name: String) = |name| sh(r#"eval "printf '%s\n' \"\${$1-unset}\"""#, [name]);
    /// Writes each argument, followed by a NUL byte.
    args(all: Vec<String>) = |all| sh(r#"for a in "$@"; do printf '%s\0' "$a"; done"#, all);
    /// A program that does not look into its arguments, run without any shell: writes them with blanks between and a newline.
    plain(all: Vec<String>) = |all| Command::new("echo").args(all);
    /// The shell form: what `Command::shell` does with this text. Where there is no shell, the same effect for the texts of the rows.
    shell(text: String) = Command::shell;
    /// Copies stdin to stdout until its end.
    cat() = || Command::new("cat");
    /// Counts the bytes of stdin until its end; writes the number and a newline.
    count_stdin() = || sh("wc -c | tr -d ' '", none());
    /// Writes `line 0` to `line n-1`.
    lines(count: u32) = |count| sh(r#"i=0; while [ $i -lt "$1" ]; do echo "line $i"; i=$((i+1)); done"#, [count.to_string()]);
    /// Writes `first`, and after so many milliseconds `second`; ends with 0.
    two_with_pause(millis: u32) = |millis| sh(r#"echo first; sleep "$1"; echo second"#, [seconds(millis.into())]);
    /// Runs until it is killed. The marker is seen by `alive`.
    hang(marker: String) = |marker| Command::new("sh").args(["-c", LOOP, &marker]);
    /// Writes the text and a newline to stdout, then is like `hang`.
    output_then_hang(text: String, marker: String) = |text, marker| {
        Command::new("sh").args(["-c", &format!(r#"printf '%s\n' "$1"; {LOOP}"#), &marker, &text])
    };
    /// Starts a child that shows the marker, and waits for it for ever. The program itself does not show the marker.
    spawn_child(marker: String) = |marker| marked(r#"sh -c "$LOOP" "$MARK" & wait"#, marker);
    /// The same with one more process between: the grandchild shows the marker.
    spawn_grandchild(marker: String) = |marker| marked(r#"(sh -c "$LOOP" "$MARK" & wait; :) & wait"#, marker);
    /// The same, the child in a session of its own.
    setsid_child(marker: String) = |marker| marked(r#"setsid sh -c "$LOOP" "$MARK" & wait"#, marker);
    /// Leaves a double-forked daemon in a session of its own, without environment and with its streams closed, that shows the
    /// marker; ends at once with 0.
    daemonize(marker: String) = |marker| marked(DAEMON, marker);
    /// The same, then runs until it is killed.
    daemonize_then_hang(marker: String) = |marker| marked(&format!("{DAEMON}; {LOOP}"), marker);
    /// Runs until it is killed, and ignores TERM. The marker is seen by `alive`.
    term_ignorer(marker: String) = |marker| {
        Command::new("sh").args(["-c", &format!("trap '' TERM; {LOOP}"), &marker])
    };
    /// Writes `ready`; at TERM writes `got TERM` and ends with 0, within about a second.
    term_reporter(marker: String) = |marker| {
        Command::new("sh").args(["-c", &format!("trap 'echo got TERM; exit 0' TERM; echo ready; {LOOP}"), &marker])
    };
    /// Writes `ready`; at HUP, INT, QUIT, USR1 and USR2 writes `got` and the signal's name, within about a second, and runs on;
    /// at TERM writes `got TERM` and ends with 0.
    signal_reporter(marker: String) = |marker| {
        Command::new("sh").args(["-c", &format!("{TRAPS}; echo ready; {LOOP}"), &marker])
    };
    /// Runs until it is killed, and writes `more` and a newline to stdout a few times a second. The marker is seen by `alive`.
    writer(marker: String) = |marker| Command::new("sh").args(["-c", WRITER, &marker]);
    /// Writes three lines: `0`, `1` and `2`, each with `terminal` if that stream is one, else with `none`; ends with 0.
    terminals() = || Command::shell(r#"for n in 0 1 2; do if [ -t $n ]; then echo "$n terminal"; else echo "$n none"; fi; done"#);
    /// Writes the lines and columns of its terminal, as `24 80`, and a newline.
    terminal_size() = || Command::shell("stty size");
    /// For each line that it reads, writes the lines and columns of its terminal, and a newline; at the end of file ends with 0.
    terminal_sizes() = || Command::shell("while read -r line; do stty size; done; exit 0");
    /// Writes the number of processes that show the marker, zombies and itself not counted.
    alive(marker: String) = |marker| Command::shell(ALIVE).env("MARK", marker);
    /// Writes the text and a newline to stdout, ends with this code.
    say_and_exit(text: String, code: i32) = |text, code| sh(r#"printf '%s\n' "$1"; exit "$2""#, [text, code.to_string()]);
    /// Starts a child that ends at once and is not collected; then reads stdin to its end, and ends with 0.
    zombie_until_eof() = || Command::shell("true & exec cat >/dev/null");
    /// Writes the number of zombies in the sandbox.
    zombies() = || Command::shell(ZOMBIES);
    /// Leaves a child behind that holds stdout and stderr open and shows the marker; writes `started` and ends at once with 0.
    background_holder(marker: String) = |marker| marked(r#"sh -c "$LOOP" "$MARK" & echo started"#, marker);
    /// Leaves a child behind that shows the marker and writes `more` and a newline to stdout for ever, a few times a second;
    /// writes `started` and ends at once with 0.
    background_writer(marker: String) = |marker| marked(r#"echo started; sh -c "$WRITE" "$MARK" &"#, marker).env("WRITE", WRITER);
    /// Writes `tick 0`, `tick 1` and so on, a line each, a few times a second for ever; the count is held in memory.
    ticker() = || Command::shell("i=0; while :; do echo tick $i; i=$((i+1)); sleep 0.2; done");
    /// Runs until something is at the path, then ends with 0 within about a second.
    wait_for(path: String) = |path| sh(r#"until test -e "$1"; do sleep 0.2; done"#, [path]);
    /// Sleeps so many milliseconds, ends with 0.
    sleep(millis: u32) = |millis| Command::new("sleep").arg(seconds(millis.into()));
    /// Ends with 0 at once.
    succeed() = || Command::new("true");
    /// Writes the absolute working directory and a newline.
    pwd() = || Command::new("pwd");
    /// Writes the number of the user it runs as, and a newline.
    uid() = || Command::new("id").arg("-u");
    /// Writes the name of the user it runs as, and a newline.
    user_name() = || Command::new("id").arg("-un");
    /// Writes the text, without a newline, to a file.
    write_file(path: String, text: String) = |path, text| sh(r#"printf '%s' "$2" >"$1""#, [path, text]);
    /// Copies a file to stdout; not zero where it cannot be read.
    read_file(path: String) = |path| sh(r#"exec cat <"$1""#, [path]);
    /// Appends one byte to a file.
    bump(path: String) = |path| sh(r#"printf x >>"$1""#, [path]);
    /// Makes a FIFO.
    fifo(path: String) = |path| Command::new("mkfifo").arg(path);
    /// Makes a symbolic link at `path` that points to `target`.
    symlink(target: String, path: String) = |target, path| Command::new("ln").args(["-s", &target, &path]);
    /// Sets the permission bits, given in octal.
    chmod(path: String, octal: String) = |path, octal| Command::new("chmod").args([octal, path]);
    /// Makes so many empty files `0`, `1`, … in an existing directory.
    many_files(directory: String, count: u32) = |directory, count| {
        sh(r#"cd "$1" && i=0; while [ $i -lt "$2" ]; do : >$i; i=$((i+1)); done"#, [directory, count.to_string()])
    };
    /// Writes every byte value from 0 to 255 once, in order, to stdout and, in reverse order of the streams, to stderr too.
    bytes256() = || Command::shell(r#"b() { i=0; while [ $i -lt 256 ]; do printf "\\$(printf %03o $i)"; i=$((i+1)); done; }; b; b >&2"#);
    /// Writes so many bytes of `x` to stdout, ends with 3.
    flood(bytes: u64) = |bytes| sh(r#"head -c "$1" /dev/zero | tr '\0' x; exit 3"#, [bytes.to_string()]);
    /// Writes so many bytes of `x` to stderr, then `done` and a newline to stdout, ends with 0.
    flood_stderr(bytes: u64) = |bytes| sh(r#"head -c "$1" /dev/zero | tr '\0' x >&2; echo done"#, [bytes.to_string()]);
    /// Writes the numbers from 0 to n-1, one line and one write each.
    tiny_writes(count: u32) = |count| sh(r#"i=0; while [ $i -lt "$1" ]; do echo $i; i=$((i+1)); done"#, [count.to_string()]);
    /// Writes for ever.
    endless() = || Command::new("yes");
    /// Connects to a host and port over TCP within three seconds, sends a line and writes what comes back; not zero where it cannot.
    egress(host: String, port: u16) = |host, port| {
        sh(r#"echo hello | nc -w 3 "$1" "$2""#, [host, port.to_string()])
    };
    /// The same over UDP, with a question that a name server answers, since small systems have no other program that speaks UDP:
    /// writes what comes back.
    egress_udp(host: String, port: u16) = |host, port| {
        sh(r#"timeout 5 nslookup -type=a canary.invalid "$1:$2""#, [host, port.to_string()])
    };
    /// The same as `egress`, and writes what comes until the connection ends.
    egress_hold(host: String, port: u16) = |host, port| {
        sh(r#"sleep 600 | nc "$1" "$2""#, [host, port.to_string()])
    };
    /// Looks a name up, and writes its addresses; not zero where it has none.
    lookup(name: String) = |name| sh(r#"timeout 8 nslookup -type=a "$1""#, [name]);
    /// Answers everybody who connects to a TCP port with the text and a newline, until it is killed.
    listen(port: u16, text: String) = |port, text| {
        sh(r#"command -v nc >/dev/null || exit 127; while :; do echo "$2" | nc -l -p "$1" || sleep 1; done"#, [port.to_string(), text])
    };
    /// Writes the addresses of the sandbox, with blanks between; nothing where it has none.
    addresses() = || Command::shell("hostname -i 2>/dev/null || true");
    /// Writes what limits the memory of the program, in bytes, as it is seen from inside; 0 where nothing is seen.
    memory_cap() = || Command::shell(MEMORY);
    /// Writes what limits the processors of the program, in thousandths, as it is seen from inside; 0 where nothing is seen.
    cpu_cap() = || Command::shell(CPU);
    /// Writes what limits the number of processes, as it is seen from inside; 0 where nothing is seen.
    pids_cap() = || Command::shell(PIDS);
    /// Takes memory until something stops it.
    oom() = || Command::shell("x=0123456789abcdef; while :; do x=$x$x; done");
    /// Starts so many processes that live for some seconds; writes how many it could start, ends with 0 or dies trying.
    many_processes(count: u32) = |count| {
        sh(r#"i=0; while [ $i -lt "$1" ]; do sleep 4 2>/dev/null & i=$((i+1)); done; echo $i"#, [count.to_string()])
    };
    /// A fork bomb.
    fork_bomb() = || Command::shell("b() { b | b & }; b; sleep 2");
    /// Writes `1` where neither the program nor what it starts can gain privileges, else `0`.
    privileges() = || Command::shell("while read -r k v; do [ \"$k\" = NoNewPrivs: ] && echo $v; done </proc/self/status; :");
    /// Ends with 0 where something is at the path, with 1 where nothing is.
    exists(path: String) = |path| sh(r#"test -e "$1""#, [path]);
    /// Writes what names the namespaces `pid`, `net`, `mnt`, `ipc` and `uts` of the program, a line each, as the kernel does.
    namespaces() = || Command::shell("for n in pid net mnt ipc uts; do readlink /proc/self/ns/$n; done");
    /// Writes all variables that can be seen in the sandbox, the program's own and those of every other process.
    every_variable() = || Command::shell(r"env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n'");
    /// Writes the process id of the program.
    pid() = || Command::shell("echo $$");
}

impl Default for Probes {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").field("hooks", &self.hooks).finish_non_exhaustive()
    }
}

impl Commands {
    pub(crate) fn ready_later(&self) -> Vec<String> {
        self.0.ready[0].clone()
    }

    pub(crate) fn ready_never(&self) -> Vec<String> {
        self.0.ready[1].clone()
    }

    pub(crate) fn of(probes: &Probes) -> Self {
        Self(probes.clone())
    }
}

/// A script with arguments from `$1` on.
fn sh(script: &str, args: impl IntoIterator<Item = String>) -> Command {
    Command::shell(script).arg("sh").args(args)
}

/// A script that finds the marker and the loop in its environment, not in its arguments, where `alive` would see it.
fn marked(script: &str, marker: String) -> Command {
    Command::shell(script).env("MARK", marker).env("LOOP", LOOP)
}

fn words(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|word| (*word).to_string()).collect()
}

const READY_LATER: &[&str] = &["/bin/sh", "-c", "printf x >>.contract-ready; [ \"$(wc -c <.contract-ready)\" -ge 3 ]"];
const READY_NEVER: &[&str] = &["/bin/sh", "-c", "echo not yet; exit 1"];

fn none() -> [String; 0] {
    []
}

/// Milliseconds as `sleep` takes them.
fn seconds(millis: u64) -> String {
    format!("{}", Duration::from_millis(millis).as_secs_f64())
}

/// The shell stays, with the marker among its arguments, and each `sleep` ends by itself soon.
const LOOP: &str = "while :; do sleep 1; done";

const TRAPS: &str =
    "for s in HUP INT QUIT USR1 USR2; do trap \"echo got $s\" $s; done; trap 'echo got TERM; exit 0' TERM";

/// The same, and is heard all the time.
const WRITER: &str = "while :; do echo more; sleep 0.1; done";

/// `env -i`, so that a mark in the environment does not help whoever has to find it.
const DAEMON: &str = r#"(setsid env -i PATH="$PATH" sh -c "$LOOP" "$MARK" </dev/null >/dev/null 2>&1 & :)"#;

/// Builtins only: no process of its own can be counted. `read` drops NUL bytes; the marker is in no argument.
const ALIVE: &str = r#"n=0
for f in /proc/[0-9]*/cmdline; do
  line=
  { IFS= read -r line <"$f"; } 2>/dev/null
  case $line in *"$MARK"*) n=$((n+1));; esac
done
echo $n"#;

const ZOMBIES: &str = r#"n=0
for f in /proc/[0-9]*/stat; do
  line=
  { IFS= read -r line <"$f"; } 2>/dev/null
  case $line in *") Z "*) n=$((n+1));; esac
done
echo $n"#;

const MEMORY: &str = r#"for f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  if [ -r "$f" ]; then cat "$f"; exit; fi
done
echo 0"#;

const CPU: &str = r#"if [ -r /sys/fs/cgroup/cpu.max ]; then
  read -r quota period </sys/fs/cgroup/cpu.max
elif [ -r /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
  read -r quota </sys/fs/cgroup/cpu/cpu.cfs_quota_us; read -r period </sys/fs/cgroup/cpu/cpu.cfs_period_us
else
  quota=max
fi
case $quota in max|-1) echo 0;; *) echo $((quota * 1000 / period));; esac"#;

const PIDS: &str = r#"for f in /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max; do
  if [ -r "$f" ]; then cat "$f"; exit; fi
done
echo 0"#;
