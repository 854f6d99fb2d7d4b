//! The facade from outside: over an adapter of host processes, and over one that does what each test says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod attempt;
mod create;
mod deadlines;
mod output;
mod panics;
mod process;
mod registry;
mod stdin;
mod teardown;
mod validation;
mod wires;
