//! The raw traits against a real engine: what the contract suite does not reach. Without an engine every test is ignored with
//! the reason; with `SANDBOX_CONTRACT=require` it fails instead. The image `sandbox-test/busybox:1` comes from
//! `cargo xtask images`.

#![expect(clippy::unwrap_used, reason = "a test with its own harness is still a test")]

mod build;
mod client;
mod commands;
mod confine;
mod files;
mod lab;
mod lifecycle;
mod network;
mod own;
mod proxy;
mod snapshot;
mod sweep;

use lab::Lab;
use libtest_mimic::{Arguments, Completion, Trial};
use std::{future::Future, pin::Pin, process::ExitCode};

type Body = fn(Lab) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! trials {
    ($($module:ident: $($name:ident)*;)*) => {
        [$($((concat!(stringify!($module), "::", stringify!($name)), (|lab| Box::pin($module::$name(lab))) as Body),)*)*]
    };
}

fn main() -> ExitCode {
    let all = trials! {
        build: a_definition_is_built_and_found_again a_rebuild_leaves_one_image failing_steps_are_told
            what_it_begins_with_has_to_be_there a_dropped_build_leaves_nothing texts_that_are_no_dockerfile;
        client: caps_that_cannot_be_kept fifty_creates_half_of_them_dropped;
        lifecycle: create_run_list_destroy a_repeated_create_leaves_one facts_are_offline_and_probed working_directories ids_that_are_no_ids
            foreign_containers_are_left_alone attach_tells_gone_from_unknown cut_creates_leave_nothing lifetime_ends_it
            a_killed_container_is_gone images_that_cannot_be_used users_and_caps first_process_cannot_be_stopped
            no_engine_and_no_runtime;
        commands: failed_starts_are_errors text_of_the_engine_stays_output output_is_exact a_slow_reader_loses_nothing
            codes_of_programs a_dying_container_is_no_exit input_whole input_piece_by_piece input_that_nobody_reads a_background_child_does_not_hold_the_end
            a_background_flood_does_not_hold_the_end a_program_that_closes_its_output many_at_once;
        confine: the_first_process_and_other_networks_are_out_of_reach nothing_inside_prolongs_the_lifetime
            nobody_shares_what_the_shell_waits_at;
        files: trees_go_in_and_come_out targets_that_cannot_be_written what_is_at_a_path trees_too_deep_for_the_engine constant_memory a_source_that_fails
            what_the_engine_does_not_see;
        network: deny_has_no_interface open_is_a_bridge_of_its_own;
        own: networks_with_such_a_name_stay beginnings_of_engine_ids_are_no_ids a_renamed_container_is_still_the_sandbox
            labels_that_an_image_hands_on_prove_nothing whoever_holds_the_network_is_named;
        sweep: a_list_only_looks a_create_ends_what_is_past_its_lifetime;
        snapshot: only_what_was_made_as_one_is_one one_of_a_copy_is_apart_from_that_of_the_source one_that_is_given_up_disturbs_nothing_and_goes;
        proxy: a_cut_connection_is_no_exit gone_survives_a_cut_connection;
    };
    let trials = all.into_iter().map(|(name, body)| Trial::ignorable_test(name, move || run(body))).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run(body: Body) -> Result<Completion, libtest_mimic::Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match runtime.block_on(Lab::open(runtime.handle().clone())) {
        Ok(lab) => {
            runtime.block_on(lab::checked(lab, body))?;
            Ok(Completion::Completed)
        }
        Err(reason) if std::env::var("SANDBOX_CONTRACT").is_ok_and(|value| value == "require") => {
            Err(format!("SANDBOX_CONTRACT=require is set, and {reason}").into())
        }
        Err(reason) => Ok(Completion::ignored_with(reason)),
    }
}
