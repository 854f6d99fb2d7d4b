//! What a thousand sandboxes weigh: one JSON line a figure on stdout.

use sandbox::{Client, Command, Result, Spec};
use sandbox_fake::Fake;

fn main() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::new(Fake::new())?;
        let mut alive = Vec::with_capacity(MANY);
        for _ in 0..MANY {
            let sandbox = client.create(Spec::new()).await?;
            assert!(sandbox.run(Command::new("echo").arg("here")).await?.success(), "the command ends well");
            alive.push(sandbox);
        }
        print("thousand sandboxes", "mebibytes resident", resident() as f64 / 1024.0);
        assert_eq!(client.list(sandbox::Query::new()).await?.len(), MANY, "all of them are alive");
        drop(alive);
        client.close().await
    })
}

#[expect(clippy::print_stdout, reason = "its output is its result")]
fn print(name: &str, unit: &str, median: f64) {
    println!("{{\"name\":\"{name}\",\"unit\":\"{unit}\",\"median\":{median},\"p95\":null,\"n\":{MANY},\"raw\":null}}");
}

/// In KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).expect("the kernel tells the resident size")
}

const MANY: usize = 1000;
