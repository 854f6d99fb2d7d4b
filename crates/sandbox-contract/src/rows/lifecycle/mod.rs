//! Rows of the area `lifecycle`: from create to the end, and who may end what.

mod ends;
mod found;
mod handles;
mod lifetime;
mod pause;
mod ready;
mod snapshot;
mod stop;

use crate::{
    Ctx,
    expect::{ensure, unproven},
    row::{Done, Row, row},
};
use sandbox_core::Capability::{
    Attach, Background, Extend, Files, Fork, Labels, Lifetime, List, Pause, Run, Separate, Snapshot, SnapshotList,
    StopStart, Stream, StreamExact,
};
use std::future::Future;

pub(crate) static ROWS: &[Row] = &[
    row!("lifecycle::create_run_close_and_close_again", ends::create_run_close_and_close_again).needs(&[Run]),
    row!("lifecycle::work_after_close_is_gone", ends::work_after_close_is_gone).facade().needs(&[Run]),
    row!("lifecycle::a_scope_ends_its_sandbox_on_return", ends::a_scope_ends_its_sandbox_on_return).needs(&[Run]),
    row!("lifecycle::a_scope_ends_its_sandbox_on_an_error", ends::a_scope_ends_its_sandbox_on_an_error),
    row!("lifecycle::a_scope_ends_its_sandbox_on_a_panic", ends::a_scope_ends_its_sandbox_on_a_panic),
    row!("lifecycle::an_own_error_survives_a_failing_teardown", ends::an_own_error_survives_a_failing_teardown)
        .facade(),
    row!("lifecycle::an_own_value_survives_a_failing_teardown", ends::an_own_value_survives_a_failing_teardown)
        .facade(),
    row!("lifecycle::a_refused_destroy_says_what_remains", ends::a_refused_destroy_says_what_remains).facade(),
    row!("lifecycle::destroy_of_an_unknown_id_succeeds", ends::destroy_of_an_unknown_id_succeeds),
    row!("lifecycle::destroy_by_id_ends_the_sandbox", ends::destroy_by_id_ends_the_sandbox).needs(&[Run]),
    row!("lifecycle::destroy_ends_daemons_too", ends::destroy_ends_daemons_too).needs(&[Run, Background]),
    row!("lifecycle::a_start_that_races_with_close_is_gone_or_ended", ends::a_start_that_races_with_close)
        .needs(&[Run]),
    row!("lifecycle::a_sandbox_that_dies_by_itself_is_gone_at_once", ends::a_sandbox_that_dies_by_itself).needs(&[Run]),
    row!("lifecycle::two_sandboxes_share_nothing", handles::two_sandboxes_share_nothing).needs(&[Run, Separate]),
    row!("lifecycle::ten_creates_at_once_give_ten_sandboxes", handles::ten_creates_at_once).needs(&[Run]).limit(240),
    row!("lifecycle::the_last_handle_ends_the_sandbox", handles::the_last_handle_ends_the_sandbox).needs(&[Run]),
    row!("lifecycle::a_process_keeps_its_sandbox", handles::a_process_keeps_its_sandbox).needs(&[Run]),
    row!("lifecycle::no_engine_thread_is_left_after_the_last_handle", handles::no_engine_thread_is_left).serial(),
    row!("lifecycle::a_ready_command_holds_create_back", ready::holds_create_back).facade().needs(&[Run]),
    row!("lifecycle::a_ready_command_that_never_succeeds_is_told", ready::never_succeeds).facade().needs(&[Run]),
    row!("lifecycle::a_ready_port_holds_create_back", ready::a_port_holds_create_back)
        .needs(&[Run, Files, List, Labels, Attach, Separate]),
    row!("lifecycle::a_ready_port_that_nobody_listens_at_is_told", ready::a_port_that_nobody_listens_at)
        .needs(&[Files, Separate]),
    row!("lifecycle::list_shows_what_is_created_and_hides_what_ended", found::list_shows_and_hides)
        .needs(&[List, Labels]),
    row!("lifecycle::list_filters_by_several_labels", found::list_filters_by_several_labels).needs(&[List, Labels]),
    row!("lifecycle::list_gives_all_pages", found::list_gives_all_pages).needs(&[List, Labels]),
    row!("lifecycle::labels_of_this_library_are_set", found::labels_of_this_library_are_set).needs(&[List, Labels]),
    row!("lifecycle::labels_are_the_providers_own", found::labels_are_the_providers_own).needs(&[Labels]),
    row!("lifecycle::attach_runs_commands", found::attach_runs_commands).needs(&[Attach, Run]),
    row!("lifecycle::attach_to_an_unknown_id_creates_nothing", found::attach_to_an_unknown_id).needs(&[Attach]),
    row!("lifecycle::attach_to_an_ended_id_creates_nothing", found::attach_to_an_ended_id).needs(&[Attach]),
    row!("lifecycle::a_dropped_attached_handle_leaves_the_sandbox", found::a_dropped_attached_handle)
        .needs(&[Attach, Run]),
    row!("lifecycle::close_of_an_attached_handle_ends_the_sandbox", found::close_of_an_attached_handle)
        .needs(&[Attach, Run]),
    row!("lifecycle::detach_leaves_the_sandbox", found::detach_leaves_the_sandbox).needs(&[Attach, Run]),
    row!("lifecycle::it_ends_at_its_lifetime_as_gone", lifetime::it_ends_at_its_lifetime)
        .needs(&[Lifetime, Run])
        .serial(),
    row!("lifecycle::an_extension_moves_the_end", lifetime::an_extension_moves_the_end).needs(&[Extend, Run]).serial(),
    row!("lifecycle::an_extension_is_seen_in_the_list", lifetime::an_extension_is_seen).needs(&[Extend, List, Labels]),
    row!("lifecycle::an_extension_that_cannot_be_kept_is_refused", lifetime::refused_extensions)
        .facade()
        .needs(&[Extend]),
    row!("lifecycle::a_pause_keeps_memory_and_files", pause::keeps_memory_and_files)
        .needs(&[Pause, Run, Stream])
        .serial(),
    row!("lifecycle::work_in_a_paused_sandbox_is_wrong_state", pause::work_is_wrong_state)
        .facade()
        .needs(&[Pause, Run]),
    row!("lifecycle::pause_and_resume_may_be_repeated", pause::twice_is_fine).needs(&[Pause, Run]),
    row!("lifecycle::a_command_that_is_late_in_a_pause_ends", pause::a_late_command_ends)
        .needs(&[Pause, Run, Stream])
        .serial(),
    row!("lifecycle::a_paused_sandbox_can_be_closed", pause::close_works).needs(&[Pause, Run]),
    row!("lifecycle::the_lifetime_goes_on_in_a_pause", pause::the_lifetime_goes_on).needs(&[Pause, Lifetime]).serial(),
    row!("lifecycle::a_stop_keeps_files_and_ends_processes", stop::keeps_files).needs(&[StopStart, Run]),
    row!("lifecycle::work_in_a_stopped_sandbox_is_wrong_state", stop::work_is_wrong_state)
        .facade()
        .needs(&[StopStart, Run]),
    row!("lifecycle::stop_and_restart_may_be_repeated", stop::twice_is_fine).needs(&[StopStart, Run]),
    row!("lifecycle::a_stopped_sandbox_can_be_closed", stop::close_works).needs(&[StopStart]),
    row!("lifecycle::a_snapshot_is_what_was", snapshot::is_what_was).needs(&[Snapshot, Run]),
    row!("lifecycle::a_snapshot_outlives_its_sandbox", snapshot::outlives_its_sandbox).needs(&[Snapshot, Run]),
    row!("lifecycle::a_snapshot_disturbs_no_command", snapshot::disturbs_no_command).needs(&[
        Snapshot,
        Run,
        Stream,
        StreamExact,
    ]),
    row!("lifecycle::an_unknown_snapshot_is_not_found", snapshot::unknown).needs(&[Snapshot]),
    row!("lifecycle::snapshots_are_listed_by_their_labels", snapshot::are_listed).needs(&[Snapshot, SnapshotList]),
    row!("lifecycle::a_snapshot_that_nobody_waits_for_is_deleted", snapshot::nobody_waits).needs(&[SnapshotList]),
    row!("lifecycle::a_fork_is_a_copy_and_apart", snapshot::a_fork_is_apart).needs(&[Fork, Run]),
    row!("lifecycle::a_fork_has_a_lifetime_of_its_own", snapshot::own_lifetime).needs(&[Fork, Lifetime, Run]).serial(),
    row!("lifecycle::a_fork_that_nobody_waits_for_leaves_nothing", snapshot::forks_nobody_waits_for).needs(&[Fork]),
    row!("lifecycle::a_restart_gets_what_remains", stop::gets_what_remains).needs(&[StopStart, Lifetime, Run]).serial(),
];

/// All of them at once, in order.
pub(crate) async fn all<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (future, slot) in &mut slots {
            if let Some(one) = future {
                match std::pin::Pin::new(one).poll(cx) {
                    std::task::Poll::Ready(value) => (*future, *slot) = (None, Some(value)),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    slots.into_iter().filter_map(|(_, value)| value).collect()
}

async fn nothing_left(cx: &Ctx) -> Done {
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    ensure!(cx.creates() > 0, "nothing was ever created, so nothing is proven");
    cx.settles_at(0, "afterwards").await
}
