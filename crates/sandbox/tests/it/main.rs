//! The facade from outside: over an adapter of host processes, and over one that does what each test says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod again;
mod attempt;
mod build;
mod create;
mod deadlines;
mod facts;
mod files;
mod follow;
mod output;
mod panics;
mod phase;
mod process;
mod reach;
mod ready;
mod reattach;
mod registry;
mod services;
mod stdin;
mod teardown;
mod twin;
mod validation;
mod views;
mod wires;
