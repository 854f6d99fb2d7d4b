//! The guard of `contract_suite!`, in a test program with the usual harness, where it has to fail and say the fix.

use std::process::Command;

sandbox_contract::contract_suite!(@guard #[ignore = "has to fail; its neighbour runs it"]);

#[test]
fn without_the_stanza_the_guard_fails_and_says_it() {
    let me = std::env::current_exe().expect("a test program knows where it is");
    let output = Command::new(me)
        .args(["contract_suite_needs_harness_false", "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("a test program can be started once more");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("1 failed"), "{text}");
    for part in ["[[test]]", "name = \"guard\"", "harness = false", "Cargo.toml"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
