//! The rows, one file an area.
//!
//! To add a row: write `async fn claim(cx: &Ctx) -> Done` in the file of its area and a line in that file's `ROWS`:
//!
//! ```text
//! pub(crate) static ROWS: &[Row] = &[
//!     row!("run::stdout_is_exact", stdout_is_exact).needs(&[Run]),
//!     row!("timeout::fires", fires).needs(&[Run]).serial(),
//! ];
//!
//! async fn stdout_is_exact(cx: &Ctx) -> Done {
//!     let sb = cx.sandbox().await?;
//!     let output = sb.run(cx.probes().echo("hello")).await?;
//!     expect_eq!(output.stdout.text(), "hello\n", "stdout of echo; stderr was {:?}", output.stderr.text());
//!     Ok(())
//! }
//! ```
//!
//! - `cx.sandbox()` makes a sandbox of the subject's spec with the labels of this trial; drop it or close it. After the row the
//!   harness looks at what is still alive under these labels, and fails the row for it.
//! - Commands come from `cx.probes()`, never spelled out: a backend without a POSIX shell overrides them.
//! - Deadlines that a backend keeps run by its own clock, which is virtual on a test double. Wait with `cx.sleep(d)`, compare
//!   with `cx.by_clock(limit, what, future)` (the future has to win) and `cx.outlasts(limit, what, future)` (it may not).
//!   `cx.within(limit, what, future)` is real time, scaled, for what may not hang.
//! - Every negative has its positive control in the same row: `cx.appears(&sb, &marker)` before `cx.vanishes(&sb, &marker)`.
//!   Where the control cannot be made, `unproven!("why")`.
//! - Macros come by `use crate::expect::{ensure, expect_eq, expect_kind, fail, unproven};`, the rest by
//!   `use crate::{Ctx, row::{Done, Row, row}};`.
//! - `?` turns an unexpected error into a failure with its place; `ensure!`, `expect_eq!`, `expect_kind!`, `fail!` carry evidence;
//!   `cx.note(…)` adds a line that is shown if the row fails.
//! - A row that races time is `.serial()`; one that makes no sandbox is `.offline()`; one over 120 s says `.limit(seconds)`.
//! - A row proves something only if something turns it red: name its killer in `crates/sandbox-fake/tests/faults/matrix.toml`, a
//!   lie of the fake's (a variant of `Fault` and one line where it is told). Where no backend can break it, it is `.facade()`,
//!   and a mutation in `ci/mutations.toml` kills it.
//! - A row of a capability gets its `::refuses` twin from `refuses.rs`, by capability; nothing is to be written for it.

pub(crate) mod refuses;

mod build;
mod cancel;
mod create;
mod errors;
mod files;
mod info;
mod isolation;
mod lifecycle;
mod network;
mod owners;
mod preflight;
mod pty;
mod reattach;
mod repeat;
mod run;
mod secrets;
mod services;
mod signals;
mod stream;
mod timeout;
mod transfers;

use crate::row::Row;

/// The areas, in the order of the contract.
pub(crate) static AREAS: &[&[Row]] = &[
    info::ROWS,
    preflight::ROWS,
    lifecycle::ROWS,
    create::ROWS,
    repeat::ROWS,
    build::ROWS,
    cancel::ROWS,
    transfers::ROWS,
    owners::ROWS,
    run::ROWS,
    timeout::ROWS,
    stream::ROWS,
    signals::ROWS,
    pty::ROWS,
    reattach::ROWS,
    files::ROWS,
    network::ROWS,
    services::ROWS,
    isolation::ROWS,
    secrets::ROWS,
    errors::ROWS,
];
