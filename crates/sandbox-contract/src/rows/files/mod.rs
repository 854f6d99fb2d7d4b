//! Rows of the area `files`: what is written is what is read, and nothing else is touched.

mod broken;
mod content;
mod directories;
mod host;
mod links;
mod meta;
mod named;
mod refused;
mod trees;
mod watch;

pub(super) use host::{HostDir, pattern};

use crate::row::{Row, row};
use sandbox_core::Capability::{AtomicWrite, FileMeta, FileStream, Files, Run, Separate, Tree, User, Watch};

pub(crate) static ROWS: &[Row] = &[
    row!("files::text_bytes_and_nothing_come_back", content::come_back).needs(&[Files]),
    row!("files::a_hundred_mib_come_back", content::a_hundred_mib).needs(&[Files]).limit(240),
    row!("files::odd_names_are_names_like_any_other", content::odd_names).needs(&[Files]),
    row!("files::a_shorter_content_leaves_nothing_of_a_longer_one", content::truncates).needs(&[Files]),
    row!("files::files_and_programs_see_the_same", content::the_same_for_programs).needs(&[Files, Run]),
    row!("files::a_range_is_just_that_range", content::a_range).needs(&[Files]),
    row!("files::missing_parents_are_made", content::missing_parents).needs(&[Files]),
    row!("files::concurrent_writes_leave_one_whole", content::concurrent_writes).needs(&[Files]),
    row!("files::a_reader_sees_the_old_or_the_new", content::the_old_or_the_new).needs(&[Files, AtomicWrite]),
    row!("files::a_write_that_is_cut_leaves_the_old", broken::leaves_the_old).needs(&[Files, AtomicWrite]),
    row!("files::a_failed_write_says_why_and_leaves_no_temporary", broken::a_failed_write).needs(&[Files]),
    row!("files::a_cancelled_write_leaves_no_temporary", broken::a_cancelled_write).needs(&[Files]),
    row!("files::a_body_of_another_length_than_it_says_is_refused", broken::another_length).needs(&[Files]),
    row!("files::a_failed_download_leaves_nothing_on_the_host", broken::a_failed_download).needs(&[Files]),
    row!("files::a_cancelled_download_leaves_no_temporary_on_the_host", broken::a_cancelled_download)
        .facade()
        .needs(&[Files]),
    row!("files::what_is_not_there_is_told_by_its_path", refused::not_there).needs(&[Files]),
    row!("files::a_directory_is_no_file_and_a_file_no_directory", refused::of_the_wrong_kind).needs(&[Files]),
    row!("files::what_is_not_permitted_is_told_by_its_path", refused::not_permitted).needs(&[Files, Run, User]),
    row!("files::a_full_disk_is_told_by_its_path", refused::a_full_disk).needs(&[Files, Separate]),
    row!("files::a_read_only_place_is_told_by_its_path", refused::a_read_only_place).needs(&[Files, Separate]),
    row!("files::bad_paths_are_refused_before_anything_is_sent", refused::bad_paths).facade().needs(&[Files]),
    row!("files::a_fifo_is_refused_at_once", refused::a_fifo).needs(&[Files, Run]),
    row!("files::devices_and_proc_are_bounded", refused::devices_and_proc).needs(&[Files]),
    row!("files::no_path_and_no_link_reaches_the_host", links::never_the_host).needs(&[Files, Run, Separate]),
    row!("files::a_path_leads_where_the_sandbox_leads", links::the_same_way).needs(&[Files, Run]),
    row!("files::a_link_into_another_mount_is_followed", links::into_another_mount).needs(&[Files, Run, Separate]),
    row!("files::a_link_is_followed_by_reads_and_replaced_by_writes", links::followed_and_replaced)
        .needs(&[Files, Run]),
    row!("files::removing_never_follows_a_link", links::removing).needs(&[Files, Run]),
    row!("files::a_list_is_sorted_and_whole", directories::a_list).needs(&[Files]),
    row!("files::ten_thousand_entries_in_one_listing", directories::ten_thousand).needs(&[Files, Run]),
    row!("files::stat_tells_kind_and_size", directories::stat).needs(&[Files, Run]),
    row!("files::make_dir_makes_parents_and_may_be_repeated", directories::make_dir).needs(&[Files]),
    row!("files::rename_moves_and_replaces", directories::rename).needs(&[Files]),
    row!("files::remove_takes_one_and_remove_all_takes_all", directories::remove).needs(&[Files]),
    row!("files::modes_are_kept_seen_and_set", meta::modes).needs(&[Files, FileMeta]),
    row!("files::owners_are_seen_and_set", meta::owners).needs(&[Files, FileMeta]),
    row!("files::times_are_seen_and_set", meta::times).needs(&[Files, FileMeta]),
    row!("files::a_file_goes_up_and_comes_back_the_same", trees::a_file).needs(&[Files]),
    row!("files::a_tree_goes_up_and_comes_back_the_same", trees::a_tree).needs(&[Tree, Files]),
    row!("files::a_tree_lands_on_what_is_there", trees::lands_on_what_is_there).needs(&[Tree, Files]),
    row!("files::exclude_wins_over_include_both_ways", trees::include_and_exclude).needs(&[Tree, Files]),
    row!("files::a_missing_host_path_sends_nothing", trees::a_missing_host_path).needs(&[Tree, Files]),
    row!("files::links_that_leave_a_tree_are_refused_both_ways", trees::links_that_leave).needs(&[Tree, Files, Run]),
    row!("files::a_chain_of_links_never_leaves_a_tree", named::a_chain_of_links).facade().needs(&[Tree, Files, Run]),
    row!("files::links_are_kept_as_they_are_spelled", named::links_as_spelled).needs(&[Tree, Files]),
    row!("files::a_tree_is_the_same_by_each_of_its_paths", named::trees_by_their_paths).needs(&[Tree, Files, Run]),
    row!("files::a_slash_at_the_end_is_a_directory", named::a_slash_at_the_end).facade().needs(&[Files]),
    row!("files::globs_mean_what_they_say_or_are_refused", named::globs).facade().needs(&[Tree, Files]),
    row!("files::a_tree_takes_no_more_of_the_host_than_it_may", named::bounded_trees).facade().needs(&[Tree, Files]),
    row!("files::what_is_no_file_of_the_host_is_not_sent", named::no_files_of_the_host).facade().needs(&[Files]),
    row!("files::a_download_replaces_files_alone_and_keeps_modes", named::onto_what_the_host_has).needs(&[Files]),
    row!("files::files_of_a_view_are_its_users", named::of_the_views_user).needs(&[Files, User, Run]),
    row!("files::a_tree_that_is_none_is_told", trees::that_is_none).needs(&[Tree, Files]),
    row!("files::ten_thousand_files_up_and_down", trees::ten_thousand).needs(&[Tree]).limit(240),
    row!("files::memory_for_an_upload_is_bounded", content::memory_up).needs(&[Files, FileStream]).limit(300),
    row!("files::memory_for_a_download_is_bounded", content::memory_down).needs(&[Files, FileStream]).limit(300),
    row!("files::watch_tells_of_changes_in_order", watch::in_order).needs(&[Files, Run, Watch]),
    row!("files::watch_is_recursive_only_where_that_is_asked", watch::recursive).needs(&[Files, Run, Watch]),
    row!("files::watch_loses_nothing_of_a_burst_in_silence", watch::a_burst).needs(&[Files, Run, Watch]),
    row!("files::watch_of_what_is_no_directory_is_told", watch::of_what_is_not_there).needs(&[Files, Watch]),
    row!("files::watch_ends_when_it_is_dropped", watch::dropped).needs(&[Files, Run, Watch]),
    row!("files::watch_ends_with_its_sandbox", watch::ends_with_its_sandbox).facade().needs(&[Files, Run, Watch]),
    row!("files::watch_tells_of_attributes", watch::attributes).needs(&[Files, FileMeta, Watch]),
];
