//! What code inside tries, as root, against the first process and past its network. Each try is made in a container of the engine's own
//! making too, where it succeeds: that is the control.

use crate::lab::{Lab, foreign, out, remove_foreign, run, sh};
use bollard::{
    container::LogOutput,
    exec::{StartExecOptions, StartExecResults},
    models::ExecConfig,
};
use futures_util::StreamExt;
use sandbox_core::{Exec, Instance};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const PYTHON: &str = "sandbox-test/python:1";

/// Prints what each try came to, one a line.
const TRIES: &str = r#"
import ctypes, errno, mmap, os, platform, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *arguments):
    ctypes.set_errno(0)
    said = libc.syscall(*map(ctypes.c_long, (number, *arguments)))
    return "done" if said >= 0 else errno.errorcode[ctypes.get_errno()]
def socket(family):
    return call({"x86_64": 41, "aarch64": 198}[platform.machine()], family, 1, 0)
for name, family in (("unix", 1), ("ipv4", 2), ("ipv6", 10), ("vsock", 40), ("wide vsock", 0x100000028), ("alg", 38)):
    print(f"{name}={socket(family)}")
print("netlink=" + call({"x86_64": 41, "aarch64": 198}[platform.machine()], 16, 3, 0))
for name in ("/proc/1/mem", "/proc/1/task/1/mem"):
    try:
        at = int(open("/proc/1/maps").readline().split("-")[0], 16)
        file = os.open(name, os.O_RDWR)
        print(f"{name}={'done' if os.pread(file, 4, at) else 'empty'}")
    except OSError as error:
        print(f"{name}={errno.errorcode[error.errno]}")
print("io_uring=" + call(425, 1, 0))
if platform.machine() == "x86_64":
    # The 32-bit socketcall, whose arguments no filter sees.
    page = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot=7)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    page[4096:4108] = struct.pack("<3I", 40, 1, 0)
    code = b"\x53\xb8" + struct.pack("<I", 102) + b"\xbb\x01\0\0\0\xb9" + struct.pack("<I", at + 4096) + b"\xcd\x80\x5b\xc3"
    page[:len(code)] = code
    child = os.fork()
    if child == 0:
        said = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
        os._exit(0 if said >= 0 else -said)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("socketcall vsock=" + ("done" if end == 0 else errno.errorcode[end] if end > 0 else f"signal {-end}"))
trace = {"x86_64": 101, "aarch64": 117}[platform.machine()]
print("ptrace=" + call(trace, 16, 1, 0, 0))
"#;

fn read(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, said)| (name.into(), said.into())).collect()
}

pub(crate) async fn the_first_process_and_other_networks_are_out_of_reach(lab: Lab) {
    let name = format!("default-{}", lab.run);
    foreign(&lab, &name, PYTHON, "none").await;
    let default = exec(&lab, &name, &["python3", "-c", TRIES]).await;
    remove_foreign(&lab, &name).await;
    let made = lab.create(lab.spec().image(PYTHON)).await.unwrap();
    let ran = run(&made.instance, &Exec::new(["python3", "-c", TRIES])).await.unwrap();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (default, ours) = (read(&default), read(&ran.text()));
    for name in ["unix", "ipv4", "ipv6", "netlink"] {
        assert_eq!((&*default[name], &*ours[name]), ("done", "done"), "{name}");
    }
    for name in ["ptrace", "/proc/1/mem", "/proc/1/task/1/mem"] {
        assert_eq!(default[name], "done", "the control of {name}");
    }
    assert_eq!(ours["ptrace"], "EPERM");
    assert_eq!((&*ours["/proc/1/mem"], &*ours["/proc/1/task/1/mem"]), ("empty", "empty"));
    // A kernel may have none of these, and newer engines refuse some by themselves. Only a filter says EPERM.
    for name in ["vsock", "wide vsock", "alg", "io_uring"] {
        assert_eq!(ours[name], "EPERM", "{name}; by default {}", default[name]);
    }
    if let Some(said) = ours.get("socketcall vsock") {
        assert_eq!(said, "signal 31", "by default {}", default["socketcall vsock"]);
    }
    assert_eq!(out(&made.instance, "grep -c 'Seccomp:.2' /proc/1/status /proc/self/status | grep -c :1").await, "2");
    lab.destroy(made).await;
}

pub(crate) async fn nothing_inside_prolongs_the_lifetime(lab: Lab) {
    const HOLD: &str = "
import ctypes, time
libc = ctypes.CDLL(None)
print('held', libc.ptrace(16, 1, 0, 0), flush=True)
time.sleep(300)";
    let made = lab.create(lab.spec().image(PYTHON).lifetime(Duration::from_secs(8))).await.unwrap();
    let said = out(
        &made.instance,
        &format!("setsid python3 -c \"{HOLD}\" >/tmp/said 2>&1 & i=0; until [ -s /tmp/said ] || [ $i = 50 ]; do sleep 0.1; i=$((i+1)); done; cat /tmp/said"),
    )
    .await;
    assert_eq!(said, "held -1");
    let gone = tokio::time::timeout(Duration::from_secs(60), made.instance.gone()).await.expect("its lifetime ends");
    assert!(gone.message().contains("lifetime"), "{gone}");
    lab.destroy(made).await;

    // The control: where the engine alone decides, the same holds the first process for good.
    let name = format!("held-{}", lab.run);
    foreign(&lab, &name, PYTHON, "none").await;
    let script = format!(
        "setsid python3 -c \"{HOLD}\" >/tmp/said 2>&1 & i=0; until [ -s /tmp/said ] || [ $i = 50 ]; do sleep 0.1; i=$((i+1)); done; cat /tmp/said; grep State /proc/1/status"
    );
    let said = exec(&lab, &name, &["sh", "-c", &script]).await;
    remove_foreign(&lab, &name).await;
    assert!(said.contains("held 0") && said.contains("tracing stop"), "{said}");
}

/// Where the image's shell counts the lifetime, it waits at nothing that others could write to or read from.
pub(crate) async fn nobody_shares_what_the_shell_waits_at(lab: Lab) {
    let made = lab.create(lab.spec().lifetime(Duration::from_secs(8))).await.unwrap();
    let waits = out(&made.instance, "readlink /proc/1/fd/3; readlink /proc/1/fd/0").await;
    assert!(waits.starts_with("/dev/pts/ptmx\n") && !waits.contains("pipe:"), "{waits}");
    let script = "for fd in /proc/1/fd/* /dev/pts/[0-9]*; do (while echo x; do :; done >$fd) 2>/dev/null & (while read -r _; do :; done <$fd) 2>/dev/null & done; sleep 100";
    let (_control, _events) = made.instance.spawn(&sh(script)).await.unwrap();
    let began = Instant::now();
    let gone = tokio::time::timeout(Duration::from_secs(60), made.instance.gone()).await.expect("its lifetime ends");
    assert!(gone.message().contains("lifetime"), "{gone}");
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    lab.destroy(made).await;
}

/// All that a command in a container of other people says.
async fn exec(lab: &Lab, name: &str, argv: &[&str]) -> String {
    let config = ExecConfig {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(argv.iter().map(|argument| (*argument).to_string()).collect()),
        ..ExecConfig::default()
    };
    let made = lab.docker.create_exec(name, config).await.unwrap();
    let started = lab.docker.start_exec(&made.id, None::<StartExecOptions>).await.unwrap();
    let StartExecResults::Attached { mut output, .. } = started else { panic!("no streams") };
    let mut text = String::new();
    // What was left behind may hold the stream.
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::from_secs(20), output.next()).await {
        if let LogOutput::StdOut { message } | LogOutput::StdErr { message } = frame {
            text.push_str(&String::from_utf8_lossy(&message));
        }
    }
    text
}
