//! Rows of the area `run`: one program, from its arguments to its exit code.

mod arguments;
mod environment;
mod input;
mod output;
mod trouble;

use crate::row::{Row, row};
use sandbox_core::Capability::{
    Argv, Background, Files, Run, SignalStatus, Stdin, StdinWhole, Stream, StreamExact, User,
};

pub(crate) static ROWS: &[Row] = &[
    row!("run::stdout_is_exact", output::stdout_is_exact).needs(&[Run]),
    row!("run::stderr_is_exact", output::stderr_is_exact).needs(&[Run]),
    row!("run::the_streams_are_apart", output::the_streams_are_apart).needs(&[Run]),
    row!("run::every_byte_value_passes_on_both_streams", output::every_byte_value_passes).needs(&[Run, StreamExact]),
    row!("run::an_exit_code_is_data", output::an_exit_code_is_data).needs(&[Run]),
    row!("run::check_makes_an_error_that_holds_the_output", output::check_makes_an_error).needs(&[Run]),
    row!("run::a_death_by_signal_is_told", output::a_death_by_signal_is_told).needs(&[Run, SignalStatus]),
    row!("run::a_death_by_signal_is_never_success", output::a_death_by_signal_is_never_success).needs(&[Run]),
    row!("run::sixty_four_mib_of_output_are_whole", output::sixty_four_mib_of_output).needs(&[Run, StreamExact]),
    row!("run::output_over_its_limit_keeps_head_and_tail", output::output_over_its_limit).needs(&[Run, StreamExact]),
    row!("run::memory_for_output_is_bounded", output::memory_for_output_is_bounded).needs(&[Run]),
    row!("run::a_flood_on_stderr_does_not_block_stdout", output::a_flood_on_stderr).needs(&[Run]),
    row!("run::ten_thousand_tiny_writes_stay_in_order", output::ten_thousand_tiny_writes).needs(&[Run, StreamExact]),
    row!("run::sixty_four_at_once_do_not_mix", output::sixty_four_at_once).needs(&[Run]),
    row!("run::output_that_looks_like_an_engine_error_stays_output", output::looks_like_an_engine_error).needs(&[Run]),
    row!("run::arguments_arrive_byte_for_byte", arguments::arrive_byte_for_byte).needs(&[Run, Argv]),
    row!("run::no_shell_looks_at_arguments", arguments::no_shell_looks_at_them).needs(&[Run, Argv]),
    row!("run::the_shell_form_is_a_shell", arguments::the_shell_form).needs(&[Run]),
    row!("run::a_mebibyte_of_arguments_passes_or_is_too_large", arguments::a_mebibyte).needs(&[Run, Argv]),
    row!("run::what_cannot_be_right_is_refused_before_anything_is_sent", arguments::what_cannot_be_right)
        .facade()
        .needs(&[Run]),
    row!("run::a_variable_is_for_its_call_alone", environment::for_its_call_alone).needs(&[Run]),
    row!("run::the_inner_variable_wins", environment::the_inner_one_wins).needs(&[Run]),
    row!("run::values_of_variables_arrive_exactly", environment::values_arrive_exactly).needs(&[Run]),
    row!("run::concurrent_overrides_do_not_mix", environment::concurrent_overrides).needs(&[Run]),
    row!("run::a_working_directory_holds", environment::a_working_directory_holds).needs(&[Run]),
    row!("run::a_relative_working_directory_starts_at_the_sandboxes", environment::a_relative_one).needs(&[Run, Files]),
    row!("run::a_missing_working_directory_is_told_and_nothing_runs", environment::a_missing_one).needs(&[Run]),
    row!("run::a_working_directory_that_is_a_file_is_told", environment::one_that_is_a_file).needs(&[Run]),
    row!("run::a_user_by_uid_and_by_name", environment::a_user).needs(&[Run, User]),
    row!("run::an_unknown_user_is_told_and_nothing_runs", environment::an_unknown_user).needs(&[Run, User]),
    row!("run::input_arrives_exactly", input::arrives_exactly).needs(&[Run, StdinWhole]),
    row!("run::no_input_is_the_end_of_input", input::none_is_its_end).needs(&[Run]),
    row!("run::fifty_mib_of_input_arrive", input::fifty_mib).needs(&[Run, StdinWhole]),
    row!("run::input_that_nobody_reads_is_no_error", input::nobody_reads).needs(&[Run, StdinWhole]),
    row!("run::input_is_written_while_it_runs", input::while_it_runs).needs(&[Run, Stdin, Stream]),
    row!("run::input_closed_midway_is_the_end_of_input", input::closed_midway).needs(&[Run, Stdin]),
    row!("run::input_goes_at_the_readers_pace", input::at_the_readers_pace).needs(&[Run, Stdin]),
    row!("run::input_after_the_end_is_an_error", input::after_the_end).facade().needs(&[Run, Stdin]),
    row!("run::an_unknown_program_is_told", trouble::an_unknown_program).needs(&[Run]),
    row!("run::a_file_that_is_no_program_is_told", trouble::no_program).needs(&[Run]),
    row!("run::a_command_that_goes_on_delays_no_other", trouble::delays_no_other).needs(&[Run]),
    row!("run::what_is_left_behind_does_not_hold_it", trouble::left_behind).needs(&[Run, Background]).serial(),
    row!("run::what_writes_on_for_ever_does_not_hold_it", trouble::writes_on).needs(&[Run, Background]).serial(),
    row!("run::no_zombies_are_left", trouble::no_zombies).needs(&[Run, Stdin]),
    row!("run::a_sandbox_that_dies_midway_is_gone", trouble::a_sandbox_that_dies).needs(&[Run, Stream]),
    row!("run::a_panic_of_the_adapter_is_internal", trouble::a_panic).facade().needs(&[Run]),
];
