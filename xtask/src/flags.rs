//! The command line.

use std::path::PathBuf;

xflags::xflags! {
    /// The chores of this workspace.
    cmd xtask {
        /// Compares the public API of every crate with `docs/api`.
        cmd api {
            /// Writes what is, for review.
            optional --accept
        }
        /// Measures a part of the workspace and writes `docs/bench.md`: `facade`.
        cmd bench {
            required part: String
            /// Fails where a goal is missed; writes nothing.
            optional --check
        }
        /// Looks for a browser that can be started without a screen.
        cmd browser {
        }
        /// Runs the lanes that are due, one folder below `ci/lanes` each.
        cmd ci {
            /// Runs this lane alone, whenever it is due (may be repeated).
            repeated --lane name: String
            /// Runs the nightly lanes too.
            optional --nightly
            /// Prints every lane as JSON and runs nothing.
            optional --plan
        }
        /// Watches by `strace` that making clients touches no network.
        cmd construct {
        }
        /// Compares the report of a contract suite with what its lane expects.
        cmd contract-report {
            /// The folder with the suite's `*.jsonl` files.
            required dir: PathBuf
            /// The lane's `expected.toml`.
            required --expect file: PathBuf
            /// Writes the absent and unproven rows of the report to that file, for review.
            optional --accept
        }
        /// Makes sure that a Docker engine answers.
        cmd engine {
        }
        /// Writes a page for each kind of error, and the lock of their codes, to `docs/errors`.
        cmd errors {
        }
        /// Checks rules of this repository, by name; all of them by default.
        cmd gate {
            repeated names: String
        }
        /// Builds the local test images that are missing or out of date; all of them by default.
        cmd images {
            /// Folders of `ci/images`.
            repeated names: String
            /// Builds nothing, says which are missing.
            optional --check
        }
        /// Checks the crates with the oldest versions that they ask for.
        cmd minimal {
        }
        /// Compares what each crate packs with `ci/package`, and builds it from that.
        cmd package {
            /// Writes what is, for review.
            optional --accept
        }
        /// Breaks the facade in each way that `ci/mutations.toml` lists, on a copy of the tree; the rows named there have to fail.
        cmd mutate {
            /// Only this mutation (may be repeated).
            repeated --only name: String
        }
        /// Runs the first command of the README as it stands there.
        cmd readme {
        }
        /// Copies the provider template out of the workspace and runs its suite.
        cmd template {
        }
        /// Measures how long `sandbox --version` takes.
        cmd start {
        }
        /// Makes sure that a compiler is there, by its version, or the `newest` stable one.
        cmd toolchain {
            required name: String
            /// Runs its cargo with these arguments, apart by blanks, in a target folder of its own.
            optional --cargo arguments: String
        }
        /// Writes the workflows of `.github/workflows` from the lanes.
        cmd workflows {
        }
    }
}
